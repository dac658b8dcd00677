"""Queues of items that were damaged, and what cleaning makes of them: on a single Redis, whose keys
are changed here as no client would, or as one that died between two commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quinque.model.families import ITEMS
from quinque.model.own_ops import CleanItems
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.item_words import add, clean, complete, extend, lease, lengths
from tests.servers.redis_server import RedisServer

Q = b"{i}"
QUEUE, PROCESSING, ITEM = Q + b":queue", Q + b":processing", Q + b":item:"
NEW, OLD = Q + b":lease:", Q + b":leased_by_session:"


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_url, clock=ManualClock())) as opened:
        yield opened


@pytest.fixture
def keys(redis_server: RedisServer) -> redis.Redis:
    return redis_server.client()


def found(store: RedisStore, *, is_deep: bool, count: int = 1_000) -> tuple[int, int, int]:
    done = clean(store, is_deep=is_deep, count=count)
    return done.returned, done.dropped, done.doubled


# -- what may be wrong -------------------------------------------------------------------------


def test_an_item_in_no_list_is_found_by_deep_cleaning(store: RedisStore, keys: redis.Redis) -> None:
    add(store, b"1")
    keys.set(ITEM + b"lost", b"data")

    assert found(store, is_deep=False) == (0, 0, 0)
    assert found(store, is_deep=True) == (1, 0, 0)
    assert lease(store, 9) == [b"1", b"lost"]


def test_an_item_in_no_list_is_found_where_no_broker_knows_the_queue(
    store: RedisStore, keys: redis.Redis
) -> None:
    keys.set(ITEM + b"lost", b"data")

    assert found(store, is_deep=True) == (1, 0, 0)
    assert lengths(store) == (1, 0)


def test_an_item_in_no_list_that_somebody_has_stays_theirs(
    store: RedisStore, keys: redis.Redis
) -> None:
    keys.set(ITEM + b"1", b"data")
    keys.set(OLD + b"1", b"session", ex=60)

    assert found(store, is_deep=True) == (0, 0, 0)
    assert complete(store, b"1") == [True]


@pytest.mark.parametrize("is_deep", [False, True])
def test_an_abandoned_item_comes_back(store: RedisStore, keys: redis.Redis, is_deep: bool) -> None:
    add(store, b"1", b"2", b"3")
    lease(store, 2)
    keys.delete(NEW + b"1", OLD + b"1")

    assert found(store, is_deep=is_deep) == (1, 0, 0)
    assert (lengths(store), lease(store, 9)) == ((2, 1), [b"3", b"1"])


def test_ids_without_items_are_dropped(store: RedisStore, keys: redis.Redis) -> None:
    add(store, b"1", b"2")
    keys.lpush(QUEUE, b"gone", b"gone")
    keys.rpush(QUEUE, b"gone too")
    keys.lpush(PROCESSING, b"gone")

    assert found(store, is_deep=False) == (0, 1, 0)
    assert found(store, is_deep=True) == (0, 3, 0)
    assert keys.lrange(QUEUE, 0, -1) == [b"2", b"1"]
    assert not keys.exists(PROCESSING)


def test_of_an_id_that_is_queued_twice_the_older_one_stays(
    store: RedisStore, keys: redis.Redis
) -> None:
    add(store, b"1", b"2", b"3")
    keys.lpush(QUEUE, b"2", b"1", b"1")

    assert found(store, is_deep=True) == (0, 0, 3)
    assert keys.lrange(QUEUE, 0, -1) == [b"3", b"2", b"1"]


def test_an_id_that_is_twice_in_processing_is_there_once(
    store: RedisStore, keys: redis.Redis
) -> None:
    add(store, b"held", b"abandoned")
    lease(store, 2)
    keys.delete(NEW + b"abandoned", OLD + b"abandoned")
    keys.lpush(PROCESSING, b"abandoned", b"held", b"held")

    assert found(store, is_deep=False) == (1, 0, 3)
    assert (keys.lrange(PROCESSING, 0, -1), lease(store)) == ([b"held"], [b"abandoned"])


def test_an_id_in_both_lists_is_in_the_one_that_its_lease_tells(
    store: RedisStore, keys: redis.Redis
) -> None:
    add(store, b"held", b"free")
    lease(store)
    keys.lpush(QUEUE, b"held")
    keys.lpush(PROCESSING, b"free")

    assert found(store, is_deep=True) == (0, 0, 2)
    assert keys.lrange(QUEUE, 0, -1) == [b"free"]
    assert keys.lrange(PROCESSING, 0, -1) == [b"held"]


def test_what_a_cleaner_of_older_clients_left_half_done_comes_back(
    store: RedisStore, keys: redis.Redis
) -> None:
    """It had noted the id, and taken it out of the list."""
    add(store, b"1")
    lease(store)
    keys.delete(NEW + b"1", OLD + b"1", PROCESSING)
    keys.lpush(Q + b":cleaning", b"1")

    assert found(store, is_deep=True) == (1, 0, 0)
    assert lease(store) == [b"1"]
    assert complete(store, b"1") == [True]
    assert not keys.exists(Q + b":cleaning")


def test_queues_whose_names_are_alike_are_not_mixed_up(
    store: RedisStore, keys: redis.Redis
) -> None:
    """Patterns in names match themselves only; and `{i}:item` has keys that begin as items of {i}
    do."""
    add(store, b"1", queue=b"{i}[ab]*")
    add(store, b"1", queue=b"{i}a*")
    add(store, b"1", b"2", queue=b"{i}:item")
    lease(store, queue=b"{i}:item")
    keys.set(b"{i}[ab]*:item:lost", b"data")

    assert clean(store, is_deep=True, queue=b"{i}[ab]*").returned == 1
    assert clean(store, is_deep=True, queue=b"{i}").returned == 0
    assert clean(store, is_deep=True, queue=b"{i}a*").returned == 0


# -- slices ------------------------------------------------------------------------------------


def test_long_lists_are_cleaned_in_slices(store: RedisStore, keys: redis.Redis) -> None:
    ids = [b"%d" % number for number in range(5_000)]
    add(store, *ids)
    lease(store, 2_500)
    keys.delete(*(kind + id for kind in (NEW, OLD) for id in ids[:2_500]))
    keys.lpush(QUEUE, *(b"gone %d" % number for number in range(50)))
    keys.mset({ITEM + b"lost %d" % number: b"data" for number in range(150)})

    first = store.run(CleanItems(ITEMS, Q, is_deep=True, count=1_000))
    assert (first.returned, first.cursor != 0) == (1_000, True)
    cursor, returned, dropped = first.cursor, first.returned, 0
    while cursor:
        done = store.run(CleanItems(ITEMS, Q, is_deep=True, cursor=cursor, count=1_000))
        cursor = done.cursor
        returned, dropped = returned + done.returned, dropped + done.dropped

    assert (returned, dropped) == (2_650, 50)
    assert lengths(store) == (5_150, 0)
    assert Counter(keys.lrange(QUEUE, 0, -1)).most_common(1)[0][1] == 1


def test_a_broker_that_does_not_know_the_cursor_begins_anew(
    store: RedisStore, redis_url: str, keys: redis.Redis
) -> None:
    add(store, *(b"%d" % number for number in range(3_000)))
    keys.set(ITEM + b"lost", b"data")
    begun = store.run(CleanItems(ITEMS, Q, is_deep=True, count=10))

    with closing(RedisStore(redis_url, clock=ManualClock())) as other:
        cursor, returned = begun.cursor, 0
        while cursor:
            done = other.run(CleanItems(ITEMS, Q, is_deep=True, cursor=cursor, count=1_000))
            cursor, returned = done.cursor, returned + done.returned
    assert returned == 1


def test_lists_that_are_too_long_to_be_looked_through_at_once(
    store: RedisStore, keys: redis.Redis
) -> None:
    """Longer than lib/items_is_queued.lua looks; what is deep inside is found by its place."""
    ids = [b"%d" % number for number in range(45_000)]
    for at in range(0, len(ids), 5_000):
        add(store, *ids[at : at + 5_000])
    keys.execute_command("LINSERT", QUEUE, "BEFORE", b"22500", b"gone")
    keys.execute_command("LINSERT", QUEUE, "BEFORE", b"22600", b"22700")
    keys.set(ITEM + b"lost", b"data")
    keys.execute_command("LREM", QUEUE, 1, b"21000")
    assert complete(store, b"22000", b"44999", b"0") == [True] * 3

    assert found(store, is_deep=True, count=100_000) == (2, 2, 1)

    queued = keys.lrange(QUEUE, 0, -1)
    assert Counter(queued).most_common(1)[0][1] == 1
    assert set(queued) == {*ids, b"lost"} - {b"22000", b"44999", b"0"}


# -- anything ----------------------------------------------------------------------------------

IDS = [b"a", b"b", b"c", b"d"]
DAMAGE = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from([QUEUE, PROCESSING]), st.sampled_from(IDS)),
        st.tuples(st.just("drop"), st.sampled_from([QUEUE, PROCESSING]), st.sampled_from(IDS)),
        st.tuples(st.just("data"), st.sampled_from([ITEM]), st.sampled_from(IDS)),
        st.tuples(st.just("gone"), st.sampled_from([ITEM, NEW, OLD]), st.sampled_from(IDS)),
        st.tuples(st.just("held"), st.sampled_from([NEW, OLD]), st.sampled_from(IDS)),
    ),
    max_size=20,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damage=DAMAGE)
def test_whatever_was_done_to_it_deep_cleaning_puts_it_right(
    store: RedisStore, keys: redis.Redis, damage: list[tuple[str, bytes, bytes]]
) -> None:
    keys.flushdb()
    add(store, *IDS)
    lease(store, 2)
    pipeline = keys.pipeline(transaction=False)
    for what, key, id in damage:
        if what == "push":
            pipeline.lpush(key, id)
        elif what == "drop":
            pipeline.execute_command("LREM", key, 1, id)
        elif what == "data":
            pipeline.set(key + id, b"data")
        elif what == "gone":
            pipeline.delete(key + id)
        else:
            pipeline.set(key + id, b"session", ex=60)
    pipeline.execute()
    there = {id for id in IDS if keys.exists(ITEM + id)}
    held = {id for id in there if keys.exists(NEW + id, OLD + id)}

    clean(store, is_deep=True)

    queued, processing = keys.lrange(QUEUE, 0, -1), keys.lrange(PROCESSING, 0, -1)
    assert sorted(id for id in queued if id not in held) == sorted(there - held)
    assert len(set(processing)) == len(processing)
    assert set(processing) <= held
    assert found(store, is_deep=True)[0] == 0
    given = [id for _ in range(8) for id in lease(store)]
    assert sorted(given) == sorted(there - held)
    assert extend(store, *IDS) == [id in there for id in IDS]
    assert complete(store, *IDS) == [id in there for id in IDS]
    assert complete(store, *IDS) == [False] * 4
