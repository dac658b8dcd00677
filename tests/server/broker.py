"""A broker of its own for a test: `python -m quinque serve` on a free port, as users run it.

Called by   every test that needs a broker.
Calls       resp.py for connections, fork_server.py, tests/servers/ports.py.

    with start_broker(tmp_path, "--fsync", "no") as broker, broker.connect() as client:
        assert client.call("PING") == b"PONG"

Not here: what replies look like (resp.py).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tests.server.fork_server import Forked, can_fork, forked
from tests.server.resp import TIMEOUT_S, Client
from tests.servers.ports import ReservedPort

_LISTENS = re.compile(r"(?:\[(\d+)\] .*)?listens on ([^\"\n]+)")


class RunningBroker:
    """A broker process. `log` is what it has said so far, a line each.

    `before` are words to put before its command line (a program that runs it: strace, prlimit),
    `variables` are added to its environment. It is forked from a process that has imported the
    package, unless it has such words or `is_forked` is False: then it is a new Python.
    """

    def __init__(
        self,
        folder: Path,
        flags: tuple[str, ...],
        before: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        is_forked: bool = True,
    ) -> None:
        self.folder = folder
        self.flags = flags
        self.before = before
        self.is_forked = is_forked and not before
        self.variables = dict(variables or {})
        self.log: list[str] = []
        self.addresses: list[str] = []
        self.port = 0
        self.pid = 0  # of the broker itself, whatever runs it
        # Its own while it is down, too: another that starts meanwhile could be given it.
        self._place = ReservedPort()
        try:
            self.process = self._start()
        except BrokerDidNotStart:
            self._place.close()
            raise

    def connect(self) -> Client:
        """A new connection, plain TCP."""
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Client(sock)

    def kill(self) -> None:
        """SIGKILL: it has no time to do anything."""
        self.signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """SIGTERM: it ends in order; the exit code."""
        self.signal(signal.SIGTERM)
        return self._ended()

    def wait(self) -> int:
        """It ends by itself; the exit code."""
        return self._ended()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @contextmanager
    def halted(self) -> Iterator[None]:
        """The broker does not run inside: it finds all that happens here at once, in one turn."""
        self.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: process_state(self.pid) == "T", "the broker has halted")
            yield
        finally:
            self.signal(signal.SIGCONT)

    def restart(self, *flags: str) -> None:
        """Stop it if it still runs, and start it again on the same folder and port.

        With `flags`, those replace the earlier ones.
        """
        if self.process.poll() is None:
            self.stop()
        self.flags = flags or self.flags
        self.process = self._start()

    def has_said(self, text: str) -> bool:
        """For what it said before it listened or before it ended, and for what it must not say."""
        return any(text in line for line in self.log)

    def hear(self, text: str) -> None:
        """Wait for it to say so: another thread reads the log, maybe later than a reply came."""
        wait_until(lambda: self.has_said(text), f"{text!r} in the log")

    def __enter__(self) -> RunningBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self._strike()
        self._ended()
        self._place.close()

    def command(self, listen: str) -> list[str]:
        """The words that start it."""
        python = [sys.executable, "-m", "quinque", "serve"]
        return [*self.before, *python, "--listen", listen, "--dir", str(self.folder), *self.flags]

    def _strike(self) -> None:
        try:
            self.signal(signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended, and what runs it is about to

    def _start(self) -> subprocess.Popen[str] | Forked:
        process = self._new_process()
        listens = threading.Event()
        self._reader = threading.Thread(
            target=self._read_log, args=(process, listens), name="broker's log", daemon=True
        )
        self._reader.start()
        listens.wait(TIMEOUT_S)
        if not self.addresses:
            process.kill()
            process.wait()
            self._reader.join()
            raise BrokerDidNotStart("\n".join(self.log))
        self.port = int(self.addresses[0].rpartition(":")[2])
        self.pid = self.pid or process.pid
        return process

    def _new_process(self) -> subprocess.Popen[str] | Forked:
        words = self.command(f"127.0.0.1:{self._place.number}")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("QUINQUE_")}
        variables = kept | self.variables
        if self.is_forked and can_fork(variables):
            return forked(words[words.index("serve") :], variables)
        return subprocess.Popen(
            words,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            env=variables,
        )

    def _read_log(self, process: subprocess.Popen[str] | Forked, listens: threading.Event) -> None:
        assert process.stderr is not None
        self.addresses = []
        self.pid = 0
        with process.stderr:
            for line in process.stderr:
                self.log.append(line.rstrip("\n"))
                found = _LISTENS.search(line)
                if found:
                    self.pid = int(found[1] or 0)
                    self.addresses = found[2].split(", ")
                    listens.set()
        listens.set()

    def _ended(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code


class BrokerDidNotStart(Exception):
    """The broker ended, or said nothing, before it listened; the text is its log."""


def start_broker(
    folder: Path,
    *flags: str,
    before: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    is_forked: bool = True,
) -> RunningBroker:
    """A broker with its data in `folder`/data, listening on a free port of 127.0.0.1.

    Raises BrokerDidNotStart with what it said.
    """
    return RunningBroker(folder / "data", flags, before, variables, is_forked)


def process_state(pid: int) -> str:
    """R, S, T (stopped) and so on, as proc(5) says."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def wait_until(holds: Callable[[], bool], what: str = "it") -> None:
    """Ask again and again, without pause. Use it where the broker gives no other sign."""
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, f"{what} did not come true"
