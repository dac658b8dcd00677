"""Apply a record that holds tasks of a tube; and what is left of sessions when all is read.

Called by   replay.py.
Calls       engine/tubes/apply.py (rules), tube_changes.py (what goes to the record of changes).

Not here: records that are about tasks that are there, or about a tube (replay.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.engine.tubes.apply import APPLY_WITH_BODY, apply_task_replaced
from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.tube import Tube
from quinque.model.tube_events import TASK_KEPT, TASK_REPLACED, TASKS_PUT, TaskKept
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.changes import task_replaced

KINDS: Final = frozenset({TASKS_PUT, TASK_KEPT, TASK_REPLACED})


def replay_tasks(tube: Tube, bodies: Bodies, record: Any, home: int) -> Sequence[Any]:
    """Put the tasks of the journal's record into the tube; return the changes to be recorded."""
    kind = record[0]
    if kind == TASK_REPLACED:
        event = TaskKept._make(record)
        was = tube.find(event.id)
        changes = task_replaced(event, None if was is None else was.state)
        old, task = apply_task_replaced(tube, event, home)
        bodies.went(old)
        bodies.came([task], [event.body])
        return changes
    if kind == TASKS_PUT and record[3] < tube.number:
        _make_way(tube, bodies, record[3], len(record[-1]))
    tasks = APPLY_WITH_BODY[kind](tube, record, home)
    if tasks:
        bodies.came(tasks, record[-1] if kind == TASKS_PUT else record[-1:])
    else:  # a task written again
        bodies.moved(tube.directory.by_id[record[3]], home, record[-1])
    return [record]


def end_session(sessions: Sessions, id: bytes) -> None:
    """The session, if it is there, has ended, and its tasks have yet to come back."""
    session = sessions.by_id.get(id)
    if session is not None:
        sessions.set_apart(session)


def finish_sessions(sessions: Sessions) -> None:
    """Forget sessions that have taken nothing. The one without a name is of tasks that none has."""
    end_session(sessions, b"")
    for session in [it for it in sessions.by_id.values() if not it.held]:
        del sessions.by_id[session.id]


def _make_way(tube: Tube, bodies: Bodies, first: int, count: int) -> None:
    """No task has one of these numbers. Numbers come again only in a tube that was emptied: if one
    is there, the record of that was damaged."""
    for number in range(first, first + count):
        task = tube.find(b"%d" % number)
        if task is not None:
            tube.remove(task)
            bodies.went([task])
