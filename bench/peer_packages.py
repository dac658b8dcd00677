"""The packages of the peers, in their own venv, .tools/peers. Some require an older redis-py.

Called by   workers.py.
Calls       venv and pip, as processes.

The extra `peers` of pyproject.toml names the packages. A quick run installs nothing. If a package
cannot be installed, the bench prints its name and measures the others.

Not here: how they are used (peers/).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib

from bench.harness import ROOT

FOLDER = ROOT / ".tools" / "peers"
PYTHON = FOLDER / "bin" / "python"

_VERSIONS = """\
import importlib.metadata, json
print(json.dumps({it.name.lower(): it.version for it in importlib.metadata.distributions()}))
"""


def installed(*, may_install: bool) -> dict[str, str]:
    """Return the versions of the peers that can be used, by name."""
    wanted = _wanted()
    if may_install:
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        known = _versions()
        for name, requirement in wanted.items():
            if name not in known:
                _install(requirement)
    versions = _versions() if PYTHON.exists() else {}
    return {name: versions[name] for name in wanted if name in versions}


def _install(requirement: str) -> None:
    words = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*words, requirement], capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = errors[-1] if errors else "pip does not say why"
        print(f"\nskipped {requirement}, which cannot be installed: {why}", file=sys.stderr)


def _wanted() -> dict[str, str]:
    """Return the requirements by the name of the package."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    peers: list[str] = told["project"]["optional-dependencies"]["peers"]
    return {re.split(r"[^\w.-]", requirement)[0].lower(): requirement for requirement in peers}


def _versions() -> dict[str, str]:
    # Isolated: what this process was told to import first is not for that Python.
    environment = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}
    words = [str(PYTHON), "-c", _VERSIONS]
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(told.stdout)
    return versions
