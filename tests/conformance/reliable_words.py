"""Short words for the operations on queues of the reliable family: the queue {r}.

Called by   the tests beside this file whose names begin with test_reliable, and test_queue_ops.py.
Calls       the store they are handed.

The names of queues have a hash tag, so that in a cluster too one can be renamed to another.
"""

from __future__ import annotations

from typing import NamedTuple

from quinque.model.families import RELIABLE, Family
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Recover
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.work_ops import Add, LookAt, ScanQueues, Take, WorkDelivery
from quinque.stores.base import Store

QUEUE = b"{r}"
OTHER = b"{r}other"
ALL = 1_000
HOUR_MS = 3_600_000


class Seen(NamedTuple):
    """An element as it is, and when it was last delivered."""

    id: bytes
    body: bytes
    delivered_ms: int
    deliveries: int


def push(store: Store, *bodies: bytes, queue: bytes = QUEUE) -> list[bytes]:
    """Add elements; their ids."""
    return store.run(Add(RELIABLE, queue, bodies, RELIABLE_TERMS))


def push_one(store: Store, body: bytes = b"1", queue: bytes = QUEUE) -> bytes:
    (id,) = push(store, body, queue=queue)
    return id


def pop(store: Store, count: int = 1, *queues: bytes) -> list[WorkDelivery]:
    return store.run(Take(RELIABLE, queues or (QUEUE,), count, is_drained=True))


def popped(store: Store, count: int = 1, *queues: bytes) -> list[bytes]:
    """Take elements; their bodies."""
    return [given.body for given in pop(store, count, *queues)]


def ack(store: Store, *ids: bytes, queue: bytes = QUEUE) -> list[bool] | None:
    return store.run(Complete(RELIABLE, queue, ids, is_leased=True))


def recover(
    store: Store, count: int = ALL, elapsed_ms: int = 0, queue: bytes = QUEUE
) -> list[WorkDelivery] | None:
    return store.run(Recover(RELIABLE, queue, count, elapsed_ms))


def recovered(store: Store, count: int = ALL, elapsed_ms: int = 0) -> list[bytes]:
    """Recover elements of a queue that is there; their bodies."""
    given = recover(store, count, elapsed_ms)
    assert given is not None
    return [each.body for each in given]


def inspect(
    store: Store,
    start: int = 0,
    count: int = ALL,
    *,
    is_leased: bool = False,
    queue: bytes = QUEUE,
) -> list[Seen]:
    """What is seen of a queue that is there."""
    found = store.run(Inspect(RELIABLE, queue, is_leased, start, count))
    assert found is not None
    return [Seen(it.message_id, it.body, it.delivered_ms, it.deliveries) for it in found]


def waiting(store: Store, start: int = 0, count: int = ALL, queue: bytes = QUEUE) -> list[bytes]:
    """The bodies of elements that nobody was given yet."""
    return [seen.body for seen in inspect(store, start, count, queue=queue)]


def delivered(store: Store, start: int = 0, count: int = ALL, queue: bytes = QUEUE) -> list[bytes]:
    """The bodies of delivered elements, in the order of their last delivery."""
    return [seen.body for seen in inspect(store, start, count, is_leased=True, queue=queue)]


def lengths(store: Store, queue: bytes = QUEUE) -> tuple[int, int] | None:
    """How many wait and how many are delivered; None when there is no such queue."""
    view = store.run(LookAt(RELIABLE, queue))
    return None if view is None else (view.ready, view.leased)


def family(store: Store, queue: bytes = QUEUE) -> Family | None:
    (found,) = store.run(FindFamilies([queue]))
    return found


def delete(store: Store, *queues: bytes) -> int:
    return store.run(DeleteQueues(RELIABLE, queues or (QUEUE,)))


def rename(store: Store, old: bytes, new: bytes, *, only_free: bool = False) -> bool:
    return store.run(RenameQueue(RELIABLE, old, new, only_free))


def expire(store: Store, after_ms: int, queue: bytes = QUEUE) -> bool:
    """The queue is gone after so long."""
    return store.run(SetExpiry(RELIABLE, queue, store.now_ms() + after_ms))


def expires_ms(store: Store, queue: bytes = QUEUE) -> int | None:
    return store.run(LookAtExpiry(RELIABLE, queue))


def all_queues(store: Store) -> list[bytes]:
    """The names that a scan finds, in alphabetical order."""
    names: list[bytes] = []
    cursor = 0
    for _ in range(100_000):
        cursor, some = store.run(ScanQueues(RELIABLE, cursor, 10))
        names += some
        if cursor == 0:
            return sorted(names)
    raise AssertionError("there is no end to it")


def everything(store: Store) -> object:
    """All that can be seen of these queues from outside, to compare before and after."""
    return [
        (
            name,
            store.run(LookAt(RELIABLE, name)),
            expires_ms(store, name),
            inspect(store, queue=name),
            inspect(store, queue=name, is_leased=True),
        )
        for name in all_queues(store)
    ]


def key_of(id: bytes) -> tuple[int, int]:
    """An id as two numbers, which tell which came first."""
    ms, seq = id.split(b"-")
    assert id == b"%d-%d" % (int(ms), int(seq)), "in its one way of writing"
    return int(ms), int(seq)
