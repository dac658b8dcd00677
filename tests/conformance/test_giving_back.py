"""A delivery that did not reach its consumer is taken back, and no other delivery with it.

Called by   pytest.
Calls       model/giving_back.py, the stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from quinque.model.families import JOBS, RELIABLE
from quinque.model.giving_back import giving_back
from quinque.model.states import State
from quinque.model.work_ops import Requeue, Take, WorkDelivery
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import reliable_words as reliable
from tests.conformance.claim_words import subscribe
from tests.conformance.work_words import (
    MINUTE_MS,
    add,
    add_one,
    bodies,
    counters,
    redrive,
    state,
    take,
)

RETRIES = pytest.mark.parametrize("retry_ms", [MINUTE_MS, 0])


def give_back(store: Store, taken: Sequence[WorkDelivery]) -> None:
    for op in giving_back(Take(JOBS, (b"w",), 1), taken):
        store.run(op)


def give_back_elements(store: Store, taken: Sequence[WorkDelivery]) -> None:
    for op in giving_back(Take(RELIABLE, (reliable.QUEUE,), 1), taken):
        store.run(op)


def let_die(store: Store, id: bytes) -> None:
    assert store.run(Requeue(JOBS, [id], is_nack=True, is_dead=True)) == [True]


@RETRIES
def test_jobs_are_ready_again(store: Store, clock: ManualClock, retry_ms: int) -> None:
    add(store, b"1", retry_ms=retry_ms)
    clock.advance(10)
    add(store, b"2", b"3", retry_ms=retry_ms)
    taken = take(store, 3)

    give_back(store, taken)

    assert bodies(store, 3) == [b"1", b"2", b"3"]


@RETRIES
def test_a_delivery_that_is_given_back_is_none(store: Store, retry_ms: int) -> None:
    id = add_one(store, retry_ms=retry_ms)
    for _ in range(3):
        give_back(store, take(store))
    assert counters(store, id) == (0, 0, 0)

    (again,) = take(store)
    assert (again.nacks, again.requeues) == (0, 0)


@RETRIES
def test_a_job_that_came_back_and_was_taken_again_stays(
    store: Store, clock: ManualClock, retry_ms: int
) -> None:
    id = add_one(store, retry_ms=retry_ms)
    first = take(store)
    give_back(store, first)
    clock.advance(1_000)
    second = take(store)

    give_back(store, first)
    assert state(store, id) == State.LEASED

    give_back(store, second)
    assert state(store, id) == State.READY


@RETRIES
def test_a_job_that_was_redriven_and_taken_again_stays(
    store: Store, clock: ManualClock, retry_ms: int
) -> None:
    id = add_one(store, retry_ms=retry_ms)
    first = take(store)
    let_die(store, id)
    clock.advance(1_000)
    redrive(store, id)
    second = take(store)

    give_back(store, first)
    assert state(store, id) == State.LEASED
    assert counters(store, id) == (0, 0, 1)

    give_back(store, second)
    assert state(store, id) == State.READY


def test_a_job_whose_lease_lapsed_and_that_was_taken_again_stays(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    first = take(store)
    clock.advance(2 * MINUTE_MS)
    take(store)

    give_back(store, first)

    assert state(store, id) == State.LEASED


@RETRIES
def test_a_job_goes_back_though_its_lease_is_not_known(store: Store, retry_ms: int) -> None:
    id = add_one(store, retry_ms=retry_ms)
    (taken,) = take(store)

    give_back(store, [replace(taken, lease=0)])

    assert state(store, id) == State.READY
    assert counters(store, id) == (0, 0, 0)


def test_an_element_of_an_unknown_lease_goes_back_if_it_was_delivered_once(store: Store) -> None:
    reliable.push(store, b"1", b"2")
    taken = [replace(it, lease=0) for it in reliable.pop(store, 2)]
    reliable.recover(store, 1)

    give_back_elements(store, taken)

    assert reliable.delivered(store) == [b"1"]
    assert reliable.popped(store) == [b"2"]


def test_an_element_that_was_in_a_claim_is_ready_again(store: Store) -> None:
    reliable.push(store, b"1")
    driver = subscribe(store, reliable.QUEUE, family=RELIABLE)
    driver.fill(1, seals=True)
    driver.release(1)
    taken = reliable.pop(store)

    give_back_elements(store, taken)

    assert reliable.popped(store) == [b"1"]


def test_a_delivery_of_an_element_that_is_given_back_is_none(store: Store) -> None:
    id = reliable.push_one(store)
    taken = reliable.pop(store)
    give_back_elements(store, taken)
    reliable.pop(store)

    (element,) = reliable.inspect(store, is_leased=True)
    assert (element.id, element.deliveries) == (id, 1)


def test_an_element_that_was_recovered_since_stays(store: Store) -> None:
    reliable.push(store, b"1")
    taken = reliable.pop(store)
    reliable.recover(store)

    give_back_elements(store, taken)

    assert reliable.popped(store) == []
