"""Tubes, read for a copy and written by one.

Called by   copy_out.py, copy_in.py.
Calls       the scripts copy_out_tube, copy_out_tasks, copy_in_tube and copy_in_tasks.

The counters of a tube are not carried over, nor how often a task was taken. A session is carried
over with the tasks that it has taken. It has no connection until one joins it; if none does, it
ends. The tasks of a temporary tube are not carried over, as everywhere.

Not here: other worklists (copy_out.py, copy_in.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quinque.errors import CopyRefused, printable
from quinque.model.families import TUBES
from quinque.model.states import State
from quinque.model.tube_events import TASK_KEPT, TUBE_KEPT, TaskKept, TubeKept
from quinque.model.tube_ops import KINDS, TubeSettings
from quinque.stores.portable import CHUNK_MOST_BYTES, Chunk, Facts
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.tube_looks import settings_kept
from quinque.stores.redis.tubes import shown_id, task_key


def read_tube(
    ask: Callable[..., Any], queue: bytes, after: int, chunk_most: int
) -> Iterator[Chunk]:
    """The tube, and its tasks in the order of their ids; `after` is how many have gone before."""
    ids: list[bytes] = []
    cursor: Any = 0
    while True:
        head, cursor, some = ask("copy_out_tube", queue, cursor, chunk_most)
        ids += some
        if int(cursor) == 0:
            break
    tube = _tube_kept(queue, head)
    yield Chunk(queue, [tube], after)
    ids = [] if TubeSettings(*tube.settings).is_temporary else sorted(set(ids))
    while after < len(ids):
        argv = (CHUNK_MOST_BYTES, *ids[after : after + chunk_most])
        looked, rows = ask("copy_out_tasks", queue, *argv)
        after += looked
        yield Chunk(queue, [_task_kept(queue, row) for row in rows], after)


def take_tube(tube: TubeKept, facts: Facts) -> Steps:
    """The tube is in Redis. Raises CopyRefused when it is a driver's."""
    if tube.tube_kind not in KINDS:
        raise CopyRefused(
            f"tube {printable(tube.queue)} has the driver {printable(tube.tube_kind)}: drivers "
            "need an embedded store"
        )
    argv: list[Arg] = [TUBES.code, facts.at_ms, tube.queue, facts.stamp_us]
    argv += [b"kind", tube.tube_kind, b"order", tube.order, b"since_ms", tube.at_ms]
    argv += [b"number", tube.number]
    for name, value in settings_kept(TubeSettings(*tube.settings)):
        argv += [name, value]
    yield [Call("copy_in_tube", [slot_key(slot_of(tube.queue))], argv, makes=True)]


def take_tasks(tasks: Sequence[TaskKept], at_ms: int) -> Steps:
    """The tasks, which are of one tube, are in Redis."""
    argv: list[Arg] = [at_ms, tasks[0].queue]
    for it in tasks:
        argv += [task_key(it.id), it.pri, it.lane, State(it.state).name.lower().encode()]
        argv += [it.created_ms, it.ttl_ms, it.ttr_ms, it.due_ms, it.session, it.body]
    yield [Call("copy_in_tasks", [slot_key(slot_of(tasks[0].queue))], argv)]


def _tube_kept(queue: bytes, head: Sequence[Any]) -> TubeKept:
    ttl_ms, ttr_ms, pri, capacity, width, is_temporary = map(int, head[4:10])
    settings = (ttl_ms, ttr_ms, pri, capacity, width, is_temporary == 1, head[10])
    order, since_ms, number = int(head[1]), int(head[2]), int(head[3] or 0)
    return TubeKept(
        TUBE_KEPT,
        queue,
        TUBES.code,
        head[0],
        order,
        since_ms,
        0 if is_temporary else number,
        settings,
    )


def _task_kept(queue: bytes, row: Sequence[Any]) -> TaskKept:
    key, pri, lane, state, created_ms, ttl_ms, ttr_ms, due_ms, session, body = row
    return TaskKept(
        TASK_KEPT,
        queue,
        TUBES.code,
        shown_id(key),
        int(pri),
        lane,
        int(State[state.decode().upper()]),
        int(created_ms),
        int(ttl_ms),
        int(ttr_ms),
        int(due_ms),
        int(state == b"leased"),
        session,
        body,
    )
