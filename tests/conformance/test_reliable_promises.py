"""The obligations of stores/base.py, as they are kept for the reliable family: restarts, clocks,
claims, stages and pages."""

from __future__ import annotations

import random

import msgpack

from quinque.model.claim_ops import OpenClaims, Outcome
from quinque.model.families import RELIABLE
from quinque.model.limits import NEVER_MS
from quinque.model.look_ops import BrowsePlaces
from quinque.model.rows import Row
from quinque.model.stage_ops import Published
from quinque.model.states import State
from quinque.model.work_ops import Purge, PurgeAll
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.claim_words import LEASE_MS, Driver
from tests.conformance.conftest import Reopen
from tests.conformance.reliable_words import (
    HOUR_MS,
    OTHER,
    QUEUE,
    ack,
    all_queues,
    delivered,
    everything,
    inspect,
    key_of,
    lengths,
    pop,
    popped,
    push,
    push_one,
    recover,
    recovered,
    waiting,
)
from tests.conformance.stage_words import publish, run_of, stage
from tests.conformance.words import tick


def work(store: Store, clock: ManualClock) -> None:
    """Some of everything, from a chance that is always the same."""
    chance = random.Random(6)
    for number in range(60):
        push(store, *[b"%d" % number] * chance.randrange(1, 6))
        pop(store, chance.randrange(5))
        recover(store, chance.randrange(3), chance.randrange(20))
        seen = [it.id for it in inspect(store, is_leased=True)]
        ack(store, *chance.sample(seen, len(seen) // 4))
        clock.advance(chance.randrange(10))
        store.commit()


def test_1_a_queue_that_gets_something_to_deliver_is_ready(store: Store) -> None:
    push(store, b"1")
    assert store.ready == {QUEUE}

    pop(store)
    store.ready.clear()
    recover(store)

    assert store.ready == set(), "who recovers has it already"


def test_7_ids_never_go_back(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    ids = push(store, b"1", b"2")
    for number in range(4):
        pop(store, 10)
        ack(store, *ids)
        set_back_us = HOUR_MS * 1_000 if number % 2 else 0
        store = reopen(ManualClock(clock.now_us() - set_back_us))
        ids += push(store, b"1", b"2")

    keys = list(map(key_of, ids))
    assert keys == sorted(set(keys))


def test_8_everything_is_as_it_was_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    work(store, clock)
    push(store, b"3", queue=OTHER)
    before = everything(store)

    store = reopen(clock)

    assert everything(store) == before
    in_order = delivered(store)
    assert recovered(store) == in_order


def test_8_the_order_of_deliveries_goes_on_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    push(store, *[b"%d" % number for number in range(9)])
    for _ in range(3):
        pop(store, 3)
        recover(store, 1)
        store = reopen(clock)

    order = delivered(store)

    assert order == [b"%d" % number for number in (0, 3, 4, 5, 1, 6, 7, 8, 2)]
    assert recovered(store, 4) == order[:4]
    assert delivered(store) == order[4:] + order[:4]


def test_9_nothing_is_ever_due(store: Store, clock: ManualClock) -> None:
    push(store, b"1", b"2")
    pop(store)
    store.commit()
    assert store.next_due_ms() == NEVER_MS
    waiting_then, delivered_then = inspect(store), inspect(store, is_leased=True)

    clock.advance(1_000 * HOUR_MS)
    tick(store)

    assert inspect(store) == waiting_then
    assert inspect(store, is_leased=True) == delivered_then


def test_a_purge_takes_what_is_in_the_queue_and_leaves_the_queue(store: Store) -> None:
    push(store, b"1", b"2", b"3")
    pop(store)

    assert store.run(Purge(RELIABLE, QUEUE, [State.READY])) == 2
    assert lengths(store) == (0, 1)
    assert store.run(Purge(RELIABLE, QUEUE)) == 1
    assert lengths(store) == (0, 0)


def test_a_purge_of_the_family_takes_its_queues_too(store: Store) -> None:
    push(store, b"1")
    push(store, b"2", queue=b"{x}")

    assert store.run(PurgeAll(RELIABLE)) == 2

    assert all_queues(store) == []


# -- claims, stages, pages ---------------------------------------------------------------------


def subscribe(store: Store) -> Driver:
    op = OpenClaims(RELIABLE, QUEUE, b"s", b"", LEASE_MS, 0)
    return Driver(store, store.run(op))


def test_12_elements_are_read_in_claims_and_settled(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    ids = push(store, b"1", b"2", b"3")
    driver = subscribe(store)

    assert driver.claim(1, 2) == [b"1", b"2"]
    assert popped(store, 5) == [b"3"]
    assert ack(store, ids[0]) == [False]
    store.commit()
    driver.store = store = reopen(clock)
    assert [row.id for row in driver.rows(1)] == ids[:2]
    driver.settle(1)

    assert (waiting(store), delivered(store)) == ([], [b"3"])


def test_12_what_is_released_or_given_back_waits_again(store: Store) -> None:
    ids = push(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1, 1)
    driver.release(1)
    assert waiting(store) == [b"1", b"2"]

    assert driver.claim(2) == [b"1", b"2"]
    driver.mark(2, Outcome.NACK, ids[1])
    driver.settle(2)

    assert waiting(store) == [b"2"]
    assert popped(store, 5) == [b"2"]


def test_13_a_staged_batch_is_pushed_once(store: Store, clock: ManualClock) -> None:
    first = push_one(store, b"0")
    stage(store, run_of(b"1", b"2"), family=RELIABLE, queue=QUEUE)
    assert publish(store, (0, 0, 1), family=RELIABLE, queue=QUEUE) == Published(2, 0)
    assert publish(store, (0, 0, 1), family=RELIABLE, queue=QUEUE) == Published(0, 0)

    ids = [it.id for it in inspect(store)]
    assert list(map(key_of, ids)) == sorted(map(key_of, {first, *ids}))
    clock.advance(1_000 * HOUR_MS)
    assert popped(store, 5) == [b"0", b"1", b"2"]


def test_a_queue_is_seen_page_by_page(store: Store) -> None:
    ids = push(store, *[b"%d" % number for number in range(5)])
    pop(store, 2)

    for states, wanted in (
        ((State.READY, State.LEASED), ids),
        ((State.READY,), ids[2:]),
        ((State.LEASED,), ids[:2]),
    ):
        page = store.run(BrowsePlaces(RELIABLE, QUEUE, 0, 0, 10, states))
        found = [Row._make(row) for row in msgpack.unpackb(page.rows, raw=True)]
        assert page.is_last
        assert [row.id for row in found] == wanted


def test_7_queues_that_could_be_renamed_to_each_other_never_have_the_same_id(store: Store) -> None:
    assert key_of(push_one(store)) < key_of(push_one(store, queue=OTHER))
