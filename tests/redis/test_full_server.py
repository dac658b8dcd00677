"""A Redis whose memory is full: nothing can be added, and all that is there can be delivered and
removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quinque.errors import NotDone
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Flush, Put, Release, Reserve
from quinque.model.work_ops import (
    Add,
    Extend,
    Finish,
    LookAt,
    LookAtNode,
    Purge,
    Requeue,
    ScanQueues,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance import item_words, reliable_words, tube_words
from tests.servers.redis_server import RedisServer

TERMS = Terms(ttl_ms=600_000, retry_ms=60_000)
Play = Callable[[RedisStore, ManualClock], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(server: RedisServer, clock: ManualClock) -> Iterator[RedisStore]:
    """With messages of every family, and full."""
    server.ask("CONFIG", "SET", "maxmemory", 0)
    server.flush()
    store = RedisStore(server.url, clock=clock)
    store.run(Put(EVENTS, b"e", [b"1", b"2"]))
    store.run(Reserve(EVENTS, b"e", b"g", 60_000, 1))
    store.run(Add(JOBS, b"j", [b"1", b"2"], TERMS))
    reliable_words.push(store, b"1", b"2")
    item_words.add(store, b"1", b"2")
    tube_words.begin(store)
    tube_words.put(store, b"1", b"2")
    server.ask("CONFIG", "SET", "maxmemory", 1)
    yield store
    server.ask("CONFIG", "SET", "maxmemory", 0)
    store.close()


def take_job(store: RedisStore) -> bytes:
    (given,) = store.run(Take(JOBS, [b"j"]))
    id: bytes = given.message_id
    return id


def lapse(store: RedisStore, clock: ManualClock) -> int:
    take_job(store)
    clock.advance(61_000)
    store.tick()
    view = store.run(LookAt(JOBS, b"j"))
    ready: int = view.ready
    return ready


DRAINED: dict[str, tuple[Play, Any]] = {
    "reserve": (lambda store, _: len(store.run(Reserve(EVENTS, b"e", b"g", 60_000, 5))), 1),
    "ack": (lambda store, _: store.run(Ack(EVENTS, b"e", b"g", [first_event(store)])), [True]),
    "release": (
        lambda store, _: store.run(Release(EVENTS, b"e", b"g", [first_event(store)])),
        [True],
    ),
    "flush": (lambda store, _: store.run(Flush(EVENTS, b"e")), None),
    "take": (lambda store, _: len(take_job(store)), 40),
    "finish": (lambda store, _: store.run(Finish(JOBS, [take_job(store)])), [True]),
    "requeue": (
        lambda store, _: store.run(Requeue(JOBS, [take_job(store)], is_nack=False)),
        [True],
    ),
    "extend": (lambda store, _: store.run(Extend(JOBS, take_job(store))) > 0, True),
    "lapse": (lapse, 2),
    "purge": (lambda store, _: store.run(Purge(JOBS, b"j")), 2),
    "pop": (lambda store, _: reliable_words.popped(store, 5), [b"1", b"2"]),
    "delete": (lambda store, _: reliable_words.delete(store, reliable_words.QUEUE), 1),
    "lease": (lambda store, _: len(item_words.lease(store)), 1),
    "complete": (lambda store, _: item_words.complete(store, b"1"), [True]),
    "take a task": (lambda store, _: len(tube_words.take(store)), 1),
    "bury": (lambda store, _: len(tube_words.bury(store, *tube_words.take(store))), 1),
}


def first_event(store: RedisStore) -> bytes:
    """The event that is leased."""
    (given,) = store.run(Reserve(EVENTS, b"e", b"other", 60_000, 1))
    id: bytes = given.message_id
    return id


def test_a_broker_starts_and_looks_at_all_queues(
    store: RedisStore, server: RedisServer, clock: ManualClock
) -> None:
    store.run(Take(JOBS, [b"a queue of a new slot"]))

    other = RedisStore(server.url, node="other", clock=clock)
    try:
        assert other.run(LookAtNode())
        cursor, names = other.run(ScanQueues(JOBS, 0, 100))
        while cursor:
            cursor, more = other.run(ScanQueues(JOBS, cursor, 100))
            names += more
        assert b"j" in names
    finally:
        other.close()


@pytest.mark.parametrize("name", DRAINED)
def test_what_is_there_can_be_delivered_and_removed(
    store: RedisStore, clock: ManualClock, name: str
) -> None:
    with pytest.raises(NotDone, match="OOM"):
        store.run(Add(JOBS, b"j", [b"3"], TERMS))

    play, expected = DRAINED[name]
    assert play(store, clock) == expected
