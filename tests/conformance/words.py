"""Short words for the operations, as these tests use them: the queue q, the group g, an hour.

Called by   the tests beside this file.
Calls       the store they are handed.
"""

from __future__ import annotations

from typing import Any

from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Count, Delivery, GroupCount, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.stores.base import Store

HOUR_MS = 3_600_000


def put(store: Store, *bodies: bytes, queue: bytes = b"q", **options: Any) -> list[bytes]:
    """Add messages; their ids."""
    return store.run(Put(EVENTS, queue, bodies, **options))


def put_single(store: Store, *ids: bytes, queue: bytes = b"q", to_front: bool = False) -> None:
    """Add messages that one group works, as okq does; each one's body is its id."""
    for id in ids:
        store.run(Put(EVENTS, queue, [id], message_id=id, to_front=to_front, is_single=True))


def lease(
    store: Store,
    count: int = 1,
    *,
    queue: bytes = b"q",
    group: bytes = b"g",
    lease_ms: int = HOUR_MS,
) -> list[Delivery]:
    return store.run(Reserve(EVENTS, queue, group, lease_ms, count))


def take(
    store: Store,
    count: int = 1,
    *,
    queue: bytes = b"q",
    group: bytes = b"g",
    lease_ms: int = HOUR_MS,
) -> list[bytes]:
    """Lease messages; their bodies."""
    given = lease(store, count, queue=queue, group=group, lease_ms=lease_ms)
    return [delivery.body for delivery in given]


def ack(
    store: Store, *ids: bytes, queue: bytes = b"q", group: bytes = b"g", held_only: bool = True
) -> list[bool]:
    return store.run(Ack(EVENTS, queue, group, ids, held_only))


def release(store: Store, *ids: bytes, queue: bytes = b"q", group: bytes = b"g") -> list[bool]:
    return store.run(Release(EVENTS, queue, group, ids))


def extend(
    store: Store, *ids: bytes, lease_ms: int, queue: bytes = b"q", group: bytes = b"g"
) -> list[bool]:
    return store.run(ExtendLeases(EVENTS, queue, ids, lease_ms, group))


def peek(
    store: Store, *, queue: bytes = b"q", group: bytes = b"g", last: bool = False
) -> bytes | None:
    """The body that comes next, or last."""
    found = store.run(Peek(EVENTS, queue, group, last))
    return found.body if found is not None else None


def counts(store: Store, group: bytes = b"g", queue: bytes = b"q") -> tuple[int, int, int, int]:
    """Leased, redo, done, available; for a group that is not there, all is available."""
    (row,) = store.run(Count(EVENTS, [queue]))
    known = {count.group: count for count in row.groups}
    of = known.get(group) or GroupCount(group, row.total, 0, 0, 0, row.total)
    assert of.total == row.total
    assert of.leased + of.redo + of.done + of.available == row.total
    return of.leased, of.redo, of.done, of.available


def tick(store: Store) -> None:
    """Ticks and commits until nothing is due, as a server does it."""
    for _ in range(1_000):
        if store.next_due_ms() > store.now_ms():
            return
        store.tick()
        store.commit()
    raise AssertionError("there is no end to it")


def everything(store: Store) -> object:
    """All that can be seen from outside, to compare before and after."""
    rows = store.run(Count(EVENTS))
    return rows, [
        store.run(Peek(EVENTS, row.queue, group, last))
        for row in rows
        for group in [b"nobody", *(count.group for count in row.groups)]
        for last in (False, True)
    ]


def fact(store: Store, name: str) -> int | str:
    """What the store says of itself under this name."""
    facts = store.info()
    assert isinstance(facts, dict), "here every store answers at once"
    return facts[name]
