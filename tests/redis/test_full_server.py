"""A Redis whose memory is full: nothing can be added, and all that is there can be delivered and
removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from quinque.errors import NotDone, StoreUnavailable
from quinque.model.claim_ops import DropClaims, FindClaims
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.ops import Ack, Count, FindReady, Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import Inspect
from quinque.model.stage_ops import FindStages
from quinque.model.states import State
from quinque.model.tube_ops import (
    BrowseTasks,
    DropTube,
    FindTubes,
    LookAtTube,
    TakeTasks,
    TruncateTube,
)
from quinque.model.work_ops import (
    Add,
    Browse,
    Extend,
    Finish,
    LookAt,
    LookAtNode,
    Purge,
    Redrive,
    Requeue,
    ScanQueues,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance import item_words, reliable_words, tube_words
from tests.redis.every_change import CASES, G, I, Q, R, S, T, W, open_same, seen
from tests.servers.patience import PATIENCE_S
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


# -- every command ---------------------------------------------------------------------------------

# Operations that add something, or settings, and need memory for it.
REFUSED: Final = frozenset(
    {
        *("put", "put more", "put with an id", "put to the front", "push", "add", "add more"),
        *("add with a delay", "add with a key", "add items", "add more items", "put tasks"),
        *("put delayed tasks", "put into a lane", "make", "stage", "stage more"),
        *("configure", "set an expiry"),
    }
)
# It sets up new partitions one after the other, so the first may be there.
IN_PART: Final = frozenset({"spread"})
SESSIONS: Final = b"quinque:{sessions}:"  # they live by the clock of Redis


def test_every_operation_that_does_not_add_is_carried_out_as_with_room(
    server: RedisServer,
) -> None:
    refused = set()
    for name in CASES:
        with_room, done = played(server, name, is_full=False)
        without, left = played(server, name, is_full=True)
        if isinstance(without, NotDone):
            assert "OOM" in str(without), name
            refused.add(name)
        elif name not in IN_PART:
            assert (without, left) == (with_room, done), name

    assert refused == REFUSED


LOOKS: Final[dict[str, list[Op]]] = {
    "lapse events": [Count(EVENTS, [Q]), Peek(EVENTS, Q, G), Flush(EVENTS, Q)],
    "expire events": [Count(EVENTS), FindReady(EVENTS, G, [Q]), Flush(EVENTS, Q)],
    "lapse jobs": [LookAt(JOBS, W), Take(JOBS, [W], 5), Purge(JOBS, W)],
    "end a delay": [Browse(JOBS, W, State.READY, 5), Take(JOBS, [W], 5)],
    "expire jobs": [LookAt(JOBS, W), Take(JOBS, [], 1, [b"*"]), Redrive(JOBS, queue=W)],
    "expire a queue": [Inspect(RELIABLE, R, False, 0, 5), ScanQueues(RELIABLE, 0, 5)],
    "lapse items": [LookAt(ITEMS, I), Take(ITEMS, [I], 5, lease_ms=1_000), Purge(ITEMS, I)],
    "lapse tasks": [LookAtTube(T), TakeTasks(T, tube_words.ANN, 5), TruncateTube(T)],
    "expire tasks": [BrowseTasks(T, State.READY, 5), FindTubes(), DropTube(T)],
    "forfeit": [FindClaims(), Take(JOBS, [W], 5), DropClaims(W, S)],
    "forget a stage": [FindStages()],
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks_and_removals_find_what_time_made_due(server: RedisServer, name: str) -> None:
    for op in LOOKS[name]:
        with_room, _ = played(server, name, op, is_full=False)
        without, _ = played(server, name, op, is_full=True)
        assert without == with_room, op


def played(
    server: RedisServer, name: str, op: Op | None = None, *, is_full: bool
) -> tuple[Any, dict[bytes, Any]]:
    """The result of the case or of the operation after it, or its error; and what is there then."""
    server.ask("CONFIG", "SET", "maxmemory", 0)
    server.flush()
    clock = ManualClock()
    with closing(open_same(server.url, clock, PATIENCE_S)) as store, server.client() as client:
        op = CASES[name](store, clock) or op
        server.ask("CONFIG", "SET", "maxmemory", int(is_full))
        result: Any = None
        try:
            if op is None:
                store.tick()
            else:
                result = store.run(op)
        except (NotDone, StoreUnavailable) as error:
            result = error
        finally:
            server.ask("CONFIG", "SET", "maxmemory", 0)
        found = {key: it for key, it in seen(client).items() if not key.startswith(SESSIONS)}
        return result, found
