"""What time does to items: a lease ends in its millisecond, and the item is behind all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quinque.model.lifecycle import Kind, Reason
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.item_words import (
    ITEMS_QUEUE,
    MINUTE_MS,
    add,
    add_data,
    clean,
    complete,
    extend,
    lease,
    lease_data,
    lengths,
)
from tests.conformance.record_words import Seen, seen
from tests.conformance.words import HOUR_MS, tick


def test_6_a_lease_ends_in_its_millisecond(store: Store, clock: ManualClock) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)

    clock.advance(999)
    assert (lengths(store), lease(store)) == ((0, 1), [])

    clock.advance(1)
    assert lengths(store) == (1, 0)
    assert lease(store) == [b"1"]


def after_ticks(store: Store) -> bool:
    tick(store)
    return store.ready == {ITEMS_QUEUE}


def after_cleaning(store: Store, *, is_deep: bool) -> bool:
    clean(store, is_deep=is_deep)
    return lease(store) == [b"1"]


LOOKS: dict[str, Callable[[Store], bool]] = {
    "lengths": lambda store: lengths(store) == (1, 0),
    "lease": lambda store: lease(store) == [b"1"],
    "extend": lambda store: extend(store, b"1") == [False],
    "add": lambda store: add(store, b"1") == [False] and lengths(store) == (1, 0),
    "clean": lambda store: after_cleaning(store, is_deep=False),
    "clean deeply": lambda store: after_cleaning(store, is_deep=True),
    "tick": after_ticks,
}


@pytest.mark.parametrize("how", LOOKS)
def test_6_what_is_due_is_so_for_whoever_looks_first(
    store: Store, clock: ManualClock, how: str
) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)
    store.ready.clear()

    clock.advance(1_000)

    assert LOOKS[how](store)


def test_a_lapsed_item_goes_behind_all_others(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2", b"3")
    lease(store, lease_ms=1_000)

    clock.advance(1_000)
    tick(store)
    add(store, b"4")

    assert lease(store, 9) == [b"2", b"3", b"1", b"4"]


def test_items_come_back_in_the_order_their_leases_ended(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2", b"3")
    for lease_ms in (3_000, 1_000, 2_000):
        lease(store, lease_ms=lease_ms)

    for _ in range(3):
        clock.advance(1_000)
        tick(store)

    assert lease(store, 9) == [b"2", b"3", b"1"]


def test_an_item_that_came_back_has_its_data(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2", prefix=b"data of ")
    lease(store, 2, lease_ms=1_000)
    add_data(store, b"2", b"better", is_known_new=True)

    clock.advance(1_000)

    assert sorted(lease_data(store, 9)) == [(b"1", b"data of 1"), (b"2", b"better")]


def test_whoever_completes_first_ends_it(store: Store, clock: ManualClock) -> None:
    """Late, and still first; then the other, to whom it was leased meanwhile."""
    add(store, b"late", b"later")
    lease(store, 2, lease_ms=1_000)

    clock.advance(1_000)
    assert complete(store, b"late") == [True]
    assert lease(store, 9) == [b"later"]
    assert complete(store, b"later") == [True]
    assert complete(store, b"late", b"later") == [False, False]
    clock.advance(HOUR_MS)
    assert (lease(store), lengths(store)) == ([], (0, 0))


def test_an_extended_lease_ends_so_long_from_then(store: Store, clock: ManualClock) -> None:
    add(store, b"longer", b"shorter", b"same")
    lease(store, 3, lease_ms=10_000)
    clock.advance(5_000)
    assert extend(store, b"longer", lease_ms=10_000) == [True]
    assert extend(store, b"shorter", lease_ms=1_000) == [True]

    clock.advance(999)
    assert lengths(store) == (0, 3)
    clock.advance(1)
    assert lengths(store) == (1, 2)
    clock.advance(4_000)
    assert lengths(store) == (2, 1)
    clock.advance(4_999)
    assert lengths(store) == (2, 1)
    clock.advance(1)
    assert lengths(store) == (3, 0)
    assert lease(store, 9) == [b"shorter", b"same", b"longer"]


def test_a_lease_that_has_ended_is_not_extended(store: Store, clock: ManualClock) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)

    clock.advance(1_000)

    assert extend(store, b"1") == [False]
    assert lease(store, lease_ms=1_000) == [b"1"]
    assert extend(store, b"1") == [True], "whoever has it by now has a longer lease"


def test_an_item_that_was_added_anew_has_nothing_of_the_one_before(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)
    complete(store, b"1")
    add(store, b"1", prefix=b"new ")

    clock.advance(999)
    assert lease_data(store, lease_ms=MINUTE_MS) == [(b"1", b"new 1")]
    clock.advance(1)
    assert lengths(store) == (0, 1), "the lease of the one before would have ended here"
    clock.advance(MINUTE_MS - 1)
    assert lengths(store) == (1, 0)


def test_9_thousands_of_leases_that_end_at_once_each_come_back_once(
    store: Store, clock: ManualClock
) -> None:
    ids = [b"%d" % number for number in range(2_000)]
    add(store, *ids)
    while lease(store, 1_000, lease_ms=1_000):
        pass

    clock.advance(1_000)
    tick(store)

    assert lengths(store) == (2_000, 0)
    given: list[bytes] = []
    while some := lease(store, 1_000):
        given += some
    assert sorted(given) == sorted(ids)


def test_9_items_that_come_back_are_in_the_queue_and_readers_are_woken(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)
    store.commit()
    store.ready.clear()
    assert store.next_due_ms() <= store.now_ms() + 1_000

    clock.advance(1_000)
    tick(store)

    assert store.ready == {ITEMS_QUEUE}


def test_10_a_lease_has_the_time_it_had_left_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, b"1", b"2")
    lease(store, lease_ms=1_000)
    clock.advance(400)
    store.commit()

    store = reopen(clock)

    clock.advance(599)
    assert lengths(store) == (1, 1)
    clock.advance(1)
    assert lease(store, 9) == [b"2", b"1"]


def test_10_what_came_back_is_behind_the_others_after_a_restart_too(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, b"1", b"2", b"3")
    lease(store, 2, lease_ms=1_000)
    extend(store, b"2", lease_ms=2_000)
    clock.advance(1_000)
    tick(store)
    clock.advance(1_000)
    tick(store)

    store = reopen(clock)
    add(store, b"4")

    assert lease(store, 9) == [b"3", b"1", b"2", b"4"]


def test_10_a_lease_that_ended_while_it_was_closed_has_ended(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, b"1", b"2")
    lease(store, lease_ms=1_000)

    store = reopen(ManualClock(clock.now_us() + 1_000 * HOUR_MS))

    assert lengths(store) == (2, 0)
    assert lease(store, 9) == [b"2", b"1"]


def test_14_that_a_lease_ended_is_on_record(store: Store, clock: ManualClock) -> None:
    add(store, b"1")
    lease(store, lease_ms=1_000)
    clock.advance(1_000)
    tick(store)
    lease(store)

    none = Reason.NONE
    assert seen(store, ITEMS_QUEUE) == [
        Seen(Kind.ADDED, none, b"1", size=1),
        Seen(Kind.DELIVERED, none, b"1"),
        Seen(Kind.RETURNED, Reason.LAPSED, b"1"),
        Seen(Kind.DELIVERED, none, b"1"),
    ]
