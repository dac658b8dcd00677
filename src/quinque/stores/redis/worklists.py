"""The operations that change worklists, as steps.

Called by   runners.py.
Calls       the scripts of those names, nodes.py (who accepts a message).

A queue lies in one slot, or in several that are alike (spread.py). An operation on messages of
several slots is one call for each.

Not here: handing out (taking.py), operations that only look (looks.py), what the scripts do
(scripts/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quinque.errors import (
    BadRequest,
    NoMessage,
    NoReplicas,
    QueueFull,
    QueuePaused,
    QuinqueError,
    StoreUnavailable,
    TooLate,
    printable,
)
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
from quinque.stores.redis.looks import by_slot, look_at, queue_view, whole_view
from quinque.stores.redis.nodes import known_node, stand_in
from quinque.stores.redis.slots import known_slots
from quinque.stores.redis.spread import slot_of_partition

_REMOVE_MOST: Final = 2_000  # by one call of a script: about 10 ms, 30 ms on a busy machine
_AGAIN: Final = 1  # what add.lua answers when it has only removed expired messages


def about_queue(
    family: Family, queue: bytes, edge: Edge, settle_most: int = SETTLE_MOST
) -> list[Arg]:
    """Return the start of ARGV for scripts about one work queue."""
    return [family.code, edge.now_ms(), queue, int(queue in edge.watched), settle_most]


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
    most = op.max_length
    if op.key is None:
        most = -(-most // edge.spread.partitions(op.queue))
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
    except NoReplicas as refusal:
        if not refusal.is_stored:
            raise
        # Best effort: a consumer may have had it by now.
        (undone,) = yield [
            Call("finish", [slot_key(slot)], [edge.now_ms(), SETTLE_MOST, 0, *ids], may_fail=True)
        ]
        if isinstance(undone, QuinqueError):
            raise StoreUnavailable(
                "too few replicas confirmed the job, and it could not be removed; "
                "the effect is unknown"
            ) from undone
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
    # All messages with a key are at home, because a key must find its message whatever the number
    # of partitions was when it came.
    return slot_of(op.queue)


def _add_to(slot: int, op: Add, argv: Sequence[Arg]) -> Steps:
    call = Call("add", [slot_key(slot)], argv, makes=True, idle=_AGAIN)
    if op.terms.replicas > 1:
        within_ms = NOT_WAITED if op.confirm_ms is None else op.confirm_ms % NEVER_MS
        call = call._replace(replicas=op.terms.replicas - 1, within_ms=within_ms)
    reply = _AGAIN
    while reply == _AGAIN:
        (reply,) = yield [call]
    return reply


def finish(op: Finish, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, int(op.is_ack)]
    return (yield from _for_each(op.message_ids, "finish", argv))


def requeue(op: Requeue, edge: Edge) -> Steps:
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, int(op.is_nack), op.delay_ms, op.reason]
    argv += [-1 if op.lease is None else op.lease, int(op.is_uncounted), int(op.is_dead)]
    return (yield from _for_each(op.message_ids, "requeue", argv))


def hold(op: Hold, edge: Edge) -> Steps:
    argv = [edge.now_ms(), SETTLE_MOST, edge.chance.jitter_ms(), int(edge.follows)]
    return (yield from _for_each(op.message_ids, "hold", argv))


def _for_each(ids: Sequence[bytes], script: str, argv: Sequence[Arg]) -> Steps:
    """For each id whether the script did it, the first time it is named."""
    groups = by_slot(ids)
    replies = yield [Call(script, [slot_key(slot)], [*argv, *some]) for slot, some in groups]
    if len(replies) == 1 and len(replies[0]) == len(ids):  # in one slot and none twice, as mostly
        return [is_done == 1 for is_done in replies[0]]
    done = {
        id
        for (_, some), reply in zip(groups, replies, strict=True)
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
        yield from _set_up_partitions(op, op.partitions, edge)
        (read,) = yield [Call("set_partitions", [PARTITIONS], [op.queue, op.partitions])]
        edge.spread.set(op.queue, op.partitions, read)
    views: list[QueueView] = yield from _configure(op, edge)
    partitions = edge.spread.partitions(op.queue)
    return replace(whole_view(views), partitions=partitions)


def _set_up_partitions(op: Configure, count: int, edge: Edge) -> Steps:
    """Write the settings of the worklist into its new partitions, before they get messages."""
    known = len(edge.spread.read_slots(op.queue))
    view: QueueView | None = yield from look_at(LookAt(op.family, op.queue), edge)
    if view is None or count <= known:
        return
    argv = about_queue(op.family, op.queue, edge)
    argv += [int(view.is_paused_in), int(view.is_paused_out), view.max_deliveries, 0, 0]
    argv += [int(view.keeps_expired), b""]
    slots = [slot_of_partition(op.queue, number) for number in range(known, count)]
    yield [Call("configure", [slot_key(slot)], argv, makes=True) for slot in slots]


def _check_partitions(op: Configure, edge: Edge) -> Steps:
    """Raises BadRequest for partitions of a worklist whose rate is limited: they could not keep to
    one limit together; and of one whose ids do not tell where a message lies."""
    partitions = edge.spread.partitions(op.queue) if op.partitions is None else op.partitions
    if partitions == 1:
        return
    if op.family.owns_ids:
        raise BadRequest(
            f"queue '{printable(op.queue)}' belongs to the family {op.family.name}, whose queues "
            "always have one partition"
        )
    limited = op.rate is not None and op.rate[0] > 0
    if op.rate is None:
        view: QueueView | None = yield from look_at(LookAt(op.family, op.queue), edge)
        limited = view is not None and view.rate_count > 0
    if limited:
        raise BadRequest(
            f"queue '{printable(op.queue)}' can have a RATE or several PARTITIONS, not both"
        )


def _configure(op: Configure, edge: Edge) -> Steps:
    rate = (None, None) if op.rate is None else op.rate
    wanted = (op.is_paused_in, op.is_paused_out, op.max_deliveries, *rate, op.keeps_expired)
    argv = about_queue(op.family, op.queue, edge)
    argv += [b"" if value is None else int(value) for value in wanted]
    home, *others = edge.spread.read_slots(op.queue)
    # No other family gets the name, which only home decides, while others may have messages.
    of_home: list[Arg] = [*argv, 1 if others else b""]
    replies = yield [
        Call("configure", [slot_key(home)], of_home, makes=True),
        *(Call("configure", [slot_key(slot)], [*argv, b""], makes=True) for slot in others),
    ]
    return [queue_view(op.queue, reply) for reply in replies]


def redrive(op: Redrive, edge: Edge) -> Steps:
    if op.queue is not None:
        return (yield from _redrive_queue(op.queue, op, edge))
    replies = yield [
        Call("redrive", [slot_key(slot)], [edge.now_ms(), SETTLE_MOST, *some])
        for slot, some in by_slot(op.message_ids)
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
    if op.forgets:
        return (yield from _forget(op, edge))
    # Leased ones last: delayed messages are among them, and need not be passed once they are gone.
    wanted = sorted(op.states or State, key=lambda state: state is State.LEASED)
    states: list[Arg] = [state.name.lower().encode() for state in wanted]
    argv = [*about_queue(op.family, op.queue, edge), _REMOVE_MOST]
    living = 0
    for slot in edge.spread.read_slots(op.queue):
        skipped, is_more = 0, True
        while is_more:
            (reply,) = yield [Call("purge", [slot_key(slot)], [*argv, skipped, *states])]
            some, is_more, skipped = reply
            living += some
    return living


def _forget(op: Purge, edge: Edge) -> Steps:
    """Remove the queue with its settings; how many messages there were. All of a partition goes in
    one call, so that a repeat of an unknown outcome finds nothing that is half removed."""
    view: QueueView | None = yield from look_at(LookAt(op.family, op.queue), edge)
    argv: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST, op.queue]
    yield [
        Call("delete_queues", [slot_key(slot)], argv) for slot in edge.spread.read_slots(op.queue)
    ]
    if edge.spread.is_spread(op.queue):
        (read,) = yield [Call("set_partitions", [PARTITIONS], [op.queue, 1])]
        edge.spread.set(op.queue, 1, read)
    return 0 if view is None else view.ready + view.delayed + view.leased + view.dead


def purge_all(op: PurgeAll, edge: Edge) -> Steps:
    living = 0
    for slot in (yield from known_slots(edge)):
        argv: list[Arg] = [op.family.code, edge.now_ms(), _REMOVE_MOST]
        number, last = 0, 0
        while True:
            (reply,) = yield [Call("purge_all", [slot_key(slot)], [*argv, number, last])]
            some, number, last = reply
            living += some
            if not number:
                break
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
