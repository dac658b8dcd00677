"""The operations that look at worklists, as steps.

Called by   runners.py, worklists.py (views).
Calls       the scripts show, find_queues, browse, look_at, find_key, scan_queues, scan_messages.

A scan goes through the slots in order, and in each from number to number: queues have numbers in
the order they came, for messages they are Redis's own (HSCAN). Its cursor has both:

    number in the slot × 16,384 + slot        0 = the beginning, and the end

Not here: operations that change something (worklists.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
    SCAN_MOST,
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
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import SLOTS, slot_key, slot_of_id
from quinque.stores.redis.slots import known_slots

_WITH_BODIES: Final = 100  # messages that one script reads bodies of
_AWAITED_MS: Final = 60_000  # whoever waits longer looks again before that (served.py)

_STATES: Final = {state.name.lower().encode(): state for state in State}
_WORDS: Final = {state: word for word, state in _STATES.items()}


def message_view(row: list[Any]) -> WorkView:
    """What scripts/lib/work_message_view.lua answered."""
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
    """What scripts/lib/work_view.lua answered."""
    counts, pauses, limits = row[:8], map(bool, row[8:10]), row[10:]
    return QueueView(*(queue, *counts, *pauses, *limits))  # type: ignore[arg-type]


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
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST_COUNTING, 1, op.message_id]
    ((row,),) = yield [Call("show", [slot_key(slot)], argv)]
    return None if row is None else message_view(row)


def browse(op: Browse, edge: Edge) -> Steps:
    count = max(-RESERVE_MOST, min(op.count, RESERVE_MOST))
    rest: list[Arg] = [_WORDS[op.state], count, RESERVE_MOST_BYTES]
    slots = edge.spread.read_slots(op.queue)
    replies = yield [_look("browse", slot, op, edge, *rest) for slot in slots]
    views = [message_view(row) for rows in replies for row in rows]
    if len(slots) > 1:
        views.sort(key=lambda view: view.place or 0, reverse=count < 0)
    return views[: abs(count)]


def look_at(op: LookAt, edge: Edge) -> Steps:
    rows = yield [_look("look_at", slot, op, edge) for slot in edge.spread.read_slots(op.queue)]
    views = [queue_view(op.queue, row) for row in rows if row is not None]
    if not views:
        return None
    return replace(whole_view(views), partitions=edge.spread.partitions(op.queue))


def find_key(op: FindKey, edge: Edge) -> Steps:
    # Where it would go now, and, if there were more or fewer partitions once, where it may be.
    slots = edge.spread.read_slots(op.queue)
    ids = yield [_look("find_key", slot, op, edge, op.key) for slot in slots]
    return next((id for id in ids if id is not None), None)


def _look(script: str, slot: int, op: Browse | LookAt | FindKey, edge: Edge, *rest: Arg) -> Call:
    is_waited = int(op.queue in edge.watched)
    argv = [op.family.code, edge.now_ms(), op.queue, is_waited, SETTLE_MOST_COUNTING, *rest]
    return Call(script, [slot_key(slot)], argv)


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
    """The queue and the state of each id; for so long, all are told when one of them ends."""
    slots: dict[int, list[bytes]] = {}
    for id in dict.fromkeys(op.message_ids):
        slots.setdefault(slot_of_id(id), []).append(id)
    now_ms = edge.now_ms()
    replies = yield [
        Call("find_queues", [slot_key(slot)], [now_ms, SETTLE_MOST_COUNTING, awaited_ms, *ids])
        for slot, ids in slots.items()
    ]
    return {
        id: (reply[2 * at], reply[2 * at + 1])
        for ids, reply in zip(slots.values(), replies, strict=True)
        for at, id in enumerate(ids)
    }


def scan_queues(op: ScanQueues, edge: Edge) -> Steps:
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
        if count <= 0:
            return from_number * SLOTS + slot
        (reply,) = yield [Call(script, [slot_key(slot)], make(from_number, count))]
        next_number, looked, *found = reply
        read(*found)
        count -= looked
        if next_number:
            return next_number * SLOTS + slot
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
