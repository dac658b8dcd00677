"""The part of the build that pyproject.toml cannot say: which modules are compiled, and how.

QUINQUE_COMPILED=1 makes the compiled build, in which mypyc turns the modules that pyproject.toml
lists into one extension module; this needs a C compiler. Without it, the build is pure Python.
QUINQUE_COMPILED_LEVEL is the optimization level of the C compiler. Default: 3.

Not here: what the build installs first (tools/build_backend.py).
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def compiled_modules() -> list[str]:
    """The files that pyproject.toml lists, without packages' own files."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quinque"]["compiled"]
    excluded = set(listed["exclude"])
    found = {
        str(path.relative_to(ROOT))
        for pattern in listed["include"]
        for path in ROOT.glob(pattern)
        if path.name != "__init__.py"
    }
    return sorted(found - excluded)


def extension_modules() -> list[object]:
    # Metadata and the source distribution are the same for both builds, and need no mypyc.
    if os.environ.get("QUINQUE_COMPILED", "0") == "0" or "bdist_wheel" not in sys.argv:
        return []
    from mypyc.build import mypycify

    # The flag changes nothing but a warning, for which gcc reads again the indentation of every
    # branch in one file of 100 MB: 100 of 120 seconds.
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -Wno-misleading-indentation"
    return list(
        mypycify(
            ["--ignore-missing-imports", *compiled_modules()],
            opt_level=os.environ.get("QUINQUE_COMPILED_LEVEL", "3"),
            debug_level="0",
        )
    )


setup(ext_modules=extension_modules())
