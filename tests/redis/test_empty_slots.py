"""Slots that were used once, and have nothing in them now, cost an idle broker next to nothing, and
hide nothing that comes into them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis

from quinque.model.claim_ops import OpenClaims
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Flush, Op, Put
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.pending import Pending
from quinque.stores.redis.empty_slots import EmptySlots
from quinque.stores.redis.keys import ALL_SLOTS, slot_of, tags
from quinque.stores.redis.served import ServedRedisStore
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_server import RedisServer

SLOTS = 3_000
ROUNDS = 30  # after which every slot was visited
QUEUE = b"q"
SLOT = slot_of(QUEUE)


# -- what is believed -----------------------------------------------------------------------------


def test_a_slot_is_believed_to_be_empty_until_something_begins_there() -> None:
    empty = EmptySlots()
    empty.end_look(empty.begin_look(), {1: True, 2: True, 3: False})
    assert empty.believed == {1, 2}

    empty.hear(1)
    assert empty.believed == {2}


def test_a_notice_that_is_faster_than_the_answer_to_a_look_is_not_lost() -> None:
    empty = EmptySlots()
    begun = empty.begin_look()
    empty.hear(1)
    empty.end_look(begun, {1: True, 2: True})

    assert empty.believed == {2}
    empty.end_look(empty.begin_look(), {1: True})
    assert empty.believed == {1, 2}


def test_nothing_is_believed_when_notices_may_have_been_lost() -> None:
    empty = EmptySlots()
    empty.end_look(empty.begin_look(), {1: True})
    begun = empty.begin_look()
    empty.miss()
    empty.end_look(begun, {2: True})

    assert empty.believed == set()


# -- brokers --------------------------------------------------------------------------------------


@asynccontextmanager
async def broker(url: str) -> AsyncIterator[ServedRedisStore]:
    """A store as a broker has it, which hears what others do. Its time stands still, and it looks
    round only when a test lets it: so nothing depends on how long a test takes."""
    store = await ServedRedisStore.open(url, clock=ManualClock())
    try:
        assert store._round is not None
        store._round.cancel()
        async with asyncio.timeout(PATIENCE_S):
            while not store.edge.empty._missed:  # it listens
                await asyncio.sleep(0.01)
        yield store
    finally:
        await store.aclose()


async def run(store: ServedRedisStore, op: Op) -> Any:
    pending = store.run(op)
    assert isinstance(pending, Pending)
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future


async def rounds(store: ServedRedisStore, count: int = ROUNDS) -> None:
    for _ in range(count):
        store.look_round()
        async with asyncio.timeout(PATIENCE_S):
            while not store.is_idle:
                await asyncio.sleep(0)


async def until_heard(store: ServedRedisStore, slot: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while slot in store.edge.empty.believed:
            await asyncio.sleep(0.01)


def note_all(server: RedisServer) -> redis.Redis:
    """Every slot had a queue once."""
    client = server.client()
    client.sadd(ALL_SLOTS, *tags()[:SLOTS], tags()[SLOT])
    return client


def scripts(client: redis.Redis) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_an_idle_broker_visits_empty_slots_rarely(
    redis_server: RedisServer, redis_url: str
) -> None:
    client = note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store:
            await rounds(store)
            before = scripts(client)
            await rounds(store)

            # Of 3,000 slots, 100 in a round before. The record is looked at besides, by 3,000.
            assert scripts(client) - before < ROUNDS * 20 + 2 * SLOTS

    asyncio.run(play())


def test_a_client_that_waits_for_any_queue_does_not_visit_empty_slots(
    redis_server: RedisServer, redis_url: str
) -> None:
    client = note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store:
            await rounds(store)
            before = scripts(client)
            assert await run(store, Take(JOBS, [], 1, [b"*"], is_waiting=True)) == []
            assert scripts(client) - before < 20

    asyncio.run(play())


OPS = {
    "a job": Add(JOBS, QUEUE, [b"1"], Terms(60_000)),
    "a delayed job": Add(JOBS, QUEUE, [b"1"], Terms(60_000, delay_ms=1_000)),
    "an event": Put(EVENTS, QUEUE, [b"1"]),
    "a subscription": OpenClaims(JOBS, QUEUE, b"s", b"", 1_000),
}


@pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
def test_what_another_broker_begins_in_an_empty_slot_is_noticed(
    redis_server: RedisServer, redis_url: str, op: Op
) -> None:
    note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store, broker(redis_url) as other:
            await rounds(store)
            assert SLOT in store.edge.empty.believed
            await run(other, op)
            await until_heard(store, SLOT)

            await rounds(store)
            assert SLOT not in store.edge.empty.believed

    asyncio.run(play())


def test_a_client_that_waits_for_any_queue_gets_what_came_into_an_empty_slot(
    redis_server: RedisServer, redis_url: str
) -> None:
    note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store, broker(redis_url) as other:
            await rounds(store)
            take = Take(JOBS, [], 1, [b"*"], is_waiting=True)
            assert await run(store, take) == []
            await run(other, OPS["a job"])
            await until_heard(store, SLOT)
            assert [it.body for it in await run(store, take)] == [b"1"]

    asyncio.run(play())


def test_a_client_that_does_not_wait_visits_every_slot(
    redis_server: RedisServer, redis_url: str
) -> None:
    note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store, broker(redis_url) as other:
            await rounds(store)
            await run(other, OPS["a job"])
            store.edge.empty.believed.add(SLOT)  # as if the notice were late
            assert await run(store, Take(JOBS, [], 1, [b"*"]))

    asyncio.run(play())


def test_a_slot_is_empty_again_when_its_last_queue_is_gone(
    redis_server: RedisServer, redis_url: str
) -> None:
    note_all(redis_server)

    async def play() -> None:
        async with broker(redis_url) as store:
            await run(store, OPS["an event"])
            await rounds(store)
            assert SLOT not in store.edge.empty.believed
            await run(store, Flush(EVENTS, QUEUE))
            await rounds(store)
            assert SLOT in store.edge.empty.believed

    asyncio.run(play())
