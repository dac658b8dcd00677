"""Claims on feeds: the group holds what is claimed, and the claim has its own copies."""

from __future__ import annotations

import pytest

from quinque.errors import BadArgument, NoClaim, WrongType
from quinque.model.claim_ops import ClaimState, Outcome
from quinque.model.families import EVENTS
from quinque.model.ops import Flush, Put
from quinque.model.rows import CHUNK_ROWS_MOST, IS_SINGLE
from quinque.model.states import State
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.claim_words import bodies, ids, subscribe, subscribe_group
from tests.conformance.conftest import Reopen
from tests.conformance.words import (
    ack,
    counts,
    everything,
    extend,
    lease,
    put,
    put_single,
    release,
    take,
    tick,
)


def test_a_claim_has_what_the_group_would_get_next(store: Store) -> None:
    put(store, b"1", b"2", b"3")
    first = lease(store)
    release(store, first[0].message_id)
    driver = subscribe_group(store)

    assert driver.claim(1, 2) == [b"1", b"2"]

    assert [row.attempt for row in driver.rows(1)] == [2, 1]
    assert counts(store) == (2, 0, 0, 1)
    assert driver.look().backlog == 1


def test_a_row_of_a_feed(store: Store) -> None:
    (id,) = put(store, b"body", ttl_ms=1_000)
    put_single(store, b"own")
    driver = subscribe_group(store)
    driver.claim(1)

    row, single = driver.rows(1)

    assert (row.id, row.body, row.attempt) == (id, b"body", 1)
    assert (row.place, row.expires_ms) == (int(id), store.now_ms() + 1_000)
    assert (row.state, row.due_ms, row.nacks, row.requeues) == (State.READY, 0, 0, 0)
    assert (row.reason, row.key, row.terms, row.flags) == (b"", None, None, 0)
    assert (single.id, single.flags) == (b"own", IS_SINGLE)


@pytest.mark.parametrize("is_settled", [False, True])
def test_an_event_with_the_id_of_an_earlier_one_stays_in_its_own_claim(
    store: Store, clock: ManualClock, is_settled: bool
) -> None:
    store.run(Put(EVENTS, b"q", [b"expires"], 1_000, b"x"))
    clock.advance(5)
    put(store, b"stays")
    driver = subscribe_group(store)
    assert driver.claim(1) == [b"expires", b"stays"]
    clock.advance(1_000)
    tick(store)
    # Its place is just before that of the first event, and so between those of the first claim.
    store.run(Put(EVENTS, b"q", [b"another"], 0, b"x", to_front=True))
    assert driver.claim(2) == [b"another"]

    closed = driver.settle(1) if is_settled else driver.release(1)

    assert closed == 1
    leased, redo, done, _ = counts(store)
    assert (leased, redo, done) == (1, not is_settled, is_settled)
    assert driver.release(2) == 1
    assert driver.claim(3)[0] == b"another"


def test_a_claim_has_no_lease_that_could_be_extended(store: Store, clock: ManualClock) -> None:
    here, flushed = put(store, b"1", b"2")
    driver = subscribe_group(store)
    driver.claim(1)

    assert extend(store, here, flushed, lease_ms=1) == [False, False]
    store.run(Flush(EVENTS, b"q"))
    assert extend(store, flushed, lease_ms=1) == [False]

    clock.advance(1)
    assert ack(store, here, flushed) == [True, True], "they are still held"


def test_a_release_of_claimed_events_leaves_them_in_their_claim(store: Store) -> None:
    """Another claim could have them, and lose them when the first one ends."""
    here, flushed = put(store, b"here", b"flushed")
    driver = subscribe_group(store)
    driver.claim(1)

    assert release(store, here, flushed) == [False, False]
    assert driver.claim(2) == []
    assert take(store) == []
    store.run(Flush(EVENTS, b"q"))
    assert release(store, flushed) == [False]

    assert driver.settle(1) == 2


def test_the_group_holds_claimed_messages_with_no_deadline(
    store: Store, clock: ManualClock
) -> None:
    put(store, b"1")
    driver = subscribe_group(store)
    driver.claim(1)

    clock.advance(1_000_000_000)
    tick(store)

    assert take(store) == []
    assert counts(store) == (1, 0, 0, 0)
    assert take(store, group=b"other") == [b"1"]


def test_settled_messages_are_done_for_the_group(store: Store) -> None:
    put(store, b"1", b"2")
    driver = subscribe_group(store)
    driver.claim(1)

    assert driver.settle(1) == 2
    assert driver.settle(1) == 0

    assert counts(store) == (0, 0, 2, 0)
    assert take(store) == []
    assert bodies(driver.rows(1)) == [b"1", b"2"]
    assert take(store, 2, group=b"other") == [b"1", b"2"]


def test_a_single_message_is_gone_when_its_claim_is_settled(store: Store) -> None:
    put_single(store, b"a", b"b")
    driver = subscribe_group(store)
    driver.claim(1, 1)

    assert driver.settle(1) == 1

    assert take(store, 2, group=b"other") == [b"b"]


def test_released_messages_can_be_had_again(store: Store) -> None:
    put(store, b"1", b"2", b"3")
    driver = subscribe_group(store)
    driver.claim(1, 2)
    store.ready.clear()

    assert driver.release(1) == 2

    assert b"q" in store.ready
    assert counts(store) == (0, 2, 0, 1)
    assert [each.deliveries for each in lease(store, 3)] == [2, 2, 1]
    with pytest.raises(NoClaim):
        driver.rows(1)


def test_what_expired_meanwhile_is_still_in_the_claim(store: Store, clock: ManualClock) -> None:
    put(store, b"1", ttl_ms=1_000)
    put(store, b"2")
    driver = subscribe_group(store)
    driver.claim(1)
    clock.advance(1_000)
    tick(store)

    assert bodies(driver.rows(1)) == [b"1", b"2"]
    assert counts(store) == (1, 0, 0, 0)
    assert driver.settle(1) == 1
    assert counts(store) == (0, 0, 1, 0)


def test_what_expired_or_was_acked_meanwhile_does_not_come_back(
    store: Store, clock: ManualClock
) -> None:
    put(store, b"1", ttl_ms=1_000)
    _, acked = put(store, b"2", b"3")
    driver = subscribe_group(store)
    driver.claim(1)
    clock.advance(1_000)
    assert ack(store, acked) == [True]

    assert driver.release(1) == 1

    assert take(store, 3) == [b"2"]


def test_a_flush_leaves_the_claim_as_it_is(store: Store) -> None:
    put(store, b"1", b"2")
    driver = subscribe_group(store)
    driver.claim(1)
    store.run(Flush(EVENTS, b"q"))

    assert bodies(driver.rows(1)) == [b"1", b"2"]
    driver.settle(1)
    assert take(store) == []


def test_another_message_of_the_same_id_is_left_alone(store: Store, clock: ManualClock) -> None:
    put(store, b"1", message_id=b"x", ttl_ms=1_000)
    driver = subscribe_group(store)
    driver.claim(1)
    clock.advance(1_000)
    tick(store)
    put(store, b"2", message_id=b"x")
    assert driver.claim(2) == [b"2"]

    driver.settle(1)

    assert counts(store) == (1, 0, 0, 0)
    assert driver.release(2) == 1
    assert take(store) == [b"2"]


def test_marks_in_a_feed(store: Store) -> None:
    first, second, third = put(store, b"1", b"2", b"3")
    driver = subscribe_group(store)
    driver.claim(1)
    assert driver.mark(1, Outcome.NACK, first) == 1
    assert driver.mark(1, Outcome.DEAD, second, third) == 2

    assert driver.settle(1) == 2

    assert counts(store) == (0, 1, 2, 0)
    assert driver.claim(2) == [b"1"]
    assert [row.attempt for row in driver.rows(2)] == [2]


def test_a_claim_of_a_feed_can_shrink(store: Store) -> None:
    put(store, b"1", b"2", b"3")
    driver = subscribe_group(store)
    driver.claim(1)

    assert driver.play(1, keep=1).messages == 1

    assert bodies(driver.rows(1)) == [b"1"]
    assert counts(store) == (1, 0, 0, 2)
    assert driver.claim(2) == [b"2", b"3"]
    assert [row.attempt for row in driver.rows(2)] == [1, 1]


def test_what_has_a_later_place_is_left(store: Store, clock: ManualClock) -> None:
    put(store, b"1", b"2")
    driver = subscribe_group(store)
    newest = driver.look().stamp_us
    clock.advance(1)
    put(store, b"3")

    assert driver.claim(1, until_place=newest) == [b"1", b"2"]
    assert driver.fill(2, until_place=newest) is None


def test_many_messages_come_in_chunks(store: Store) -> None:
    expected = [b"%d" % number for number in range(2 * CHUNK_ROWS_MOST + 1)]
    added = put(store, *expected)
    driver = subscribe_group(store)
    while (view := driver.fill(1, 5_000)) is None or view.messages < len(expected):
        pass
    driver.fill(1, 0, seals=True)

    assert bodies(driver.rows(1)) == expected
    assert ids(driver.rows(1)) == added
    assert driver.settle(1) == len(expected)
    assert counts(store) == (0, 0, len(expected), 0)


def test_a_claim_that_is_not_renewed_is_forfeited_if_so_asked(
    store: Store, clock: ManualClock
) -> None:
    put(store, b"1")
    driver = subscribe_group(store, release_ms=5_000)
    driver.claim(1)
    store.ready.clear()

    clock.advance(5_000)
    tick(store)

    assert b"q" in store.ready
    assert driver.look().claims[0].state == ClaimState.FORFEITED
    assert take(store) == [b"1"]


def test_groups_are_claimed_apart(store: Store) -> None:
    put(store, b"1")
    first = subscribe_group(store)
    second = subscribe_group(store, name=b"t", group=b"h")

    assert first.claim(1) == second.claim(1) == [b"1"]
    first.settle(1)
    assert counts(store, b"g") == (0, 0, 1, 0)
    assert counts(store, b"h") == (1, 0, 0, 0)


def test_the_group_cannot_be_changed_under_open_claims(store: Store) -> None:
    put(store, b"1")
    driver = subscribe_group(store)
    driver.claim(1)

    with pytest.raises(BadArgument):
        subscribe_group(store, group=b"h")
    driver.settle(1)
    assert subscribe_group(store, group=b"h").claim(2) == [b"1"]


def test_a_worklist_cannot_be_opened_as_a_feed(store: Store) -> None:
    put(store, b"1", queue=b"q")
    subscribe(store, queue=b"w")

    with pytest.raises(WrongType):
        subscribe(store, queue=b"q")


def test_all_of_it_is_there_after_a_restart(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    put(store, b"1", b"2", b"3", b"4")
    driver = subscribe_group(store)
    driver.claim(1, 1)
    driver.claim(2, 1)
    driver.claim(3, 1)
    driver.settle(1)
    seen = everything(store)
    store.commit()

    driver.store = store = reopen(clock)

    assert everything(store) == seen
    assert bodies(driver.rows(1)) == [b"1"]
    assert driver.release(3) == 2
    assert take(store, 4) == [b"2", b"3", b"4"]
