"""Carry out events on tubes. The only code that changes their indexes.

Called by   stores/embedded/tube_operations.py after journaling, and replay.py for each record.
Calls       Tube.

While a journal is read back (`in_order` is False) an event about a task that is not there is passed
over: its first record was compacted away, and a TaskKept one comes later.

Not here: whether an event is right (decide.py, due.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from quinque.engine.tubes.task import NUMBER_BITS, Task, place_of
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY
from quinque.model.events import (
    DELETED,
    EXPIRED,
    FINISHED,
    FLUSHED,
    FORGOTTEN,
    REMOVED,
    Expired,
    Flushed,
    Forgotten,
    Removed,
)
from quinque.model.limits import NEVER_MS
from quinque.model.tube_events import (
    BY_DELAY,
    BY_KICK,
    BY_RELEASE,
    BY_SESSION,
    BY_TTR,
    TASK_KEPT,
    TASKS_BURIED,
    TASKS_PUT,
    TASKS_RETURNED,
    TASKS_TAKEN,
    TASKS_TOUCHED,
    TUBE_KEPT,
    TaskKept,
    TasksBuried,
    TasksPut,
    TasksReturned,
    TasksTaken,
    TasksTouched,
    TubeKept,
)
from quinque.model.tube_ops import (
    CALL_ACK,
    CALL_BURY,
    CALL_DELAY,
    CALL_DELETE,
    CALL_KICK,
    CALL_PUT,
    CALL_RELEASE,
    CALL_TAKE,
    CALL_TOUCH,
    CALL_TTL,
    CALL_TTR,
    FOREVER_MS,
    TubeSettings,
)

_COUNTED_AS: Final = {
    BY_RELEASE: CALL_RELEASE,
    BY_SESSION: CALL_RELEASE,
    BY_TTR: CALL_TTR,
    BY_DELAY: CALL_DELAY,
    BY_KICK: CALL_KICK,
}


def apply_tube_kept(tube: Tube, event: TubeKept) -> None:
    """The tube is of that kind."""
    tube.order = event.order
    tube.since_ms = event.at_ms
    tube.number = max(tube.number, event.number)
    tube.become(event.tube_kind, TubeSettings(*event.settings))


def apply_put(tube: Tube, event: TasksPut, home: int) -> list[WorkMessage]:
    """The tasks are in the tube, ready or delayed. `home` is where the store keeps the first one's
    body; the others follow it."""
    _, _, _, number, pri, at_ms, ttl_ms, ttr_ms, delay_ms, lane, bodies = event
    ttl_ms = min(FOREVER_MS, ttl_ms + delay_ms)
    place = place_of(pri, number)
    tasks: list[Task] = []
    for body in bodies:
        id = b"%d" % number
        task = Task(id, place, body, home, tube, at_ms, ttl_ms, ttr_ms, lane)
        tube.put(task)
        tasks.append(task)
        number += 1
        place += 1
        home += 1
    tube.number = max(tube.number, number)
    if delay_ms:
        for task in tasks:
            task.was_ready = False
            tube.enter_delayed(task, at_ms + delay_ms)
    else:
        tube.put_ready(tasks)
    if ttl_ms < FOREVER_MS:
        for task in tasks:
            tube.remind_of_end(task)
    tube.active_ms = at_ms
    tube.calls[CALL_PUT] += len(tasks)
    return list(tasks)


def apply_taken(tube: Tube, event: TasksTaken) -> None:
    """The sessions have taken the tasks."""
    _, _, at_ms, sessions, ids = event
    takers = [tube.sessions.of(session) for session in sessions]
    if len(takers) < len(ids):
        takers *= len(ids)
    first = tube.first(len(ids), None)
    if [task.id for task in first] == ids:  # as nearly always
        tube.take(cast("Sequence[Task]", first), takers, at_ms)
    else:
        takers_of = dict(zip(ids, takers, strict=True))
        tasks = _found(tube, ids)
        for task in tasks:
            if task.state != READY:  # that it had come back is not on record: the disk was full
                tube.leave(task)
                tube.enter_ready(task)
        tube.take(tasks, [takers_of[task.id] for task in tasks], at_ms)
    tube.went += len(ids)
    tube.active_ms = at_ms
    tube.calls[CALL_TAKE] += len(ids)


def apply_returned(tube: Tube, event: TasksReturned) -> None:
    """The tasks are ready, or delayed."""
    _, _, at_ms, why, delay_ms, ids = event
    for task in _found(tube, ids):
        tube.leave(task)
        if delay_ms:
            tube.prolong(task, delay_ms)
            tube.enter_delayed(task, at_ms + delay_ms)
        else:
            tube.enter_ready(task)
    tube.active_ms = at_ms
    tube.calls[_COUNTED_AS[why]] += len(ids)
    tube.trim()


def apply_buried(tube: Tube, event: TasksBuried) -> None:
    """The tasks are buried."""
    for task in _found(tube, event.ids):
        tube.leave(task)
        tube.enter_dead(task, b"")
    tube.active_ms = event.at_ms
    tube.calls[CALL_BURY] += len(event.ids)
    tube.trim()


def apply_touched(tube: Tube, event: TasksTouched) -> None:
    """Add `by_ms` to the tasks' time to run and time to live."""
    by_ms = event.by_ms
    for task in _found(tube, event.ids):
        task.ttr_ms = min(FOREVER_MS, task.ttr_ms + by_ms)
        due_ms = task.due_ms + by_ms
        task.due_ms = due_ms if task.due_ms < NEVER_MS and task.ttr_ms < FOREVER_MS else NEVER_MS
        if task.due_ms < NEVER_MS:
            tube.dues.add(task.due_ms, task.id)
        tube.prolong(task, by_ms)
    tube.calls[CALL_TOUCH] += len(event.ids)
    tube.trim()


def apply_removed(tube: Tube, event: Removed) -> list[WorkMessage]:
    """Remove the tasks. Return those that existed."""
    gone = _remove(tube, event.ids)
    if event.why == FINISHED:
        tube.calls[CALL_ACK] += len(gone)
        tube.done += len(gone)
    elif event.why == DELETED:
        tube.calls[CALL_DELETE] += len(gone)
        tube.done += len(gone)
    return gone


def apply_expired(tube: Tube, event: Expired) -> list[WorkMessage]:
    """Remove the tasks because their time to live is over. Return those that existed."""
    states = [task.state for task in _found(tube, event.ids)]
    gone = _remove(tube, event.ids)
    # Of what was taken or delayed, that was over first.
    tube.calls[CALL_TTR] += states.count(LEASED)
    tube.calls[CALL_DELAY] += states.count(DELAYED)
    tube.calls[CALL_TTL] += len(gone)
    tube.calls[CALL_DELETE] += len(gone)
    tube.done += len(gone)
    return gone


def apply_flushed(tube: Tube, event: Flushed | Forgotten) -> list[WorkMessage]:
    """Remove all tasks and return them. Ids start again at 0."""
    tube.number = 0
    return tube.clear()


def apply_task_kept(tube: Tube, event: TaskKept, home: int) -> list[WorkMessage]:
    """Add the task with the contents of the record, unless it exists."""
    kept = TaskKept._make(event)  # read back, it is a plain tuple
    if tube.find(kept.id) is not None:
        # Its first record is still there, so all is known already, but where its body is.
        return []
    return [_put_kept(tube, kept, home)]


def apply_task_replaced(
    tube: Tube, event: TaskKept, home: int
) -> tuple[list[WorkMessage], WorkMessage]:
    """Set the task to the contents of the event. Return the previous one, if it existed."""
    kept = TaskKept._make(event)
    old = tube.find(kept.id)
    if old is not None:
        tube.remove(old)
    return [] if old is None else [old], _put_kept(tube, kept, home)


def _put_kept(tube: Tube, kept: TaskKept, home: int) -> Task:
    place = place_of(kept.pri, int(kept.id))
    task = Task(
        kept.id,
        place,
        kept.body,
        home,
        tube,
        kept.created_ms,
        kept.ttl_ms,
        kept.ttr_ms,
        kept.lane,
    )
    task.deliveries = kept.deliveries
    tube.put(task)
    tube.number = max(tube.number, (place & ((1 << NUMBER_BITS) - 1)) + 1)
    tube.remind_of_end(task)
    if kept.state == LEASED:
        tube.enter_taken(task, tube.sessions.of(kept.session), kept.due_ms or NEVER_MS)
    elif kept.state == DELAYED:
        tube.enter_delayed(task, kept.due_ms or NEVER_MS)
    elif kept.state == DEAD:
        tube.enter_dead(task, b"")
    else:
        tube.put_ready([task])
    return task


def _found(tube: Tube, ids: Iterable[bytes]) -> list[Task]:
    by_id = tube.directory.by_id
    tasks: list[Task] = []
    for id in ids:
        task = by_id.get(id)
        if task is not None:
            assert isinstance(task, Task)
            tasks.append(task)
    return tasks


def _remove(tube: Tube, ids: Iterable[bytes]) -> list[WorkMessage]:
    gone: list[WorkMessage] = []
    by_id = tube.directory.by_id
    for id in ids:
        task = by_id.get(id)
        if task is not None:
            tube.remove(task)
            gone.append(task)
    tube.trim()
    return gone


APPLY: Final[dict[int, Callable[[Tube, Any], Any]]] = {
    TUBE_KEPT: apply_tube_kept,
    TASKS_TAKEN: apply_taken,
    TASKS_RETURNED: apply_returned,
    TASKS_BURIED: apply_buried,
    TASKS_TOUCHED: apply_touched,
    REMOVED: apply_removed,
    EXPIRED: apply_expired,
    FLUSHED: apply_flushed,
    FORGOTTEN: apply_flushed,
}
APPLY_WITH_BODY: Final[dict[int, Callable[[Tube, Any, int], list[WorkMessage]]]] = {
    TASKS_PUT: apply_put,
    TASK_KEPT: apply_task_kept,
}
