"""Python processes for Spark, forked from one that has imported what they need.

Called by   conftest.py, which hands Spark the program that started() makes; fork_client.py.
Calls       the modules that Spark asks for, as `python -m` does.

Spark starts a Python for every streaming query and several for a batch one, and each takes a second
of CPU to import pyspark, out of a zip without compiled files, and our source. Here that is done
once. The modules, their arguments and their connections to Spark are what they always are;
test_commands.py has a Spark that starts its Pythons itself.

Not here: the session (conftest.py).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.facts.repository import ROOT

_CLIENT: Final = Path(__file__).with_name("fork_client.py")
_IMPORTED: Final = (
    *("numpy", "pandas", "pyarrow.compute", "pyspark.worker", "pyspark.sql.pandas.types"),
    *("pyspark.sql.worker.plan_data_source_read", "pyspark_quinque"),
    *(f"quinque.spark.{name}" for name in ("batch", "log", "sink", "staging", "stream")),
)
_VARIABLES: Final = {
    # Threads do not outlive a fork: numpy and pyarrow start none.
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # As Spark does: the hashes of all its Pythons are the same.
    "PYTHONHASHSEED": "0",
}


@contextmanager
def started() -> Iterator[Path]:
    """A program that takes the arguments of Python, until the end of the block."""
    # Not a folder of pytest's: the path of a socket has 107 bytes at most.
    with TemporaryDirectory(prefix="quinque-forks-") as folder:
        path, program = Path(folder, "socket"), Path(folder, "python")
        words = (sys.executable, "-IS", str(_CLIENT), str(path))
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.spark.fork_server", str(path)],
            cwd=ROOT,
            env=os.environ | _VARIABLES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield program


class Server:
    """Forks what clients ask for, until nobody holds its standard input."""

    def __init__(self, path: str) -> None:
        self._events = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._processes: dict[int, tuple[int, socket.socket]] = {}  # by their pidfd
        self._has_ended = False

    def next_request(self) -> dict[str, Any] | None:
        """In the process that is to do it, what is asked for; in this one None, at the end."""
        self._events.register(0, selectors.EVENT_READ, self._end)
        self._events.register(self._listener, selectors.EVENT_READ, self._fork)
        while not self._has_ended:
            for key, _ in self._events.select():
                # What came before it in this turn may have closed it.
                if self._events.get_map().get(key.fd) == key:
                    request: dict[str, Any] | None = key.data()
                    if request is not None:
                        return request
        return None

    def _fork(self) -> dict[str, Any] | None:
        """What is asked for, in the new process; None in this one."""
        client, _ = self._listener.accept()
        _, given, _, _ = socket.recv_fds(client, 1, 3)
        with client.makefile("rb") as file:
            line = file.readline()
        if not line.endswith(b"\n"):  # it was killed while it asked
            client.close()
            _close(given)
            return None
        pid = os.fork()
        if pid == 0:
            self._close_all(client)
            for own, theirs in enumerate(given):
                os.dup2(theirs, own)
            _close(given)
            request: dict[str, Any] = json.loads(line)
            return request
        _close(given)
        process = os.pidfd_open(pid)
        self._processes[process] = pid, client
        self._events.register(process, selectors.EVENT_READ, lambda: self._bury(process))
        self._events.register(client, selectors.EVENT_READ, lambda: self._kill(process))
        return None

    def _bury(self, process: int) -> None:
        """The process has ended, and its client knows how."""
        pid, client = self._processes.pop(process)
        _, status = os.waitpid(pid, 0)
        self._events.unregister(process)
        os.close(process)
        if client in self._events.get_map():
            self._events.unregister(client)
            with suppress(BrokenPipeError):
                client.send(bytes([os.waitstatus_to_exitcode(status) % 256]))
        client.close()

    def _kill(self, process: int) -> None:
        """The client is gone, and with it the process."""
        pid, client = self._processes[process]
        self._events.unregister(client)
        os.kill(pid, signal.SIGTERM)

    def _end(self) -> None:
        self._has_ended = True
        for pid, _ in self._processes.values():
            os.kill(pid, signal.SIGTERM)

    def _close_all(self, client: socket.socket) -> None:
        """In a new process: nothing of this one is held open."""
        self._events.close()
        self._listener.close()
        client.close()
        for process, (_, other) in self._processes.items():
            os.close(process)
            other.close()


def main(path: str) -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1
    gc.freeze()  # the processes' own collections need not walk through all that
    server = Server(path)
    print("ready", flush=True)  # noqa: T201
    request = server.next_request()
    if request is not None:
        _become(request)


def _become(request: dict[str, Any]) -> None:
    """As if Python had been started so, with `-m`."""
    words = request["words"]
    module = words.index("-m") + 1
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    sys.argv = words[module:]
    runpy.run_module(words[module], run_name="__main__", alter_sys=True)


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


if __name__ == "__main__":
    main(sys.argv[1])
