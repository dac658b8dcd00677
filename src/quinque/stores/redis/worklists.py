"""The operations that change worklists, as steps.

Called by   store.py (RUNNERS).
Calls       the scripts of those names.

A queue lies in one slot, and so do its messages. What is about messages of several slots is one
call for each.

Not here: operations that only look (looks.py), what the scripts do (scripts/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quinque.errors import Leaving, NoMessage, NoReplicas, QueueFull, QueuePaused, TooLate
from quinque.model.families import Family
from quinque.model.glob import compile_glob
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    Hold,
    LookAtNode,
    NodeView,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Take,
    WorkDelivery,
)
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import node_key, slot_key, slot_of, slot_of_id
from quinque.stores.redis.looks import queue_view

_REMOVE_MOST: Final = 5_000  # by one call of a script: about 30 ms
_ALARMS_MOST: Final = 100  # worklists of a slot settled at once, most of them with little to do


def about_queue(
    family: Family, queue: bytes, edge: Edge, settle_most: int = SETTLE_MOST
) -> list[Arg]:
    """How ARGV begins in scripts that are about one worklist."""
    return [family.code, edge.now_ms(), queue, int(queue in edge.watched), settle_most]


def by_slot(ids: Iterable[bytes]) -> dict[int, list[bytes]]:
    """The ids of each slot, none twice."""
    found: dict[int, list[bytes]] = {}
    for id in dict.fromkeys(ids):
        found.setdefault(slot_of_id(id), []).append(id)
    return found


def known_node(edge: Edge) -> Steps:
    """The node, which has an id from here on."""
    if edge.node is None:
        (reply,) = yield [Call("look_at_node", [node_key(edge.node_name)], [edge.chance.node_id()])]
        edge.node = NodeView(reply[0], bool(reply[1]))
    return edge.node


def add(op: Add, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    if op.terms.replicas > 1 or node.is_leaving:
        raise NoReplicas(_why_no_replicas(op.terms.replicas, node.is_leaving))
    slot = slot_of(op.queue)
    ids = [edge.new_id(slot, op.terms, node.node_id) for _ in op.bodies]
    family, now_ms, queue, is_waited, settle_most = about_queue(op.family, op.queue, edge)
    argv = [
        *(family, now_ms, queue, is_waited, edge.take_stamps(len(ids))),
        *op.terms.as_record(),
        *(op.max_length, int(op.key is not None), op.key or b"", settle_most),
    ]
    for id, body in zip(ids, op.bodies, strict=True):
        argv += [id, body]
    try:
        (reply,) = yield [Call("add", [slot_key(slot)], argv, makes=True)]
    except QueueFull as full:
        raise QueueFull(op.queue, int(str(full)), op.max_length) from full
    except QueuePaused as paused:
        raise QueuePaused(op.queue) from paused
    if isinstance(reply, bytes):
        return [reply]
    edge.stamp_us = max(edge.stamp_us, reply + len(ids) - 1)
    return ids


def take(op: Take, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    names = op.queues
    if op.patterns:
        names = yield from _matching(op, edge)
    given: list[WorkDelivery] = []
    if names:
        argv: list[Arg] = [
            *(op.family.code, edge.now_ms(), min(op.count, RESERVE_MOST), RESERVE_MOST_BYTES),
            *(edge.chance.jitter_ms(), SETTLE_MOST, int(not node.is_leaving and not op.patterns)),
            edge.take_stamps(1) if op.patterns else 0,
        ]
        for name in names:
            argv += [name, int(name in edge.watched)]
        keys = [slot_key(slot_of(name)) for name in names]
        (reply,) = yield [Call("take", keys, argv, makes=not op.patterns)]
        given = [WorkDelivery(*reply[at : at + 5]) for at in range(0, len(reply), 5)]
    if not given and op.is_waiting and node.is_leaving:
        raise Leaving
    return given


def _matching(op: Take, edge: Edge) -> Steps:
    """The worklists of these patterns that have something ready, the last read from last."""
    argv = [op.family.code, edge.now_ms(), SETTLE_MOST, _ALARMS_MOST]
    replies = yield [Call("find_busy", [slot_key(slot)], argv) for slot in sorted(edge.slots)]
    tests = [compile_glob(pattern) for pattern in op.patterns]
    found: list[tuple[int, bytes]] = []
    for reply in replies:
        for name, turn_us in zip(reply[::2], reply[1::2], strict=True):
            if any(test.fullmatch(name) for test in tests):
                found.append((turn_us, name))
    return [name for _, name in sorted(found)]


def finish(op: Finish, edge: Edge) -> Steps:
    return (yield from _for_each(op.message_ids, "finish", [edge.now_ms(), SETTLE_MOST]))


def requeue(op: Requeue, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, int(op.is_nack), op.delay_ms, op.reason]
    return (yield from _for_each(op.message_ids, "requeue", argv))


def hold(op: Hold, edge: Edge) -> Steps:
    argv = [edge.now_ms(), SETTLE_MOST, edge.chance.jitter_ms()]
    return (yield from _for_each(op.message_ids, "hold", argv))


def _for_each(ids: Sequence[bytes], script: str, argv: Sequence[Arg]) -> Steps:
    """For each id whether the script did it, the first time it is named."""
    groups = by_slot(ids)
    replies = yield [
        Call(script, [slot_key(slot)], [*argv, *some]) for slot, some in groups.items()
    ]
    done = {
        id
        for some, reply in zip(groups.values(), replies, strict=True)
        for id, is_done in zip(some, reply, strict=True)
        if is_done
    }
    results: list[bool] = []
    for id in ids:
        results.append(id in done)
        done.discard(id)
    return results


def extend(op: Extend, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, edge.chance.jitter_ms(), op.message_id]
    try:
        (reply,) = yield [Call("extend", [slot_key(slot_of_id(op.message_id))], argv)]
    except (NoMessage, TooLate) as error:
        raise type(error)(op.message_id) from error
    return reply


def configure(op: Configure, edge: Edge) -> Steps:
    rate = (None, None) if op.rate is None else op.rate
    wanted = (op.is_paused_in, op.is_paused_out, op.max_deliveries, *rate)
    argv = about_queue(op.family, op.queue, edge)
    argv += [b"" if value is None else int(value) for value in wanted]
    (reply,) = yield [Call("configure", [slot_key(slot_of(op.queue))], argv, makes=True)]
    return queue_view(op.queue, reply)


def redrive(op: Redrive, edge: Edge) -> Steps:
    if op.queue is not None:
        argv = [*about_queue(op.family, op.queue, edge), op.count or 1 << 53]
        (reply,) = yield [Call("redrive_queue", [slot_key(slot_of(op.queue))], argv)]
        return reply
    replies = yield [
        Call("redrive", [slot_key(slot)], [edge.now_ms(), SETTLE_MOST, *some])
        for slot, some in by_slot(op.message_ids).items()
    ]
    return sum(replies)


def purge(op: Purge, edge: Edge) -> Steps:
    states = [state.name.lower().encode() for state in op.states or State]
    argv = [*about_queue(op.family, op.queue, edge), _REMOVE_MOST, *states]
    return (yield from _until_done(Call("purge", [slot_key(slot_of(op.queue))], argv)))


def purge_all(op: PurgeAll, edge: Edge) -> Steps:
    living = 0
    for slot in sorted(edge.slots):
        argv = [op.family.code, edge.now_ms(), _REMOVE_MOST]
        living += yield from _until_done(Call("purge_all", [slot_key(slot)], argv))
    return living


def _until_done(call: Call) -> Steps:
    """How many went. So many that Redis would stand still are removed in several calls."""
    living = 0
    while True:
        (reply,) = yield [call]
        living += reply[0]
        if not reply[1]:
            return living


def look_at_node(op: LookAtNode, edge: Edge) -> Steps:
    return (yield from known_node(edge))


def set_node(op: SetNode, edge: Edge) -> Steps:
    yield from known_node(edge)
    argv: list[Arg] = [
        edge.chance.node_id() if op.is_renamed else b"",
        b"" if op.is_leaving is None else int(op.is_leaving),
    ]
    (reply,) = yield [Call("set_node", [node_key(edge.node_name)], argv)]
    edge.node = NodeView(reply[0], bool(reply[1]))
    return edge.node


def _why_no_replicas(replicas: int, is_leaving: bool) -> str:
    if is_leaving:
        return "this node is leaving and keeps no new job; there is no other node"
    return f"REPLICATE {replicas} needs as many nodes; there is one"


RUNNERS: Final[dict[type[Op], Runner]] = {
    Add: add,
    Take: take,
    Finish: finish,
    Requeue: requeue,
    Hold: hold,
    Extend: extend,
    Configure: configure,
    Redrive: redrive,
    Purge: purge,
    PurgeAll: purge_all,
    LookAtNode: look_at_node,
    SetNode: set_node,
}
