"""What a client of the jobs family does in the kill loop, and how its requests are written.

Called by   load.py (plays), job_looks.py (drains).
Calls       bodies.py.

Each queue has jobs of one kind, so that what may become of them is known by the queue.

Not here: the process and its connections (load.py), what must come of it (job_checks.py).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from tests.faults.bodies import body_of, name_of
from tests.faults.job_history import JobOperation, Verb
from tests.server.resp import Refusal

DAY_S = 86_400
PATIENCE_MS = 2000  # that an addition waits for replicas
LONG_S = 3600  # longer than a run: what waits so long must not come back by itself


@dataclass(frozen=True)
class Kind:
    """Terms to choose from, and how often the queue is chosen."""

    weight: int
    retries_s: tuple[int, ...] = (LONG_S,)
    delays_s: tuple[int, ...] = (0,)
    ttls_s: tuple[int, ...] = (DAY_S,)
    limits: tuple[int, ...] = (0,)
    sizes_bytes: tuple[int, ...] = (0, 64, 64, 300)
    keys: int = 0


KINDS = {
    "plain": Kind(4, delays_s=(0,) * 12 + (1, 1, LONG_S)),
    "brisk": Kind(3, retries_s=(1,)),
    "once": Kind(3, retries_s=(0,), delays_s=(0, 0, 1)),
    # Most of what is written expires at once, or there would be little to compact.
    "fleeting": Kind(3, retries_s=(1,), ttls_s=(1, 2), sizes_bytes=(700, 5_000, 20_000)),
    "limited": Kind(3, retries_s=(1, LONG_S, LONG_S), limits=(1, 2, 3)),
    "changing": Kind(2, retries_s=(1, LONG_S)),  # is paused and set
    "keyed": Kind(2, keys=12),
}
QUEUES = tuple(KINDS)
KEYS = {queue: [f"key{number}" for number in range(kind.keys)] for queue, kind in KINDS.items()}

# Jobs without a limit of their own, and whose queue has none, may be enqueued at any time.
_UNLIMITED = ("plain", "brisk", "keyed")
_PAUSES = ("none", "none", "none", "in", "out", "all")
_SETTINGS = (
    ["MAXDELIVERIES", "0", "RATE", "0", "0"],
    ["MAXDELIVERIES", "2"],
    ["MAXDELIVERIES", "3", "RATE", "1000", "1"],
    ["RATE", "50", "1"],
    ["RATE", "0", "0"],
)
_DELAYS_S = (*[0] * 6, *[1] * 5, LONG_S)
_WORDS = {
    "nack": "NACK",
    "enqueue": "ENQUEUE",
    "working": "WORKING",
    "redrive": "REDRIVE",
    "pause": "PAUSE",
    "set": "QSET",
}


def words_of(op: JobOperation) -> tuple[str | float | bytes, ...]:
    """The request for an operation."""
    match op.verb:
        case "add":
            return "ADDJOB", op.queues[0], body_of(op.body), PATIENCE_MS, *op.options
        case "get":
            return "GETJOB", *op.options, "WITHCOUNTERS", "FROM", *op.queues
        case "ack":
            return *op.options, *op.ids
        case "peek":
            return "QPEEK", op.queues[0], 5, "STATE", "dead"
        case _:
            return _WORDS[op.verb], *op.queues, *op.ids, *op.options


def take_answer(op: JobOperation, answer: Any) -> None:
    """The operation knows what came back."""
    op.answered_ns = time.monotonic_ns()
    if isinstance(answer, Refusal):
        op.error = answer.text
    elif op.verb == "add":
        op.id = answer.decode()
    elif op.verb in ("get", "peek"):
        op.rows = [
            [row[0].decode(), row[1].decode(), name_of(row[2]), row[4], row[6]]
            for row in answer or ()
        ]
    elif op.verb not in ("pause", "set"):
        op.number = answer


class JobsPlayer:
    """Adds jobs, works on them or fails to, and knows what it holds."""

    def __init__(self, name: str, chance: random.Random, replicas: int) -> None:
        self._name = name
        self._replicas = replicas
        self._random = chance
        self._held: list[tuple[str, str]] = []  # queue, id
        self._dead: list[str] = []

    def words_of(self, op: JobOperation) -> tuple[str | float | bytes, ...]:
        return words_of(op)

    def take_answer(self, op: JobOperation, answer: Any) -> None:
        take_answer(op, answer)
        if op.verb == "get":
            self._held += [(row[0], row[1]) for row in op.rows]
        elif op.verb == "peek":
            self._dead = [row[1] for row in op.rows]

    def choose(self) -> JobOperation:
        pick = self._random.random()
        (queue,) = self._random.choices(QUEUES, [kind.weight for kind in KINDS.values()])
        if pick < 0.35:
            return self._add(queue)
        if pick < 0.39:
            return self._change()
        if pick < 0.68 or not self._held:
            return self._get(queue)
        return self._work()

    def _add(self, queue: str) -> JobOperation:
        kind, pick = KINDS[queue], self._random.choice
        retry_s = pick(kind.retries_s)
        options: list[Any] = ["RETRY", retry_s, "TTL", pick(kind.ttls_s)]
        if delay_s := pick(kind.delays_s):
            options += ["DELAY", delay_s]
        if limit := pick(kind.limits):
            options += ["MAXDELIVERIES", limit]
        if kind.keys:
            options += ["ID", pick(KEYS[queue])]
        if self._replicas > 1 and retry_s:  # two copies of what may come once could come twice
            options += ["REPLICATE", self._replicas]
        body = f"{self._name}-{self._random.getrandbits(40):x}-{pick(kind.sizes_bytes)}"
        return self._operation("add", [queue], options=options, body=body)

    def _get(self, queue: str) -> JobOperation:
        options: list[Any] = ["NOHANG"] if self._random.random() < 0.9 else ["TIMEOUT", 10]
        options += ["COUNT", self._random.randint(1, 4)]
        queues = [queue]
        if self._random.random() < 0.1:
            queues = self._random.sample(QUEUES, 2)
        return self._operation("get", queues, options=options)

    def _work(self) -> JobOperation:
        queue, id = self._held.pop(self._random.randrange(len(self._held)))
        pick = self._random.random()
        if pick < 0.2:
            delay_s = self._random.choice(_DELAYS_S)
            options: list[Any] = ["DELAY", delay_s] if delay_s else []
            if self._random.random() < 0.5:
                options += ["REASON", f"reason{self._random.randrange(100)}"]
            return self._operation("nack", ids=[id], options=options)
        if pick < 0.3:
            self._held.append((queue, id))
            return self._operation("working", ids=[id])
        if pick < 0.35 and queue in _UNLIMITED:
            return self._operation("enqueue", ids=[id])
        ids = [id]
        while self._held and len(ids) < 3 and self._random.random() < 0.2:
            ids.append(self._held.pop()[1])
        word = self._random.choice(("ACKJOB", "ACKJOB", "FASTACK", "DELJOB"))
        return self._operation("ack", ids=list(dict.fromkeys(ids)), options=[word])

    def _change(self) -> JobOperation:
        pick = self._random.random()
        if pick < 0.2:
            return self._operation("pause", ["changing"], options=[self._random.choice(_PAUSES)])
        if pick < 0.35:
            return self._operation("set", ["changing"], options=self._random.choice(_SETTINGS))
        if self._dead and pick < 0.6:
            ids, self._dead = self._dead[:2], self._dead[2:]
            return self._operation("redrive", ids=ids)
        return self._operation("peek", [self._random.choice(("limited", "changing"))])

    def _operation(
        self,
        verb: Verb,
        queues: list[str] | None = None,
        *,
        ids: list[str] | None = None,
        options: list[Any] | None = None,
        body: str = "",
    ) -> JobOperation:
        words = [str(word) for word in options or []]
        return JobOperation(
            self._name, verb, queues or [], ids or [], body, words, time.monotonic_ns()
        )
