"""Run the programs that come with Redis, and Node.js, against a broker.

Called by   the tests beside this file.
Calls       the programs.

Not here: installing them (tools/setup, the Makefile).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.server.broker import RunningBroker

# Nothing here takes long; a program that has not ended by then hangs.
TIMEOUT_S = 120

_TOOK = re.compile(r"^\(\d+\.\d\ds\)\n", re.MULTILINE)
_SCRIPTS = Path(__file__).parent / "node"
_PACKAGES = Path(__file__).parents[2] / ".tools" / "node" / "node_modules"


def redis_cli(broker: RunningBroker, *words: str, typed: str = "") -> str:
    """What `redis-cli words` prints, with `typed` on its standard input; but not how long a reply
    took, which it prints if that was half a second."""
    return _TOOK.sub("", _run(["redis-cli", "-p", str(broker.port), *words], typed))


def redis_benchmark(broker: RunningBroker, *words: str) -> str:
    return _run(["redis-benchmark", "-p", str(broker.port), *words])


def node(broker: RunningBroker, script: str, *words: str) -> str:
    """What a script of the folder node/ prints; its arguments are the port and `words`."""
    return _run(["node", str(_SCRIPTS / script), str(broker.port), *words])


def mocha(broker: RunningBroker, package: str) -> str:
    """What mocha reports, as JSON, of the suite that an npm package carries.

    Package and suite are as they were published: where they connect to Disque's port, they are led
    to the broker.
    """
    return _run(
        [
            *("node", "--require", str(_SCRIPTS / "redirect.js")),
            *(str(_PACKAGES / "mocha" / "bin" / "_mocha"), "--reporter", "json"),
            *("--timeout", str(500 * TIMEOUT_S)),  # in ms; the suite's own is a few seconds
        ],
        folder=_PACKAGES / package,
        variables={
            "BROKER_PORT": str(broker.port),
            # Where no name server answers, looking up a name must not outlast the suite's patience.
            "RES_OPTIONS": "timeout:1 attempts:1",
        },
    )


def _run(
    command: list[str],
    typed: str = "",
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    done = subprocess.run(
        command,
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env={**os.environ, "NODE_PATH": str(_PACKAGES), **(variables or {})},
        check=False,
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}: {done.stderr}{done.stdout}"
    )
    assert done.stderr == "", f"{command} complained: {done.stderr}"
    return done.stdout
