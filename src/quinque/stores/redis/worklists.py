"""The operations that change worklists, as steps.

Called by   runners.py.
Calls       the scripts of those names, nodes.py (who accepts a message).

A queue lies in one slot, or in several that are alike (spread.py). What is about messages of
several slots is one call for each.

Not here: handing out (taking.py), operations that only look (looks.py), what the scripts do
(scripts/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from quinque.errors import BadRequest, NoMessage, NoReplicas, QueueFull, QueuePaused, TooLate
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS, REDRIVE_MOST, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    Hold,
    LookAt,
    NodeView,
    Purge,
    PurgeAll,
    QueueView,
    Redrive,
    Requeue,
)
from quinque.stores.redis.calls import NOT_WAITED, Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import PARTITIONS, slot_key, slot_of, slot_of_id
from quinque.stores.redis.looks import look_at, queue_view, whole_view
from quinque.stores.redis.nodes import known_node, stand_in
from quinque.stores.redis.slots import known_slots

_REMOVE_MOST: Final = 5_000  # by one call of a script: about 30 ms


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


def add(op: Add, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    if node.is_leaving:
        node = yield from stand_in(edge)
    slot = _slot_to_add(op, edge)
    ids = [b""] * len(op.bodies)  # where they are numbered, the script makes them
    if not op.family.numbers_ids:
        ids = edge.new_ids(slot, len(op.bodies), op.terms, node.node_id)
    family, now_ms, queue, is_waited, settle_most = about_queue(op.family, op.queue, edge)
    # Each partition takes its share.
    most = -(-op.max_length // edge.spread.partitions(op.queue))
    argv = [
        *(family, now_ms, queue, is_waited, edge.take_stamps(len(ids))),
        *op.terms.as_record(),
        *(most, int(op.key is not None), op.key or b"", settle_most),
    ]
    for id, body in zip(ids, op.bodies, strict=True):
        argv += [id, body]
    try:
        reply = yield from _add_to(slot, op, argv)
    except QueueFull as full:
        raise QueueFull from full
    except QueuePaused as paused:
        raise QueuePaused(op.queue) from paused
    except NoReplicas:
        # Best effort: somebody may have had it by now.
        yield [
            Call("finish", [slot_key(slot)], [edge.now_ms(), SETTLE_MOST, 0, *ids], may_fail=True)
        ]
        raise
    if isinstance(reply, bytes):
        return [reply]
    edge.stamp_us = max(edge.stamp_us, reply[0] + len(ids) - 1)
    return reply[1] if op.family.numbers_ids else ids


def _slot_to_add(op: Add, edge: Edge) -> int:
    if op.family.numbers_ids:
        return slot_of(op.queue)
    if op.key is None:
        return edge.spread.next_slot(op.queue)
    return edge.spread.slot_of_message_key(op.queue, op.key)


def _add_to(slot: int, op: Add, argv: Sequence[Arg]) -> Steps:
    call = Call("add", [slot_key(slot)], argv, makes=True)
    if op.terms.replicas > 1:
        within_ms = NOT_WAITED if op.confirm_ms is None else op.confirm_ms % NEVER_MS
        call = call._replace(replicas=op.terms.replicas - 1, within_ms=within_ms)
    (reply,) = yield [call]
    return reply


def finish(op: Finish, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, int(op.is_ack)]
    return (yield from _for_each(op.message_ids, "finish", argv))


def requeue(op: Requeue, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, int(op.is_nack), op.delay_ms, op.reason]
    argv += [-1 if op.returns is None else op.returns, int(op.is_uncounted), int(op.is_dead)]
    return (yield from _for_each(op.message_ids, "requeue", argv))


def hold(op: Hold, edge: Edge) -> Steps:
    argv = [edge.now_ms(), SETTLE_MOST, edge.chance.jitter_ms(), int(edge.follows)]
    return (yield from _for_each(op.message_ids, "hold", argv))


def _for_each(ids: Sequence[bytes], script: str, argv: Sequence[Arg]) -> Steps:
    """For each id whether the script did it, the first time it is named."""
    groups = by_slot(ids)
    replies = yield [
        Call(script, [slot_key(slot)], [*argv, *some]) for slot, some in groups.items()
    ]
    if len(replies) == 1 and len(replies[0]) == len(ids):  # in one slot and none twice, as mostly
        return [is_done == 1 for is_done in replies[0]]
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
    begin = [edge.now_ms(), SETTLE_MOST, edge.chance.jitter_ms(), int(edge.follows)]
    argv: list[Arg] = [*begin, op.message_id, int(op.is_anytime)]
    try:
        (reply,) = yield [Call("extend", [slot_key(slot_of_id(op.message_id))], argv)]
    except (NoMessage, TooLate) as error:
        raise type(error)(op.message_id) from error
    return reply


def configure(op: Configure, edge: Edge) -> Steps:
    yield from _check_partitions(op, edge)
    if op.partitions is not None:
        (read,) = yield [Call("set_partitions", [PARTITIONS], [op.queue, op.partitions])]
        edge.spread.set(op.queue, op.partitions, read)
    views: list[QueueView] = yield from _configure(op, edge)
    partitions = edge.spread.partitions(op.queue)
    return replace(whole_view(views), partitions=partitions)


def _check_partitions(op: Configure, edge: Edge) -> Steps:
    """Raises BadRequest for partitions of a worklist whose rate is limited: they could not keep to
    one limit together; and of one whose ids do not tell where a message lies."""
    partitions = edge.spread.partitions(op.queue) if op.partitions is None else op.partitions
    if partitions == 1:
        return
    if op.family.owns_ids:
        raise BadRequest(f"a queue of the family {op.family.name} always has one partition")
    limited = op.rate is not None and op.rate[0] > 0
    if op.rate is None:
        view: QueueView | None = yield from look_at(LookAt(op.family, op.queue), edge)
        limited = view is not None and view.rate_count > 0
    if limited:
        raise BadRequest("a queue can have a RATE or several PARTITIONS, not both")


def _configure(op: Configure, edge: Edge) -> Steps:
    rate = (None, None) if op.rate is None else op.rate
    wanted = (op.is_paused_in, op.is_paused_out, op.max_deliveries, *rate)
    argv = about_queue(op.family, op.queue, edge)
    argv += [b"" if value is None else int(value) for value in wanted]
    replies = yield [
        Call("configure", [slot_key(slot)], argv, makes=True)
        for slot in edge.spread.read_slots(op.queue)
    ]
    return [queue_view(op.queue, reply) for reply in replies]


def redrive(op: Redrive, edge: Edge) -> Steps:
    if op.queue is not None:
        return (yield from _redrive_queue(op.queue, op, edge))
    replies = yield [
        Call("redrive", [slot_key(slot)], [edge.now_ms(), SETTLE_MOST, *some])
        for slot, some in by_slot(op.message_ids).items()
    ]
    return sum(replies)


def _redrive_queue(queue: bytes, op: Redrive, edge: Edge) -> Steps:
    left = min(op.count or REDRIVE_MOST, REDRIVE_MOST)
    redriven = 0
    for slot in edge.spread.read_slots(queue):
        if left > 0:
            argv = [*about_queue(op.family, queue, edge), left]
            (reply,) = yield [Call("redrive_queue", [slot_key(slot)], argv)]
            left -= reply
            redriven += reply
    return redriven


def purge(op: Purge, edge: Edge) -> Steps:
    states = [state.name.lower().encode() for state in op.states or State]
    argv = [*about_queue(op.family, op.queue, edge), _REMOVE_MOST, *states]
    living = 0
    for slot in edge.spread.read_slots(op.queue):
        living += yield from _until_done(Call("purge", [slot_key(slot)], argv))
    return living


def purge_all(op: PurgeAll, edge: Edge) -> Steps:
    living = 0
    for slot in (yield from known_slots(edge)):
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


RUNNERS: Final[dict[type[Op], Runner]] = {
    Add: add,
    Finish: finish,
    Requeue: requeue,
    Hold: hold,
    Extend: extend,
    Configure: configure,
    Redrive: redrive,
    Purge: purge,
    PurgeAll: purge_all,
}
