"""Functions of whole tubes and of the module: create_tube, drop, statistics, identify, cfg.

Called by   tarantool.py, through TUBE_VERBS and MODULE_VERBS.
Calls       tarantool_args.py, task_data.py.

Not here: functions of tasks (tarantool_tasks.py), operations (engine/tubes/).
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from quinque.dialects.listings import seen_by
from quinque.dialects.tarantool_args import (
    LUA,
    read_options,
    read_session,
    read_settings,
    read_tube_name,
    shown,
    value_at,
)
from quinque.dialects.tarantool_tasks import reply_nothing
from quinque.dialects.tarantool_verbs import (
    NIL,
    TRUE,
    Args,
    Call,
    Caller,
    Join,
    Known,
    Request,
    Verb,
    array_head,
    packed,
    packed_string,
)
from quinque.dialects.task_data import pack_plain
from quinque.dialects.tube_catalog import check_tubes
from quinque.errors import BadTuple, NoTube, TubeBusy
from quinque.model.limits import COUNTS_MOST, SPAN_MOST_MS
from quinque.model.tube_ops import (
    CALLS,
    DropTube,
    FindTubes,
    LookAtTube,
    MakeTube,
    TruncateTube,
    TubeView,
)
from quinque.wire.iproto import VERSION


def parse_create_tube(call: Call, args: Args, caller: Caller) -> Request:
    """queue.create_tube(name, type, {temporary, if_not_exists, ttl, ttr, pri, capacity, width})"""
    kind = value_at(args, 1)
    if not isinstance(kind, bytes):
        raise BadTuple(LUA, f"Unknown tube type {shown(kind)}")
    settings, is_idempotent = read_settings(args)
    return MakeTube(read_tube_name(args), kind, settings, is_idempotent)


def parse_drop(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:drop()"""
    if caller.waiting_on(call.tube):
        raise TubeBusy("There are consumers connected the tube")
    return DropTube(call.tube)


def parse_truncate(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube.NAME:truncate()"""
    return TruncateTube(call.tube)


def parse_tube(call: Call, args: Args, caller: Caller) -> Request:
    """queue.tube(name)"""
    if not args or args[0] == NIL:
        return FindTubes(COUNTS_MOST, seen_by(caller))
    return LookAtTube(read_tube_name(args))


def parse_statistics(call: Call, args: Args, caller: Caller) -> Request:
    """queue.statistics(name)"""
    return parse_tube(call, args, caller)


def reply_true(request: Any, result: Any, caller: Caller) -> list[bytes]:
    """Always true."""
    return [TRUE]


def reply_tube(request: Any, result: Any, caller: Caller) -> list[bytes]:
    """Whether the tube exists; or the names of all tubes."""
    if isinstance(request, LookAtTube):
        return [packed(result is not None)]
    check_tubes("all tubes", result)
    names = [pack_plain(view.queue) for view in result if caller.sees(view.queue)]
    return [array_head(len(names)) + b"".join(names)]


def reply_statistics(request: Any, result: Any, caller: Caller) -> list[bytes]:
    """The counts of the tube; or of all tubes, by name."""
    if isinstance(request, LookAtTube):
        if result is None:
            raise NoTube(request.queue)
        return [packed(_counts(result))]
    check_tubes("the statistics of all tubes", result)
    seen = [view for view in result if caller.sees(view.queue)]
    parts = [pack_plain(view.queue) + packed(_counts(view)) for view in seen]
    return [msgpack.Packer().pack_map_header(len(seen)) + b"".join(parts)]


def parse_identify(call: Call, args: Args, caller: Caller) -> Request:
    """queue.identify(session)"""
    asked = value_at(args, 0)
    if asked is None:
        return Known([packed_string(caller.taking_session())])
    return Join(read_session(asked), asked)


def reply_identify(request: Any, result: Any, caller: Caller) -> list[bytes]:
    """The session id as the client sent it; raw bytes are a string, even if they are not text."""
    return [packed_string(request.asked)]


def parse_state(call: Call, args: Args, caller: Caller) -> Request:
    """queue.state()"""
    return Known([packed("RUNNING")])


def parse_info(call: Call, args: Args, caller: Caller) -> Request:
    """box.info(), which connection pools call to see whether the instance is healthy"""
    facts = {"id": 1, "version": VERSION, "uuid": caller.server_uuid()}
    facts |= {"status": "running", "ro": False}
    return Known([packed(facts)])


def parse_cfg(call: Call, args: Args, caller: Caller) -> Request:
    """queue.cfg({ttr, in_replicaset})"""
    said = read_options(args, 0)
    for name, value in said.items():
        if name == b"ttr":
            is_number = type(value) is int or type(value) is float
            if not is_number or not 0 <= value * 1000 < SPAN_MOST_MS:
                raise BadTuple(LUA, f"Invalid value of ttr: {shown(value)}")
        elif name == b"in_replicaset":
            if value is not False:
                raise BadTuple(LUA, f"Invalid value of in_replicaset: {shown(value)}")
        else:
            raise BadTuple(LUA, f"Unknown option {shown(name)}")
    if b"ttr" in said:
        caller.keep_sessions(f"{said[b'ttr']:.6f}")
    return Known([])


def _counts(view: TubeView) -> dict[str, dict[str, int]]:
    """Return the counts of a tube, as Tarantool reports them."""
    live = {
        "ready": view.ready,
        "taken": view.taken,
        "delayed": view.delayed,
        "buried": view.buried,
    }
    tasks = {**live, "done": view.done, "total": sum(live.values())}
    return {"tasks": tasks, "calls": dict(zip(CALLS, view.calls, strict=True))}


TUBE_VERBS: Final = {
    b"truncate": Verb("TUBE.TRUNCATE", parse_truncate, reply_nothing),
    b"drop": Verb("TUBE.DROP", parse_drop, reply_true),
}

# By their full names: these functions are not part of the module.
BOX_VERBS: Final = {b"box.info": Verb("PING", parse_info, reply_nothing)}

MODULE_VERBS: Final = {
    b"create_tube": Verb("TUBE.CREATE", parse_create_tube, reply_true),
    b"tube": Verb("TUBE.LIST", parse_tube, reply_tube),
    b"statistics": Verb("TUBE.STATS", parse_statistics, reply_statistics),
    b"stats": Verb("TUBE.STATS", parse_statistics, reply_statistics),
    b"identify": Verb("TUBE.IDENTIFY", parse_identify, reply_identify),
    b"state": Verb("PING", parse_state, reply_nothing),
    b"cfg": Verb("CONFIG|SET", parse_cfg, reply_nothing),
}
