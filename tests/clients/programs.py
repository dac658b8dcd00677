"""Run the programs that come with Redis, and Node.js, against a broker.

Called by   the tests beside this file.
Calls       the programs.

Not here: installing them (tools/setup, the Makefile).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.server.broker import RunningBroker

# Nothing here takes long; a program that has not ended by then hangs.
TIMEOUT_S = 60

_NODE_PATH = Path(__file__).parents[2] / ".tools" / "node" / "node_modules"


def redis_cli(broker: RunningBroker, *words: str, typed: str = "") -> str:
    """What `redis-cli words` prints, with `typed` on its standard input."""
    return _run(["redis-cli", "-p", str(broker.port), *words], typed)


def redis_benchmark(broker: RunningBroker, *words: str) -> str:
    return _run(["redis-benchmark", "-p", str(broker.port), *words])


def node(broker: RunningBroker, script: str, *words: str) -> str:
    """What a script of the folder node/ prints; its arguments are the port and `words`."""
    path = Path(__file__).parent / "node" / script
    return _run(["node", str(path), str(broker.port), *words])


def _run(command: list[str], typed: str = "") -> str:
    done = subprocess.run(
        command,
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "NODE_PATH": str(_NODE_PATH)},
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    assert done.stderr == "", f"{command} complained: {done.stderr}"
    return done.stdout
