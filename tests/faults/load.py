"""A client under test: a process that adds, gets and acks at random and writes down all of it.

Called by   kill_loop.py, as `python -m tests.faults.load NAME SEED`, several at a time.
Calls       tests/server/resp.py.

It is told on stdin: "go PORT" to connect, again after each restart of the broker; the end of stdin
to finish. It writes its history to stdout, a line before each request and one after each reply. A
pipe keeps what was written when the writer is killed, so the history survives its client.

    ["sent", number, client, verb, queue, group, key, span_s, ns]
    ["got", number, id, body, was_done, error, ns]

Not here: what the history must look like (total_queue.py), when to kill whom (kill_loop.py).
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.faults.total_queue import Operation, Verb, View
from tests.server.resp import Client, Refusal, meaning, request

CONNECTIONS = 3
BATCH_MOST = 8  # requests sent before their replies are read

EVENT_QUEUES = ("one", "two", "three")
BRIEF_QUEUE = "brief"  # its events are large and expire at once
OKQ_QUEUE = "line"  # as okq's clients use it: an acked event is gone
GROUPS = ("careful", "fast")  # only the second takes events without acks (EX 0)
OKQ_GROUP = "okq"
VIEWS: tuple[View, ...] = (
    *((queue, group) for queue in (*EVENT_QUEUES, BRIEF_QUEUE) for group in GROUPS),
    (OKQ_QUEUE, OKQ_GROUP),
)

LIFE_S, BRIEF_LIFE_S = 86_400.0, 0.3
# Most of what is written expires at once, or there would be nothing to compact.
SIZES_BYTES, BRIEF_SIZES_BYTES = (0, 64, 64, 64, 300), (700, 5_000, 20_000)
LEASES_S = (0.2, 1.0, 3.0)


def body_of(name: str) -> bytes:
    """The body with that name. Its length is in the name, so a wrong one is known by itself."""
    size_bytes = int(name.rpartition("-")[2])
    return (name.encode() + b"." * size_bytes)[: max(size_bytes, len(name))]


def words_of(op: Operation) -> tuple[str | float | bytes, ...]:
    """The request for an operation."""
    match op.verb, op.queue:
        case "add", "line":
            return "QLPUSH", op.queue, op.key, body_of(op.key)
        case "add", _:
            return "QADD", op.queue, op.span_s, body_of(op.key)
        case "get", "line":
            return "QRPOP", op.queue, "EX", op.span_s
        case "get", _:
            return "QGET", op.queue, op.group, "EX", op.span_s
        case "redo", "line":
            return "QACK", op.queue, op.key, "REDO"
        case _, "line":
            return "QACK", op.queue, op.key
        case _:
            return "QACK", op.queue, op.group, op.key


def take_answer(op: Operation, answer: Any) -> None:
    """The operation knows what came back."""
    op.answered_ns = time.monotonic_ns()
    if isinstance(answer, Refusal):
        op.error = answer.text
    elif op.verb == "add":
        op.id = op.key if op.queue == OKQ_QUEUE else answer.decode()
    elif op.verb == "get" and answer is not None:
        op.id = answer[0].decode()
        name = answer[1].rstrip(b".").decode()
        op.body = name if answer[1] == body_of(name) else repr(answer[1])
    elif op.verb in ("ack", "redo"):
        op.was_done = answer == 1


def sent_line(number: int, op: Operation) -> bytes:
    fields = [op.client, op.verb, op.queue, op.group, op.key, op.span_s, op.sent_ns]
    return json.dumps(["sent", number, *fields]).encode() + b"\n"


def got_line(number: int, op: Operation) -> bytes:
    fields = [op.id, op.body, op.was_done, op.error, op.answered_ns]
    return json.dumps(["got", number, *fields]).encode() + b"\n"


class Reading:
    """Lines of one client process, made into operations again."""

    def __init__(self) -> None:
        self.operations: dict[int, Operation] = {}

    def take(self, line: bytes) -> bool:
        """The line is taken in; whether it was a reply."""
        kind, number, *fields = json.loads(line)
        if kind == "sent":
            self.operations[number] = Operation(*fields)
            return False
        op = self.operations[number]
        op.id, op.body, op.was_done, op.error, op.answered_ns = fields
        return True


@dataclass(slots=True)
class Order:
    """What the process was told last."""

    port: int = 0
    number: int = 0
    is_over: bool = False


class Connection(threading.Thread):
    """One connection at a time, and what it holds."""

    def __init__(self, name: str, seed: str, numbers: Iterator[int], told: threading.Condition):
        super().__init__(name=name)
        self._random = random.Random(seed)
        self._numbers = numbers
        self._told = told
        self._held: list[tuple[str, str, str]] = []

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
        batch = [self._choose() for _ in range(self._random.randint(1, BATCH_MOST))]
        numbers = [next(self._numbers) for _ in batch]
        for number, op in zip(numbers, batch, strict=True):
            os.write(1, sent_line(number, op))
        client.send_bytes(b"".join(request(*words_of(op)) for op in batch))
        for number, op in zip(numbers, batch, strict=True):
            take_answer(op, meaning(client.read()))
            os.write(1, got_line(number, op))
            if op.was_delivered and op.span_s:
                self._held.append((op.queue, op.group, op.id))

    def _choose(self) -> Operation:
        pick = self._random.random()
        queue, group = self._random.choice(VIEWS)
        if pick < 0.45:
            sizes = BRIEF_SIZES_BYTES if queue == BRIEF_QUEUE else SIZES_BYTES
            size_bytes = self._random.choice(sizes)
            key = f"{self.name}-{self._random.getrandbits(40):x}-{size_bytes}"
            life_s = {BRIEF_QUEUE: BRIEF_LIFE_S, OKQ_QUEUE: 0.0}.get(queue, LIFE_S)
            return self._operation("add", queue, "", key, life_s)
        if pick < 0.75 or not self._held:
            lease_s = self._random.choice(LEASES_S)
            if group == "fast" and self._random.random() < 0.5:
                lease_s = 0.0
            return self._operation("get", queue, group, "", lease_s)
        queue, group, id = self._held.pop(self._random.randrange(len(self._held)))
        is_redo = queue == OKQ_QUEUE and self._random.random() < 0.2
        return self._operation("redo" if is_redo else "ack", queue, group, id, 0.0)

    def _operation(self, verb: Verb, queue: str, group: str, key: str, span_s: float) -> Operation:
        return Operation(self.name, verb, queue, group, key, span_s, time.monotonic_ns())


ORDER = Order()


def main(name: str, seed: str) -> None:
    told = threading.Condition()
    numbers = count(1)
    connections = [
        Connection(f"{name}.{index}", f"{seed}.{index}", numbers, told)
        for index in range(CONNECTIONS)
    ]
    for connection in connections:
        connection.start()
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
