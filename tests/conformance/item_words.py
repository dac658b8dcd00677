"""Short words for the operations on items: the queue {i}, a minute's lease.

Called by   the tests beside this file whose names begin with test_items, tests/store.
Calls       the store they are handed.

The name has a hash tag, as every queue of items has on a cluster: elsewhere it is a name like any.
"""

from __future__ import annotations

from quinque.model.families import ITEMS
from quinque.model.own_ops import AddItems, Cleaned, CleanItems, Complete, ExtendLeases
from quinque.model.work_ops import LookAt, ScanQueues, Take
from quinque.stores.base import Store

ITEMS_QUEUE = b"{i}"
MINUTE_MS = 60_000


def add(store: Store, *ids: bytes, queue: bytes = ITEMS_QUEUE, prefix: bytes = b"") -> list[bool]:
    """Add items whose data are their ids, after `prefix`; which are new."""
    return store.run(AddItems(ITEMS, queue, ids, [prefix + id for id in ids]))


def add_data(
    store: Store, id: bytes, data: bytes, *, is_known_new: bool = False, queue: bytes = ITEMS_QUEUE
) -> bool:
    """Add an item; whether it is new."""
    (is_new,) = store.run(AddItems(ITEMS, queue, [id], [data], is_known_new))
    return is_new


def lease(
    store: Store, count: int = 1, *, queue: bytes = ITEMS_QUEUE, lease_ms: int = MINUTE_MS
) -> list[bytes]:
    """Lease items; their ids."""
    given = store.run(Take(ITEMS, [queue], count, lease_ms=lease_ms))
    return [delivery.message_id for delivery in given]


def lease_data(
    store: Store, count: int = 1, *, queue: bytes = ITEMS_QUEUE, lease_ms: int = MINUTE_MS
) -> list[tuple[bytes, bytes]]:
    """Lease items; their ids and data."""
    given = store.run(Take(ITEMS, [queue], count, lease_ms=lease_ms))
    assert {delivery.queue for delivery in given} <= {queue}
    return [(delivery.message_id, delivery.body) for delivery in given]


def complete(store: Store, *ids: bytes, queue: bytes = ITEMS_QUEUE) -> list[bool]:
    """Items are done; which were there. Without a queue, none was."""
    done = store.run(Complete(ITEMS, queue, ids, is_leased=False))
    return [False] * len(ids) if done is None else done


def extend(
    store: Store, *ids: bytes, lease_ms: int = MINUTE_MS, queue: bytes = ITEMS_QUEUE
) -> list[bool]:
    return store.run(ExtendLeases(ITEMS, queue, ids, lease_ms))


def lengths(store: Store, queue: bytes = ITEMS_QUEUE) -> tuple[int, int]:
    """Queued, being processed."""
    view = store.run(LookAt(ITEMS, queue))
    return (0, 0) if view is None else (view.ready, view.leased)


def clean(
    store: Store, *, is_deep: bool = False, count: int = 1_000, queue: bytes = ITEMS_QUEUE
) -> Cleaned:
    """Cleaning from the beginning to the end: what all slices found."""
    total = Cleaned(0, 0, 0, 0, 0)
    cursor = 0
    for _ in range(10_000):
        done = store.run(CleanItems(ITEMS, queue, is_deep, cursor, count))
        total.looked_at += done.looked_at
        total.returned += done.returned
        total.dropped += done.dropped
        total.doubled += done.doubled
        cursor = done.cursor
        if cursor == 0:
            return total
    raise AssertionError("there is no end to it")


def queues(store: Store) -> list[bytes]:
    """The names that a scan finds, in alphabetical order."""
    names: list[bytes] = []
    cursor = 0
    for _ in range(100_000):
        cursor, some = store.run(ScanQueues(ITEMS, cursor, 10))
        names += some
        if cursor == 0:
            return sorted(names)
    raise AssertionError("there is no end to it")
