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
from functools import partial
from typing import Any, Final

from quinque.errors import Duplicate, QuinqueError, WrongType
from quinque.model.limits import (
    RESERVE_MOST_BYTES,
    SCAN_MOST,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
)
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
from quinque.model.work_ops import ScanQueues
from quinque.stores.redis import consumers
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.event_ids import add_in_lane, lane_words
from quinque.stores.redis.event_lanes import Lane
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.slots import known_slots

_RESERVE_MOST: Final = 2_000  # messages that one call leases: 5 to 10 ms
_EXTEND_MOST: Final = 2_500  # leases that one call extends: some 10 ms
_SLOTS_AT_ONCE: Final = 256  # of a scan: most have a few feeds, or none
_GROUP_FIELDS: Final = 5  # that count.lua answers with: group, leased, redo, done, available


def settle_call(slot: bytes, names: Sequence[bytes], edge: Edge) -> Call:
    """Carry out what is due in these feeds of the slot."""
    return Call("settle_feeds", [slot], [edge.now_ms(), SETTLE_MOST, *names])


# -- one per operation ------------------------------------------------------------------------


def _put(op: Put, edge: Edge) -> Steps:
    if op.message_id is not None:
        return (yield from _put_chosen(op, op.message_id, edge))
    count = len(op.bodies)
    make = partial(_put_call, op, edge)
    lane, placed_us = yield from add_in_lane(edge, slot_of(op.queue), count, make)
    end_us = placed_us + count * lane.step
    edge.stamp_us = max(edge.stamp_us, end_us - lane.step)
    return [b"%d" % number for number in range(placed_us, end_us, lane.step)]


def _put_chosen(op: Put, message_id: bytes, edge: Edge) -> Steps:
    """Only its place is made here, which may be that of another event in another slot."""
    stamp_us = edge.take_stamps(1)
    try:
        (placed_us,) = yield [_put_call(op, edge, stamp_us, None)]
        if placed_us is None:
            raise Duplicate(message_id)
    except (Duplicate, WrongType):
        if edge.stamp_us == stamp_us:  # no later ones are in use
            edge.stamp_us = stamp_us - 1
        raise
    edge.stamp_us = max(edge.stamp_us, placed_us)
    return [message_id]


def _put_call(op: Put, edge: Edge, stamp_us: int, lane: Lane | None) -> Call:
    now_ms = edge.now_ms()
    argv: list[Arg] = [
        *lane_words(stamp_us, lane),
        now_ms + op.ttl_ms if op.ttl_ms else 0,
        int(op.is_single),
        int(op.to_front),
        int(op.message_id is not None),
        op.message_id or b"",
        *op.bodies,
    ]
    return _call("put", op, now_ms, argv, makes=True)


def _reserve(op: Reserve, edge: Edge) -> Steps:
    given: list[Delivery] = []
    room_bytes = RESERVE_MOST_BYTES
    while True:
        asked = min(op.count - len(given), _RESERVE_MOST)
        argv: list[Arg] = [op.group, op.lease_ms, asked, room_bytes, int(edge.follows)]
        # Messages that were taken before are delivered, even if a later call fails.
        found = yield from _until_found("reserve", op, edge, argv, may_fail=bool(given))
        if not found or isinstance(found, QuinqueError):
            break
        deadline_ms = found.pop()
        for id, body, deliveries in zip(found[::3], found[1::3], found[2::3], strict=True):
            told = deliveries if op.tells_deliveries else 0
            given.append(Delivery(op.queue, id, body, told, deadline_ms))
            room_bytes -= len(body)
        if len(given) >= op.count or room_bytes <= 0 or op.count <= _RESERVE_MOST:
            break
    return given


def _ack(op: Ack, edge: Edge) -> Steps:
    return (yield from _for_each("ack", op, edge, [op.group, int(op.held_only)]))


def _release(op: Release, edge: Edge) -> Steps:
    begin: list[Arg] = [op.group, op.deadline_ms, int(op.is_uncounted)]
    return (yield from _for_each("release", op, edge, begin))


def _extend(op: ExtendLeases, edge: Edge) -> Steps:
    ids = list(dict.fromkeys(op.message_ids))
    extended: set[bytes] = set()
    for at in range(0, len(ids) or 1, _EXTEND_MOST):
        some = ids[at : at + _EXTEND_MOST]
        argv: list[Arg] = [op.group, op.lease_ms, int(edge.follows), *some]
        (results,) = yield [_call("extend_feed", op, edge.now_ms(), argv)]
        extended.update(id for id, result in zip(some, results, strict=True) if result == 1)
    return [id in extended for id in op.message_ids]


def _flush(op: Flush, edge: Edge) -> Steps:
    """Messages that are added meanwhile stay: a call removes only messages between the places of
    the first and the last one when the flush began."""
    bounds: list[Arg] | None = [b"", b""]
    while bounds is not None:
        (bounds,) = yield [_call("flush", op, edge.now_ms(), bounds)]


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
    calls = [Call("count", [slot_key(slot)], settings + in_slot) for slot, in_slot in names.items()]
    most = 0 if op.queues else op.most
    at_once = _SLOTS_AT_ONCE if most else len(calls)
    looks = [consumers.look_call(edge)]  # together with the first of them
    counts: dict[bytes, QueueCount] = {}
    rows = 0
    while (calls or looks) and not 0 < most < rows:
        found = yield [*calls[:at_once], *looks]
        calls = calls[at_once:]
        for reply in found[len(found) - len(looks) :]:
            if not isinstance(reply, QuinqueError):
                consumers.note(edge, reply)
        found, looks = found[: len(found) - len(looks)], []
        for row in (row for some in found for row in some):
            counts[row[0]] = counted = _queue_count(row)
            rows += op.rows_of(len(counted.groups))
    return [counts[name] for name in op.queues or sorted(counts)]


def scan_queues(op: ScanQueues, edge: Edge) -> Steps:
    """Slot by slot; the cursor is the slot to go on with. All queues of a slot come at once."""
    slots: Sequence[int] = yield from known_slots(edge)
    left = [slot for slot in slots if slot >= op.cursor]
    settings: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST_COUNTING]
    count = max(1, min(op.count, SCAN_MOST))
    names: list[bytes] = []
    while left and len(names) < count:
        some, left = left[:_SLOTS_AT_ONCE], left[_SLOTS_AT_ONCE:]
        found = yield [Call("count", [slot_key(slot)], settings) for slot in some]
        counts = [(row[0], row[1]) for rows in found for row in rows]
        names += [name for name, total in counts if op.least <= total <= op.most]
    return (left[0] if left else 0), names


def _for_each(script: str, op: Ack | Release, edge: Edge, begin: Sequence[Arg]) -> Steps:
    """For each id whether the script did it. One call handles only the first of very many ids."""
    left = list(op.message_ids)
    results: list[bool] = []
    while True:
        (some,) = yield [_call(script, op, edge.now_ms(), [*begin, *left])]
        results += [result == 1 for result in some]
        left = left[len(some) :]
        if not left:
            return results


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
    script: str, op: Reserve | Peek, edge: Edge, argv: Sequence[Arg], may_fail: bool = False
) -> Generator[Sequence[Call], list[Any], Any]:
    """Call the script until it answers with something; return that."""
    while True:
        (found,) = yield [_call(script, op, edge.now_ms(), argv)._replace(may_fail=may_fail)]
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
