"""Turn the changes of a driver to its rows into events of its tube.

Called by   driver_seat.py, at the end of each call of a driver.
Calls       engine/tubes/decide.py (a task as it is).

A task's body is its row, packed. The letter of the state is in it too, but it is the task's own
state that counts: so a change of the letter alone is a small event, as in tubes of other kinds, and
tells the record what they tell. Only a change of other columns writes the row again.

The clock of the engine has no part in it: a task that a driver delays stays delayed until the
driver changes it.

Not here: how events are journaled and applied (tube_operations.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from quinque.drivers.space import BURIED, DELAYED, ID, READY, STATE, TAKEN, Row
from quinque.engine.tubes.decide import kept
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.model.events import (
    DELETED,
    EXPIRED,
    FINISHED,
    REMOVED,
    Expired,
    Removed,
)
from quinque.model.packing import Packing
from quinque.model.states import State
from quinque.model.tube_events import (
    BY_DELAY,
    BY_KICK,
    BY_RELEASE,
    BY_SESSION,
    BY_TTR,
    TASK_REPLACED,
    TASKS_BURIED,
    TASKS_PUT,
    TASKS_RETURNED,
    TASKS_TAKEN,
    TasksBuried,
    TasksPut,
    TasksReturned,
    TasksTaken,
)
from quinque.model.tube_ops import FOREVER_MS

LETTERS: Final = {
    int(State.READY): READY,
    int(State.LEASED): TAKEN,
    int(State.DELAYED): DELAYED,
    int(State.DEAD): BURIED,
}

Change = tuple[int, Row | None, Row | None]  # id, the row before, the row after

_WHY: Final = {"release": BY_RELEASE, "ttr": BY_TTR, "delay": BY_DELAY, "kick": BY_KICK}

_PLAIN: Final = (int, float, str, bytes, type(None))  # values that cannot change

_pack: Final = Packing().pack


@dataclass
class Call:
    """A call of a driver, apart from its rows: the session that takes, and the ids that it got;
    whether deleted tasks were acked, whether tasks come back because a session is over, whether all
    tasks are removed; and the events that the driver reported."""

    session: bytes = b""
    taken: list[int] = field(default_factory=list)
    is_ack: bool = False
    is_session_over: bool = False
    is_truncation: bool = False
    told: list[tuple[Row, str | None]] = field(default_factory=list)


@dataclass
class _Moves:
    """Ids of tasks by their change."""

    gone: list[bytes] = field(default_factory=list)
    over: list[bytes] = field(default_factory=list)
    put: list[tuple[int, Row]] = field(default_factory=list)
    replaced: list[tuple[Task, Row]] = field(default_factory=list)
    returned: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)  # why, delay_ms
    buried: list[bytes] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)


def events_of(tube: Tube, changes: Sequence[Change], call: Call, now_ms: int) -> list[Any]:
    """The events that make the changes true. Raises ValueError when a row is taken without a
    session, or has a value that cannot be stored."""
    moves = _Moves()
    events_told = {task[ID]: event for task, event in call.told if event is not None}
    for id, was, row in changes:
        name = b"%d" % id
        if row is None:
            # The last event that the driver reported for it says why it is gone.
            (moves.over if events_told.get(id) == "ttl" else moves.gone).append(name)
            continue
        if was is None:
            moves.put.append((id, row))
        elif _differ(was, row):
            moves.replaced.append((_task_of(tube, name), row))
        before = (DELAYED if row[STATE] == DELAYED else READY) if was is None else was[STATE]
        _move(moves, id, before, row[STATE], events_told.get(id), call)
    _steal(tube, moves, call)
    return _as_events(tube, moves, call, now_ms)


def row_of(id: int, state: int, body: bytes) -> Row:
    """The row of a task that is in that state."""
    row = msgpack.unpackb(body, use_list=True, strict_map_key=False)
    return (id, LETTERS[state], *row[2:])


def _move(moves: _Moves, id: int, before: str, now: str, event: str | None, call: Call) -> None:
    """The letter of a row, which was not deleted, is another, or is not."""
    name = b"%d" % id
    if before == now:
        return
    if now == TAKEN:
        if id not in call.taken:
            raise ValueError(f"task {id} has no session: only take() can make a row taken")
        moves.taken.append(name)
    elif now == BURIED:
        moves.buried.append(name)
    else:
        why = BY_SESSION if call.is_session_over else _WHY.get(event or "", BY_RELEASE)
        delay_ms = FOREVER_MS if now == DELAYED else 0
        moves.returned.setdefault((why, delay_ms), []).append(name)


def _differ(was: Row, row: Row) -> bool:
    """Whether the row is another beside its state, or may be. Equal values need not be alike: 1,
    1.0, True. A list or a dict may have been changed in place, so that it equals itself."""
    if len(was) != len(row):
        return True
    return any(
        old is not new or not isinstance(new, _PLAIN)
        for old, new in zip(was[STATE + 1 :], row[STATE + 1 :], strict=True)
    )


def _steal(tube: Tube, moves: _Moves, call: Call) -> None:
    """Give the session that takes now the tasks that take() returned while others had them."""
    moved = set(moves.taken)
    for id in dict.fromkeys(call.taken):
        name = b"%d" % id
        if name not in moved:
            task = tube.directory.by_id.get(name)
            if task is None or task.state != State.LEASED:
                raise ValueError(f"take() returned task {id}, which is not taken")
            moves.returned.setdefault((BY_SESSION, 0), []).append(name)
            moves.taken.append(name)


def _as_events(tube: Tube, moves: _Moves, call: Call, now_ms: int) -> list[Any]:
    name, family = tube.name, tube.family.code
    events: list[Any] = []
    if moves.gone:
        why = FINISHED if call.is_ack else DELETED
        events.append(Removed(REMOVED, name, moves.gone, why))
    if moves.over:
        events.append(Expired(EXPIRED, name, moves.over))
    for id, row in moves.put:
        delay_ms = FOREVER_MS if row[STATE] == DELAYED else 0
        forever = (FOREVER_MS, FOREVER_MS)
        events.append(
            TasksPut(TASKS_PUT, name, family, id, 0, now_ms, *forever, delay_ms, b"", [_pack(row)])
        )
    events += [
        kept(tube, task, _pack(row))._replace(kind=TASK_REPLACED) for task, row in moves.replaced
    ]
    events += [
        TasksReturned(TASKS_RETURNED, name, now_ms, why, delay_ms, ids)
        for (why, delay_ms), ids in moves.returned.items()
    ]
    if moves.buried:
        events.append(TasksBuried(TASKS_BURIED, name, now_ms, moves.buried))
    if moves.taken:
        events.append(TasksTaken(TASKS_TAKEN, name, now_ms, [call.session], moves.taken))
    return events


def _task_of(tube: Tube, name: bytes) -> Task:
    task = tube.directory.by_id[name]
    assert isinstance(task, Task), "a row that was there is a task"
    return task
