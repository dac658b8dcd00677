"""Adding, taking, finishing, giving back, holding and extending: a rule of worklists per test."""

from __future__ import annotations

import pytest

from quinque.errors import NoMessage, NoReplicas, QueueFull, QueuePaused, TooLate
from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import FindKey, SetNode, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.work_words import (
    AFTER_MS,
    BEFORE_MS,
    DAY_MS,
    MINUTE_MS,
    NOBODY,
    add,
    add_one,
    all_queues,
    bodies,
    counters,
    counts,
    due_within,
    enqueue,
    extend,
    finish,
    hold,
    is_there,
    look,
    nack,
    pause_in,
    show,
    state,
    take,
)

LEASE_MS = range(MINUTE_MS - 250, MINUTE_MS + 250)


# -- adding -----------------------------------------------------------------------------------


def test_a_message_that_is_added_is_ready(store: Store) -> None:
    id = add_one(store, b"body", retry_ms=5_000, max_deliveries=3)

    view = show(store, id)
    assert (view.queue, view.message_id, view.body, view.state) == (b"w", id, b"body", State.READY)
    assert view.terms == Terms(DAY_MS, 0, 5_000, 3)
    assert (view.nacks, view.requeues, view.deliveries, view.max_deliveries) == (0, 0, 0, 3)
    assert (view.ttl_left_ms, view.due_within_ms) == (DAY_MS, None)
    assert (view.reason, view.key) == (b"", None)


def test_messages_are_taken_in_the_order_they_were_added(store: Store) -> None:
    add(store, b"1", b"2")
    add(store, b"3")

    assert bodies(store, 2) == [b"1", b"2"]
    assert bodies(store, 2) == [b"3"]


@pytest.mark.parametrize("body", [b"", b"\r\n\0", b"x" * 100_000])
def test_a_body_is_any_bytes(store: Store, body: bytes) -> None:
    add(store, body, queue=b"")

    assert bodies(store, 1, b"") == [body]


def test_a_delayed_message_is_not_taken_before_its_time(store: Store, clock: ManualClock) -> None:
    id = add_one(store, delay_ms=1_000)
    assert (state(store, id), due_within(store, id)) == (State.DELAYED, 1_000)

    clock.advance(999)
    assert take(store) == []
    assert counts(store) == (0, 1, 0, 0)

    clock.advance(1)
    assert counts(store) == (1, 0, 0, 0)
    (given,) = take(store)
    assert (given.message_id, given.nacks, given.requeues) == (id, 0, 0)


def test_a_delayed_message_goes_to_the_place_it_was_added_at(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"delayed", delay_ms=1_000)
    add(store, b"later")

    clock.advance(1_000)

    assert bodies(store, 2) == [b"delayed", b"later"]


def test_no_more_is_added_than_may_be_ready(store: Store) -> None:
    add(store, b"1", max_length=1)
    add(store, b"delayed", delay_ms=1_000)

    with pytest.raises(QueueFull):
        add(store, b"2", max_length=1)

    assert counts(store) == (1, 1, 0, 0)
    add(store, b"3", max_length=2)
    add(store, b"4")
    take(store, 3)
    add(store, b"5", max_length=1)


def test_what_expired_is_not_counted_by_an_addition(store: Store, clock: ManualClock) -> None:
    add(store, *[b""] * 1_000, ttl_ms=1_000)

    clock.advance(1_000)

    assert len(add(store, b"1", max_length=1)) == 1  # and is not refused with QueueFull


def test_an_addition_for_which_there_are_not_enough_nodes_is_refused(store: Store) -> None:
    with pytest.raises(NoReplicas):
        add(store, b"1", replicas=5)

    assert all_queues(store) == []


def test_what_an_addition_is_refused_for_first(store: Store) -> None:
    """Nodes, then the key, then the length, then the pause."""
    known = add_one(store, key=b"k")
    pause_in(store)

    with pytest.raises(NoReplicas):
        add(store, b"2", replicas=5, key=b"k", max_length=1)
    assert add(store, b"2", key=b"k", max_length=1) == [known]
    with pytest.raises(QueueFull):
        add(store, b"2", key=b"other", max_length=1)
    with pytest.raises(QueuePaused):
        add(store, b"2", key=b"other", max_length=2)
    store.run(SetNode(is_leaving=True))
    with pytest.raises(NoReplicas):
        add(store, b"2", key=b"k")


# -- taking -----------------------------------------------------------------------------------


def test_a_taken_message_is_leased_for_its_retry_time_from_then_on(
    store: Store, clock: ManualClock
) -> None:
    ids = add(store, *[b""] * 20)
    clock.advance(10_000)
    take(store, 20)

    dues = [due_within(store, id) for id in ids]
    assert all(due_ms in LEASE_MS for due_ms in dues)
    assert state(store, ids[0]) is State.LEASED
    assert counts(store) == (0, 0, 20, 0)
    assert take(store) == []


def test_leases_that_begin_at_the_same_time_do_not_all_end_at_the_same_time(store: Store) -> None:
    dues = set()
    for _ in range(30):
        id = add_one(store)
        take(store)
        dues.add(due_within(store, id))

    assert len(dues) > 5


def test_a_lapsed_message_comes_back_to_its_old_place(store: Store, clock: ManualClock) -> None:
    id = add_one(store, b"first")
    take(store)
    add(store, b"second")

    clock.advance(BEFORE_MS)
    assert counts(store) == (1, 0, 1, 0)

    clock.advance(AFTER_MS - BEFORE_MS)
    assert counters(store, id) == (0, 1, 1)
    first, second = take(store, 2)
    assert (first.body, first.nacks, first.requeues) == (b"first", 0, 1)
    assert (second.body, second.nacks, second.requeues) == (b"second", 0, 0)
    assert counters(store, id) == (0, 1, 2)


def test_a_message_that_is_worked_at_most_once_does_not_come_back(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, retry_ms=0)
    take(store)
    assert show(store, id).due_within_ms is None

    clock.advance(DAY_MS - 1)

    assert state(store, id) is State.LEASED
    assert take(store) == []


def test_queues_are_visited_in_turn(store: Store) -> None:
    add(store, b"a1", b"a2", b"a3", queue=b"a")
    add(store, b"b1", queue=b"b")
    add(store, b"c1", b"c2", queue=b"c")

    assert bodies(store, 5, b"c", b"a", b"b") == [b"c1", b"a1", b"b1", b"c2", b"a2"]
    assert bodies(store, 5, b"c", b"a", b"b") == [b"a3"]


def test_a_delivery_says_which_queue_it_is_from(store: Store) -> None:
    add(store, b"1", queue=b"a")

    (given,) = take(store, 1, b"b", b"a")

    assert (given.queue, given.body) == (b"a", b"1")


def test_large_bodies_are_handed_out_a_few_at_a_time_and_all_of_them(store: Store) -> None:
    add(store, *[b"x" * 400_000] * 6)

    given = take(store, 6)
    assert 0 < len(given) < 6
    while some := take(store, 6):
        given += some

    assert len({delivery.message_id for delivery in given}) == 6
    assert counts(store) == (0, 0, 6, 0)


# -- finishing --------------------------------------------------------------------------------


def test_a_finished_message_is_gone_and_does_not_come_back(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    take(store)

    assert finish(store, id) == [True]

    assert not is_there(store, id)
    clock.advance(AFTER_MS)
    assert take(store) == []


def test_a_message_may_be_finished_in_any_state(store: Store) -> None:
    (dead,) = add(store, b"", max_deliveries=1)
    take(store)
    nack(store, dead)
    (leased,) = add(store, b"")
    take(store)
    (ready,) = add(store, b"")
    (delayed,) = add(store, b"", delay_ms=1_000)
    states = [state(store, id) for id in (ready, delayed, leased, dead)]
    assert states == [State.READY, State.DELAYED, State.LEASED, State.DEAD]

    assert finish(store, dead, delayed, leased, ready) == [True] * 4

    assert counts(store) == (0, 0, 0, 0)


def test_finishing_counts_each_message_once(store: Store) -> None:
    one, two = add_one(store, queue=b"a"), add_one(store, queue=b"b")

    assert finish(store, one, two, NOBODY, one) == [True, True, False, False]

    assert finish(store) == []


# -- giving back ------------------------------------------------------------------------------


def test_a_nack_gives_a_message_back_at_once_and_is_counted(store: Store) -> None:
    id = add_one(store, b"first")
    take(store)
    add(store, b"second")

    assert nack(store, id) == [True]

    first, second = take(store, 2)
    assert (first.body, first.nacks, first.requeues) == (b"first", 1, 0)
    assert second.body == b"second"


def test_a_message_that_is_enqueued_counts_as_queued_again(store: Store) -> None:
    id = add_one(store)
    take(store)

    assert enqueue(store, id) == [True]

    assert counters(store, id) == (0, 1, 1)
    assert state(store, id) is State.READY


def test_a_message_enqueued_before_its_first_delay_is_over_was_not_queued_before(
    store: Store,
) -> None:
    enqueued, nacked = add(store, b"1", b"2", delay_ms=1_000)

    assert enqueue(store, enqueued) == [True]
    assert nack(store, nacked) == [True]

    assert counters(store, enqueued) == (0, 0, 0)
    assert counters(store, nacked) == (1, 0, 0)
    assert counts(store) == (2, 0, 0, 0)


def test_a_message_may_be_given_back_with_a_delay(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    take(store)

    assert nack(store, id, delay_ms=1_000) == [True]

    assert (state(store, id), due_within(store, id)) == (State.DELAYED, 1_000)
    assert counters(store, id) == (1, 0, 1), "counted at once"
    clock.advance(1_000)
    assert counters(store, id) == (1, 0, 1), "and once"
    assert bodies(store) == [b"1"]


def test_only_leased_and_delayed_messages_are_given_back(store: Store) -> None:
    ready = add_one(store)
    before = show(store, ready)

    assert nack(store, ready, NOBODY) == [False, False]
    assert enqueue(store, ready, NOBODY) == [False, False]
    assert nack(store) == []

    assert show(store, ready) == before


def test_a_message_is_given_back_once_by_one_request(store: Store) -> None:
    id = add_one(store)
    take(store)

    assert nack(store, id, id) == [True, False]

    assert counters(store, id) == (1, 0, 1)


def test_a_message_worked_at_most_once_is_given_back_only_before_anybody_saw_it(
    store: Store,
) -> None:
    seen = add_one(store, retry_ms=0)
    take(store)
    unseen = add_one(store, retry_ms=0, delay_ms=1_000)

    assert nack(store, seen, unseen) == [False, True]

    assert state(store, seen) is State.LEASED
    assert state(store, unseen) is State.READY
    hold(store, unseen)
    assert nack(store, unseen) == [False]
    assert enqueue(store, unseen) == [False]


def test_why_a_message_was_given_back_is_kept(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    take(store)
    nack(store, id, reason=b"no luck")
    assert show(store, id).reason == b"no luck"

    take(store)
    clock.advance(AFTER_MS)
    assert show(store, id).reason == b"no luck"

    take(store)
    nack(store, id)
    assert show(store, id).reason == b""


# -- holding and extending --------------------------------------------------------------------


def test_a_held_message_is_leased_to_nobody_and_comes_back(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)

    assert hold(store, id) == [True]

    assert state(store, id) is State.LEASED
    assert due_within(store, id) in LEASE_MS
    assert counters(store, id) == (0, 0, 0), "nobody got it"
    clock.advance(AFTER_MS)
    assert counters(store, id) == (0, 1, 0)
    assert bodies(store) == [b"1"]


def test_only_ready_messages_are_held(store: Store) -> None:
    leased = add_one(store)
    take(store)
    delayed = add_one(store, delay_ms=1_000)
    ready = add_one(store)
    before = show(store, leased)

    assert hold(store, leased, delayed, NOBODY, ready, ready) == [False, False, False, True, False]

    assert show(store, leased) == before
    assert state(store, delayed) is State.DELAYED
    assert hold(store) == []


def test_a_held_message_that_is_worked_at_most_once_is_held_for_good(
    store: Store, clock: ManualClock
) -> None:
    held, extended = add(store, b"1", b"2", retry_ms=0)

    assert hold(store, held) == [True]
    assert extend(store, extended) == 0

    clock.advance(DAY_MS - 1)
    assert counts(store) == (0, 0, 2, 0)
    clock.advance(1)
    assert not is_there(store, held)


def test_extending_begins_the_lease_anew(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    take(store)
    clock.advance(BEFORE_MS)

    assert extend(store, id) == MINUTE_MS

    assert due_within(store, id) in LEASE_MS
    clock.advance(BEFORE_MS)
    assert (state(store, id), counters(store, id)) == (State.LEASED, (0, 0, 1))
    clock.advance(AFTER_MS - BEFORE_MS)
    assert (state(store, id), counters(store, id)) == (State.READY, (0, 1, 1))


def test_extending_a_ready_message_leases_it(store: Store) -> None:
    id = add_one(store)

    assert extend(store, id) == MINUTE_MS

    assert state(store, id) is State.LEASED
    assert counters(store, id) == (0, 0, 0)
    assert take(store) == []


def test_extending_a_delayed_message_puts_it_off_by_its_retry_time(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, delay_ms=1_000)

    assert extend(store, id) == MINUTE_MS

    assert due_within(store, id) in LEASE_MS
    clock.advance(AFTER_MS)
    assert (state(store, id), counters(store, id)) == (State.READY, (0, 0, 0))


def test_a_lease_is_not_extended_when_more_than_half_of_the_life_is_over(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, ttl_ms=10 * MINUTE_MS, retry_ms=6 * MINUTE_MS)
    take(store)

    clock.advance(5 * MINUTE_MS)
    assert extend(store, id) == 6 * MINUTE_MS
    clock.advance(1)
    with pytest.raises(TooLate):
        extend(store, id)

    assert state(store, id) is State.LEASED


def test_a_lease_that_may_be_extended_anytime_lasts_until_the_end_of_the_life(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, ttl_ms=10 * MINUTE_MS)
    take(store)

    for _ in range(19):
        clock.advance(MINUTE_MS // 2)
        assert extend(store, id, is_anytime=True) == MINUTE_MS
    assert (state(store, id), counters(store, id)) == (State.LEASED, (0, 0, 1))
    clock.advance(MINUTE_MS // 2)
    with pytest.raises(NoMessage):
        extend(store, id, is_anytime=True)

    assert not is_there(store, id)


def test_what_is_not_there_cannot_be_extended(store: Store, clock: ManualClock) -> None:
    gone = add_one(store, ttl_ms=1_000)
    dead = add_one(store, max_deliveries=1)
    take(store, 2)
    nack(store, dead)
    clock.advance(1_000)

    for id in (NOBODY, gone, dead):
        with pytest.raises(NoMessage):
            extend(store, id)


# -- expiring ---------------------------------------------------------------------------------


def test_a_message_expires_whoever_has_it(store: Store, clock: ManualClock) -> None:
    ready, delayed, leased = (
        add_one(store, ttl_ms=1_000, queue=b"a"),
        add_one(store, ttl_ms=1_000, queue=b"b", delay_ms=999),
        add_one(store, ttl_ms=1_000, queue=b"c", key=b"k"),
    )
    take(store, 1, b"c")

    clock.advance(999)
    assert [show(store, id).ttl_left_ms for id in (ready, delayed, leased)] == [1, 1, 1]

    clock.advance(1)
    assert not any(is_there(store, id) for id in (ready, delayed, leased))
    assert take(store, 3, b"a", b"b", b"c") == []
    assert nack(store, leased) == finish(store, ready) == hold(store, ready) == [False]
    assert store.run(FindKey(JOBS, b"c", b"k")) is None


def test_a_lease_may_be_longer_than_the_life(store: Store, clock: ManualClock) -> None:
    id = add_one(store, ttl_ms=1_000)
    take(store)

    clock.advance(1_000)

    assert not is_there(store, id)


def test_taking_counts_and_queueing_counts(store: Store, clock: ManualClock) -> None:
    """A message is queued when it is added, given back, lapses, or its delay is over."""
    id = add_one(store, delay_ms=1_000)
    assert (look(store).came, look(store).went) == (0, 0)
    clock.advance(1_000)
    take(store)
    assert (look(store).came, look(store).went) == (1, 1)
    nack(store, id)
    take(store)
    enqueue(store, id)
    hold(store, id)
    clock.advance(AFTER_MS)
    take(store)
    nack(store, id, delay_ms=1_000)
    assert (look(store).came, look(store).went) == (4, 3)
    clock.advance(1_000)
    add(store, b"2", b"3")
    assert (look(store).came, look(store).went) == (7, 3)
