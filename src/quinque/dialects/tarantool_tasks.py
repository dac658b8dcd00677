"""Functions of one tube and its tasks: put, take, ack and the like.

Called by   tarantool.py, through TASK_VERBS.
Calls       tarantool_args.py, task_data.py.

Not here: functions of tubes (tarantool_tubes.py), operations (engine/tubes/).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.dialects.command import Wait
from quinque.dialects.tarantool_args import (
    packed_option,
    read_count,
    read_data,
    read_lane,
    read_options,
    read_priority_or_none,
    read_span,
    read_task_id,
    read_terms,
    read_timeout,
    value_at,
)
from quinque.dialects.tarantool_verbs import NIL, Args, Call, Caller, Request, Verb, packed
from quinque.dialects.task_data import from_packed, pack_into
from quinque.errors import NoTask, NotTaken
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    BuryTasks,
    DeleteTasks,
    KickTasks,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskView,
    TouchTasks,
)

_LETTERS: Final = {
    State.READY: b"\xa1r",
    State.LEASED: b"\xa1t",
    State.DELAYED: b"\xa1~",
    State.DEAD: b"\xa1!",
    None: b"\xa1-",
}
_IDS: Final = {b"%d" % number: bytes([number]) for number in range(128)}


def parse_put(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:put(data, {ttl, ttr, pri, delay, utube, timeout})"""
    body = from_packed(read_data(args))
    terms, wait_ms = read_terms(args)
    op = PutTasks(call.tube, [body], terms)
    return Wait(op, [call.tube], b"room", wait_ms) if wait_ms else op


def gather_put(request: Any, calls: Sequence[Args]) -> None:
    op: Any = request.op if isinstance(request, Wait) else request
    op.bodies = [from_packed(args[0]) for args in calls]


def parse_take(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:take(timeout, {utube})"""
    timeout_ms = read_timeout(value_at(args, 0))
    said = read_options(args, 1)
    lane = read_lane(said[b"utube"]) if said.get(b"utube") is not None else None
    op = TakeTasks(call.tube, caller.taking_session(), lane=lane)
    return Wait(op, [call.tube], b"" if lane is None else b"lane:" + lane, timeout_ms)


def gather_take(request: Any, calls: Sequence[Args]) -> None:
    request.op.count = len(calls)


def parse_ack(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:ack(id)"""
    return AckTasks(call.tube, caller.taking_session(), [read_task_id(args)])


def gather_ack(request: Any, calls: Sequence[Args]) -> None:
    request.message_ids = [read_task_id(args) for args in calls]


def parse_release(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:release(id, {delay, pri, ttl, data})"""
    op = ReleaseTasks(call.tube, caller.taking_session(), [read_task_id(args)])
    said = read_options(args, 1)
    if said:
        op.delay_ms = read_span(said.get(b"delay") or 0)
        op.pri = read_priority_or_none(said.get(b"pri"))
        op.ttl_ms = read_span(said[b"ttl"]) if said.get(b"ttl") is not None else None
        op.body = from_packed(packed_option(args[1], b"data")) if b"data" in said else None
        op.options = args[1]
    return op


def parse_touch(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:touch(id, increment)"""
    by = value_at(args, 1)
    by_ms = 0 if by is None else read_span(by)
    return TouchTasks(call.tube, caller.taking_session(), [read_task_id(args)], by_ms)


def parse_peek(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:peek(id)"""
    return PeekTasks(call.tube, [read_task_id(args)])


def parse_bury(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:bury(id)"""
    return BuryTasks(call.tube, [read_task_id(args)])


def parse_delete(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:delete(id)"""
    return DeleteTasks(call.tube, [read_task_id(args)])


def parse_kick(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:kick(count)"""
    return KickTasks(call.tube, read_count(args))


def parse_release_all(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:release_all()"""
    return ReturnTasks(call.tube)


def reply_task(view: TaskView) -> list[bytes]:
    """[id, state, data]"""
    id = view.message_id
    packed_id = _IDS.get(id) or packed(int(id))
    return [b"\x93" + packed_id + _LETTERS[view.state] + pack_into(view.body)]


def task_bodies(views: Sequence[TaskView]) -> list[bytes]:
    """Make the bodies of replies that have one of the tasks each."""
    known, letters = _IDS, _LETTERS
    return [
        b"\x81\x30\x91\x93"
        + (known.get(view.message_id) or packed(int(view.message_id)))
        + letters[view.state]
        + pack_into(view.body)
        for view in views
    ]


def reply_put(request: Any, view: TaskView | None) -> list[bytes]:
    """The task; nil if the tube is full."""
    return [NIL] if view is None else reply_task(view)


def reply_take(request: Any, view: TaskView | None) -> list[bytes]:
    """The task; nothing if no task came in time."""
    return [] if view is None else reply_task(view)


def reply_taken(request: Any, view: TaskView | None) -> list[bytes]:
    """The task, which the session had taken."""
    if view is None:
        raise NotTaken
    return reply_task(view)


def reply_touch(request: Any, view: TaskView | None) -> list[bytes]:
    """The task; nothing if there was nothing to do."""
    return reply_taken(request, view) if request.by_ms else []


def reply_any(request: Any, view: TaskView | None) -> list[bytes]:
    """The task, even if another session has taken it."""
    if view is None:
        raise NoTask(request.message_ids[0])
    return reply_task(view)


def reply_count(request: Any, count: int, caller: Caller) -> list[bytes]:
    """The number of tasks."""
    return [packed(count)]


def reply_nothing(request: Any, result: Any, caller: Caller) -> list[bytes]:
    """Nothing."""
    return []


TASK_VERBS: Final = {
    b"put": Verb("TUBE.PUT", parse_put, reply_each=reply_put, gather=gather_put, varies=True),
    b"take": Verb("TUBE.TAKE", parse_take, reply_each=reply_take, gather=gather_take),
    b"ack": Verb("TUBE.ACK", parse_ack, reply_each=reply_taken, gather=gather_ack, varies=True),
    b"release": Verb("TUBE.RELEASE", parse_release, reply_each=reply_taken),
    b"touch": Verb("TUBE.TOUCH", parse_touch, reply_each=reply_touch),
    b"peek": Verb("TUBE.PEEK", parse_peek, reply_each=reply_any),
    b"bury": Verb("TUBE.BURY", parse_bury, reply_each=reply_any),
    b"delete": Verb("TUBE.DELETE", parse_delete, reply_each=reply_any),
    b"kick": Verb("TUBE.KICK", parse_kick, reply_count),
    b"release_all": Verb("TUBE.RELEASEALL", parse_release_all, reply_nothing),
}
