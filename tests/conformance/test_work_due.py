"""Obligation 6 of stores/base.py in worklists: what is due is true, whoever looks first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import (
    AwaitEnd,
    FindKey,
    Purge,
    PurgeAll,
)
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.words import tick
from tests.conformance.work_words import (
    AFTER_MS,
    add,
    add_one,
    all_messages,
    all_queues,
    bodies,
    browse,
    counters,
    counts,
    due_within,
    enqueue,
    finish,
    hold,
    is_there,
    nack,
    redrive,
    state,
    take,
)


def test_6_a_lease_lapses_in_its_millisecond_for_every_operation(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    take(store)
    due_ms = due_within(store, id)
    store.ready.clear()

    clock.advance(due_ms - 0.001)
    assert (state(store, id), counts(store)) == (State.LEASED, (0, 0, 1, 0))
    assert browse(store) == []

    clock.advance(0.001)
    assert nack(store, id) == enqueue(store, id) == [False], "it is late"
    assert hold(store, id) == [True]
    assert counters(store, id) == (0, 1, 1)
    assert store.ready == {b"w"}


def is_ready_after_ticks(store: Store) -> bool:
    tick(store)
    return store.ready == {b"w"}


LOOKS: dict[str, Callable[[Store, bytes], bool]] = {
    "show": lambda store, id: state(store, id) is State.READY,
    "look": lambda store, id: counts(store) == (1, 0, 0, 0),
    "browse": lambda store, id: browse(store) == [b"1"],
    "scan": lambda store, id: len(all_messages(store, states=[State.READY])) == 1,
    "scan of queues": lambda store, id: all_queues(store, least=1) == [b"w"],
    "take": lambda store, id: bodies(store) == [b"1"],
    "hold": lambda store, id: hold(store, id) == [True],
    "nack": lambda store, id: nack(store, id) == [False],
    "purge": lambda store, id: store.run(Purge(JOBS, b"w", [State.READY])) == 1,
    "tick": lambda store, id: is_ready_after_ticks(store),
}


@pytest.mark.parametrize("how", LOOKS)
@pytest.mark.parametrize("is_delayed", [False, True])
def test_6_what_is_due_is_so_for_whoever_looks_first(
    store: Store, clock: ManualClock, how: str, is_delayed: bool
) -> None:
    id = add_one(store, delay_ms=5_000 if is_delayed else 0)
    take(store)
    store.ready.clear()

    clock.advance(due_within(store, id))

    assert LOOKS[how](store, id)


GONE: dict[str, Callable[[Store, bytes], bool]] = {
    "show": lambda store, id: not is_there(store, id),
    "look": lambda store, id: counts(store) == (0, 0, 0, 0),
    "browse": lambda store, id: browse(store) == [],
    "scan": lambda store, id: all_messages(store) == [],
    "scan of queues": lambda store, id: all_queues(store, least=1) == [],
    "take": lambda store, id: take(store) == [],
    "hold": lambda store, id: hold(store, id) == [False],
    "finish": lambda store, id: finish(store, id) == [False],
    "purge": lambda store, id: store.run(Purge(JOBS, b"w")) == 0,
    "purge of all": lambda store, id: store.run(PurgeAll(JOBS)) == 0,
    "key": lambda store, id: store.run(FindKey(JOBS, b"w", b"k")) is None,
    "key again": lambda store, id: add_one(store, key=b"k") != id,
    "length": lambda store, id: add_one(store, max_length=1) != id,
    "end": lambda store, id: store.run(AwaitEnd(JOBS, [id])) == 1,
}


@pytest.mark.parametrize("how", GONE)
def test_6_what_has_expired_is_gone_for_whoever_looks_first(
    store: Store, clock: ManualClock, how: str
) -> None:
    id = add_one(store, ttl_ms=1_000, key=b"k")

    clock.advance(1_000)

    assert GONE[how](store, id)


def test_6_thousands_that_expire_at_once_hide_nothing_and_are_not_seen(
    store: Store, clock: ManualClock
) -> None:
    """A store removes them little by little; until then it must look past them."""
    old = [b"%d" % number for number in range(2_000)]
    gone = add(store, *old, ttl_ms=1_000)
    id = add_one(store, b"lives", key=b"k")
    gone += add(store, *old, ttl_ms=1_000)

    clock.advance(1_000)

    assert browse(store, 1) == browse(store, -1) == [b"lives"]
    assert not any(is_there(store, id) for id in (gone[0], gone[1_999], gone[2_000], gone[-1]))
    assert finish(store, gone[0], gone[-1]) == hold(store, gone[1], gone[-2]) == [False, False]
    assert bodies(store, 5) == [b"lives"]
    assert counts(store) == (0, 0, 1, 0)
    assert [view.message_id for view in all_messages(store)] == [id]


def test_6_thousands_of_leases_that_lapse_at_once_each_come_back_once(
    store: Store, clock: ManualClock
) -> None:
    ids = add(store, *(b"%d" % number for number in range(2_000)))
    while take(store, 1_000):
        pass
    add(store, b"new")

    clock.advance(AFTER_MS)

    assert sum(nack(store, *ids)) == 0
    assert bodies(store, 3_000) == [*(b"%d" % number for number in range(2_000)), b"new"]
    assert counts(store) == (0, 0, 2_001, 0)
    assert counters(store, ids[-1]) == (0, 1, 2)


def test_6_thousands_of_delays_that_are_over_at_once_are_taken_in_order(
    store: Store, clock: ManualClock
) -> None:
    add(store, *(b"%d" % number for number in range(2_000)), delay_ms=1_000)

    clock.advance(1_000)

    assert bodies(store, 2_000) == [b"%d" % number for number in range(2_000)]


def test_6_thousands_of_all_kinds_that_are_due_at_once_are_each_what_they_should_be(
    store: Store, clock: ManualClock
) -> None:
    """Whoever names a message finds it as it is, however much else is due in its queue."""
    lapsed = add(store, *[b""] * 1_000)
    dead = add(store, *[b""] * 1_000, max_deliveries=1)
    gone = add(store, *[b""] * 1_000, ttl_ms=AFTER_MS)
    while take(store, 1_000):
        pass
    expired = add(store, *[b""] * 1_000, ttl_ms=AFTER_MS)
    delayed = add(store, *[b""] * 1_000, delay_ms=AFTER_MS)

    clock.advance(AFTER_MS)

    assert not any(is_there(store, id) for id in (expired[500], gone[-1], expired[-1]))
    assert nack(store, lapsed[-1], dead[-1], delayed[-1]) == [False] * 3
    assert hold(store, lapsed[-1], delayed[-1], dead[0]) == [True, True, False]
    assert redrive(store, dead[-1], dead[1]) == 2
    assert enqueue(store, lapsed[-1], delayed[-1]) == [True, True]
    assert finish(store, gone[1], dead[-2]) == [False, True]
    given: list[bytes] = []
    while some := take(store, 1_000):
        given += [delivery.message_id for delivery in some]
        tick(store)
    assert sorted(given) == sorted([*lapsed, *delayed, dead[-1], dead[1]])
    assert counts(store) == (0, 0, 2_002, 997)
    assert counters(store, lapsed[-1]) == (0, 2, 2)
