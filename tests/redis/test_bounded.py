"""One script does a bounded amount of work, however many messages there are: Redis does nothing
else meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from math import inf
from typing import Any

import pytest

from quinque.model.claim_ops import MarkClaim, Outcome, SettleClaims
from quinque.model.families import EVENTS, JOBS, RELIABLE
from quinque.model.lifecycle import Kind
from quinque.model.ops import Ack, Count, Flush, Put, Reserve
from quinque.model.own_ops import RELIABLE_TERMS, Complete, ExtendLeases
from quinque.model.work_ops import Add, FindKey, LookAt, Purge, PurgeAll
from quinque.stores.clock import ManualClock
from quinque.stores.pending import Pending
from quinque.stores.redis.calls import Steps
from quinque.stores.redis.runners import RUNNERS
from quinque.stores.redis.served import ServedRedisStore
from quinque.stores.redis.store import RedisStore
from tests.conformance.record_words import rows
from tests.conformance.work_words import add, bodies, counts, finish, take
from tests.redis.claim_words import MANY as CLAIMED
from tests.redis.claim_words import S, fill, fill_up, numbered, subscribe
from tests.servers.redis_server import RedisServer

MANY = 12_000
QUEUES = 350
CHUNKS = 3  # of a claim
SOON_MS = 1_000
# Of the commands in a script, those that a message needs are far more than this for many of them.
IN_SCRIPT_MOST = 300


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(redis_server: RedisServer, clock: ManualClock) -> Iterator[RedisStore]:
    redis_server.client().flushall()
    with closing(RedisStore(redis_server.url, clock=clock)) as opened:
        yield opened


def test_a_take_behind_many_expired_jobs_lets_others_in_between_and_finds_the_living_one(
    store: RedisStore, clock: ManualClock, redis_server: RedisServer
) -> None:
    for _ in range(0, MANY, 1_000):
        add(store, *[b"x"] * 1_000, ttl_ms=SOON_MS)
    add(store, b"alive")
    clock.advance(2 * SOON_MS)
    client = redis_server.client()
    client.config_resetstat()

    given = bodies(store, 1)

    assert given == [b"alive"]
    calls = {name: row["calls"] for name, row in client.info("commandstats").items()}
    scripts = calls.get("cmdstat_evalsha", 0) + calls.get("cmdstat_fcall", 0)
    assert scripts > 1
    assert sum(calls.values()) / scripts < IN_SCRIPT_MOST


def test_an_addition_with_a_length_removes_many_expired_jobs_by_several_calls(
    store: RedisStore, clock: ManualClock, redis_server: RedisServer
) -> None:
    for _ in range(0, MANY, 1_000):
        add(store, *[b"x"] * 1_000, ttl_ms=SOON_MS)
    clock.advance(2 * SOON_MS)
    client = redis_server.client()
    client.config_resetstat()

    assert add(store, b"new", max_length=1)

    calls = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls > MANY // 5_000
    assert bodies(store, 5) == [b"new"]


def test_jobs_of_a_large_queue_that_was_removed_are_gone_at_once(store: RedisStore) -> None:
    for _ in range(3):
        add(store, *[b"x"] * 1_000)
    ids = [delivery.message_id for delivery in take(store, 3_000)]
    store.run(Purge(JOBS, b"w", forgets=True))

    assert not any(finish(store, *ids))
    (new,) = add(store, b"new")
    assert finish(store, ids[-1], new) == [False, True]

    while store.next_due_ms() <= store.now_ms():
        store.tick()
    ends = [row.seen for row in rows(store, 10_000) if row.seen.kind in (Kind.ACKED, Kind.REMOVED)]
    assert sorted(end.id for end in ends) == sorted([*ids, new])
    assert store.info()["messages"] == 0


def test_keys_of_a_large_queue_that_was_removed_are_free_at_once(store: RedisStore) -> None:
    add(store, b"claimed")
    fill(store, subscribe(store), 1)
    ids = [add(store, b"x", key=b"%d" % number)[0] for number in range(1_100)]
    store.run(Purge(JOBS, b"w", forgets=True))

    (new,) = add(store, b"new", key=b"1099")
    assert new != ids[-1]
    while store.next_due_ms() <= store.now_ms():
        store.tick()
    assert store.run(FindKey(JOBS, b"w", b"1099")) == new
    assert add(store, b"x", key=b"1098") != ids[-2:-1]
    assert counts(store) == (2, 0, 0, 0)


def test_a_flush_of_many_events_takes_several_calls_and_leases_stay(
    store: RedisStore, redis_server: RedisServer
) -> None:
    for _ in range(0, MANY, 1_000):
        store.run(Put(EVENTS, b"e", [b"x"] * 1_000))
    held = [it.message_id for it in store.run(Reserve(EVENTS, b"e", b"g", 60_000, 5_000))]
    client = redis_server.client()
    client.config_resetstat()

    store.run(Flush(EVENTS, b"e"))

    assert client.info("commandstats")["cmdstat_evalsha"]["calls"] > 1
    assert store.run(Count(EVENTS, [b"e"]))[0].total == 0
    assert store.run(Reserve(EVENTS, b"e", b"g", 60_000)) == []
    assert store.run(Ack(EVENTS, b"e", b"g", held)) == [True] * len(held)


def test_a_request_about_very_many_ids_takes_several_calls(
    store: RedisStore, redis_server: RedisServer
) -> None:
    bodies = [b"x"] * 5_001
    elements = store.run(Add(RELIABLE, b"r", bodies, RELIABLE_TERMS))
    store.run(Put(EVENTS, b"e", bodies))
    events = [it.message_id for it in store.run(Reserve(EVENTS, b"e", b"g", 60_000, len(bodies)))]
    client = redis_server.client()
    client.config_resetstat()

    completed = store.run(Complete(RELIABLE, b"r", [*elements, elements[0]], is_leased=False))
    extended = store.run(ExtendLeases(EVENTS, b"e", events, 60_000, b"g"))

    calls = {name: row["calls"] for name, row in client.info("commandstats").items()}
    assert calls.get("cmdstat_eval", 0) + calls.get("cmdstat_evalsha", 0) == 6
    assert completed == [True] * len(elements) + [False]
    assert extended == [True] * len(events)


def test_events_that_are_added_during_a_flush_stay(store: RedisStore) -> None:
    for _ in range(0, MANY, 1_000):
        store.run(Put(EVENTS, b"e", [b"x"] * 1_000))
    steps = RUNNERS[Flush](Flush(EVENTS, b"e"), store._store.edge)
    calls = next(steps)

    def one_call() -> Steps:
        return (yield calls)

    results = store.finish(one_call())
    store.run(Put(EVENTS, b"e", [b"later"]))
    store.run(Put(EVENTS, b"e", [b"in front"], to_front=True))
    assert 2 < store.run(Count(EVENTS, [b"e"]))[0].total < MANY
    store.finish(_go_on(steps, results))

    left = store.run(Reserve(EVENTS, b"e", b"g", 60_000, 10))
    assert [it.body for it in left] == [b"in front", b"later"]


def _go_on(steps: Steps, results: list[Any]) -> Steps:
    """The rest of the steps, which have asked for calls with these results."""
    try:
        while True:
            results = yield steps.send(results)
    except StopIteration:
        return None


def test_a_purge_of_very_many_queues_with_claimed_messages_has_an_end(store: RedisStore) -> None:
    queues = [b"{slot}%d" % number for number in range(QUEUES)]
    for name in queues:
        add(store, b"claimed", b"waits", queue=name)
        fill(store, subscribe(store, queue=name), 1, queue=name)

    purge = RUNNERS[PurgeAll](PurgeAll(JOBS), store._store.edge)

    assert store.finish(_with_an_end(purge)) == QUEUES
    assert [store.run(LookAt(JOBS, name)).ready for name in queues] == [0] * QUEUES


def test_a_purge_reaches_queues_behind_very_many_of_another_family(store: RedisStore) -> None:
    for number in range(3_100):
        store.run(Add(RELIABLE, b"{slot}%d" % number, [b"x"], RELIABLE_TERMS))
    add(store, b"x", queue=b"{slot}jobs")

    assert store.run(PurgeAll(JOBS)) == 1


def _with_an_end(steps: Steps, calls_most: int = 100) -> Steps:
    """The steps, which ask for a few calls only."""
    try:
        calls = next(steps)
        for _ in range(calls_most):
            calls = steps.send((yield calls))
    except StopIteration as done:
        return done.value
    raise AssertionError(f"not at an end after {calls_most} calls")


@pytest.mark.parametrize("every", [1, 100])
def test_a_step_of_closing_a_claim_reads_the_marks_of_its_own_messages(
    store: RedisStore, redis_server: RedisServer, every: int
) -> None:
    ids = add(store, *numbered(CLAIMED))
    view = subscribe(store)
    fill_up(store, view, 1)
    marked = ids[::every]
    assert store.run(MarkClaim(b"w", S, 1, Outcome.NACK, marked)) == len(marked)
    client = redis_server.client()
    client.config_resetstat()

    assert store.run(SettleClaims(b"w", S, view.epoch, 1)) == CLAIMED - len(marked)

    calls = {name: row["calls"] for name, row in client.info("commandstats").items()}
    assert counts(store)[0] == len(marked)
    # Marks are read all at once while they are few.
    few = 1 if every > 1 else 0
    assert calls.get("cmdstat_hgetall", 0) <= few * CHUNKS


@pytest.mark.parametrize(("queues", "is_asked_again"), [(10, True), (400, False)])
def test_facts_of_many_slots_are_not_asked_for_each_time(
    redis_server: RedisServer,
    redis_url: str,
    queues: int,
    is_asked_again: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quinque.stores.redis.served._INFO_RESTS", inf)  # however slow it is here
    client = redis_server.client()

    def scripts() -> int:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])

    async def play() -> None:
        store = await ServedRedisStore.open(redis_url, is_alone=True)
        for number in range(queues):
            await settled(store.run(Put(EVENTS, b"q%d" % number, [b"1"])))
        await settled(store.info())
        before = scripts()

        facts = await settled(store.info())
        assert facts["queues"] == queues
        assert (scripts() > before) == is_asked_again
        await store.aclose()

    asyncio.run(play())


async def settled(pending: Pending) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future
