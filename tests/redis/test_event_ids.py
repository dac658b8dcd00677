"""Ids of events that several brokers add to one Redis: none is given out twice, and those of a
queue increase. The clock of the brokers stands still, so that all make ids for the same moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest
import redis

from quinque.errors import LimitReached
from quinque.model.families import EVENTS
from quinque.model.ops import Count, Put
from quinque.stores.clock import ManualClock
from quinque.stores.pending import Pending
from quinque.stores.redis import event_ids
from quinque.stores.redis.event_lanes import BROKERS_MOST
from quinque.stores.redis.keys import EVENT_IDS, slot_key, slot_of
from quinque.stores.redis.served import ServedRedisStore
from quinque.stores.redis.store import RedisStore
from tests.redis.conftest import Open

QUEUES = [b"q%d" % number for number in range(40)]
_LANES = 21  # slots to which a broker can add at the same moment, and ids still differ


def test_ids_of_two_brokers_in_the_same_moment_are_different(
    store: RedisStore, other: RedisStore
) -> None:
    ids: list[bytes] = []
    for number, queue in enumerate(QUEUES):
        one, two = (store, other) if number % 3 else (other, store)
        ids += one.run(Put(EVENTS, queue, [b"a", b"b", b"c"]))
        ids += two.run(Put(EVENTS, QUEUES[number // 2], [b"d"] * (number % 4 + 1)))

    assert repeated(ids) == []


def test_ids_of_a_queue_increase_whichever_broker_adds(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    ids: list[int] = []
    for number in range(60):
        broker = store if number * number % 7 < 3 else other
        ids += map(int, broker.run(Put(EVENTS, b"q", [b"x"] * (number % 5 + 1))))
        if number % 10 == 0:
            clock.advance(1)

    assert ids == sorted(set(ids))


def test_ids_of_one_broker_increase_across_queues(store: RedisStore) -> None:
    ids = [int(id) for queue in QUEUES for id in store.run(Put(EVENTS, queue, [b"x", b"y"]))]

    assert ids == sorted(set(ids))


def test_ids_of_additions_that_are_under_way_together_are_different(url: str) -> None:
    """Each broker has one addition for each queue under way, and some find that another broker was
    in the slot."""

    async def work() -> list[bytes]:
        clock = ManualClock()
        brokers = [await open_broker(url, clock) for _ in range(3)]
        ids: list[bytes] = []
        for number in range(12):
            queues = QUEUES[number % 3 :: number % 5 + 1][:_LANES]
            puts = [Put(EVENTS, queue, [b"x"] * (number % 3 + 1)) for queue in queues]
            asked = [broker.run(put) for put in puts for broker in brokers]
            for pending in asked:
                ids += await answer(pending)
            if number % 4 == 0:
                clock.advance(1)
        for broker in brokers:
            await broker.aclose()
        return ids

    assert repeated(asyncio.run(work())) == []


def test_ids_are_not_repeated_by_brokers_that_come_and_go(url: str) -> None:
    """Some are killed, and the clock of each is behind that of the one before."""

    async def work() -> list[bytes]:
        ids: list[bytes] = []
        for number in range(8):
            broker = await open_broker(url, ManualClock(1_700_000_000_000_000 - number * 1000))
            for queue in QUEUES[number::3]:
                ids += await answer(broker.run(Put(EVENTS, queue, [b"x"] * 3)))
            if number % 2:
                await broker.aclose()
            else:
                broker.close()
        return ids

    assert repeated(asyncio.run(work())) == []


def test_an_addition_is_one_call(store: RedisStore, other: RedisStore, foreign: Any) -> None:
    for broker in (other, store):  # Redis knows the scripts then, and the brokers the slot
        broker.run(Put(EVENTS, b"q", [b"x"] * 100))
    before = calls(foreign)

    for number in range(10):
        (store if number % 2 else other).run(Put(EVENTS, b"q", [b"x"]))

    assert calls(foreign) - before == 10


def test_many_slots_at_once_share_a_lane_and_find_another_broker_there(url: str) -> None:
    """Additions in more slots than there are lanes, in slots where another broker is ahead."""
    queues = [b"many%d" % number for number in range(300)]

    async def work() -> list[list[bytes]]:
        clock = ManualClock()
        one, two = [await open_broker(url, clock) for _ in range(2)]
        ids: list[list[bytes]] = []
        for broker in (two, one, two, one):
            asked = [broker.run(Put(EVENTS, queue, [b"x", b"y"])) for queue in queues]
            ids += [await answer(pending) for pending in asked]
        await one.aclose()
        await two.aclose()
        return ids

    ids = asyncio.run(work())

    assert repeated(id for some in ids for id in some) == []
    for at in range(len(queues)):
        in_queue = [int(id) for some in ids[at :: len(queues)] for id in some]
        assert in_queue == sorted(in_queue)


def test_a_number_is_free_again_after_a_broker_has_closed_and_not_before(
    store: RedisStore, url: str, foreign: Any
) -> None:
    with closing(RedisStore(url)) as other:
        other.run(Put(EVENTS, b"q", [b"x"]))
        assert sorted(foreign.hkeys(EVENT_IDS)) == [b"0", b"1"]

    assert sorted(foreign.hkeys(EVENT_IDS)) == [b"0"]


def test_a_number_whose_lease_has_ended_goes_to_the_next_broker(
    store: RedisStore, open_one: Open, foreign: Any
) -> None:
    ids = store.run(Put(EVENTS, b"q", [b"x"] * 50))
    token, _ = foreign.hget(EVENT_IDS, "0").split()
    foreign.hset(EVENT_IDS, "0", token + b" 1000")  # it ended in 1970

    other = open_one()
    ids += other.run(Put(EVENTS, b"elsewhere", [b"x"] * 50))

    assert not foreign.hget(EVENT_IDS, "0").startswith(token)
    assert repeated(ids) == []


def test_a_broker_that_has_lost_its_number_gets_another(
    store: RedisStore, open_one: Open, clock: ManualClock, foreign: Any
) -> None:
    foreign.delete(EVENT_IDS)  # as after a failover that lost it
    other = open_one()
    ids = other.run(Put(EVENTS, b"elsewhere", [b"x"] * 50))
    clock.advance(61_000)  # it asks whether the number is still its own

    ids += store.run(Put(EVENTS, b"q", [b"x"] * 50))
    ids += other.run(Put(EVENTS, b"third", [b"x"] * 50))

    assert sorted(foreign.hkeys(EVENT_IDS)) == [b"0", b"1"]
    assert repeated(ids) == []


@pytest.mark.parametrize(("timeout_s", "lease_s"), [(5, 120), (90, 150)])
def test_the_number_of_a_broker_that_was_killed_is_free_two_minutes_later(
    url: str, foreign: Any, timeout_s: float, lease_s: int
) -> None:
    """Or when the last addition that it began is over."""
    with closing(RedisStore(url, timeout_s=timeout_s)):
        ends_ms = int(foreign.hget(EVENT_IDS, "0").split()[1])

        assert 0 < ends_ms / 1000 - time_of(foreign) <= lease_s


def test_a_broker_keeps_its_number_every_fifteen_seconds(
    store: RedisStore, clock: ManualClock, foreign: Any
) -> None:
    token, _ = foreign.hget(EVENT_IDS, "0").split()
    foreign.hset(EVENT_IDS, "0", token + b" 1000")  # so that it shows when it is kept

    clock.advance(14_000)
    store.finish(event_ids.keep(store._store.edge))
    assert foreign.hget(EVENT_IDS, "0") == token + b" 1000"
    clock.advance(2_000)
    store.finish(event_ids.keep(store._store.edge))

    assert int(foreign.hget(EVENT_IDS, "0").split()[1]) / 1000 > time_of(foreign)


def test_a_broker_without_a_number_refuses_events_and_adds_nothing(
    url: str, foreign: Any, clock: ManualClock
) -> None:
    taken = {str(number): b"another 9999999999999" for number in range(BROKERS_MOST)}
    foreign.hset(EVENT_IDS, mapping=taken)
    with closing(RedisStore(url, clock=clock)) as store:
        with pytest.raises(LimitReached, match="151 brokers use this store already"):
            store.run(Put(EVENTS, b"q", [b"x"]))

        assert store.run(Count(EVENTS, [b"q"]))[0].total == 0
        foreign.hdel(EVENT_IDS, "77")
        assert len(store.run(Put(EVENTS, b"q", [b"x"]))) == 1


async def open_broker(url: str, clock: ManualClock) -> ServedRedisStore:
    return await ServedRedisStore.open(url, clock=clock, is_alone=True)


async def answer(pending: Pending) -> list[bytes]:
    future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future


def calls(foreign: Any) -> int:
    """How many scripts the server of the queue q was asked to run."""
    where = {}
    if isinstance(foreign, redis.RedisCluster):
        where["target_nodes"] = foreign.get_node_from_key(slot_key(slot_of(b"q")))
    said = foreign.info("commandstats", **where)
    return int(said["cmdstat_evalsha"]["calls"])


def time_of(foreign: Any) -> float:
    """The time of the server that leases the numbers."""
    where = {}
    if isinstance(foreign, redis.RedisCluster):
        where["target_nodes"] = foreign.get_node_from_key(EVENT_IDS)
    seconds, us = foreign.time(**where)
    return int(seconds) + int(us) / 1_000_000


def repeated(ids: Iterable[bytes]) -> list[bytes]:
    """The ids that were given out more than once."""
    return [id for id, count in Counter(ids).items() if count > 1]
