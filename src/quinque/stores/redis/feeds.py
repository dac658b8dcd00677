"""The operations on feeds, as steps.

Called by   runners.py, ticks.py (settle_call).
Calls       the scripts put, reserve, ack, release, extend_feed, flush, peek, find_ready, count,
            settle_feeds.

A script that had to clear more expired messages out of its way than one call may answers with
nothing; then it is called again, and goes on where it was.

Not here: worklists (worklists.py, looks.py).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, cast

from quinque.errors import Duplicate, WrongType
from quinque.model.limits import RESERVE_MOST_BYTES, SETTLE_MOST, SETTLE_MOST_COUNTING
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    FindReady,
    Flush,
    GroupCount,
    Peek,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.own_ops import ExtendLeases
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.slots import known_slots

_GROUP_FIELDS: Final = 5  # that count.lua answers with: group, leased, redo, done, available


def settle_call(slot: bytes, names: Sequence[bytes], edge: Edge) -> Call:
    """What time made due in these feeds of the slot is carried out."""
    return Call("settle_feeds", [slot], [edge.now_ms(), SETTLE_MOST, *names])


# -- one per operation ------------------------------------------------------------------------


def _put(op: Put, edge: Edge) -> Steps:
    count = len(op.bodies)
    now_ms = edge.now_ms()
    stamp_us = edge.take_stamps(count)
    argv: list[Arg] = [
        stamp_us,
        now_ms + op.ttl_ms if op.ttl_ms else 0,
        int(op.is_single),
        int(op.to_front),
        int(op.message_id is not None),
        op.message_id or b"",
        *op.bodies,
    ]
    try:
        (placed_us,) = yield [_call("put", op, now_ms, argv, makes=True)]
        if placed_us is None:
            raise Duplicate(cast(bytes, op.message_id))
    except (Duplicate, WrongType):
        if edge.stamp_us == stamp_us + count - 1:  # no later ones are in use
            edge.stamp_us = stamp_us - 1
        raise
    edge.stamp_us = max(edge.stamp_us, placed_us + count - 1)
    if op.message_id is not None:
        return [op.message_id]
    return [b"%d" % number for number in range(placed_us, placed_us + count)]


def _reserve(op: Reserve, edge: Edge) -> Steps:
    argv: list[Arg] = [op.group, op.lease_ms, op.count, RESERVE_MOST_BYTES, int(edge.follows)]
    found = yield from _until_found("reserve", op, edge, argv)
    deadline_ms = found.pop() if found else 0
    return [
        Delivery(op.queue, id, body, deliveries if op.tells_deliveries else 0, deadline_ms)
        for id, body, deliveries in zip(found[::3], found[1::3], found[2::3], strict=True)
    ]


def _ack(op: Ack, edge: Edge) -> Steps:
    argv: list[Arg] = [op.group, int(op.held_only), *op.message_ids]
    (results,) = yield [_call("ack", op, edge.now_ms(), argv)]
    return [result == 1 for result in results]


def _release(op: Release, edge: Edge) -> Steps:
    argv: list[Arg] = [op.group, op.deadline_ms, int(op.is_uncounted), *op.message_ids]
    (results,) = yield [_call("release", op, edge.now_ms(), argv)]
    return [result == 1 for result in results]


def _extend(op: ExtendLeases, edge: Edge) -> Steps:
    ids = list(dict.fromkeys(op.message_ids))
    argv: list[Arg] = [op.group, op.lease_ms, int(edge.follows), *ids]
    (results,) = yield [_call("extend_feed", op, edge.now_ms(), argv)]
    extended = {id for id, result in zip(ids, results, strict=True) if result == 1}
    return [id in extended for id in op.message_ids]


def _flush(op: Flush, edge: Edge) -> Steps:
    yield [_call("flush", op, edge.now_ms(), [])]


def _peek(op: Peek, edge: Edge) -> Steps:
    found = yield from _until_found("peek", op, edge, [op.group, int(op.last)])
    return Delivery(op.queue, found[0], found[1], 0) if found else None


def _find_ready(op: FindReady, edge: Edge) -> Steps:
    # One after the other: what a later one would answer is not asked for, be it WRONGTYPE.
    for name in op.queues:
        look = Peek(op.family, name, op.group)
        is_ready = yield from _until_found("find_ready", look, edge, [op.group])
        if is_ready:
            return name
    return None


def _count(op: Count, edge: Edge) -> Steps:
    slots: Sequence[int] = [] if op.queues else (yield from known_slots(edge))
    names: dict[int, list[Arg]] = {slot: [] for slot in slots}
    for name in dict.fromkeys(op.queues):
        names.setdefault(slot_of(name), []).append(name)
    settings: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST_COUNTING]
    found = yield [
        Call("count", [slot_key(slot)], settings + in_slot) for slot, in_slot in names.items()
    ]
    counts = {row[0]: _queue_count(row) for rows in found for row in rows}
    return [counts[name] for name in op.queues or sorted(counts)]


# -- shared steps -----------------------------------------------------------------------------


def _call(
    script: str,
    op: Put | Reserve | Ack | Release | ExtendLeases | Flush | Peek,
    now_ms: int,
    argv: Sequence[Arg],
    makes: bool = False,
) -> Call:
    """A call about one feed: all of these scripts begin alike."""
    begin: list[Arg] = [op.queue, op.family.code, now_ms, SETTLE_MOST]
    return Call(script, [slot_key(slot_of(op.queue))], [*begin, *argv], makes)


def _until_found(
    script: str, op: Reserve | Peek, edge: Edge, argv: Sequence[Arg]
) -> Generator[Sequence[Call], list[Any], Any]:
    """What the script answers, once it does not answer with nothing."""
    while True:
        (found,) = yield [_call(script, op, edge.now_ms(), argv)]
        if found is not None:
            return found


def _queue_count(row: list[Any]) -> QueueCount:
    queue, total = row[:2]
    groups = [row[at : at + _GROUP_FIELDS] for at in range(2, len(row), _GROUP_FIELDS)]
    return QueueCount(
        queue,
        total,
        [
            GroupCount(group, total, leased, redo, done, available)
            for group, leased, redo, done, available in groups
        ],
    )


RUNNERS: Final[dict[type, Runner]] = {
    Put: _put,
    Reserve: _reserve,
    Ack: _ack,
    Release: _release,
    ExtendLeases: _extend,
    Flush: _flush,
    Peek: _peek,
    FindReady: _find_ready,
    Count: _count,
}
