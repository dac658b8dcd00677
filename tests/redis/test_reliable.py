"""Reliable queues of several brokers on one Redis: ids, turns, queues that go, other names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.errors import BadRequest, LimitReached
from quinque.model.families import RELIABLE
from quinque.model.lifecycle import Kind, Reason
from quinque.model.work_ops import Configure, ScanMessages
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import slot_of
from quinque.stores.redis.store import RedisStore
from tests.conformance.claim_words import subscribe
from tests.conformance.record_words import rows
from tests.conformance.reliable_words import (
    OTHER,
    QUEUE,
    ack,
    delete,
    delivered,
    everything,
    expire,
    expires_ms,
    inspect,
    key_of,
    lengths,
    pop,
    popped,
    push,
    push_one,
    recover,
    rename,
)
from tests.redis.conftest import Open
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer

FAR = b"{s}"  # in another slot than QUEUE
LARGE = 2_500  # more than go at once


def test_ids_of_brokers_whose_clocks_differ_never_go_back(store: RedisStore, url: str) -> None:
    late = RedisStore(url, node="late", clock=ManualClock(store.now_ms() * 1000 - 5_000_000))
    try:
        ids = [id for _ in range(3) for broker in (store, late) for id in push(broker, b"1", b"2")]
    finally:
        late.close()

    assert sorted(map(key_of, ids)) == list(map(key_of, ids))
    assert len(set(ids)) == 12


def test_deliveries_are_in_their_order_whichever_broker_made_them(
    store: RedisStore, other: RedisStore
) -> None:
    push(store, b"1", b"2", b"3")
    for broker in (other, store, other):
        pop(broker)
    recover(other, 1)

    assert delivered(store) == [b"2", b"3", b"1"]


def test_more_deliveries_than_a_millisecond_has_turns_are_in_their_order(
    store: RedisStore, clock: ManualClock
) -> None:
    bodies = [b"%d" % number for number in range(5_000)]
    push(store, *bodies)
    assert popped(store, 5_000) == bodies

    assert delivered(store, count=5_000) == bodies
    assert {seen.delivered_ms for seen in inspect(store, is_leased=True, count=5_000)} == {
        store.now_ms()
    }
    assert recover(store, elapsed_ms=1) == []
    clock.advance(10)
    assert [it.body for it in recover(store, 3, 5) or ()] == bodies[:3]


@pytest.mark.parametrize("is_expired", [False, True], ids=["deleted", "expired"])
def test_a_large_queue_is_gone_at_once_and_its_messages_soon(
    store: RedisStore, open_one: Open, clock: ManualClock, *, is_expired: bool
) -> None:
    first = push(store, *[b"x"] * LARGE)
    pop(store, LARGE // 2)
    if is_expired:
        expire(store, 100)
        clock.advance(100)
    else:
        assert delete(store) == 1
    assert lengths(store) is None

    (new,) = push(store, b"y")
    assert ack(store, *first[:3]) == [False] * 3
    assert lengths(store) == (1, 0)
    assert store.info()["messages"] == 1
    assert store.run(ScanMessages(RELIABLE, 0, 10_000))[1][0].message_id == new

    # The broker may be gone: another does what it left.
    heir = open_one()
    while heir.next_due_ms() <= heir.now_ms():
        heir.tick()
    removed = [row.seen for row in rows(heir, 10_000) if row.seen.kind is Kind.REMOVED]
    assert sorted(seen.id for seen in removed) == sorted(first)
    assert {seen.reason for seen in removed} == {Reason.PURGED}
    assert popped(heir, 5) == [b"y"]


def test_nothing_is_left_of_a_queue_that_was_deleted(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    store = RedisStore(redis_server.url, clock=clock)
    push(store, *[b"x" * 2_000] * LARGE)
    pop(store, 5)
    recover(store, 5)
    delete(store)
    while store.next_due_ms() <= store.now_ms():
        store.tick()
    store.close()

    kinds = {key.rpartition(b"}:")[2] for key in redis_server.ask("KEYS", "quinque:{*")}
    assert kinds == {b"slot", b"record"}


def test_a_queue_that_ends_is_gone_for_every_broker(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    push(store, b"1")
    expire(store, 1_000)
    assert expires_ms(other) == store.now_ms() + 1_000
    clock.advance(1_000)

    assert lengths(other) is None
    assert expires_ms(store) is None


def test_a_queue_of_numbered_messages_is_not_spread(store: RedisStore) -> None:
    with pytest.raises(BadRequest, match="one partition"):
        store.run(Configure(RELIABLE, QUEUE, partitions=2))


# -- another name -----------------------------------------------------------------------------


@pytest.fixture
def alone(redis_url: str, clock: ManualClock) -> Iterator[RedisStore]:
    """One server that has all slots."""
    store = RedisStore(redis_url, clock=clock)
    yield store
    store.close()


def test_on_one_server_a_queue_may_have_any_name(alone: RedisStore, clock: ManualClock) -> None:
    assert slot_of(QUEUE) != slot_of(FAR)
    push(alone, b"far", queue=FAR)
    ids = push(alone, b"1", b"2" * 2_000, b"3", b"4")
    pop(alone, 2)
    clock.advance(10)
    recover(alone, 1)
    expire(alone, 60_000)
    push_one(alone, queue=b"{s}neighbour")
    as_it_was = everything_of(alone, QUEUE)

    assert rename(alone, QUEUE, FAR) is True

    assert everything_of(alone, FAR) == as_it_was
    assert lengths(alone) is None
    assert ack(alone, ids[0], queue=FAR) == [True]
    assert key_of(push_one(alone, queue=FAR)) > max(map(key_of, ids))
    assert popped(alone, 9, FAR) == [b"3", b"4", b"1"]
    assert delivered(alone, queue=FAR)[-3:] == [b"3", b"4", b"1"]
    assert alone.info()["messages"] == 5


def test_that_a_queue_was_renamed_is_on_record_under_both_names(alone: RedisStore) -> None:
    ids = push(alone, b"1", b"2")
    pop(alone)
    since = len(rows(alone))

    rename(alone, QUEUE, OTHER)

    told = rows(alone)[since:]
    assert [(row.seen.kind, row.queue, row.seen.id) for row in told] == [
        *((Kind.REMOVED, QUEUE, id) for id in reversed(ids)),
        *((Kind.ADDED, OTHER, id) for id in reversed(ids)),
        (Kind.DELIVERED, OTHER, ids[0]),
    ]
    assert {row.seen.reason for row in told} == {Reason.RENAMED}


def test_a_name_in_another_slot_of_a_cluster_is_refused_and_tells_of_braces(
    redis_cluster_url: str,
) -> None:
    store = RedisStore(redis_cluster_url)
    try:
        push(store, b"1")
        with pytest.raises(LimitReached, match=r"same text in braces, \{like this\}"):
            rename(store, QUEUE, FAR)
        assert lengths(store) == (1, 0)
        assert rename(store, QUEUE, OTHER) is True
    finally:
        store.close()


def test_a_queue_with_very_many_messages_keeps_its_name(alone: RedisStore) -> None:
    push(alone, *[b"x"] * 10_000)
    assert rename(alone, QUEUE, FAR) is True
    push(alone, b"x", queue=FAR)

    with pytest.raises(LimitReached, match="more than 10000 messages"):
        rename(alone, FAR, QUEUE)
    assert lengths(alone, FAR) == (10_001, 0)


def test_a_queue_keeps_its_name_if_another_has_messages_of_the_same_ids(alone: RedisStore) -> None:
    (id,) = push(alone, b"1")
    assert push(alone, b"2", queue=FAR) == [id]  # ids of two slots may be alike

    with pytest.raises(LimitReached, match="messages with the same ids"):
        rename(alone, QUEUE, b"{s}other")
    assert rename(alone, QUEUE, FAR) is True
    assert popped(alone, 5, FAR) == [b"1"]


def everything_of(store: RedisStore, queue: bytes) -> object:
    found: object = everything(store)
    assert isinstance(found, list)
    return [row[2:] for row in found if row[0] == queue]


def test_a_queue_whose_ids_another_queue_had_keeps_its_elements(redis_url: str) -> None:
    # On a clock that stands still the ids of both slots are the same.
    store = RedisStore(redis_url, clock=ManualClock())
    try:
        push(store, *(b"old %d" % at for at in range(LARGE)), queue=FAR)
        push(store, *(b"new %d" % at for at in range(LARGE)), queue=QUEUE)
        pop(store, 1, FAR)

        assert rename(store, QUEUE, FAR)
        for _ in range(LARGE // 1_000 + 2):
            store.tick()
        found = popped(store, LARGE, FAR)
        assert found == [b"new %d" % at for at in range(LARGE)]
    finally:
        store.close()


def test_an_id_without_a_message_is_dropped(redis_server: RedisServer, redis_url: str) -> None:
    store = RedisStore(redis_url, clock=ManualClock())
    try:
        first, _, third = push(store, b"1", b"2", b"3")
        for key in redis_server.ask("KEYS", "quinque:{*}:messages"):
            redis_server.ask("HDEL", key, first, third)

        assert popped(store, 5) == [b"2"]
        assert lengths(store) == (0, 1)
        said = redis_server.log  # another thread reads it
        wait_until(lambda: any("without a message" in line for line in said), "Redis says so")
    finally:
        store.close()


@pytest.mark.parametrize("new_name", [FAR, b"{s}other"])
def test_a_slot_with_claims_gets_no_queue_of_another_slot(redis_url: str, new_name: bytes) -> None:
    # On a clock that stands still the ids of both slots are the same.
    store = RedisStore(redis_url, clock=ManualClock())
    try:
        push(store, b"claimed", queue=FAR)
        push(store, b"1", queue=QUEUE)
        driver = subscribe(store, FAR, family=RELIABLE)
        driver.claim(1)

        with pytest.raises(LimitReached, match="has open claims"):
            rename(store, QUEUE, new_name)
        driver.release(1)
        assert popped(store, 5) == [b"1"]
        assert popped(store, 5, FAR) == [b"claimed"]
    finally:
        store.close()
