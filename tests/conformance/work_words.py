"""Short words for the operations on worklists: the queue w, a day to live, a minute to be worked.

Called by   the tests beside this file whose names begin with test_work.
Calls       the store they are handed.

A lease runs up to a quarter of a second more or less than was asked for. BEFORE_MS is surely before
the end of one of a minute, AFTER_MS surely after it.
"""

from __future__ import annotations

from typing import Any

from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    Configure,
    Extend,
    Finish,
    Hold,
    LookAt,
    QueueView,
    Redrive,
    Requeue,
    ScanMessages,
    ScanQueues,
    Show,
    Take,
    Terms,
    WorkDelivery,
    WorkView,
)
from quinque.stores.base import Store

DAY_MS = 86_400_000
MINUTE_MS = 60_000
BEFORE_MS = MINUTE_MS - 251
AFTER_MS = MINUTE_MS + 249
NOBODY = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"


def add(
    store: Store,
    *bodies: bytes,
    queue: bytes = b"w",
    key: bytes | None = None,
    max_length: int = 0,
    ttl_ms: int = DAY_MS,
    retry_ms: int = MINUTE_MS,
    **terms: int,
) -> list[bytes]:
    """Add messages; their ids."""
    treated = Terms(ttl_ms, retry_ms=retry_ms, **terms)
    return store.run(Add(JOBS, queue, bodies, treated, key, max_length))


def add_one(store: Store, body: bytes = b"1", **options: Any) -> bytes:
    (id,) = add(store, body, **options)
    return id


def take(store: Store, count: int = 1, *queues: bytes, **options: Any) -> list[WorkDelivery]:
    return store.run(Take(JOBS, queues or (b"w",), count, **options))


def bodies(store: Store, count: int = 1, *queues: bytes, **options: Any) -> list[bytes]:
    """Take messages; their bodies."""
    return [delivery.body for delivery in take(store, count, *queues, **options)]


def take_matching(store: Store, count: int, *patterns: bytes) -> list[WorkDelivery]:
    return store.run(Take(JOBS, (), count, patterns))


def finish(store: Store, *ids: bytes) -> list[bool]:
    return store.run(Finish(JOBS, ids))


def nack(store: Store, *ids: bytes, delay_ms: int = 0, reason: bytes = b"") -> list[bool]:
    return store.run(Requeue(JOBS, ids, True, delay_ms, reason))


def enqueue(store: Store, *ids: bytes, delay_ms: int = 0) -> list[bool]:
    return store.run(Requeue(JOBS, ids, False, delay_ms))


def hold(store: Store, *ids: bytes) -> list[bool]:
    return store.run(Hold(JOBS, ids))


def extend(store: Store, id: bytes, *, is_anytime: bool = False) -> int:
    return store.run(Extend(JOBS, id, is_anytime))


def redrive(store: Store, *ids: bytes) -> int:
    return store.run(Redrive(JOBS, ids))


def show(store: Store, id: bytes) -> WorkView:
    """The message, which is there."""
    view = store.run(Show(JOBS, id))
    assert view is not None
    return view


def is_there(store: Store, id: bytes) -> bool:
    return store.run(Show(JOBS, id)) is not None


def state(store: Store, id: bytes) -> State:
    return show(store, id).state


def counters(store: Store, id: bytes) -> tuple[int, int, int]:
    """Nacks, requeues, deliveries."""
    view = show(store, id)
    return view.nacks or 0, view.requeues or 0, view.deliveries or 0


def due_within(store: Store, id: bytes) -> int:
    """In how many milliseconds something is due, which there is."""
    due_ms = show(store, id).due_within_ms
    assert due_ms is not None
    return due_ms


def look(store: Store, queue: bytes = b"w") -> QueueView:
    """The queue, which is there."""
    view = store.run(LookAt(JOBS, queue))
    assert view is not None
    return view


def counts(store: Store, queue: bytes = b"w") -> tuple[int, int, int, int]:
    """Ready, delayed, leased, dead."""
    view = look(store, queue)
    return view.ready, view.delayed, view.leased, view.dead


def browse(
    store: Store, count: int = 100, state: State = State.READY, queue: bytes = b"w"
) -> list[bytes | None]:
    """The bodies of the messages in that state."""
    return [view.body for view in store.run(Browse(JOBS, queue, state, count))]


def configure(store: Store, queue: bytes = b"w", /, **settings: Any) -> QueueView:
    return store.run(Configure(JOBS, queue, **settings))


def pause_in(store: Store, is_paused: bool = True) -> None:
    configure(store, is_paused_in=is_paused)


def pause_out(store: Store, is_paused: bool = True) -> None:
    configure(store, is_paused_out=is_paused)


def kill(store: Store, *bodies: bytes, reason: bytes = b"", **options: Any) -> list[bytes]:
    """Messages that are dead; their ids."""
    ids = add(store, *bodies, max_deliveries=1, **options)
    taken = [it.message_id for it in take(store, len(bodies), options.get("queue", b"w"))]
    assert sorted(taken) == sorted(ids)
    assert nack(store, *ids, reason=reason) == [True] * len(ids)
    return ids


def all_queues(store: Store, count: int = 10, **options: Any) -> list[bytes]:
    """The names that a scan finds, in alphabetical order."""
    names: list[bytes] = []
    cursor = 0
    for _ in range(100_000):
        cursor, some = store.run(ScanQueues(JOBS, cursor, count, **options))
        names += some
        if cursor == 0:
            return sorted(names)
    raise AssertionError("there is no end to it")


def all_messages(store: Store, count: int = 10, **options: Any) -> list[WorkView]:
    """What a scan finds, in the order of places."""
    views: list[WorkView] = []
    cursor = 0
    for _ in range(100_000):
        cursor, some = store.run(ScanMessages(JOBS, cursor, count, **options))
        views += some
        if cursor == 0:
            return sorted(views, key=lambda view: view.place or 0)
    raise AssertionError("there is no end to it")


def everything(store: Store) -> object:
    """All that can be seen of worklists from outside, to compare before and after."""
    return [look(store, name) for name in all_queues(store)], all_messages(store, with_bodies=True)
