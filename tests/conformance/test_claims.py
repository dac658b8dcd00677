"""Claims on worklists: what a subscription takes in lots, and what becomes of it."""

from __future__ import annotations

import pytest

from quinque.errors import BadArgument, BadClaim, NoClaim, NoSubscription, Superseded, WrongType
from quinque.model.claim_ops import ClaimState, FillClaim, FindClaims, LookAtClaims, Outcome
from quinque.model.families import JOBS
from quinque.model.limits import CLAIM_KEPT_MS
from quinque.model.rows import CHUNK_ROWS_MOST, WAS_READY
from quinque.model.states import State
from quinque.model.work_ops import AwaitEnd, FindKey, Purge, PurgeAll
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import words
from tests.conformance.claim_words import bodies, ids, read_rows, subscribe
from tests.conformance.conftest import Reopen
from tests.conformance.work_words import (
    DAY_MS,
    MINUTE_MS,
    add,
    add_one,
    configure,
    counters,
    counts,
    finish,
    is_there,
    look,
    nack,
    pause_out,
    show,
    state,
    take,
)
from tests.conformance.work_words import bodies as taken_bodies

# -- filling and reading ------------------------------------------------------------------------


def test_a_claim_has_the_messages_in_the_order_they_would_be_taken(store: Store) -> None:
    added = add(store, b"1", b"2", b"3")
    driver = subscribe(store)

    view = driver.fill(1, 2, seals=True)

    assert view is not None
    assert (view.number, view.state, view.messages, view.plays) == (1, ClaimState.SEALED, 2, 0)
    assert ids(driver.rows(1)) == added[:2]
    assert bodies(driver.rows(1)) == [b"1", b"2"]
    assert counts(store) == (1, 0, 0, 0)


def test_a_row_has_all_that_puts_the_message_back(store: Store) -> None:
    id = add_one(store, b"body", key=b"k", max_deliveries=7)
    before = show(store, id)
    assert taken_bodies(store) == [b"body"]
    nack(store, id, reason=b"why")

    (row,) = (subscribe(store).claim(1), read_rows(store, 1))[1]

    assert (row.id, row.body, row.attempt, row.place) == (id, b"body", 2, before.place)
    assert row.expires_ms == store.now_ms() + DAY_MS
    assert (row.state, row.due_ms, row.nacks, row.requeues) == (State.READY, 0, 1, 0)
    assert (row.reason, row.key, row.flags) == (b"why", b"k", WAS_READY)
    assert row.terms is not None
    assert tuple(row.terms) == (DAY_MS, 0, MINUTE_MS, 7, 1)


def test_a_claim_is_filled_a_little_at_a_time_and_sealed_when_asked(store: Store) -> None:
    add(store, b"1", b"2", b"3")
    driver = subscribe(store)

    first = driver.fill(1, 1)
    second = driver.fill(1, 1)
    sealed = driver.fill(1, 0, seals=True)
    again = driver.fill(1, 5)

    assert first is not None
    assert second is not None
    assert (first.state, first.messages) == (ClaimState.FILLING, 1)
    assert (second.state, second.messages) == (ClaimState.FILLING, 2)
    assert sealed == again
    assert sealed is not None
    assert (sealed.state, sealed.messages, sealed.body_bytes) == (ClaimState.SEALED, 2, 2)
    assert bodies(driver.rows(1)) == [b"1", b"2"]


def test_a_claim_that_nothing_goes_into_is_not_there(store: Store) -> None:
    driver = subscribe(store)

    assert driver.fill(1, seals=True) is None
    assert driver.look().claims == []
    assert driver.fill(1) is None


def test_a_claim_that_is_not_sealed_cannot_be_read(store: Store) -> None:
    add(store, b"1")
    driver = subscribe(store)
    driver.fill(1)

    with pytest.raises(NoClaim):
        driver.rows(1)


def test_only_the_next_claim_can_be_begun_and_only_when_the_last_is_sealed(store: Store) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)

    with pytest.raises(BadClaim):
        driver.fill(2)
    driver.fill(1, 1)
    with pytest.raises(BadClaim):
        driver.fill(2)
    driver.fill(1, 0, seals=True)

    assert driver.claim(2) == [b"2"]


def test_several_claims_can_be_open(store: Store) -> None:
    add(store, b"1", b"2", b"3")
    driver = subscribe(store)

    given = [driver.claim(1, 1), driver.claim(2, 1), driver.claim(3, 1)]

    assert given == [[b"1"], [b"2"], [b"3"]]
    assert [claim.number for claim in driver.look().claims] == [1, 2, 3]
    assert driver.settle(2) == 2
    assert [claim.state for claim in driver.look().claims] == [
        ClaimState.SETTLED,
        ClaimState.SEALED,
    ]


def test_what_has_a_later_place_is_left(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)
    newest = driver.look().stamp_us
    clock.advance(1)
    add(store, b"3")

    assert driver.claim(1, until_place=newest) == [b"1", b"2"]
    assert driver.fill(2, until_place=newest, seals=True) is None
    assert driver.claim(2) == [b"3"]


def test_many_messages_come_in_chunks(store: Store) -> None:
    expected = [b"%d" % number for number in range(2 * CHUNK_ROWS_MOST + 1)]
    add(store, *expected)
    driver = subscribe(store)
    while (view := driver.fill(1, 5_000)) is None or view.messages < len(expected):
        pass

    view = driver.fill(1, 0, seals=True)

    assert view is not None
    assert view.chunks >= 3
    assert bodies(driver.rows(1)) == expected


def test_large_bodies_come_in_several_chunks_and_calls(store: Store) -> None:
    expected = [b"%d" % number * 700_000 for number in range(8)]
    for body in expected:
        add(store, body)
    driver = subscribe(store)

    calls = 0
    while (view := driver.fill(1, 100)) is None or view.messages < len(expected):
        calls += 1
    driver.fill(1, 0, seals=True)

    assert calls
    assert bodies(driver.rows(1)) == expected


def test_a_rate_and_a_pause_hold_for_claims(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2", b"3")
    configure(store, rate=(2, 60_000))
    driver = subscribe(store)

    assert driver.claim(1) == [b"1", b"2"]
    assert driver.fill(2) is None
    clock.advance(30_000)
    pause_out(store)
    assert driver.fill(2) is None
    pause_out(store, is_paused=False)
    assert driver.claim(2) == [b"3"]


def test_what_has_expired_is_not_claimed(store: Store, clock: ManualClock) -> None:
    add(store, b"1", ttl_ms=1_000)
    add(store, b"2")
    clock.advance(1_000)

    assert subscribe(store).claim(1) == [b"2"]


# -- what others see of it -----------------------------------------------------------------------


def test_a_claimed_message_is_not_in_its_worklist_any_more(store: Store) -> None:
    id = add_one(store)
    subscribe(store).claim(1)

    assert not is_there(store, id)
    assert finish(store, id) == [False]
    assert take(store) == []
    assert counts(store) == (0, 0, 0, 0)


def test_a_claimed_message_does_not_expire(store: Store, clock: ManualClock) -> None:
    add(store, b"1", ttl_ms=1_000)
    driver = subscribe(store)
    driver.claim(1)

    clock.advance(DAY_MS)
    words.tick(store)

    assert bodies(driver.rows(1)) == [b"1"]


def test_its_key_stays_taken_until_it_is_settled(store: Store) -> None:
    id = add_one(store, b"1", key=b"k")
    driver = subscribe(store)
    driver.claim(1)

    assert add_one(store, b"2", key=b"k") == id
    assert store.run(FindKey(JOBS, b"w", b"k")) == id
    driver.settle(1)
    assert store.run(FindKey(JOBS, b"w", b"k")) is None
    assert add_one(store, b"2", key=b"k") != id


def test_a_queue_that_is_forgotten_keeps_only_the_keys_of_claimed_messages(store: Store) -> None:
    claimed = add_one(store, b"1", key=b"k")
    subscribe(store).claim(1)
    other = add_one(store, b"2", key=b"l")

    assert store.run(Purge(JOBS, b"w", forgets=True)) == 1
    assert add_one(store, b"3", key=b"k") == claimed
    assert add_one(store, b"4", key=b"l") != other
    assert taken_bodies(store) == [b"4"]


def test_what_came_back_expires_though_the_request_that_found_it_was_refused(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1", ttl_ms=10_000)
    driver = subscribe(store, release_ms=1_000)
    driver.fill(1, 1)

    clock.advance(2_000)
    with pytest.raises(BadClaim):
        driver.fill(1, 1)
    assert counts(store) == (1, 0, 0, 0)
    clock.advance(8_000)
    assert store.next_due_ms() <= store.now_ms()
    assert take(store) == []


def test_a_claimed_message_has_not_ended_until_it_is_settled(store: Store) -> None:
    id = add_one(store)
    driver = subscribe(store)
    driver.claim(1)
    store.watched = [id]

    assert store.run(AwaitEnd(JOBS, [id])) is None
    driver.settle(1)
    assert id in store.ready
    assert store.run(AwaitEnd(JOBS, [id])) == 1


def test_a_worklist_whose_messages_are_claimed_belongs_to_its_family(store: Store) -> None:
    add(store, b"1")
    driver = subscribe(store)
    driver.claim(1)

    with pytest.raises(WrongType):
        words.put(store, b"1", queue=b"w")


def test_claims_survive_that_all_queues_are_purged(store: Store) -> None:
    id = add_one(store, b"1")
    driver = subscribe(store)
    driver.claim(1, 1)
    add(store, b"2")

    assert store.run(PurgeAll(JOBS)) == 1

    assert bodies(driver.rows(1)) == [b"1"]
    assert driver.release(1) == 1
    assert state(store, id) == State.READY


def test_a_claim_counts_as_going_out(store: Store) -> None:
    add(store, b"1", b"2")
    subscribe(store).claim(1)

    assert (look(store).came, look(store).went) == (2, 2)


# -- settling ------------------------------------------------------------------------------------


def test_settled_messages_are_finished(store: Store) -> None:
    added = add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1)

    assert driver.settle(1) == 2
    assert driver.settle(1) == 0

    assert driver.look().settled == 1
    assert not any(is_there(store, id) for id in added)
    assert counts(store) == (0, 0, 0, 0)


def test_all_claims_up_to_the_number_are_settled_and_none_beyond(store: Store) -> None:
    add(store, b"1", b"2", b"3")
    driver = subscribe(store)
    for number in (1, 2, 3):
        driver.claim(number, 1)

    assert driver.settle(2) == 2
    assert driver.settle(99) == 1

    assert driver.look().settled == 3
    assert driver.fill(4) is None


def test_only_the_last_settled_claim_can_be_read(store: Store) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1, 1)
    driver.claim(2, 1)

    driver.settle(1)
    assert bodies(driver.rows(1)) == [b"1"]
    driver.settle(2)

    assert bodies(driver.rows(2)) == [b"2"]
    with pytest.raises(NoClaim):
        driver.rows(1)


def test_a_settled_claim_can_be_purged_and_goes_in_time(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1, 1)
    driver.settle(1)

    assert driver.purge(1) == 1
    assert driver.purge(1) == 0
    with pytest.raises(NoClaim):
        driver.rows(1)

    driver.claim(2, 1)
    assert driver.purge(2) == 0
    driver.settle(2)
    clock.advance(3_600_000)
    words.tick(store)
    assert driver.look().claims == []
    assert driver.look().settled == 2


# -- marks -----------------------------------------------------------------------------------------


def test_a_nacked_message_comes_back_when_its_claim_is_settled(store: Store) -> None:
    first, second = add(store, b"1", b"2")
    place = show(store, second).place
    driver = subscribe(store)
    driver.claim(1)

    assert driver.mark(1, Outcome.NACK, second, b"unknown", reason=b"odd") == 1
    assert not is_there(store, second)
    assert driver.settle(1) == 1

    assert not is_there(store, first)
    view = show(store, second)
    assert (view.state, view.body, view.place, view.reason) == (State.READY, b"2", place, b"odd")
    assert counters(store, second) == (1, 0, 1)
    assert driver.claim(2) == [b"2"]


def test_a_nack_may_have_a_delay(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    driver = subscribe(store)
    driver.claim(1)
    driver.mark(1, Outcome.NACK, id, delay_ms=5_000)

    driver.settle(1)

    assert state(store, id) == State.DELAYED
    clock.advance(5_000)
    assert driver.claim(2) == [b"1"]


def test_a_nack_too_many_makes_it_dead(store: Store) -> None:
    id = add_one(store, max_deliveries=1)
    driver = subscribe(store)
    driver.claim(1)
    driver.mark(1, Outcome.NACK, id)

    driver.settle(1)

    assert state(store, id) == State.DEAD
    assert (show(store, id).reason, counters(store, id)) == (b"nacked", (1, 0, 1))


def test_a_message_marked_dead_is_kept_among_the_dead(store: Store) -> None:
    id = add_one(store, key=b"k")
    driver = subscribe(store)
    driver.claim(1)
    driver.mark(1, Outcome.DEAD, id, reason=b"poison")

    assert driver.settle(1) == 0

    assert (show(store, id).state, show(store, id).reason) == (State.DEAD, b"poison")
    assert store.run(FindKey(JOBS, b"w", b"k")) is None


def test_a_later_mark_takes_the_place_of_an_earlier_one(store: Store) -> None:
    first, second = add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1)
    driver.mark(1, Outcome.DEAD, first, second)
    driver.mark(1, Outcome.ACK, first)
    driver.mark(1, Outcome.NACK, second)

    assert driver.settle(1) == 1

    assert not is_there(store, first)
    assert state(store, second) == State.READY


def test_only_an_open_claim_can_be_marked(store: Store) -> None:
    id = add_one(store)
    driver = subscribe(store)

    with pytest.raises(NoClaim):
        driver.mark(1, Outcome.NACK, id)
    driver.claim(1)
    driver.settle(1)
    with pytest.raises(NoClaim):
        driver.mark(1, Outcome.NACK, id)


# -- giving back ---------------------------------------------------------------------------------


def test_released_messages_are_where_they_were(store: Store, clock: ManualClock) -> None:
    first = add_one(store, b"1", key=b"k")
    before = show(store, first)
    driver = subscribe(store)
    driver.claim(1)
    clock.advance(1)
    add(store, b"2")

    assert driver.release(1) == 1

    after = show(store, first)
    assert (after.state, after.place, after.terms) == (before.state, before.place, before.terms)
    assert (after.key, after.ttl_left_ms) == (b"k", (before.ttl_left_ms or 0) - 1)
    assert counters(store, first) == (0, 0, 1)
    assert driver.claim(2) == [b"1", b"2"]
    assert [row.attempt for row in driver.rows(2)] == [2, 1]


def test_a_released_claim_is_forfeited_and_cannot_be_read(store: Store) -> None:
    add(store, b"1")
    driver = subscribe(store)
    driver.claim(1)
    driver.release(1)

    assert [claim.state for claim in driver.look().claims] == [ClaimState.FORFEITED]
    assert driver.look().settled == 1
    with pytest.raises(NoClaim):
        driver.rows(1)
    with pytest.raises(BadClaim):
        driver.fill(1)
    assert driver.claim(2) == [b"1"]


def test_whoever_waits_for_the_queue_is_told_that_something_came_back(store: Store) -> None:
    add(store, b"1")
    driver = subscribe(store)
    driver.claim(1)
    store.ready.clear()

    driver.release(1)

    assert b"w" in store.ready


def test_what_expired_in_a_claim_does_so_when_it_comes_back(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, ttl_ms=1_000)
    driver = subscribe(store)
    driver.claim(1)
    clock.advance(1_000)

    driver.release(1)

    assert not is_there(store, id)
    assert take(store) == []


def test_a_claim_can_shrink_to_its_first_messages(store: Store) -> None:
    added = add(store, b"1", b"2", b"3")
    driver = subscribe(store)
    driver.claim(1)

    view = driver.play(1, keep=1)

    assert (view.messages, view.plays, view.state) == (1, 1, ClaimState.SEALED)
    assert bodies(driver.rows(1)) == [b"1"]
    assert counts(store) == (2, 0, 0, 0)
    assert counters(store, added[1]) == (0, 0, 0)
    assert driver.claim(2) == [b"2", b"3"]
    assert [row.attempt for row in driver.rows(2)] == [1, 1]
    assert driver.settle(2) == 3


def test_a_claim_of_many_chunks_can_shrink(store: Store) -> None:
    expected = [b"%d" % number for number in range(CHUNK_ROWS_MOST + 10)]
    add(store, *expected)
    driver = subscribe(store)
    while (view := driver.fill(1, 5_000)) is None or view.messages < len(expected):
        pass
    driver.fill(1, 0, seals=True)

    view = driver.play(1, keep=CHUNK_ROWS_MOST + 1)
    assert view.messages == CHUNK_ROWS_MOST + 1
    assert bodies(driver.rows(1)) == expected[: CHUNK_ROWS_MOST + 1]
    view = driver.play(1, keep=2)

    assert (view.messages, view.plays) == (2, 2)
    assert bodies(driver.rows(1)) == expected[:2]
    assert counts(store)[0] == len(expected) - 2


def test_what_left_a_claim_that_shrank_is_in_it_no_more(store: Store) -> None:
    added = add(store, b"1", b"2", b"3")
    driver = subscribe(store)
    driver.claim(1)
    assert driver.mark(1, Outcome.NACK, *added) == 3

    driver.play(1, keep=1)
    finish(store, added[1])

    assert driver.mark(1, Outcome.NACK, *added) == 1
    assert store.run(AwaitEnd(JOBS, [added[1]])) == 1


def test_plays_are_counted(store: Store) -> None:
    add(store, b"1")
    driver = subscribe(store)
    driver.claim(1)

    assert [driver.play(1).plays, driver.play(1).plays] == [1, 2]
    driver.settle(1)
    assert driver.play(1).plays == 3
    with pytest.raises(NoClaim):
        driver.play(2)


# -- subscriptions and their epochs ----------------------------------------------------------------


def test_only_the_newest_epoch_changes_anything(store: Store) -> None:
    add(store, b"1", b"2")
    old = subscribe(store)
    old.claim(1, 1)
    new = subscribe(store)

    assert new.epoch > old.epoch
    for call in (
        lambda: old.fill(2),
        lambda: old.settle(1),
        lambda: old.release(1),
        lambda: old.play(1),
        old.renew,
    ):
        with pytest.raises(Superseded):
            call()
    assert bodies(old.rows(1)) == [b"1"]
    assert new.settle(1) == 1


def test_whoever_opens_it_finds_its_claims_as_they_are(store: Store) -> None:
    add(store, b"1", b"2")
    old = subscribe(store)
    old.claim(1, 1)
    old.play(1)
    old.fill(2, 1)

    new = subscribe(store)

    rows = [(claim.number, claim.state, claim.plays) for claim in new.view.claims]
    assert rows == [(1, ClaimState.SEALED, 1), (2, ClaimState.FILLING, 0)]
    assert new.claim(2, 0) == [b"2"]


def test_a_subscription_nobody_opened_is_not_there(store: Store) -> None:
    add(store, b"1")

    assert store.run(LookAtClaims(b"w", b"s")) is None
    with pytest.raises(NoSubscription):
        store.run(FillClaim(b"w", b"s", 1, 1, 10))
    with pytest.raises(NoClaim):
        read_rows(store, 1)


def test_a_subscription_shows_what_is_left_to_claim(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2")
    clock.advance(5_000)
    driver = subscribe(store)

    view = driver.look()
    assert (view.family, view.queue, view.subscription) == (JOBS, b"w", b"s")
    assert (view.shard, view.backlog, view.oldest_ms) == (0, 2, 5_000)
    driver.claim(1)
    assert (driver.look().backlog, driver.look().oldest_ms) == (0, 0)


def test_a_worklist_can_have_many_subscriptions(store: Store) -> None:
    add(store, b"1", b"2")
    first, second = subscribe(store), subscribe(store, name=b"t")
    first.claim(1, 1)
    second.claim(1, 1)
    subscribe(store, queue=b"other")

    found = store.run(FindClaims())
    assert [(view.queue, view.subscription) for view in found] == [
        (b"other", b"s"),
        (b"w", b"s"),
        (b"w", b"t"),
    ]
    assert [view.subscription for view in store.run(FindClaims(b"w"))] == [b"s", b"t"]
    assert store.run(FindClaims(None, 5)) == found
    assert sum(1 + len(view.claims) for view in store.run(FindClaims(None, 4))) > 4
    seen = store.run(FindClaims(None, 4, lambda queue: queue == b"w"))
    assert [view.queue for view in seen] == [b"w", b"w"]
    assert bodies(second.rows(1)) == [b"2"]


def test_a_dropped_subscription_gives_back_what_it_held(store: Store) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1, 1)
    driver.settle(1)
    driver.claim(2, 1)

    assert driver.drop() == 1
    assert driver.drop() is None

    assert store.run(LookAtClaims(b"w", b"s")) is None
    assert taken_bodies(store, 2) == [b"2"]
    again = subscribe(store)
    assert again.epoch > driver.epoch
    assert again.view.settled == 0


def test_a_read_attempt_forgets_the_marks_of_the_one_before(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1)
    first, second = ids(driver.rows(1))
    driver.play(1)
    driver.mark(1, Outcome.DEAD, first)
    driver.mark(1, Outcome.NACK, second)

    driver.play(1)
    driver.mark(1, Outcome.NACK, second)
    store = reopen(clock)
    again = subscribe(store)

    assert again.settle(1) == 1
    assert taken_bodies(store, 2) == [b"2"]


def test_a_mark_of_an_earlier_epoch_is_refused(store: Store) -> None:
    add(store, b"1")
    earlier = subscribe(store)
    earlier.claim(1)
    [id] = ids(earlier.rows(1))
    driver = subscribe(store)

    with pytest.raises(Superseded):
        earlier.mark(1, Outcome.DEAD, id, epoch=earlier.epoch)
    assert driver.mark(1, Outcome.ACK, id, epoch=driver.epoch) == 1
    assert driver.settle(1) == 1


def test_a_subscription_is_told_from_one_that_was_dropped_before(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    created_us = subscribe(store).view.created_us
    clock.advance(1_000)
    store = reopen(clock)
    again = subscribe(store)
    assert again.view.created_us == created_us > 0

    again.drop()

    assert subscribe(store).view.created_us != created_us


def test_a_queue_of_another_family_cannot_be_opened(store: Store) -> None:
    words.put(store, b"1", queue=b"q")

    with pytest.raises(WrongType):
        subscribe(store, queue=b"q")


def test_a_shard_that_is_not_there_is_refused(store: Store) -> None:
    driver = subscribe(store)

    with pytest.raises(BadArgument):
        driver.fill(1, shard=7)


# -- leases ----------------------------------------------------------------------------------------


def test_a_subscription_that_is_not_renewed_is_stalled(store: Store, clock: ManualClock) -> None:
    add(store, b"1")
    driver = subscribe(store, lease_ms=1_000)
    clock.advance(1_000)
    assert not driver.look().is_stalled

    driver.claim(1)
    clock.advance(999)
    assert not driver.look().is_stalled
    clock.advance(1)
    assert driver.look().is_stalled
    assert driver.look().unrenewed_ms == 1_000
    assert words.fact(store, "claims_stalled") == 1

    assert driver.renew() == 1
    assert not driver.look().is_stalled


def test_a_stalled_claim_stays_unless_it_is_to_be_released(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    driver = subscribe(store, lease_ms=1_000)
    driver.claim(1)

    clock.advance(DAY_MS)
    words.tick(store)

    assert bodies(driver.rows(1)) == [b"1"]


def test_a_claim_that_is_not_renewed_is_forfeited_if_so_asked(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    driver = subscribe(store, lease_ms=1_000, release_ms=5_000)
    driver.claim(1)
    clock.advance(4_999)
    words.tick(store)
    assert not is_there(store, id)

    store.ready.clear()
    clock.advance(1)
    words.tick(store)

    assert b"w" in store.ready
    assert state(store, id) == State.READY
    assert counters(store, id) == (0, 0, 1)
    assert driver.look().claims[0].state == ClaimState.FORFEITED
    with pytest.raises(NoClaim):
        driver.rows(1)
    assert driver.settle(1) == 0
    assert driver.claim(2) == [b"1"]


def test_a_lapsed_claim_is_forfeited_for_whoever_looks_first(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    driver = subscribe(store, release_ms=60_000)
    driver.claim(1)
    clock.advance(60_000)

    assert driver.settle(1) == 0
    assert driver.claim(2) == [b"1"]


def test_a_forfeited_claim_is_remembered_until_the_next_one_is_begun(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    driver = subscribe(store, release_ms=60_000)
    for number in (1, 2):
        assert driver.claim(number) == [b"1"]
        clock.advance(60_000)
        words.tick(store)

    clock.advance(CLAIM_KEPT_MS)
    words.tick(store)

    assert [(it.number, it.state) for it in driver.look().claims] == [(2, ClaimState.FORFEITED)]
    assert driver.claim(3) == [b"1"]
    words.tick(store)
    assert [it.number for it in driver.look().claims] == [3]


# -- across restarts -------------------------------------------------------------------------------


def test_all_of_it_is_there_after_a_restart(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    added = add(store, b"1", b"2", b"3", b"4")
    add(store, b"5", key=b"k")
    driver = subscribe(store, release_ms=600_000)
    for number in (1, 2, 3):
        driver.claim(number, 1)
    driver.settle(1)
    driver.play(2)
    driver.mark(2, Outcome.DEAD, added[1], reason=b"odd")
    driver.fill(4)
    before, rows = driver.look(), [driver.rows(1), driver.rows(2), driver.rows(3)]
    store.commit()

    clock.advance(10)
    store = reopen(clock)
    driver.store = store

    after = driver.look()
    assert [driver.rows(1), driver.rows(2), driver.rows(3)] == rows
    assert (after.epoch, after.settled, after.release_ms) == (before.epoch, 1, 600_000)
    assert [(it.number, it.state, it.messages, it.plays) for it in after.claims] == [
        (it.number, it.state, it.messages, it.plays) for it in before.claims
    ]
    assert not is_there(store, added[2])
    assert add_one(store, b"6", key=b"k") not in added
    assert counts(store) == (0, 0, 0, 0)
    assert driver.settle(4) == 3
    assert state(store, added[1]) == State.DEAD
