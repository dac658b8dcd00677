"""The events of tubes in the journal.

Called by   the engine (decide and due make them, apply carries them out), the journal.
Calls       nothing.

They are events as those of model/events.py are: tuples whose first field is their kind. That tasks
are acked, deleted or over, and that a tube is emptied or dropped, are the events that all worklists
have: Removed, Expired, Flushed, Forgotten.

Not here: what all worklists have in common (model/events.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

TUBE_KEPT: Final = 50
TASKS_PUT: Final = 51
TASKS_TAKEN: Final = 52
TASKS_RETURNED: Final = 53
TASKS_BURIED: Final = 54
TASKS_TOUCHED: Final = 55
TASK_KEPT: Final = 56
TASK_REPLACED: Final = 57
SESSION_ENDED: Final = 62


class TubeKept(NamedTuple):
    """A tube was made; or compaction wrote it again. `number` is that of its next task, `order` its
    own among all tubes that were ever made, `settings` are those of model/tube_ops.py in order."""

    kind: int
    queue: bytes
    family: int
    tube_kind: bytes
    order: int
    at_ms: int
    number: int
    settings: Sequence[Any]


class TasksPut(NamedTuple):
    """Tasks were accepted, with ids that follow each other from `number`."""

    kind: int
    queue: bytes
    family: int
    number: int
    pri: int
    at_ms: int
    ttl_ms: int  # without the delay
    ttr_ms: int
    delay_ms: int
    lane: bytes
    bodies: Sequence[bytes]


class TasksTaken(NamedTuple):
    """Tasks are taken until their ttr is over: by one session, or each by its own."""

    kind: int
    queue: bytes
    at_ms: int
    sessions: Sequence[bytes]
    ids: Sequence[bytes]


BY_RELEASE: Final = 0
BY_SESSION: Final = 1  # the session that had taken it ended, or a client returned all of them
BY_TTR: Final = 2
BY_DELAY: Final = 3
BY_KICK: Final = 4


class TasksReturned(NamedTuple):
    """Tasks are ready, or delayed by `delay_ms`, and live longer by as much."""

    kind: int
    queue: bytes
    at_ms: int
    why: int
    delay_ms: int
    ids: Sequence[bytes]


class TasksBuried(NamedTuple):
    """Tasks are buried."""

    kind: int
    queue: bytes
    at_ms: int
    ids: Sequence[bytes]


class TasksTouched(NamedTuple):
    """Tasks have `by_ms` more to run and to live."""

    kind: int
    queue: bytes
    by_ms: int
    ids: Sequence[bytes]


class TaskKept(NamedTuple):
    """Compaction wrote the whole task again. `due_ms` is when it is ready or comes back, 0 =
    nothing is due; `session` has taken it, if it is taken. With the kind TASK_REPLACED, the task
    was different before, or did not exist."""

    kind: int
    queue: bytes
    family: int
    id: bytes
    pri: int
    lane: bytes
    state: int
    created_ms: int
    ttl_ms: int
    ttr_ms: int
    due_ms: int
    deliveries: int
    session: bytes
    body: bytes


class SessionEnded(NamedTuple):
    """A session has ended, and its tasks have yet to come back. A later one may have its name."""

    kind: int
    session: bytes


TubeEvent = TubeKept | TasksPut | TasksTaken | TasksReturned | TasksBuried | TasksTouched | TaskKept

# A record read back, as the event it is. Those with bodies are taken apart as they are.
AS_TUBE_EVENT: Final[dict[int, Callable[[Any], TubeEvent]]] = {
    TUBE_KEPT: TubeKept._make,
    TASKS_TAKEN: TasksTaken._make,
    TASKS_RETURNED: TasksReturned._make,
    TASKS_BURIED: TasksBuried._make,
    TASKS_TOUCHED: TasksTouched._make,
}
