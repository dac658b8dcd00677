"""The client processes of a run: started, told where to go, killed, and read.

Called by   kill_loop.py, redis_run.py.
Calls       load.py, as processes.

Not here: what they do (load_events.py, load_jobs.py), what must come of it (total_queue.py,
job_checks.py).
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, Any

from tests.faults.load import Reading
from tests.server.resp import TIMEOUT_S

CLIENTS = {"events": 2, "jobs": 2}  # processes, by family


@dataclass(slots=True)
class ClientProcess:
    """A client, and what it has written down so far."""

    family: str
    process: subprocess.Popen[bytes]
    reader: threading.Thread
    reading: Reading
    halts: int = 0  # that it was asked for and has not said yet that it made


class Clients:
    """The client processes, those that were killed included."""

    def __init__(self, seed: str, replicas: int = 1) -> None:
        self._seed = seed
        self._replicas = replicas  # that additions of jobs ask for
        self._all: list[ClientProcess] = []
        self._replied = threading.Condition()  # or halted
        self._replies = 0

    def fill_up(self) -> None:
        """As many as there should be are alive."""
        for family, wanted in CLIENTS.items():
            alive = sum(client.family == family for client in self._alive())
            for _ in range(wanted - alive):
                self._start(family, f"c{len(self._all)}")

    def go(self, *ports: int) -> None:
        """All of them connect to the broker, or to any of several."""
        for client in self._alive():
            _tell(client, b"go %b\n" % b" ".join(b"%d" % port for port in ports))

    def halt(self) -> None:
        """The broker that they were sent to is gone, and all of them know: one that was too slow to
        connect does not find the next one at the same port, before its time."""
        with self._replied:
            for client in self._alive():
                client.halts += 1
                _tell(client, b"halt\n")
            if not self._replied.wait_for(self._have_halted, TIMEOUT_S):
                raise AssertionError(f"a client went on for {TIMEOUT_S} s")

    def wait_for_replies(self, more: int) -> None:
        with self._replied:
            wanted = self._replies + more
            if not self._replied.wait_for(lambda: self._replies >= wanted, TIMEOUT_S):
                raise AssertionError(f"no reply for {TIMEOUT_S} s")

    def kill_one(self, chance: random.Random) -> None:
        client = chance.choice(self._alive())
        client.process.kill()
        client.process.wait()
        _pipe(client.process.stdin).close()

    def finish(self) -> dict[str, list[Any]]:
        """They end; all they have written down, by family."""
        for client in self._alive():
            _pipe(client.process.stdin).close()
        for client in self._all:
            client.process.wait(TIMEOUT_S)
            client.reader.join(TIMEOUT_S)
        history: dict[str, list[Any]] = {family: [] for family in CLIENTS}
        for client in self._all:
            history[client.family] += client.reading.operations.values()
        return history

    def end(self) -> None:
        """None of them is left, whatever happened."""
        for client in self._alive():
            client.process.kill()
            client.process.wait()
        for client in self._all:
            client.reader.join(TIMEOUT_S)

    def _start(self, family: str, name: str) -> None:
        words = ["tests.faults.load", family, name, f"{self._seed}.{name}", str(self._replicas)]
        process = subprocess.Popen(
            [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        client = ClientProcess(family, process, threading.Thread(name=name), Reading(family))
        client.reader = threading.Thread(target=self._read, args=(client,), name=name)
        client.reader.start()
        self._all.append(client)

    def _alive(self) -> list[ClientProcess]:
        return [client for client in self._all if client.process.poll() is None]

    def _read(self, client: ClientProcess) -> None:
        with _pipe(client.process.stdout) as stdout:
            for line in stdout:
                # The last line of a client that was killed may be half a line.
                kind = client.reading.take(line) if line.endswith(b"\n") else ""
                if kind in ("got", "halted"):
                    with self._replied:
                        self._replies += kind == "got"
                        client.halts -= kind == "halted"
                        self._replied.notify()

    def _have_halted(self) -> bool:
        return not any(client.halts for client in self._alive())


def _tell(client: ClientProcess, order: bytes) -> None:
    stdin = _pipe(client.process.stdin)
    stdin.write(order)
    stdin.flush()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
