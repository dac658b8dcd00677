"""A client under test: a process that plays at random and writes down all of it.

Called by   kill_loop.py, as `python -m tests.faults.load FAMILY NAME SEED`, several at a time.
Calls       load_events.py, load_jobs.py (what to do), tests/server/resp.py.

It is told on stdin: "go PORT" to connect, again after each restart of the broker; the end of stdin
to finish. It writes its history to stdout, a line before each request and one after each reply. A
pipe keeps what was written when the writer is killed, so the history survives its client.

    ["sent", number, what was asked, ...]        the fields of an operation up to answered_ns
    ["got", number, what was answered, ...]      the fields from there on

Not here: what the history must look like (total_queue.py, job_checks.py), when to kill whom
(kill_loop.py).
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from itertools import count
from typing import Any, Protocol

from tests.faults.job_history import JobOperation
from tests.faults.load_events import EventsPlayer
from tests.faults.load_jobs import JobsPlayer
from tests.faults.total_queue import Operation
from tests.server.resp import Client, meaning, request

CONNECTIONS = 3
BATCH_MOST = 8  # requests sent before their replies are read


class Player(Protocol):
    """What a connection does: chooses an operation, and remembers what came of it."""

    def choose(self) -> Any: ...

    def words_of(self, op: Any) -> tuple[str | float | bytes, ...]:
        """The request for an operation."""

    def take_answer(self, op: Any, answer: Any) -> None:
        """The operation knows what came back."""


PLAYERS: dict[str, Callable[[str, random.Random], Player]] = {
    "events": EventsPlayer,
    "jobs": JobsPlayer,
}
OPERATIONS: dict[str, type[Operation] | type[JobOperation]] = {
    "events": Operation,
    "jobs": JobOperation,
}


class Reading:
    """Lines of one client process, made into operations again."""

    def __init__(self, family: str) -> None:
        self.operations: dict[int, Any] = {}
        self._kind = OPERATIONS[family]
        self._asked = _asked(self._kind)
        self._names = [field.name for field in fields(self._kind)]

    def take(self, line: bytes) -> bool:
        """The line is taken in; whether it was a reply."""
        kind, number, *values = json.loads(line)
        if kind == "sent":
            self.operations[number] = self._kind(*values)
            return False
        op = self.operations[number]
        for name, value in zip(self._names[self._asked :], values, strict=True):
            setattr(op, name, value)
        return True


def _asked(kind: type[Operation] | type[JobOperation]) -> int:
    """How many of its fields are known when it is sent."""
    return [field.name for field in fields(kind)].index("answered_ns")


@dataclass(slots=True)
class Order:
    """What the process was told last."""

    port: int = 0
    number: int = 0
    is_over: bool = False


class Connection(threading.Thread):
    """One connection at a time, and its player."""

    def __init__(
        self,
        player: Player,
        chance: random.Random,
        numbers: Iterator[int],
        told: threading.Condition,
    ):
        super().__init__()
        self._player = player
        self._random = chance
        self._numbers = numbers
        self._told = told

    def run(self) -> None:
        followed = 0
        while True:
            with self._told:
                while not ORDER.is_over and ORDER.number == followed:
                    self._told.wait()
                if ORDER.is_over:
                    return
                followed, port = ORDER.number, ORDER.port
            try:
                with Client(socket.create_connection(("127.0.0.1", port))) as client:
                    while not ORDER.is_over:
                        self._send_batch(client)
            except (OSError, EOFError):
                continue

    def _send_batch(self, client: Client) -> None:
        player = self._player
        batch = [player.choose() for _ in range(self._random.randint(1, BATCH_MOST))]
        numbers = [next(self._numbers) for _ in batch]
        asked = _asked(type(batch[0]))
        for number, op in zip(numbers, batch, strict=True):
            _write("sent", number, astuple(op)[:asked])
        client.send_bytes(b"".join(request(*player.words_of(op)) for op in batch))
        for number, op in zip(numbers, batch, strict=True):
            player.take_answer(op, meaning(client.read()))
            _write("got", number, astuple(op)[asked:])


def _write(kind: str, number: int, values: tuple[Any, ...]) -> None:
    os.write(1, json.dumps([kind, number, *values]).encode() + b"\n")


ORDER = Order()


def main(family: str, name: str, seed: str) -> None:
    told = threading.Condition()
    numbers = count(1)
    for index in range(CONNECTIONS):
        chance = random.Random(f"{seed}.{index}")
        player = PLAYERS[family](f"{name}.{index}", chance)
        Connection(player, chance, numbers, told).start()
    for line in sys.stdin:
        with told:
            ORDER.port = int(line.split()[1])
            ORDER.number += 1
            told.notify_all()
    with told:
        ORDER.is_over = True
        told.notify_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
