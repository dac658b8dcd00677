"""What a client of the events family does in the kill loop, and how its requests are written.

Called by   load.py (plays), kill_loop.py (drains).
Calls       bodies.py.

Not here: the process and its connections (load.py), what must come of it (total_queue.py).
"""

from __future__ import annotations

import random
import time
from typing import Any

from tests.faults.bodies import body_of, name_of
from tests.faults.total_queue import Operation, Verb, View
from tests.server.resp import Refusal

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
        op.body = name_of(answer[1])
    elif op.verb in ("ack", "redo"):
        op.was_done = answer == 1


class EventsPlayer:
    """Adds, gets and acks events, and knows what it holds."""

    def __init__(self, name: str, chance: random.Random, replicas: int) -> None:
        """How many replicas are wanted is for jobs to say, and not said here."""
        self._name = name
        self._random = chance
        self._held: list[tuple[str, str, str]] = []

    def words_of(self, op: Operation) -> tuple[str | float | bytes, ...]:
        return words_of(op)

    def take_answer(self, op: Operation, answer: Any) -> None:
        take_answer(op, answer)
        if op.was_delivered and op.span_s:
            self._held.append((op.queue, op.group, op.id))

    def choose(self) -> Operation:
        pick = self._random.random()
        queue, group = self._random.choice(VIEWS)
        if pick < 0.45:
            sizes = BRIEF_SIZES_BYTES if queue == BRIEF_QUEUE else SIZES_BYTES
            size_bytes = self._random.choice(sizes)
            key = f"{self._name}-{self._random.getrandbits(40):x}-{size_bytes}"
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
        return Operation(self._name, verb, queue, group, key, span_s, time.monotonic_ns())
