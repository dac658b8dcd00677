"""A task as the engine holds it, and the session that has taken it.

Called by   the engine, which alone creates and changes them; stores read them.
Calls       nothing.

Not here: how sessions come and go (sessions.py).
"""

from __future__ import annotations

from typing import Final

from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import READY, Worklist
from quinque.model.limits import NEVER_MS
from quinque.model.tube_ops import FOREVER_MS
from quinque.model.work_ops import Terms

# Tasks are in the order of their priorities, and among equals in that of their numbers. A place has
# both, and is a small integer as long as priorities are.
NUMBER_BITS: Final = 44

# The options of a message in other work queues. A task has its own, which change when it is
# released or touched.
TASK_TERMS: Final = Terms(ttl_ms=0)


class Session:
    """The taker of tasks. `connections` counts its connections to this broker now; `ends_ms` is
    when the tasks that it has taken come back, if it has no connection by then. A session that
    is apart has ended, and another may have its id."""

    __slots__ = ("connections", "ends_ms", "held", "id", "is_apart")

    def __init__(self, id: bytes) -> None:
        self.id = id
        self.connections = 0
        self.ends_ms = NEVER_MS
        self.is_apart = False
        self.held: dict[Task, None] = {}


class Task(WorkMessage):
    """One task. All of it is in the journal. `ttl_ms` includes all delays, and runs from
    `created_ms`.

    holder   the session that has taken it; None when it is not taken
    """

    __slots__ = ("created_ms", "holder", "lane", "ttl_ms", "ttr_ms")

    def __init__(
        self,
        id: bytes,
        place: int,
        body: bytes | None,
        home: int,
        queue: Worklist,
        created_ms: int,
        ttl_ms: int,
        ttr_ms: int,
        lane: bytes,
    ) -> None:
        expires_ms = created_ms + ttl_ms if ttl_ms < FOREVER_MS else 0
        super().__init__(id, place, expires_ms, body, home, queue, TASK_TERMS, READY)
        self.created_ms = created_ms
        self.ttl_ms = ttl_ms
        self.ttr_ms = ttr_ms
        self.lane = lane
        self.holder: Session | None = None

    @property
    def pri(self) -> int:
        return self.place >> NUMBER_BITS


def place_of(pri: int, number: int) -> int:
    """Return the position of a task among those of its tube."""
    return pri << NUMBER_BITS | number
