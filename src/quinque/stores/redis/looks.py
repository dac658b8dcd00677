"""The operations that look at worklists, as steps.

Called by   store.py (RUNNERS), worklists.py (views).
Calls       the scripts show, find_queues, browse, look_at, find_key, scan_queues, scan_messages.

A scan goes through the slots in order, and in each through numbers that were given in the order
things came. Its cursor has both:

    number in the slot × 16,384 + slot        0 = the beginning, and the end

Not here: operations that change something (worklists.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
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
from quinque.stores.redis.keys import SLOTS, slot_key, slot_of, slot_of_id

_SCAN_MOST: Final = 1 << 31  # Lua would write more as 4.6e+18, which is no whole number to Redis

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


def show(op: Show, edge: Edge) -> Steps:
    slot = slot_of_id(op.message_id)
    argv: list[Arg] = [edge.now_ms(), SETTLE_MOST_COUNTING, 1, op.message_id]
    ((row,),) = yield [Call("show", [slot_key(slot)], argv)]
    return None if row is None else message_view(row)


def browse(op: Browse, edge: Edge) -> Steps:
    count = max(-RESERVE_MOST, min(op.count, RESERVE_MOST))
    rest: list[Arg] = [_WORDS[op.state], count, RESERVE_MOST_BYTES]
    (rows,) = yield [_look("browse", op, edge, *rest)]
    return [message_view(row) for row in rows]


def look_at(op: LookAt, edge: Edge) -> Steps:
    (row,) = yield [_look("look_at", op, edge)]
    return None if row is None else queue_view(op.queue, row)


def find_key(op: FindKey, edge: Edge) -> Steps:
    (id,) = yield [_look("find_key", op, edge, op.key)]
    return id


def _look(script: str, op: Browse | LookAt | FindKey, edge: Edge, *rest: Arg) -> Call:
    is_waited = int(op.queue in edge.watched)
    argv = [op.family.code, edge.now_ms(), op.queue, is_waited, SETTLE_MOST_COUNTING, *rest]
    return Call(script, [slot_key(slot_of(op.queue))], argv)


def find_queues(op: FindQueues, edge: Edge) -> Steps:
    places = yield from _places(op, edge)
    return [places[id][0] for id in op.message_ids]


def await_end(op: AwaitEnd, edge: Edge) -> Steps:
    places = yield from _places(op, edge)
    states = [places[id][1] for id in op.message_ids]
    if any(state is not None and _STATES[state] is not State.DEAD for state in states):
        return None
    return states.count(None)


def _places(op: FindQueues | AwaitEnd, edge: Edge) -> Steps:
    """The queue and the state of each id."""
    slots: dict[int, list[bytes]] = {}
    for id in dict.fromkeys(op.message_ids):
        slots.setdefault(slot_of_id(id), []).append(id)
    now_ms = edge.now_ms()
    replies = yield [
        Call("find_queues", [slot_key(slot)], [now_ms, SETTLE_MOST_COUNTING, *ids])
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
        return [*first, from_number, count, op.least, op.most]

    def read(found: list[bytes], idle: list[bytes]) -> None:
        names.extend(found)
        names.extend(name for name in idle if name in edge.watched)

    cursor = yield from _scan("scan_queues", op.cursor, min(op.count, _SCAN_MOST), edge, make, read)
    return cursor, names


def scan_messages(op: ScanMessages, edge: Edge) -> Steps:
    views: list[WorkView] = []

    def make(from_number: int, count: int) -> list[Arg]:
        first: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST_COUNTING]
        which: list[Arg] = [int(op.with_bodies), int(op.queue is not None), op.queue or b""]
        return [*first, from_number, count, *which, *(_WORDS[state] for state in op.states)]

    def read(found: list[list[Any]]) -> None:
        views.extend(map(message_view, found))

    cursor = yield from _scan(
        "scan_messages", op.cursor, min(op.count, _SCAN_MOST), edge, make, read
    )
    return cursor, views


def _scan(
    script: str,
    cursor: int,
    count: int,
    edge: Edge,
    make: Callable[[int, int], list[Arg]],
    read: Callable[..., None],
) -> Steps:
    """Look at `count` things, slot by slot; the cursor to go on with."""
    number, first_slot = divmod(cursor, SLOTS)
    for slot in sorted(edge.slots):
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
