"""A client under test: a process that plays at random and writes down all of it.

Called by   client_processes.py, as `python -m tests.faults.load FAMILY NAME SEED REPLICAS`.
Calls       load_events.py, load_jobs.py (what to do), tests/server/resp.py.

It is told on stdin: "go PORT" to connect, again after each restart of the broker, or "go PORT PORT"
when there are several; "halt" when the broker is gone; the end of stdin to finish. Who has several
brokers to choose from goes on at another when one fails it, and repeats there what it had no answer
to.

It writes its history to stdout, a line before each request and one after each reply. A pipe keeps
what was written when the writer is killed, so the history survives its client.

    ["sent", number, what was asked, ...]        the fields of an operation before answered_ns
    ["got", number, what was answered, ...]      the fields from there on
    ["halted", number of the order]              nothing is under way, and nothing will be sent

Not here: what the history must look like (total_queue.py, job_checks.py), when to kill whom
(kill_loop.py, redis_faults.py).
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
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
REPEATS = 0.7  # of what had no answer is sent again
WANDERS = 0.01  # of batches are the last before another broker is tried
REST_S = 0.02  # after trouble: a client that hammers a broken store finds out nothing more
TROUBLE = ("UNAVAILABLE ", "NOTDONE ", "NOREPL ")  # how a store says that something is amiss


class Player(Protocol):
    """What a connection does: chooses an operation, and remembers what came of it."""

    def choose(self) -> Any: ...

    def words_of(self, op: Any) -> tuple[str | float | bytes, ...]:
        """The request for an operation."""

    def take_answer(self, op: Any, answer: Any) -> None:
        """The operation knows what came back."""


PLAYERS: dict[str, Callable[[str, random.Random, int], Player]] = {
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

    def take(self, line: bytes) -> str:
        """The line is taken in; its kind."""
        kind, number, *values = json.loads(line)
        if kind == "sent":
            self.operations[number] = self._kind(*values)
        elif kind == "got":
            op = self.operations[number]
            for name, value in zip(self._names[self._asked :], values, strict=True):
                setattr(op, name, value)
        assert isinstance(kind, str)
        return kind


def _asked(kind: type[Operation] | type[JobOperation]) -> int:
    """How many of its fields are known when it is sent."""
    return [field.name for field in fields(kind)].index("answered_ns")


@dataclass(slots=True)
class Order:
    """What the process was told last."""

    ports: tuple[int, ...] = ()  # none: halt
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
        self._again: list[Any] = []  # what is to be repeated
        self.followed = 0  # the last order that was picked up, when all before was over

    def run(self) -> None:
        while True:
            with self._told:
                while not ORDER.is_over and ORDER.number == self.followed:
                    self._told.wait()
                if ORDER.is_over:
                    return
                self.followed, ports = ORDER.number, ORDER.ports
                self._told.notify_all()
            if len(ports) == 1:
                self._play(ports[0], is_one_of_many=False)
            elif ports:
                self._roam(ports)

    def _roam(self, ports: tuple[int, ...]) -> None:
        """All of these brokers were used, until there was another order."""
        while not ORDER.is_over and ORDER.ports is ports:
            self._play(self._random.choice(ports), is_one_of_many=True)
            self._rest()

    def _play(self, port: int, is_one_of_many: bool) -> None:
        """Batches were sent to the broker until it failed, or another is to be tried."""
        try:
            with Client(socket.create_connection(("127.0.0.1", port))) as client:
                while not ORDER.is_over:
                    batch = self._batch()
                    try:
                        self._send(client, batch)
                    finally:
                        if is_one_of_many:
                            self._remember(batch)
                    if is_one_of_many and self._random.random() < WANDERS:
                        return
                    if any(op.error.startswith(TROUBLE) for op in batch):
                        self._rest()
        except (OSError, EOFError):
            pass

    def _batch(self) -> list[Any]:
        batch = [_repeated(op) for op in self._again]
        self._again = []
        return batch + [self._player.choose() for _ in range(self._random.randint(1, BATCH_MOST))]

    def _send(self, client: Client, batch: list[Any]) -> None:
        player = self._player
        numbers = [next(self._numbers) for _ in batch]
        asked = _asked(type(batch[0]))
        for number, op in zip(numbers, batch, strict=True):
            _write("sent", number, astuple(op)[:asked])
        client.send_bytes(b"".join(request(*player.words_of(op)) for op in batch))
        for number, op in zip(numbers, batch, strict=True):
            player.take_answer(op, meaning(client.read()))
            _write("got", number, astuple(op)[asked:])

    def _remember(self, batch: list[Any]) -> None:
        """Most of what was to change something and got no answer is sent again."""
        self._again += [
            op
            for op in batch
            if op.verb in ("add", "ack")
            and (not op.answered_ns or op.error.startswith(TROUBLE))
            and self._random.random() < REPEATS
        ]

    def _rest(self) -> None:
        with self._told:
            self._told.wait(REST_S)


def _repeated(op: Any) -> Any:
    """The same once more, not yet answered."""
    asked = _asked(type(op))
    return type(op)(*astuple(op)[: asked - 1], time.monotonic_ns())


def _write(kind: str, number: int, values: tuple[Any, ...]) -> None:
    os.write(1, json.dumps([kind, number, *values]).encode() + b"\n")


ORDER = Order()


def main(family: str, name: str, seed: str, replicas: str) -> None:
    told = threading.Condition()
    numbers = count(1)
    connections: list[Connection] = []
    for index in range(CONNECTIONS):
        chance = random.Random(f"{seed}.{index}")
        player = PLAYERS[family](f"{name}.{index}", chance, int(replicas))
        connections.append(Connection(player, chance, numbers, told))
        connections[-1].start()
    for line in sys.stdin:
        with told:
            ORDER.ports = tuple(int(port) for port in line.split()[1:])
            ORDER.number += 1
            told.notify_all()
            if not ORDER.ports:
                told.wait_for(lambda: all(one.followed == ORDER.number for one in connections))
                _write("halted", ORDER.number, ())
    with told:
        ORDER.is_over = True
        told.notify_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
