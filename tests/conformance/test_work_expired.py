"""What becomes of messages that expire: they are counted and gone, or kept as dead ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quinque.model.families import JOBS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.queue_ops import RenameQueue, SetExpiry
from quinque.model.states import State
from quinque.model.work_ops import AwaitEnd, FindKey, Purge
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.record_words import kinds
from tests.conformance.words import tick
from tests.conformance.work_words import (
    DAY_MS,
    MINUTE_MS,
    add,
    add_one,
    bodies,
    browse,
    configure,
    counts,
    everything,
    finish,
    hold,
    is_there,
    look,
    redrive,
    show,
    state,
    take,
)

# -- counted --------------------------------------------------------------------------------------


def test_messages_that_expire_are_counted_until_the_counts_are_taken(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1", b"2", ttl_ms=1_000)
    add(store, b"3", ttl_ms=1_000, queue=b"v")
    add(store, b"lives")
    take(store)

    clock.advance(1_000)
    tick(store)

    assert store.expired.take() == ({b"w": 2, b"v": 1}, 0)
    assert store.expired.take() == ({}, 0)


def test_messages_that_expire_are_counted_by_whatever_operation_meets_them(
    store: Store, clock: ManualClock
) -> None:
    add(store, *[b"%d" % number for number in range(2_000)], ttl_ms=1_000)
    add(store, b"lives")

    clock.advance(1_000)
    assert bodies(store, 5) == [b"lives"]
    for _ in range(20):
        tick(store)

    assert store.expired.take() == ({b"w": 2_000}, 0)


def test_a_message_that_nobody_need_ack_is_not_counted(store: Store, clock: ManualClock) -> None:
    add(store, b"delivered", b"not delivered", ttl_ms=1_000, retry_ms=0)
    take(store)

    clock.advance(1_000)
    tick(store)

    assert store.expired.take() == ({b"w": 1}, 0)


# -- kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("was", ["ready", "leased", "delayed"])
def test_a_message_that_expires_is_dead_where_such_messages_are_kept(
    store: Store, clock: ManualClock, was: str
) -> None:
    assert configure(store, keeps_expired=True).keeps_expired
    id = add_one(store, b"body", ttl_ms=1_000, delay_ms=999 if was == "delayed" else 0)
    assert was != "leased" or take(store)
    assert state(store, id) is State[was.upper()]

    clock.advance(1_000)

    view = show(store, id)
    assert (view.state, view.reason, view.body) == (State.DEAD, b"expired", b"body")
    assert (view.ttl_left_ms, view.due_within_ms) == (0, None)
    assert counts(store) == (0, 0, 0, 1)
    assert browse(store, state=State.DEAD) == [b"body"]
    assert take(store) == []
    assert store.expired.take() == ({}, 0)
    assert kinds(store, b"w")[-1] == (Kind.DEAD, Reason.TTL_OVER)


DEAD: dict[str, Callable[[Store, bytes], Any]] = {
    "finish": lambda store, id: finish(store, id) == [True],
    "hold": lambda store, id: hold(store, id) == [False],
    "redrive": lambda store, id: redrive(store, id) == 1,
    "purge": lambda store, id: store.run(Purge(JOBS, b"w")) == 1,
    "purge by state": lambda store, id: store.run(Purge(JOBS, b"w", [State.DEAD])) == 1,
    "key": lambda store, id: store.run(FindKey(JOBS, b"w", b"k")) is None,
    "key again": lambda store, id: add_one(store, key=b"k") != id,
    "end": lambda store, id: store.run(AwaitEnd(JOBS, [id])) == 0,
}


@pytest.mark.parametrize("how", DEAD)
def test_a_kept_message_is_dead_for_whoever_looks_first(
    store: Store, clock: ManualClock, how: str
) -> None:
    configure(store, keeps_expired=True)
    id = add_one(store, ttl_ms=1_000, key=b"k")

    clock.advance(1_000)

    assert DEAD[how](store, id)


def test_a_redriven_message_has_a_new_life_and_is_kept_again(
    store: Store, clock: ManualClock
) -> None:
    configure(store, keeps_expired=True)
    id = add_one(store, ttl_ms=1_000, key=b"k")
    clock.advance(DAY_MS)
    tick(store)

    assert redrive(store, id) == 1

    view = show(store, id)
    assert (view.state, view.ttl_left_ms, view.reason) == (State.READY, 1_000, b"")
    assert store.run(FindKey(JOBS, b"w", b"k")) == id
    clock.advance(999)
    assert state(store, id) is State.READY
    clock.advance(1)
    assert (state(store, id), show(store, id).reason) == (State.DEAD, b"expired")


def test_a_message_that_was_delivered_at_most_once_is_not_kept(
    store: Store, clock: ManualClock
) -> None:
    configure(store, keeps_expired=True)
    given, waiting = add(store, b"1", b"2", ttl_ms=1_000, retry_ms=0)
    take(store)

    clock.advance(1_000)

    assert not is_there(store, given)
    assert state(store, waiting) is State.DEAD
    assert counts(store) == (0, 0, 0, 1)


def test_a_message_that_died_before_it_expired_says_why(store: Store, clock: ManualClock) -> None:
    configure(store, keeps_expired=True)
    id = add_one(store, ttl_ms=10 * MINUTE_MS, max_deliveries=1)
    take(store)

    clock.advance(DAY_MS)

    assert (state(store, id), show(store, id).reason) == (State.DEAD, b"lapsed")


def test_thousands_that_expire_at_once_are_each_kept(store: Store, clock: ManualClock) -> None:
    configure(store, keeps_expired=True)
    ids = add(store, *[b"%d" % number for number in range(2_000)], ttl_ms=1_000)
    add(store, b"lives")

    clock.advance(1_000)

    assert finish(store, ids[0], ids[-1]) == [True, True], "an ack that is late finishes it"
    assert bodies(store, 5) == [b"lives"]
    for _ in range(20):
        tick(store)
    assert counts(store) == (0, 0, 1, 1_998)


def test_what_becomes_of_expired_messages_can_be_changed(store: Store, clock: ManualClock) -> None:
    kept = add_one(store, ttl_ms=1_000)
    configure(store, keeps_expired=True)
    clock.advance(1_000)
    assert state(store, kept) is State.DEAD
    id = add_one(store, ttl_ms=1_000)

    view = configure(store, keeps_expired=False)
    clock.advance(1_000)

    assert not view.keeps_expired
    assert not is_there(store, id)
    assert state(store, kept) is State.DEAD


def test_an_empty_queue_that_keeps_expired_messages_stays(store: Store, clock: ManualClock) -> None:
    configure(store, keeps_expired=True)

    clock.advance(DAY_MS)
    tick(store)

    assert look(store).keeps_expired


def test_what_is_kept_and_set_is_so_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    configure(store, keeps_expired=True, max_deliveries=2)
    id = add_one(store, ttl_ms=1_000)
    clock.advance(1_000)
    tick(store)
    later = add_one(store, ttl_ms=1_000)
    before = everything(store)

    store = reopen(clock)

    assert everything(store) == before
    assert look(store).keeps_expired
    assert show(store, id).reason == b"expired"
    clock.advance(1_000)
    assert state(store, later) is State.DEAD


def test_a_renamed_queue_keeps_expired_messages_as_before(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    old_name, new_name = b"{of one slot}w", b"{of one slot}v"
    configure(store, old_name, keeps_expired=True)
    id = add_one(store, ttl_ms=1_000, queue=old_name)

    assert store.run(RenameQueue(JOBS, old_name, new_name))
    store = reopen(clock)
    clock.advance(1_000)

    assert look(store, new_name).keeps_expired
    assert (state(store, id), show(store, id).queue) == (State.DEAD, new_name)


def test_what_was_in_a_queue_that_ended_is_not_kept(store: Store, clock: ManualClock) -> None:
    configure(store, keeps_expired=True)
    id = add_one(store, ttl_ms=1_000)
    store.run(SetExpiry(JOBS, b"w", store.now_ms() + 1_000))

    clock.advance(1_000)

    assert not is_there(store, id)
