"""The obligations of stores/base.py, one by one; the number of each is in the name."""

from __future__ import annotations

import pytest

from quinque.errors import Duplicate, QuinqueError, WrongType
from quinque.model.families import EVENTS, Family
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Ack, Count, FindReady, Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.words import (
    HOUR_MS,
    ack,
    counts,
    everything,
    fact,
    lease,
    peek,
    put,
    put_single,
    release,
    take,
    tick,
)

OTHER = Family("other", 99, "a family of this test")

REFUSED: list[tuple[Op, type[QuinqueError]]] = [
    (Put(EVENTS, b"q", [b"new"], message_id=b"x", is_single=True), Duplicate),
    (Put(EVENTS, b"q", [b"new"], message_id=b"x", to_front=True), Duplicate),
    (Put(OTHER, b"q", [b"new"]), WrongType),
    (Put(OTHER, b"q", [b"new"], message_id=b"y"), WrongType),
    (Reserve(OTHER, b"q", b"g", 1_000), WrongType),
    (Ack(OTHER, b"q", b"g", [b"x"]), WrongType),
    (Ack(OTHER, b"q", b"g", [b"x"], held_only=False), WrongType),
    (Release(OTHER, b"q", b"g", [b"x"]), WrongType),
    (ExtendLeases(OTHER, b"q", [b"x"], 1_000, b"g"), WrongType),
    (Flush(OTHER, b"q"), WrongType),
    (Peek(OTHER, b"q", b"g"), WrongType),
    (FindReady(OTHER, b"g", [b"none", b"q"]), WrongType),
    (Count(OTHER, [b"q"]), WrongType),
]


def test_1_an_effect_is_seen_by_the_next_operation(store: Store) -> None:
    put(store, b"1")

    assert counts(store) == (0, 0, 0, 1)
    assert store.run(FindReady(EVENTS, b"g", [b"q"])) == b"q"
    assert peek(store) == b"1"
    assert take(store) == [b"1"]
    assert counts(store) == (1, 0, 0, 0)
    assert store.run(FindReady(EVENTS, b"g", [b"q"])) is None
    assert peek(store) is None


def test_1_a_queue_that_gets_something_to_deliver_is_ready(store: Store) -> None:
    (id,) = put(store, b"1")
    assert store.ready == {b"q"}
    take(store)
    store.ready.clear()

    release(store, id)

    assert store.ready == {b"q"}


@pytest.mark.parametrize(
    ("op", "error"), REFUSED, ids=[f"{type(op).__name__}-{error.__name__}" for op, error in REFUSED]
)
def test_2_an_operation_that_is_refused_changes_nothing(
    store: Store, reopen: Reopen, clock: ManualClock, op: Op, error: type[QuinqueError]
) -> None:
    put_single(store, b"x", b"z")
    put(store, b"event")
    take(store)
    store.ready.clear()
    before = everything(store)

    with pytest.raises(error):
        store.run(op)

    assert everything(store) == before
    assert store.ready == set()
    assert everything(reopen(clock)) == before


def test_2_a_queue_that_nobody_has_belongs_to_any_family(store: Store) -> None:
    put_single(store, b"x")
    ack(store, b"x", held_only=False)

    store.run(Put(OTHER, b"q", [b"new"]))

    with pytest.raises(WrongType):
        put(store, b"1")
    assert [row.queue for row in store.run(Count(OTHER))] == [b"q"]
    assert store.run(Count(EVENTS)) == []


def test_3_a_repeat_of_what_took_effect_does_no_harm(store: Store) -> None:
    put_single(store, b"x")
    (id,) = put(store, b"event")
    take(store, 2)
    for op in (
        Ack(EVENTS, b"q", b"g", [id]),
        Release(EVENTS, b"q", b"g", [b"x"]),
        Ack(EVENTS, b"q", b"g", [b"x"], held_only=False),
        Flush(EVENTS, b"q"),
    ):
        store.run(op)
        before = everything(store)

        again = store.run(op)

        assert again in ([False], None)
        assert everything(store) == before


def test_4_operations_take_effect_in_the_order_they_were_started(store: Store) -> None:
    put(store, b"1", b"2")
    put(store, b"3")
    put_single(store, b"4", b"5")

    assert [take(store)[0] for _ in range(5)] == [b"1", b"2", b"3", b"4", b"5"]


def test_5_a_message_is_in_the_hands_of_one_consumer_of_a_group(
    store: Store, clock: ManualClock
) -> None:
    (id,) = put(store, b"1")
    assert take(store, lease_ms=100) == [b"1"]

    clock.advance(99)
    assert take(store) == []
    clock.advance(1)
    assert take(store) == [b"1"]
    assert ack(store, id) == [True]
    clock.advance(HOUR_MS)
    assert take(store) == []


def test_5_a_message_that_was_released_is_in_nobodys_hands(store: Store) -> None:
    (id,) = put(store, b"1")
    take(store)

    assert release(store, id) == [True]

    assert ack(store, id) == [False]
    assert take(store) == [b"1"]


def test_6_a_lease_lapses_in_its_millisecond_for_every_operation(
    store: Store, clock: ManualClock
) -> None:
    (id,) = put(store, b"1")
    take(store, lease_ms=100)

    clock.advance(99.999)
    assert counts(store) == (1, 0, 0, 0)
    assert peek(store) is None
    assert store.run(FindReady(EVENTS, b"g", [b"q"])) is None

    clock.advance(0.001)
    assert ack(store, id) == [False], "it is late"
    assert release(store, id) == [False]
    assert counts(store) == (0, 1, 0, 0)
    assert peek(store) == b"1"
    assert store.run(FindReady(EVENTS, b"g", [b"q"])) == b"q"
    assert store.ready == {b"q"}


def test_6_a_message_expires_in_its_millisecond_for_everyone(
    store: Store, clock: ManualClock
) -> None:
    """For those who have not seen it, those who hold it, and those who may have it again."""
    (id,) = put(store, b"1", ttl_ms=100)
    take(store, group=b"holds")
    take(store, group=b"again")
    release(store, id, group=b"again")

    clock.advance(99.999)
    assert peek(store, group=b"new") == peek(store, group=b"again") == b"1"

    clock.advance(0.001)
    assert ack(store, id, group=b"holds") == [False]
    for group in (b"new", b"again", b"holds"):
        assert take(store, group=group) == []
        assert peek(store, group=group) is None
        assert peek(store, group=group, last=True) is None
        assert store.run(FindReady(EVENTS, group, [b"q"])) is None
    assert store.run(Count(EVENTS)) == []


def test_6_the_id_of_a_message_that_expired_may_be_used_again(
    store: Store, clock: ManualClock
) -> None:
    put(store, b"1", message_id=b"x", ttl_ms=100)

    clock.advance(100)
    put(store, b"2", message_id=b"x")

    assert take(store, 5) == [b"2"]


@pytest.mark.parametrize("last", [False, True])
def test_6_thousands_that_expire_at_once_hide_nothing_and_are_not_seen(
    store: Store, clock: ManualClock, last: bool
) -> None:
    """A store removes them little by little; until then it must look past them."""
    bodies = [b"%d" % number for number in range(2_000)]
    if not last:
        put(store, *bodies, ttl_ms=100)
    put(store, b"lives")
    if last:
        put(store, *bodies, ttl_ms=100)
    put(store, b"dead", ttl_ms=100, message_id=b"x", to_front=True)
    take_all(store)
    release_all(store)

    clock.advance(100)

    assert store.run(FindReady(EVENTS, b"g", [b"q"])) == b"q"
    for group in (b"g", b"new"):
        assert peek(store, group=group) == b"lives"
        assert peek(store, group=group, last=True) == b"lives"
        assert take(store, 5, group=group) == [b"lives"]
    put(store, b"again", message_id=b"x")
    assert counts(store) == (1, 0, 0, 1)


def test_6_thousands_of_leases_that_lapse_at_once_each_come_back_once(
    store: Store, clock: ManualClock
) -> None:
    ids = put(store, *(b"%d" % number for number in range(2_000)))
    take_all(store, lease_ms=100)
    put(store, b"new")

    clock.advance(100)

    assert ack(store, *ids) == [False] * 2_000
    assert store.run(FindReady(EVENTS, b"g", [b"q"])) == b"q"
    assert sorted(map(int, take(store, 2_000))) == list(range(2_000))
    assert take(store) == [b"new"], "what comes back goes before what is new"


def test_7_ids_grow_strictly_though_the_clock_stands_still(store: Store) -> None:
    ids = put(store, *[b""] * 500) + put(store, *[b""] * 500, queue=b"r") + put(store, b"")

    assert_grow(ids)
    assert all(id == b"%d" % int(id) for id in ids)


def test_7_an_id_says_when_it_was_made(store: Store, clock: ManualClock) -> None:
    clock.advance(1_234.567)

    (id,) = put(store, b"")

    # Of the microseconds after it, a broker on Redis has only some.
    assert clock.now_us() <= int(id) < clock.now_us() + 1000


def test_7_ids_grow_strictly_at_the_front_too(store: Store, clock: ManualClock) -> None:
    ids = []
    for to_front in (False, True, True, False, True):
        clock.advance(0.001)
        ids += put(store, b"", to_front=to_front)

    assert_grow(ids)


@pytest.mark.parametrize("set_back_ms", [0, 1, HOUR_MS])
def test_7_ids_grow_strictly_across_restarts_and_a_clock_that_was_set_back(
    store: Store, reopen: Reopen, clock: ManualClock, set_back_ms: int
) -> None:
    ids = put(store, *[b""] * 50)
    ids += put(store, b"", queue=b"gone", message_id=None)
    for _ in range(3):
        store = reopen(ManualClock(clock.now_us() - 1_000 * set_back_ms))
        ids += put(store, *[b""] * 50)
        ids += put(store, b"gone", queue=b"gone")
        store.run(Flush(EVENTS, b"gone"))

    assert_grow(ids)


def test_7_an_id_that_somebody_chose_is_not_made_as_well(store: Store, clock: ManualClock) -> None:
    """Somebody who knows what the next ids will be, or chooses numbers of his own."""
    chosen = [b"%d" % (clock.now_us() + ahead) for ahead in (0, 1, 2, 5)]
    put_single(store, *chosen)

    made = put(store, b"a", b"b", b"c", b"d") + put(store, b"e")

    assert not set(made) & set(chosen)
    assert take(store, 20) == [*chosen, b"a", b"b", b"c", b"d", b"e"]
    assert ack(store, *made, *chosen) == [True] * 9


def test_8_what_was_committed_is_there_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    first, second, third = put(store, b"1", b"2", b"3", ttl_ms=HOUR_MS)
    put_single(store, b"x", b"y")
    put_single(store, b"front", to_front=True)
    take(store, 5, lease_ms=1_000)
    ack(store, first, b"x")
    release(store, second)
    take(store, 2, group=b"h")
    store.commit()
    before = everything(store)

    store = reopen(clock)

    assert everything(store) == before
    assert ack(store, third, first) == [True, False]
    assert take(store, 5) == [b"2", b"y"]
    assert [it.deliveries for it in lease(store, 5, group=b"h")] == [1, 1, 1]


def test_8_what_was_closed_without_a_commit_is_there_too(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"1")

    store = reopen(clock)

    assert take(store) == [b"1"]


def test_8_a_commit_with_nothing_to_do_does_nothing(store: Store) -> None:
    for _ in range(3):
        store.commit()

    assert store.run(Count(EVENTS)) == []


def test_9_ticks_carry_out_what_is_due_and_say_when_the_next_thing_is(
    store: Store, clock: ManualClock
) -> None:
    assert store.next_due_ms() == NEVER_MS
    put(store, b"1", ttl_ms=HOUR_MS)
    take(store, lease_ms=100)
    store.commit()
    assert store.next_due_ms() == store.now_ms() + 100
    store.ready.clear()

    clock.advance(100)
    tick(store)

    assert store.ready == {b"q"}, "those who wait are to be woken"
    assert store.next_due_ms() == store.now_ms() + HOUR_MS - 100
    clock.advance(HOUR_MS)
    tick(store)
    assert store.next_due_ms() == NEVER_MS
    assert fact(store, "messages") == 0


def test_9_a_tick_that_comes_early_or_twice_does_nothing(store: Store, clock: ManualClock) -> None:
    put(store, b"1")
    take(store, lease_ms=100)
    store.ready.clear()
    before = everything(store)

    store.tick()
    store.tick()

    assert everything(store) == before
    assert store.ready == set()


def test_9_many_queues_that_are_due_at_once_are_all_seen_to(
    store: Store, clock: ManualClock
) -> None:
    names = {b"%d" % number for number in range(100)}
    for name in names:
        put(store, b"1", queue=name)
        take(store, queue=name, lease_ms=100)
    store.ready.clear()

    clock.advance(100)
    tick(store)

    assert store.ready == names


@pytest.mark.parametrize("set_back_ms", [0, HOUR_MS])
def test_10_a_lease_has_the_time_it_had_left_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock, set_back_ms: int
) -> None:
    """A clock that was set back prolongs nothing: the store goes on from the last time it knew."""
    (id,) = put(store, b"1")
    take(store, lease_ms=100)
    clock.advance(40)
    put(store, b"2", queue=b"r")

    clock = ManualClock(clock.now_us() - 1_000 * set_back_ms)
    store = reopen(clock)

    clock.advance(59)
    assert take(store) == []
    clock.advance(1)
    assert ack(store, id) == [False]
    assert [it.deliveries for it in lease(store)] == [2]


def test_10_time_that_passed_while_it_was_closed_has_passed(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"1", ttl_ms=1_000)
    put(store, b"2")
    take(store, 2, lease_ms=100)

    store = reopen(ManualClock(clock.now_us() + 1_000_000))

    assert counts(store) == (0, 1, 0, 0)
    assert take(store, 5) == [b"2"]


def test_10_a_store_may_be_opened_again_and_again(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    for number in range(10):
        put(store, b"%d" % number)
        assert take(store) == [b"%d" % number]
        store = reopen(clock)

    assert counts(store) == (10, 0, 0, 0)


def test_11_settings_hold_from_when_they_are_set(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"in memory")
    store.commit()

    store.configure("no", 1)
    put(store, b"on disk")
    store.commit()
    store.configure("always", 1)

    assert fact(store, "fsync") == "always"
    assert take(store, 2) == [b"in memory", b"on disk"]
    store = reopen(clock)
    assert take(store, 2, group=b"h") == [b"in memory", b"on disk"]


def take_all(store: Store, lease_ms: int = HOUR_MS) -> None:
    while take(store, 1_000, lease_ms=lease_ms):
        pass


def release_all(store: Store) -> None:
    """A minute before the end, in the order they have."""
    (row,) = store.run(Count(EVENTS))
    held = row.groups[0].leased
    ids = [delivery.message_id for delivery in lease(store, 5_000, group=b"look", lease_ms=0)]
    assert sum(release(store, *ids)) == held
    store.commit()


def assert_grow(ids: list[bytes]) -> None:
    numbers = [int(id) for id in ids]
    assert numbers == sorted(set(numbers))
