"""Run the exporter of the lifecycle log next to a broker.

Called by   serve.py, when `lifecycle-export` is set.
Calls       spark/export.py, as a separate process, so that it does not delay the broker.

The exporter gets the password through its environment. If it ends unexpectedly, it is started again
after a pause. If the broker is killed, the exporter ends.

Not here: the export (spark/export.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from quinque.errors.extras import package_missing
from quinque.server.address import is_every_host, parse_address
from quinque.server.config import Config

_AGAIN_S: Final = 5.0
_STOP_S: Final = 10.0  # time for its last file; a broker that stops does not wait longer

log = logging.getLogger("quinque")


class Exporting:
    def __init__(self, config: Config, address: str, facts: dict[str, int | str]) -> None:
        """`address` is where the broker listens. `facts` gets the lag of the exporter, from time to
        time. Raises BadSetting if a package is missing."""
        self._facts = facts
        for package in ("pyarrow", "numpy", "redis"):
            if find_spec(package) is None:
                raise package_missing(package, "spark", "lifecycle-export is set")
        self._words = (
            *(sys.executable, "-m", "quinque.spark.export", "--beside", str(os.getpid())),
            *("--url", broker_url(address), "--folder", str(Path(config.lifecycle_export))),
        )
        self._config = config
        self._is_stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.get_running_loop().create_task(self._keep_running())

    async def stop(self) -> None:
        """Let the exporter write the remaining changes, and wait for its end."""
        self._is_stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            self._task.cancel()
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._task
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _keep_running(self) -> None:
        while True:
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                env=variables_of(self._config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            stdout, stderr = self._process.stdout, self._process.stderr
            assert stdout is not None
            assert stderr is not None
            await asyncio.gather(self._read(stdout), _relay(stderr))
            code = await self._process.wait()
            if self._is_stopping:
                return
            log.error(
                "the lifecycle exporter ended with exit code %d; restarting it in %g s",
                code,
                _AGAIN_S,
            )
            await asyncio.sleep(_AGAIN_S)

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        """Add the reports of the exporter to the facts, until it ends."""
        async for line in stdout:
            word, _, number = line.partition(b" ")
            if word == b"lag":
                self._facts["lifecycle_lag"] = int(number)


async def _relay(stderr: asyncio.StreamReader) -> None:
    """Copy its output to the broker's log, in the format of that log, until it ends."""
    async for line in stderr:
        log.warning("lifecycle exporter: %s", line.decode(errors="replace").rstrip())


def variables_of(config: Config) -> dict[str, str]:
    """Return the environment of an exporter: it connects as the default user, with the password
    that the broker has now, whatever this process was given for its own clients."""
    variables = {**os.environ, "QUINQUE_PASSWORD": config.requirepass}
    for name in ("QUINQUE_PASSWORD_FILE", "QUINQUE_USERNAME"):
        variables.pop(name, None)
    return variables


def broker_url(address: str) -> str:
    """Return a URL of the broker's address for a client on this machine."""
    parts = parse_address(address)
    if parts.is_unix:
        return f"unix://{Path(parts.path).resolve()}"
    host = parts.host
    if is_every_host(host):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"redis://[{host}]:{parts.port}" if ":" in host else f"redis://{host}:{parts.port}"
