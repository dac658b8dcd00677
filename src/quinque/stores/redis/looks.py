"""The operations that look at worklists, as steps.

Called by   runners.py, worklists.py (views).
Calls       the scripts show, find_queues, browse, look_at, find_key, scan_queues, scan_messages.

A scan goes through the slots in order, and in each from number to number: queues have numbers in
the order they came, for messages they are Redis's own (HSCAN). Its cursor has both:

    number in the slot × 16,384 + slot        0 = the beginning, and the end

Not here: operations that change something (worklists.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
    SCAN_MOST,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
)
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ops import (
    AwaitEnd,
    Browse,
    FindKey,
    FindQueues,
    LookAt,
    QueueView,
    ScanMessages,
    ScanQueues,
    Show,
    Terms,
    WorkView,
)
from quinque.stores.redis import feeds
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import SLOTS, slot_key, slot_of, slot_of_id
from quinque.stores.redis.slots import known_slots

_WITH_BODIES: Final = 100  # messages that one script reads bodies of
_IDS_MOST: Final = 1_000  # messages that one call is about: 2 to 15 ms
_SCANNED_MOST: Final = 500  # queues, or messages, that one call looks at: 5 to 10 ms
_AWAITED_MS: Final = 60_000  # clients that wait longer look again before that (served.py)

_STATES: Final = {state.name.lower().encode(): state for state in State}
_WORDS: Final = {state: word for word, state in _STATES.items()}


def message_view(row: list[Any]) -> WorkView:
    """Read the answer of scripts/lib/work_message_view.lua."""
    queue, id, body, state, place, *terms = row[:10]
    ttl_left_ms, due_ms, nacks, requeues, deliveries, most, reason, key = row[10:]
    return WorkView(
        queue,
        id,
        body,
        _STATES[state],
        place,
        Terms(*terms),
        ttl_left_ms,
        None if due_ms < 0 else due_ms,
        nacks,
        requeues,
        deliveries,
        most,
        reason,
        key,
    )


def queue_view(queue: bytes, row: list[int]) -> QueueView:
    """Read the answer of scripts/lib/work_view.lua."""
    counts, pauses, limits = row[:8], map(bool, row[8:10]), row[10:13]
    view = QueueView(*(queue, *counts, *pauses, *limits))  # type: ignore[arg-type]
    view.keeps_expired = any(row[13:])  # a queue of items has no such field
    return view


def whole_view(views: Sequence[QueueView]) -> QueueView:
    """A worklist of several partitions, as one; what is set is set alike in all of them."""
    if len(views) == 1:
        return views[0]
    sums = {
        name: sum(getattr(view, name) for view in views)
        for name in ("ready", "delayed", "leased", "dead", "came", "went")
    }
    return replace(
        views[0],
        age_ms=max(view.age_ms or 0 for view in views),
        idle_ms=min(view.idle_ms or 0 for view in views),
        **sums,
    )


def show(op: Show, edge: Edge) -> Steps:
    slot = slot_of_id(op.message_id)
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST, 1, op.message_id]
    ((row,),) = yield [Call("show", [slot_key(slot)], argv)]
    return None if row is None else message_view(row)


def browse(op: Browse, edge: Edge) -> Steps:
    count = max(-RESERVE_MOST, min(op.count, RESERVE_MOST))
    slots = edge.spread.read_slots(op.queue)
    views: list[WorkView] = []
    for slot in slots:
        views += yield from _browse_slot(op, slot, count, edge)
    if len(slots) > 1:
        views.sort(key=lambda view: view.place or 0, reverse=count < 0)
        views = list(_in_room(views))
    return views[: abs(count)]


def _in_room(views: Iterable[WorkView]) -> Iterator[WorkView]:
    """As many of the first messages as one answer has."""
    room_bytes = RESERVE_MOST_BYTES
    for view in views:
        if room_bytes <= 0:
            return
        room_bytes -= len(view.body or b"")
        yield view


def _browse_slot(op: Browse, slot: int, count: int, edge: Edge) -> Steps:
    """The first messages in the slot, or the last ones if `count` is negative, some at a time. As
    many are looked at: a message that has expired is not shown, and another not in its place."""
    views: list[WorkView] = []
    left, room_bytes = abs(count), RESERVE_MOST_BYTES
    after: Arg | None = b""
    while after is not None:
        some = min(left, _SCANNED_MOST)
        left -= some
        rest: list[Arg] = [_WORDS[op.state], some if count > 0 else -some, room_bytes, after]
        ((rows, after),) = yield [_look("browse", slot, op, edge, *rest)]
        found = [message_view(row) for row in rows]
        views += found
        room_bytes -= sum(len(view.body or b"") for view in found)
        if not left or room_bytes <= 0:
            break
    return views


def look_at(op: LookAt, edge: Edge) -> Steps:
    rows = yield [_look("look_at", slot, op, edge) for slot in edge.spread.read_slots(op.queue)]
    views = [queue_view(op.queue, row) for row in rows if row is not None]
    if not views:
        return None
    return replace(whole_view(views), partitions=edge.spread.partitions(op.queue))


def find_key(op: FindKey, edge: Edge) -> Steps:
    (id,) = yield [_look("find_key", slot_of(op.queue), op, edge, op.key)]
    return id


def _look(script: str, slot: int, op: Browse | LookAt | FindKey, edge: Edge, *rest: Arg) -> Call:
    is_waited = int(op.queue in edge.watched)
    argv = [op.family.code, edge.now_ms(), op.queue, is_waited, SETTLE_MOST_COUNTING, *rest]
    return Call(script, [slot_key(slot)], argv)


def by_slot(ids: Iterable[bytes]) -> list[tuple[int, list[bytes]]]:
    """The ids of each slot, none twice, and of many several parts: each is one call's."""
    slots: dict[int, list[bytes]] = {}
    for id in dict.fromkeys(ids):
        slots.setdefault(slot_of_id(id), []).append(id)
    return [
        (slot, some[at : at + _IDS_MOST])
        for slot, some in slots.items()
        for at in range(0, len(some), _IDS_MOST)
    ]


def find_queues(op: FindQueues, edge: Edge) -> Steps:
    places = yield from _places(op, edge, awaited_ms=0)
    return [places[id][0] for id in op.message_ids]


def await_end(op: AwaitEnd, edge: Edge) -> Steps:
    places = yield from _places(op, edge, _AWAITED_MS)
    states = [places[id][1] for id in op.message_ids]
    if any(state is not None and _STATES[state] is not State.DEAD for state in states):
        return None
    return states.count(None)


def _places(op: FindQueues | AwaitEnd, edge: Edge, awaited_ms: int) -> Steps:
    """The queue and the state of each id. For `awaited_ms`, brokers are notified when one ends."""
    parts = by_slot(op.message_ids)
    now_ms = edge.now_ms()
    replies = yield [
        Call("find_queues", [slot_key(slot)], [now_ms, SETTLE_MOST, awaited_ms, *ids])
        for slot, ids in parts
    ]
    return {
        id: (reply[2 * at], reply[2 * at + 1])
        for (_, ids), reply in zip(parts, replies, strict=True)
        for at, id in enumerate(ids)
    }


def scan_queues(op: ScanQueues, edge: Edge) -> Steps:
    if not op.family.is_worklist:
        return (yield from feeds.scan_queues(op, edge))
    names: list[bytes] = []

    def make(from_number: int, count: int) -> list[Arg]:
        first: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST_COUNTING]
        return [*first, from_number, count, op.least, op.most, int(op.skips_idle)]

    def read(found: list[bytes], idle: list[bytes]) -> None:
        names.extend(found)
        names.extend(name for name in idle if name in edge.watched)

    cursor = yield from scan_slots(
        "scan_queues", op.cursor, min(op.count, SCAN_MOST), edge, make, read
    )
    return cursor, list(dict.fromkeys(names))  # a queue may lie in several slots


def scan_messages(op: ScanMessages, edge: Edge) -> Steps:
    views: list[WorkView] = []

    def make(from_number: int, count: int) -> list[Arg]:
        first: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST_COUNTING]
        which: list[Arg] = [int(op.with_bodies), int(op.queue is not None), op.queue or b""]
        return [*first, from_number, count, *which, *(_WORDS[state] for state in op.states)]

    def read(found: list[list[Any]]) -> None:
        views.extend(map(message_view, found))

    # With bodies a few at a time: how large they are is known when they are there.
    cursor, left = op.cursor, min(op.count, SCAN_MOST)
    some = _WITH_BODIES if op.with_bodies else left
    while True:
        cursor = yield from scan_slots("scan_messages", cursor, min(some, left), edge, make, read)
        left -= some
        size_bytes = sum(len(view.body or b"") for view in views)
        if not cursor or left <= 0 or size_bytes >= RESERVE_MOST_BYTES:
            return cursor, views


def scan_slots(
    script: str,
    cursor: int,
    count: int,
    edge: Edge,
    make: Callable[[int, int], list[Arg]],
    read: Callable[..., None],
) -> Steps:
    """Look at `count` things, slot by slot; the cursor to go on with."""
    number, first_slot = divmod(cursor, SLOTS)
    slots: Sequence[int] = yield from known_slots(edge)
    for slot in slots:
        if slot < first_slot:
            continue
        from_number = number if slot == first_slot else 0
        is_more = True
        while is_more:
            if count <= 0:
                return from_number * SLOTS + slot
            argv = make(from_number, min(count, _SCANNED_MOST))
            (reply,) = yield [Call(script, [slot_key(slot)], argv)]
            from_number, looked, *found = reply
            read(*found)
            count -= looked
            is_more = from_number != 0
    return 0


RUNNERS: Final[dict[type[Op], Runner]] = {
    Show: show,
    Browse: browse,
    LookAt: look_at,
    ScanQueues: scan_queues,
    ScanMessages: scan_messages,
    FindKey: find_key,
    FindQueues: find_queues,
    AwaitEnd: await_end,
}
