"""Steps on a queue, as a store takes them: decide, then apply.

Called by   the tests beside this file.
Calls       engine/decide.py, engine/apply.py, engine/due.py.

Places count up from 1,000, so that a message's place is easy to say.
"""

from __future__ import annotations

from typing import Any

from quinque.engine import decide
from quinque.engine.apply import (
    APPLY,
    apply_flushed,
    apply_leased,
    apply_removed,
    apply_stored,
)
from quinque.engine.due import settle
from quinque.engine.queue import Queue
from quinque.model.events import EXPIRED, FLUSHED, REMOVED, Expired, Flushed, Removed
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Put, Release, Reserve

NOW_MS = 1_000
HOUR_MS = 3_600_000


def put(
    queue: Queue, *ids: bytes, now_ms: int = NOW_MS, first_place: int = 1_000, **options: Any
) -> None:
    """Messages with these ids, at the next places; `first_place` is for an empty queue."""
    for id in ids:
        place = queue.tail.place + 1 if queue.tail is not None else first_place
        op = Put(EVENTS, queue.name, [id], message_id=id, **options)
        apply_stored(queue, decide.put(queue, op, now_ms, place), 0)


def lease(
    queue: Queue,
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


def ack(queue: Queue, *ids: bytes, group: bytes = b"g", now_ms: int = NOW_MS) -> list[bool]:
    events, results = decide.ack(queue, Ack(EVENTS, queue.name, group, ids), now_ms)
    for event in events:
        APPLY[event.kind](queue, event)
    return results


def release(queue: Queue, *ids: bytes, group: bytes = b"g", now_ms: int = NOW_MS) -> list[bool]:
    events, results = decide.release(queue, Release(EVENTS, queue.name, group, ids), now_ms)
    for event in events:
        APPLY[event.kind](queue, event)
    return results


def remove(queue: Queue, *ids: bytes) -> None:
    apply_removed(queue, Removed(REMOVED, queue.name, ids))


def expire(queue: Queue, *ids: bytes) -> None:
    apply_removed(queue, Expired(EXPIRED, queue.name, ids))


def flush(queue: Queue) -> None:
    apply_flushed(queue, Flushed(FLUSHED, queue.name))


def pass_time(queue: Queue, now_ms: int, most: int = 500) -> None:
    """One slice of what is due."""
    for event in settle(queue, now_ms, most):
        APPLY[event.kind](queue, event)
