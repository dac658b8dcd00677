"""Turn events of tubes into entries of the lifecycle log.

Called by   changes.py (events that name their tasks); tube_operations.py, driver_operations.py and
            replay.py, for a task that is replaced: its event does not say what it was before.
Calls       nothing.

A touch is not recorded: the session has the task as before. Events of a temporary tube are not
journaled, and so are not recorded either.

Not here: tasks that are acked, deleted or over, which is as in all worklists (changes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from quinque.model import tube_events
from quinque.model.families import TUBES
from quinque.model.lifecycle import Kind, Reason
from quinque.model.states import State

if TYPE_CHECKING:
    from quinque.stores.embedded.changes import Changes

Moved = tuple[int, int]  # a Kind and a Reason

_WHY_RETURNED: Final = {
    tube_events.BY_RELEASE: int(Reason.NACKED),
    tube_events.BY_SESSION: int(Reason.SESSION_OVER),
    tube_events.BY_TTR: int(Reason.LAPSED),
    tube_events.BY_DELAY: int(Reason.DELAY_OVER),
    tube_events.BY_KICK: int(Reason.REDRIVEN),
}
_WHY_READY: Final = {
    State.LEASED: int(Reason.NACKED),
    State.DELAYED: int(Reason.DELAY_OVER),
    State.DEAD: int(Reason.REDRIVEN),
}
_ENTERED: Final[dict[int, Moved]] = {
    State.DELAYED: (int(Kind.DELAYED), 0),
    State.LEASED: (int(Kind.DELIVERED), 0),
    State.DEAD: (int(Kind.DEAD), int(Reason.ASKED)),
}


def replaced(old_state: int | None, state: int) -> list[Moved]:
    """Return the change of a task from the first state (None: it did not exist) to the second."""
    if old_state is None:
        came: Moved = (int(Kind.ADDED), 0)
        return [came, _ENTERED[state]] if state in _ENTERED else [came]
    if old_state == state:
        return []
    if state == State.READY:
        return [(int(Kind.RETURNED), _WHY_READY[State(old_state)])]
    return [_ENTERED[state]]


def sizes_of(bodies: Sequence[bytes] | Sequence[int]) -> list[int]:
    """The sizes of bodies, which may have been replaced by them."""
    return [body if isinstance(body, int) else len(body) for body in bodies]


def _put(changes: Changes, event: Any) -> None:
    _, queue, family, number, _, _, _, _, delay_ms, _, bodies = event
    changes.families[queue] = family
    ids = [b"%d" % each for each in range(number, number + len(bodies))]
    changes.put(Kind.ADDED, 0, family, queue, b"", 0, ids, sizes_of(bodies))
    if delay_ms:
        changes.put(Kind.DELAYED, 0, family, queue, b"", 0, ids, None)


def _taken(changes: Changes, event: Any) -> None:
    _, queue, _, _, ids = event
    changes.put(Kind.DELIVERED, 0, TUBES.code, queue, b"", 0, ids, None)


def _returned(changes: Changes, event: Any) -> None:
    _, queue, _, why, delay_ms, ids = event
    kind = Kind.DELAYED if delay_ms else Kind.RETURNED
    changes.put(kind, _WHY_RETURNED[why], TUBES.code, queue, b"", 0, ids, None)


def _buried(changes: Changes, event: Any) -> None:
    _, queue, _, ids = event
    changes.put(Kind.DEAD, Reason.ASKED, TUBES.code, queue, b"", 0, ids, None)


def _kept(changes: Changes, event: Any) -> None:
    changes.families[event[1]] = event[2]


TELLERS: Final[dict[int, Callable[[Changes, Any], None]]] = {
    tube_events.TUBE_KEPT: _kept,
    tube_events.TASKS_PUT: _put,
    tube_events.TASKS_TAKEN: _taken,
    tube_events.TASKS_RETURNED: _returned,
    tube_events.TASKS_BURIED: _buried,
}
