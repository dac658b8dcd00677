"""Steps on a queue, as a store takes them: decide, then apply.

Called by   the tests beside this file.
Calls       engine/feed/decide.py, engine/feed/apply.py, engine/feed/due.py.

Places count up from 1,000, so that a message's place is easy to say.
"""

from __future__ import annotations

from typing import Any

from quinque.engine.feed import decide
from quinque.engine.feed.apply import (
    APPLY,
    apply_flushed,
    apply_leased,
    apply_removed,
    apply_stored,
)
from quinque.engine.feed.due import settle
from quinque.engine.feed.feed import Feed
from quinque.model.events import EXPIRED, FLUSHED, REMOVED, Expired, Flushed, Removed
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases

NOW_MS = 1_000
HOUR_MS = 3_600_000


def put(
    queue: Feed, *ids: bytes, now_ms: int = NOW_MS, first_place: int = 1_000, **options: Any
) -> None:
    """Messages with these ids, at the next places; `first_place` is for an empty queue."""
    for id in ids:
        place = queue.tail.place + 1 if queue.tail is not None else first_place
        op = Put(EVENTS, queue.name, [id], message_id=id, **options)
        apply_stored(queue, decide.put(queue, op, now_ms, place), 0)


def lease(
    queue: Feed,
    count: int = 1,
    group: bytes = b"g",
    lease_ms: int = HOUR_MS,
    now_ms: int = NOW_MS,
) -> list[bytes]:
    """What a store would hand out."""
    ids: list[bytes] = []
    while len(ids) < count:
        op = Reserve(EVENTS, queue.name, group, lease_ms, count)
        event = decide.reserve(queue, op, now_ms, count - len(ids))
        if event is None:
            break
        if isinstance(event, Expired):
            apply_removed(queue, event)
            continue
        apply_leased(queue, event)
        ids += event.ids
    return ids


def ack(queue: Feed, *ids: bytes, group: bytes = b"g", now_ms: int = NOW_MS) -> list[bool]:
    events, results = decide.ack(queue, Ack(EVENTS, queue.name, group, ids), now_ms)
    for event in events:
        APPLY[event.kind](queue, event)
    return results


def release(queue: Feed, *ids: bytes, group: bytes = b"g", now_ms: int = NOW_MS) -> list[bool]:
    events, results = decide.release(queue, Release(EVENTS, queue.name, group, ids), now_ms)
    for event in events:
        APPLY[event.kind](queue, event)
    return results


def extend(
    queue: Feed, *ids: bytes, lease_ms: int, group: bytes = b"g", now_ms: int = NOW_MS
) -> list[bytes]:
    """Those whose leases end so long from now."""
    op = ExtendLeases(EVENTS, queue.name, ids, lease_ms, group)
    event = decide.extend(queue, op, now_ms)
    if event is None:
        return []
    APPLY[event.kind](queue, event)
    return list(event.ids)


def remove(queue: Feed, *ids: bytes) -> None:
    apply_removed(queue, Removed(REMOVED, queue.name, ids))


def expire(queue: Feed, *ids: bytes) -> None:
    apply_removed(queue, Expired(EXPIRED, queue.name, ids))


def flush(queue: Feed) -> None:
    apply_flushed(queue, Flushed(FLUSHED, queue.name))


def pass_time(queue: Feed, now_ms: int, most: int = 500) -> None:
    """One slice of what is due."""
    for event in settle(queue, now_ms, most):
        APPLY[event.kind](queue, event)
