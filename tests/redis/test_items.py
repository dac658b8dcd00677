"""Queues of items that brokers and clients of Redis Work Queue share, on Redis and on a cluster.

What those clients do is done here with the very commands they send. Workers by themselves, in
several languages, are in tests/workqueue.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quinque.errors import BadRequest, WrongType
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import ITEMS, JOBS
from quinque.model.limits import QUEUE_IDLE_MOST_MS
from quinque.model.look_ops import BrowsePlaces
from quinque.model.own_ops import Cleaned
from quinque.model.states import State
from quinque.model.work_ops import Add, Browse, Purge, PurgeAll, Show, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.item_words import (
    ITEMS_QUEUE,
    MINUTE_MS,
    add,
    clean,
    complete,
    extend,
    lease,
    lease_data,
    lengths,
    queues,
)
from tests.redis.conftest import Open
from tests.redis.worker_words import (
    NEW,
    OLD,
    PROCESSING,
    QUEUE,
    Foreign,
    finish,
    hold,
    items_keys,
    pull,
    push,
    ticks,
)

# -- one queue, two kinds of workers ----------------------------------------------------------


def test_the_keys_are_those_of_redis_work_queue(store: RedisStore, foreign: Foreign) -> None:
    add(store, b"1", b"2", b"3", prefix=b"data of ")
    lease(store, 2)

    assert foreign.lrange(QUEUE, 0, -1) == [b"3"]
    assert foreign.lrange(PROCESSING, 0, -1) == [b"2", b"1"]
    assert foreign.get(ITEMS_QUEUE + b":item:3") == b"data of 3"
    assert {
        foreign.type(ITEMS_QUEUE + kind + id) for kind in (NEW, OLD) for id in (b"1", b"2")
    } == {b"string"}
    assert foreign.pttl(ITEMS_QUEUE + NEW + b"1") > 0
    assert len(items_keys(foreign)) == 2 + 3 + 4

    assert complete(store, b"1", b"2", b"3") == [True] * 3
    assert items_keys(foreign) == set()


def test_items_are_added_by_one_leased_by_another_and_completed_by_a_third(
    store: RedisStore, other: RedisStore, foreign: Foreign
) -> None:
    push(foreign, b"1", b"2")
    add(store, b"3")

    assert lease_data(other) == [(b"1", b"data")]
    assert pull(foreign) == b"2"
    assert pull(foreign, kind=OLD) == b"3"
    assert lengths(store) == (0, 3)
    assert (finish(foreign, b"1"), complete(store, b"2", b"3")) == (True, [True, True])

    assert lengths(store) == (0, 0)
    # A worker knows the leases of its own generation; Redis removes the other one.
    assert items_keys(foreign) == {ITEMS_QUEUE + OLD + b"1"}


def test_what_other_workers_have_is_looked_at_and_what_they_left_is_passed_over(
    store: RedisStore, foreign: Foreign
) -> None:
    push(foreign, b"gone", b"gone too", b"1", b"2", b"3", b"4", b"5")
    foreign.delete(ITEMS_QUEUE + b":item:gone", ITEMS_QUEUE + b":item:gone too")

    def seen(state: State, count: int = 10) -> list[bytes]:
        return [it.message_id for it in store.run(Browse(ITEMS, ITEMS_QUEUE, state, count))]

    assert (seen(State.READY, 1), seen(State.READY)) == ([b"1"], [b"1", b"2", b"3", b"4", b"5"])
    foreign.rpush(QUEUE, b"5")  # a second time
    hold(foreign, b"4")  # and somebody has it
    assert seen(State.READY) == [b"5", b"1", b"2", b"3"]

    for id in (b"gone", b"gone too"):
        foreign.execute_command("LREM", QUEUE, 0, id)
    pull(foreign)
    pull(foreign, lease_s=None)  # and it dies before it has leased the item
    assert seen(State.LEASED) == [b"5", b"1"]
    shown = [store.run(Show(ITEMS, id, ITEMS_QUEUE)) for id in (b"5", b"1", b"gone")]
    assert [it and it.state for it in shown] == [State.LEASED, State.READY, None]


@pytest.mark.parametrize("first", ["broker", "worker"])
def test_an_item_is_completed_once_whoever_does(
    store: RedisStore, foreign: Foreign, first: str
) -> None:
    add(store, b"1")
    lease(store)

    both: list[Callable[[], bool]] = [
        lambda: complete(store, b"1") == [True],
        lambda: finish(foreign, b"1"),
    ]
    if first == "worker":
        both.reverse()

    assert [each() for each in both] == [True, False]
    assert lease(store) == []


def test_the_first_command_about_it_enters_a_queue(
    store: RedisStore, other: RedisStore, foreign: Foreign
) -> None:
    push(foreign, b"1")
    assert queues(store) == []

    assert lengths(store) == (1, 0)

    assert queues(other) == [ITEMS_QUEUE]
    with pytest.raises(WrongType):
        other.run(Add(JOBS, ITEMS_QUEUE, [b"job"], Terms(MINUTE_MS)))


def test_a_queue_that_only_workers_use_stays_known_while_something_is_in_it(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    assert lease(store) == []
    push(foreign, b"1")

    clock.advance(QUEUE_IDLE_MOST_MS + 1)
    ticks(store)
    assert queues(store) == [ITEMS_QUEUE]

    pull(foreign)
    finish(foreign, b"1")
    clock.advance(QUEUE_IDLE_MOST_MS + 1)
    ticks(store)
    assert queues(store) == []
    assert {key for key in foreign.scan_iter("*") if key.endswith(ITEMS_QUEUE)} == set()


def test_keys_that_are_something_else_refuse_and_are_left_alone(
    store: RedisStore, foreign: Foreign
) -> None:
    foreign.set(PROCESSING, b"a text")

    for ask in (add, complete):
        with pytest.raises(WrongType):
            ask(store, b"1")
    with pytest.raises(WrongType) as raised:
        lease(store)

    assert str(raised.value) == (
        "Operation against a key holding the wrong kind of value: the key "
        f"'{PROCESSING.decode()}' in Redis is not a list; use another name, or delete the key in "
        "Redis first"
    )
    assert items_keys(foreign) == {PROCESSING}


def test_a_name_without_a_tag_is_for_a_single_redis_only(store: RedisStore, url: str) -> None:
    if "cluster" not in url:
        assert add(store, b"1", queue=b"plain") == [True]
        assert lease(store, queue=b"plain") == [b"1"]
        assert complete(store, b"1", queue=b"plain") == [True]
        return
    for name in (b"plain", b"{}plain", b"pla{in", b"pl}ai{n"):
        with pytest.raises(BadRequest, match="in braces"):
            add(store, b"1", queue=name)
    assert queues(store) == []


def test_what_a_list_of_worklists_cannot_do_is_refused(store: RedisStore) -> None:
    add(store, b"1")
    with pytest.raises(BadRequest):
        store.run(Take(ITEMS, [], patterns=[b"*"], lease_ms=1_000))
    with pytest.raises(BadRequest):
        store.run(Add(ITEMS, ITEMS_QUEUE, [b"x"], Terms(0)))
    for op in (
        OpenClaims(ITEMS, ITEMS_QUEUE, b"s", b"", 1_000),
        BrowsePlaces(ITEMS, ITEMS_QUEUE, 0, 0, 1),
    ):
        with pytest.raises(
            BadRequest, match="items on Redis do not support claims, staged batches"
        ):
            store.run(op)


# -- leases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [NEW, OLD])
def test_a_lease_of_either_generation_keeps_an_item_where_it_is(
    store: RedisStore, foreign: Foreign, kind: bytes
) -> None:
    push(foreign, b"1")
    pull(foreign, kind=kind)

    assert clean(store) == Cleaned(0, 1, 0, 0, 0)
    assert clean(store, is_deep=True).returned == 0
    assert extend(store, b"1") == [True]
    assert lengths(store) == (0, 1)

    foreign.delete(ITEMS_QUEUE + NEW + b"1", ITEMS_QUEUE + OLD + b"1")
    assert clean(store) == Cleaned(0, 1, 1, 0, 0)
    assert lease(store) == [b"1"]


def test_when_a_lease_ends_no_key_of_it_is_left(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)

    clock.advance(1_000)
    ticks(store)

    assert items_keys(foreign) == {QUEUE, ITEMS_QUEUE + b":item:1"}


def test_a_worker_that_leased_it_since_keeps_it(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    """A cleaner of theirs put it back before our lease ended by our clock."""
    add(store, b"1")
    lease(store, lease_ms=1_000)
    foreign.delete(ITEMS_QUEUE + NEW + b"1", ITEMS_QUEUE + OLD + b"1")
    foreign.execute_command("LREM", PROCESSING, 0, b"1")
    foreign.lpush(QUEUE, b"1")
    assert pull(foreign) == b"1"

    clock.advance(1_000)
    ticks(store)

    assert lengths(store) == (0, 1)
    foreign.delete(ITEMS_QUEUE + NEW + b"1")
    clock.advance(MINUTE_MS)
    ticks(store)
    assert lease(store) == [b"1"]


def test_what_somebody_has_is_not_leased_though_its_id_be_in_the_queue(
    store: RedisStore, foreign: Foreign
) -> None:
    add(store, b"1", b"2")
    assert lease(store) == [b"1"]
    foreign.rpush(QUEUE, b"1", b"1")

    assert lease(store, 9) == [b"2"]
    assert sorted(foreign.lrange(PROCESSING, 0, -1)) == [b"1", b"2"]

    # Nor where only the lease tells that somebody has it.
    foreign.execute_command("LREM", PROCESSING, 0, b"1")
    foreign.lpush(QUEUE, b"1")
    assert lease(store, 9) == []
    assert sorted(foreign.lrange(PROCESSING, 0, -1)) == [b"1", b"2"]


def test_ids_without_items_are_passed_over(store: RedisStore, foreign: Foreign) -> None:
    foreign.lpush(QUEUE, *(b"gone %d" % number for number in range(6_000)))
    add(store, b"1")

    assert lease(store) == [b"1"]
    assert (lengths(store), lease(store)) == ((0, 1), [])


def test_an_item_that_is_added_again_is_not_held_back_by_a_lease_that_was_left(
    store: RedisStore, foreign: Foreign
) -> None:
    hold(foreign, b"1")

    add(store, b"1")

    assert lease(store) == [b"1"]


def test_large_data_come_a_few_at_a_time_and_stay_in_order(store: RedisStore) -> None:
    ids = [b"%d" % number for number in range(8)]
    add(store, *ids, prefix=b"x" * 400_000)

    given: list[bytes] = []
    while some := lease(store, 9):
        assert len(some) <= 4
        given += some
    assert given == ids


# -- emptying ----------------------------------------------------------------------------------


def test_a_purge_leaves_nothing_behind(store: RedisStore, foreign: Foreign) -> None:
    add(store, *(b"%d" % number for number in range(2_500)))
    lease(store, 5)

    assert store.run(Purge(ITEMS, ITEMS_QUEUE, (State.LEASED,))) == 5
    assert lengths(store) == (2_495, 0)
    assert store.run(Purge(ITEMS, ITEMS_QUEUE)) == 2_495
    assert items_keys(foreign) == set()

    add(store, b"1")
    add(store, b"1", queue=b"{other}")
    assert store.run(PurgeAll(ITEMS)) == 2
    assert (items_keys(foreign), queues(store)) == (set(), [])


def test_brokers_tell_each_other_of_items(
    store: RedisStore, other: RedisStore, open_one: Open
) -> None:
    add(store, b"1")

    assert lease(other) == [b"1"]
    assert lengths(open_one()) == (0, 1)


def test_items_are_counted_among_the_messages(store: RedisStore, foreign: Foreign) -> None:
    add(store, b"1", b"2")
    lease(store)
    push(foreign, b"3")
    store.run(Add(JOBS, b"w", [b"job"], Terms(MINUTE_MS)))

    facts = store.info()

    assert (facts["queues"], facts["messages"], facts["jobs"]) == (2, 4, 1)
