"""The operations on queues of items, as steps.

Called by   runners.py.
Calls       the scripts items_….

Such a queue lies in the very keys that the clients of Redis Work Queue use (scripts/lib/
items_open.lua), so that their workers and a broker's share it. In a cluster all of them must lie in
one slot, which a name with a text in braces sees to.

Not here: cleaning (cleaning.py), other worklists (worklists.py, taking.py, looks.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from quinque.errors import BadRequest, Leaving, QuinqueError, printable
from quinque.model.families import ITEMS
from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
    SCAN_MOST,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
)
from quinque.model.ops import Op
from quinque.model.own_ops import ITEM_TERMS, AddItems, Complete, ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Browse,
    LookAt,
    NodeView,
    Purge,
    PurgeAll,
    ScanQueues,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.looks import queue_view, scan_slots
from quinque.stores.redis.nodes import known_node

_SLICE_MOST: Final = 500  # items that one call is about: 2 to 5 ms
_LISTS: Final = {State.READY: b"queue", State.LEASED: b"processing"}

T = TypeVar("T")


def items_call(
    script: str, queue: bytes, edge: Edge, *rest: Arg, settle_most: int = SETTLE_MOST
) -> Call:
    """A script about one queue of items. Any such script may be the first that meets the queue.

    Raises BadRequest for a name whose keys a cluster would have in many places.
    """
    if edge.is_cluster and not has_tag(queue):
        raise BadRequest(
            f"on a Redis Cluster, the keys of queue '{printable(queue)}' would be in many slots; "
            f"put a part of the queue name in braces, {{like this}}"
        )
    begin: list[Arg] = [ITEMS.code, edge.now_ms(), queue, int(queue in edge.watched), settle_most]
    return Call(script, [slot_key(slot_of(queue))], [*begin, *rest], makes=True)


def add_items(op: AddItems, edge: Edge) -> Steps:
    results: list[bool] = []
    for some in _slices(list(zip(op.message_ids, op.bodies, strict=True))):
        argv: list[Arg] = [int(op.is_known_new)]
        for pair in some:
            argv += pair
        (reply,) = yield [items_call("items_add", op.queue, edge, *argv)]
        results += [is_new == 1 for is_new in reply]
    return results


def take(op: Take, edge: Edge) -> Steps:
    """From one queue after the other."""
    if op.patterns:
        raise BadRequest("items can be taken only from one named queue")
    if len(op.queues) > 1:
        # A name of another family refuses them all, before anything is leased.
        yield [items_call("items_look_at", queue, edge) for queue in op.queues]
    node: NodeView = yield from known_node(edge)
    given: list[WorkDelivery] = []
    for queue in op.queues:
        if len(given) < op.count:
            left = op.count - len(given)
            given += yield from _take_from(queue, op, left, node, edge, bool(given))
    if not given:
        if op.is_waiting and node.is_leaving:
            raise Leaving
        edge.foreign.note(op.queues)
    return given


def _take_from(
    queue: bytes, op: Take, most: int, node: NodeView, edge: Edge, may_fail: bool
) -> Steps:
    """Up to `most` items of one queue; no items if its call fails and `may_fail`."""
    most, room_bytes = min(most, RESERVE_MOST), RESERVE_MOST_BYTES
    given: list[WorkDelivery] = []
    is_more = 1
    while is_more and len(given) < most and room_bytes > 0:
        count = min(most - len(given), _SLICE_MOST)
        rest = (int(not node.is_leaving), count, room_bytes, op.lease_ms, int(edge.follows))
        call = items_call("items_take", queue, edge, *rest)
        # Items that were leased before are delivered, even if a later call fails.
        (reply,) = yield [call._replace(may_fail=may_fail or bool(given))]
        if isinstance(reply, QuinqueError):
            break
        some, is_more, deadline_ms = reply
        for id, body in zip(some[::2], some[1::2], strict=True):
            given.append(WorkDelivery(queue, id, body, 0, 0, deadline_ms))
            room_bytes -= len(body)
    return given


def complete(op: Complete, edge: Edge) -> Steps:
    left = list(dict.fromkeys(op.message_ids))
    done: set[bytes] = set()
    is_there = False
    while left:
        some = left[:_SLICE_MOST]
        call = items_call("items_complete", op.queue, edge, int(op.is_leased), *some)
        (reply,) = yield [call]
        if reply is None:
            break
        is_there = True
        done.update(id for id, is_done in zip(some, reply, strict=False) if is_done)
        left = left[len(reply) :]
    return _first_times(op.message_ids, done) if is_there else None


def extend_leases(op: ExtendLeases, edge: Edge) -> Steps:
    held: set[bytes] = set()
    for ids in _slices(list(dict.fromkeys(op.message_ids))):
        call = items_call(
            "items_extend", op.queue, edge, op.lease_ms, int(edge.follows), op.deadline_ms, *ids
        )
        # A repeat would not find the lease that the first attempt changed, and say that it is lost.
        (reply,) = yield [call._replace(is_once=op.deadline_ms > 0)]
        held.update(id for id, is_held in zip(ids, reply, strict=True) if is_held)
    return [id in held for id in op.message_ids]


def look_at(op: LookAt, edge: Edge) -> Steps:
    call = items_call("items_look_at", op.queue, edge, settle_most=SETTLE_MOST_COUNTING)
    (row,) = yield [call]
    return None if row is None else queue_view(op.queue, row)


def show(op: Show, edge: Edge) -> Steps:
    call = items_call("items_show", op.queue, edge, RESERVE_MOST_BYTES, op.message_id)
    ((end_ms, data),) = yield [call]
    if data is None:
        return None
    state = State.LEASED if end_ms else State.READY
    return _view(op.queue, op.message_id, data, state, end_ms, edge)


def browse(op: Browse, edge: Edge) -> Steps:
    """Find the ids in one call; then read, slice by slice, those that are still in that state."""
    kind = _LISTS.get(op.state)
    count = max(-RESERVE_MOST, min(op.count, RESERVE_MOST))
    if kind is None or not count:
        return []
    call = items_call("items_browse", op.queue, edge, kind, count, settle_most=SETTLE_MOST_COUNTING)
    (ids,) = yield [call]
    views: list[WorkView] = []
    at, room_bytes = 0, RESERVE_MOST_BYTES
    while at < len(ids) and room_bytes > 0:
        some = ids[at : at + _SLICE_MOST]
        (reply,) = yield [items_call("items_show", op.queue, edge, room_bytes, *some)]
        at += len(reply) // 2
        for id, end_ms, data in zip(some, reply[::2], reply[1::2], strict=False):
            # A lease that has ended may be in its list until it is cleaned.
            if data is not None and not (end_ms and op.state is State.READY):
                views.append(_view(op.queue, id, data, op.state, end_ms, edge))
                room_bytes -= len(data)
    return views


def _view(queue: bytes, id: bytes, data: bytes, state: State, end_ms: int, edge: Edge) -> WorkView:
    """An item as it is now; numbers that the keys do not have are 0."""
    left_ms = max(0, end_ms - edge.now_ms()) if state is State.LEASED else None
    return WorkView(queue, id, data, state, 0, ITEM_TERMS, 0, left_ms, 0, 0, 0, 0, b"", None)


def refuse(op: Op, edge: Edge) -> Steps:
    """Raises BadRequest: the keys of Redis Work Queue have no place for what is asked."""
    yield from ()
    raise BadRequest(
        "queues of items on Redis do not support claims, staged batches and pages: lease and add"
        " items instead"
    )


def scan_queues(op: ScanQueues, edge: Edge) -> Steps:
    names: list[bytes] = []

    def make(from_number: int, count: int) -> list[Arg]:
        first: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST]
        return [*first, from_number, count, op.least, op.most]

    def read(found: list[bytes], idle: list[bytes]) -> None:
        names.extend(found)
        names.extend(name for name in idle if name in edge.watched)

    count = min(op.count, SCAN_MOST)
    cursor = yield from scan_slots("items_scan", op.cursor, count, edge, make, read)
    return cursor, names


def look_for_foreign(names: Sequence[bytes]) -> Steps:
    """Return those of these queues that have items."""
    slots: dict[int, list[bytes]] = {}
    for name in names:
        slots.setdefault(slot_of(name), []).append(name)
    replies = yield [
        Call("items_lengths", [slot_key(slot)], [ITEMS.code, *some]) for slot, some in slots.items()
    ]
    return [name for some in replies for name in some]


def purge(op: Purge, edge: Edge, forgets: bool = False) -> Steps:
    states = set(op.states or State)
    argv = [int(State.READY in states), int(State.LEASED in states), _SLICE_MOST, int(forgets)]
    gone, is_more = 0, 1
    while is_more:
        (reply,) = yield [items_call("items_purge", op.queue, edge, *argv)]
        gone, is_more = gone + reply[0], reply[1]
    return gone


def purge_all(op: PurgeAll, edge: Edge) -> Steps:
    """Every queue that brokers know, and what is in its lists."""
    gone, cursor = 0, 0
    while True:
        cursor, names = yield from scan_queues(ScanQueues(ITEMS, cursor, 1_000), edge)
        for name in names:
            gone += yield from purge(Purge(ITEMS, name), edge, forgets=True)
        if not cursor:
            return gone


def has_tag(queue: bytes) -> bool:
    """Whether a part of the name alone tells the slot of every key that begins with it."""
    start = queue.find(b"{")
    return start >= 0 and queue.find(b"}", start) > start + 1


def _slices(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """All of it, in parts that Redis is done with soon."""
    for at in range(0, len(rows), _SLICE_MOST):
        yield rows[at : at + _SLICE_MOST]


def _first_times(ids: Sequence[bytes], done: set[bytes]) -> list[bool]:
    """Whether each id is done, the first time it is named."""
    results: list[bool] = []
    for id in ids:
        results.append(id in done)
        done.discard(id)
    return results


RUNNERS: Final[dict[type[Op], Runner]] = {
    AddItems: add_items,
    Take: take,
    Complete: complete,
    ExtendLeases: extend_leases,
    LookAt: look_at,
    Show: show,
    Browse: browse,
    ScanQueues: scan_queues,
    Purge: purge,
    PurgeAll: purge_all,
}
