"""Brokers forked from a process that has imported what they need.

Called by   broker.py.
Calls       the command `quinque`, as `python -m quinque` does.

A broker takes 0.2 s of CPU to start, almost all of it for imports, and the tests start a thousand.
Here the imports are done once. The command, its arguments, its variables and its end are what they
always are. Each process of pytest has one such server, from its first broker to its end.

Not here: which brokers are forked (broker.py); the same for Spark (tests/spark/fork_server.py).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Final

from tests.facts.repository import ROOT

_IMPORTED: Final = (
    *("quinque.cli.main", "quinque.cli.serve_command", "quinque.cli.serve"),
    "quinque.stores.redis.served",
)
_MOST_BYTES: Final = 1 << 17  # of a request: the words and the variables
# What Python and the linker read when they start, which a forked process does not do again.
_READ_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_")
_VARIABLES: Final = dict(os.environ)  # of the server: tests may change those of this process


class Forked:
    """A process that was forked, with what subprocess.Popen has of it. Its words go to `stderr`."""

    def __init__(self, told: socket.socket, stderr: IO[str]) -> None:
        self.stderr: IO[str] | None = stderr
        self.returncode: int | None = None
        self._told = told
        self.pid = int(told.recv(64))

    def poll(self) -> int | None:
        """The exit code, None while it runs; minus the number of the signal that killed it."""
        return self._code(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked broker", timeout or 0.0)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signal.SIGKILL)

    def _code(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            self._told.settimeout(timeout_s)
            try:
                self.returncode = int(self._told.recv(64))
            except (BlockingIOError, TimeoutError):
                return None
            self._told.close()
        return self.returncode


def can_fork(variables: Mapping[str, str]) -> bool:
    """Whether a broker with these variables is the same when it is forked."""
    return hasattr(os, "pidfd_open") and _read_at_start(variables) == _read_at_start(_VARIABLES)


def forked(words: Sequence[str], variables: Mapping[str, str]) -> Forked:
    """`python -m quinque` with these words. Its input is empty and its output goes nowhere."""
    request = {"words": words, "variables": variables, "folder": os.getcwd()}
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    heard, said = os.pipe()
    with open(os.devnull, "r+b", buffering=0) as nothing:
        given = [nothing.fileno(), nothing.fileno(), said, theirs.fileno()]
        socket.send_fds(_WAY.opened(), [json.dumps(request).encode()], given)
    theirs.close()
    os.close(said)
    return Forked(ours, os.fdopen(heard, encoding="utf-8", errors="replace"))


def _read_at_start(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(each for each in variables.items() if each[0].startswith(_READ_AT_START)))


@dataclass
class _Way:
    """The way to the server of this process, which ends with it. Threads may look at once."""

    control: socket.socket | None = None
    process: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def opened(self) -> socket.socket:
        with self._lock:
            if self.control is None:
                self.control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
                number = theirs.fileno()
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "tests.server.fork_server", str(number)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd=ROOT,
                    env=_VARIABLES,
                    pass_fds=[number],
                )
                theirs.close()
                atexit.register(self._close, self.control, self.process)
            return self.control

    @staticmethod
    def _close(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        """The server ends when it is not connected any more."""
        control.close()
        process.wait()


_WAY: Final = _Way()


# -- in the server --------------------------------------------------------------------------------


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._events = selectors.DefaultSelector()
        self._events.register(control, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by their pidfd

    def next_request(self) -> dict[str, Any] | None:
        """In the process that is to do it, what is asked for; in this one None, at the end."""
        while True:
            for key, _ in self._events.select():
                if key.fileobj is not self._control:
                    self._bury(key.fd)
                    continue
                line, given, _, _ = socket.recv_fds(self._control, _MOST_BYTES, 4)
                if not line:
                    self._end()
                    return None
                if self._fork(given):
                    request: dict[str, Any] = json.loads(line)
                    return request

    def _fork(self, given: list[int]) -> bool:
        """Whether this is the new process."""
        pid = os.fork()
        if pid == 0:
            self._events.close()
            self._control.close()
            for process, (_, told) in self._running.items():
                os.close(process)
                told.close()
            for own, theirs in enumerate(given[:3]):
                os.dup2(theirs, own)
        else:
            told = socket.socket(fileno=os.dup(given[3]))
            told.send(b"%d" % pid)
            process = os.pidfd_open(pid)
            self._running[process] = pid, told
            self._events.register(process, selectors.EVENT_READ)
        for file in given:
            os.close(file)
        return pid == 0

    def _bury(self, process: int) -> None:
        pid, told = self._running.pop(process)
        _, status = os.waitpid(pid, 0)
        self._events.unregister(process)
        os.close(process)
        with told:
            try:
                told.send(b"%d" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:  # its end is of no interest to the test
                pass

    def _end(self) -> None:
        for pid, _ in self._running.values():
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    # Ctrl-C ends the tests, and they end this.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = _Server(socket.socket(fileno=int(sys.argv[1]))).next_request()
    if request is not None:
        signal.signal(signal.SIGINT, before)
        _become(request)


def _become(request: dict[str, Any]) -> None:
    """As if Python had been started so, with `-m quinque`."""
    os.environ.clear()
    os.environ.update(request["variables"])
    time.tzset()
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    # What it was may have been a file, and this is a pipe.
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False
    )
    sys.argv = ["quinque", *request["words"]]
    runpy.run_module("quinque", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
