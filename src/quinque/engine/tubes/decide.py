"""Decide what an operation does to a tube. No I/O, no clock, no mutation.

Called by   stores/embedded/tube_operations.py, once per operation.
Calls       nothing; it reads the Tube it is handed.

Time may have made more due than the store has settled yet, so everything read here is checked
against now_ms.

Not here: what time alone does (due.py), tubes of drivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quinque.engine.claims.rows import chunk_sizes
from quinque.engine.tubes.due import is_due, is_over
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, LEASED, READY
from quinque.errors import TouchRefused
from quinque.model.events import DELETED, FINISHED, REMOVED, Removed
from quinque.model.limits import NEVER_MS, TOGETHER_MOST, TOGETHER_MOST_BYTES
from quinque.model.tube_events import (
    TASK_KEPT,
    TASK_REPLACED,
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
from quinque.model.tube_ops import FOREVER_MS, NO_LANE, ReleaseTasks, TaskTerms


def put(tube: Tube, bodies: Sequence[bytes], terms: TaskTerms, now_ms: int) -> list[TasksPut]:
    """Accept the tasks, the first ones only if the tube has no room for all."""
    kind, settings = tube.kind, tube.settings
    if kind.is_bounded and settings.capacity:
        bodies = bodies[: max(0, settings.capacity - tube.size)]
    pri, ttl_ms, ttr_ms, delay_ms = 0, FOREVER_MS, FOREVER_MS, 0
    if kind.has_times:
        pri = settings.pri if terms.pri is None else terms.pri
        ttl_ms = min(FOREVER_MS, settings.ttl_ms if terms.ttl_ms is None else terms.ttl_ms)
        ttr_ms = min(FOREVER_MS, settings.ttr_ms if terms.ttr_ms is None else terms.ttr_ms)
        delay_ms = terms.delay_ms
    lane = terms.lane if kind.has_lanes else NO_LANE
    family, number = tube.family.code, tube.number
    sizes = [1] if len(bodies) == 1 else chunk_sizes(bodies, TOGETHER_MOST, TOGETHER_MOST_BYTES)
    events: list[TasksPut] = []
    at = 0
    for size in sizes:
        some = bodies[at : at + size]
        if some:
            events.append(
                TasksPut(
                    TASKS_PUT,
                    tube.name,
                    family,
                    number + at,
                    pri,
                    now_ms,
                    ttl_ms,
                    ttr_ms,
                    delay_ms,
                    lane,
                    some,
                )
            )
        at += size
    return events


def take(
    tube: Tube, sessions: Sequence[bytes], tasks: Sequence[WorkMessage], now_ms: int
) -> TasksTaken:
    """Hand these tasks, which may be taken, to the session, or each to its own."""
    return TasksTaken(TASKS_TAKEN, tube.name, now_ms, sessions, [task.id for task in tasks])


def held(tube: Tube, session: bytes, id: bytes, now_ms: int) -> Task | None:
    """The task, if the session has taken it."""
    task = tube.directory.by_id.get(id)
    if task is None or task.state != LEASED:
        return None
    assert isinstance(task, Task)
    holder = task.holder
    # A session that has ended holds no tasks, even if another one has the same name by now.
    if holder is None or holder.id != session or holder.ends_ms <= now_ms:
        return None
    if not tube.kind.has_times:
        return task
    # More may be due than was settled.
    return None if is_due(tube, task, now_ms) or is_over(tube, task, now_ms) else task


def ack(tube: Tube, ids: Sequence[bytes]) -> Removed:
    """The tasks are done."""
    return Removed(REMOVED, tube.name, ids, FINISHED)


def delete(tube: Tube, ids: Sequence[bytes]) -> Removed:
    """Remove the tasks without finishing them."""
    return Removed(REMOVED, tube.name, ids, DELETED)


def come_back(
    tube: Tube, ids: Sequence[bytes], why: int, now_ms: int, delay_ms: int = 0
) -> TasksReturned:
    """The tasks are ready, or delayed where there are times."""
    delay_ms = delay_ms if tube.kind.has_times else 0
    return TasksReturned(TASKS_RETURNED, tube.name, now_ms, why, delay_ms, ids)


def change(tube: Tube, op: ReleaseTasks, task: Task, body: bytes, now_ms: int) -> TaskKept | None:
    """The task, which is taken, has the priority, the life and the data that the operation names;
    None when it names none of them."""
    if op.pri is None and op.ttl_ms is None and op.body is None:
        return None
    event = kept(tube, task, body if op.body is None else op.body)._replace(kind=TASK_REPLACED)
    if tube.kind.has_times:
        if op.pri is not None:
            event = event._replace(pri=op.pri)
        if op.ttl_ms is not None:
            lived_ms = max(0, now_ms - task.created_ms)
            event = event._replace(ttl_ms=min(FOREVER_MS, lived_ms + op.ttl_ms))
    return event


def touch(tube: Tube, ids: Sequence[bytes], by_ms: int) -> TasksTouched:
    """Add `by_ms` to the tasks' time to run and time to live.

    Raises TouchRefused.
    """
    if not tube.kind.has_times:
        raise TouchRefused(tube.kind.name)
    return TasksTouched(TASKS_TOUCHED, tube.name, min(by_ms, FOREVER_MS), ids)


def bury(tube: Tube, ids: Sequence[bytes], now_ms: int) -> TasksBuried | None:
    """Bury those of the tasks that are not buried; None when all are."""
    by_id = tube.directory.by_id
    living = [id for id in ids if by_id[id].state != DEAD]
    return TasksBuried(TASKS_BURIED, tube.name, now_ms, living) if living else None


def kept(tube: Tube, task: Task, body: bytes) -> TaskKept:
    """The task as it is now. If its session is apart, the task is ready; in a tube of a driver,
    which is to know of that, it is taken by no session."""
    state, due_ms, holder = task.state, task.due_ms, task.holder
    if holder is not None and holder.is_apart:
        holder = None
        if not tube.is_driven:
            state, due_ms = READY, NEVER_MS
    return TaskKept(
        TASK_KEPT,
        tube.name,
        tube.family.code,
        task.id,
        task.pri,
        task.lane,
        state,
        task.created_ms,
        task.ttl_ms,
        task.ttr_ms,
        due_ms if due_ms < NEVER_MS else 0,
        task.deliveries,
        holder.id if holder is not None else b"",
        body,
    )


def tube_kept(tube: Tube) -> TubeKept:
    """The tube as it is now."""
    it = tube.settings
    settings = (
        it.ttl_ms,
        it.ttr_ms,
        it.pri,
        it.capacity,
        it.width,
        it.is_temporary,
        it.options,
    )
    number = 0 if it.is_temporary else tube.number
    return TubeKept(
        TUBE_KEPT,
        tube.name,
        tube.family.code,
        tube.kind.name,
        tube.order,
        tube.since_ms,
        number,
        settings,
    )
