"""Obligation 14: every change of a message's state is on record, once; on every store."""

from __future__ import annotations

import msgpack
import pytest

from quinque.errors import BadArgument
from quinque.model.claim_ops import Outcome
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.lifecycle import Kind, Reason
from quinque.model.look_ops import FindRecords, ReadRecord
from quinque.model.ops import Flush
from quinque.model.stage_ops import Part, Publish, Stage
from quinque.model.states import State
from quinque.model.work_ops import Finish, Purge, PurgeAll, Redrive
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import words
from tests.conformance.claim_words import LEASE_MS, subscribe, subscribe_group
from tests.conformance.conftest import Reopen
from tests.conformance.record_words import Seen, kinds, rows, rows_of, seen
from tests.conformance.work_words import (
    AFTER_MS,
    DAY_MS,
    add,
    add_one,
    configure,
    enqueue,
    extend,
    finish,
    hold,
    kill,
    nack,
    pause_in,
    take,
)

NONE = Reason.NONE


# -- worklists ---------------------------------------------------------------------------------


def test_a_message_that_is_added_taken_and_acked(store: Store) -> None:
    (id,) = add(store, b"body")
    take(store)
    finish(store, id)

    assert seen(store, b"w") == [
        Seen(Kind.ADDED, NONE, id, size=4),
        Seen(Kind.DELIVERED, NONE, id),
        Seen(Kind.ACKED, NONE, id),
    ]


def test_many_at_once_have_a_row_each(store: Store) -> None:
    ids = add(store, b"", b"1", b"22")
    given = take(store, 3)
    finish(store, *ids[:2])

    assert [it.message_id for it in given] == ids
    found = seen(store, b"w")
    assert found[:3] == [Seen(Kind.ADDED, NONE, id, size=at) for at, id in enumerate(ids)]
    assert found[3:6] == [Seen(Kind.DELIVERED, NONE, id) for id in ids]
    assert sorted(found[6:]) == sorted(Seen(Kind.ACKED, NONE, id) for id in ids[:2])


def test_rows_say_when_and_where(store: Store, clock: ManualClock) -> None:
    began_ms = store.now_ms()
    id = add_one(store, queue=b"here")
    store.commit()
    clock.advance(1_000)
    finish(store, id)

    found = rows(store)
    assert [(row.family, row.queue) for row in found] == [(JOBS.code, b"here")] * 2
    assert [row.at_ms for row in found] == [began_ms, began_ms + 1_000]


def test_a_delayed_message(store: Store, clock: ManualClock) -> None:
    id = add_one(store, delay_ms=1_000)
    clock.advance(1_000)
    words.tick(store)

    assert seen(store, b"w") == [
        Seen(Kind.ADDED, NONE, id, size=1),
        Seen(Kind.DELAYED, NONE, id),
        Seen(Kind.RETURNED, Reason.DELAY_OVER, id),
    ]


def test_a_lease_that_lapses(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    take(store)
    clock.advance(AFTER_MS)
    words.tick(store)
    take(store)

    assert seen(store, b"w")[1:] == [
        Seen(Kind.DELIVERED, NONE, id),
        Seen(Kind.RETURNED, Reason.LAPSED, id),
        Seen(Kind.DELIVERED, NONE, id),
    ]


def test_given_back_with_and_without_a_delay(store: Store) -> None:
    id = add_one(store)
    take(store)
    nack(store, id)
    take(store)
    nack(store, id, delay_ms=1_000)
    enqueue(store, id)

    assert kinds(store, b"w")[2:] == [
        (Kind.RETURNED, Reason.NACKED),
        (Kind.DELIVERED, NONE),
        (Kind.DELAYED, Reason.NACKED),
        (Kind.RETURNED, Reason.ASKED),
    ]


def test_a_message_that_does_not_come_back_is_there_until_it_is_acked(store: Store) -> None:
    id = add_one(store, retry_ms=0)
    take(store)
    finish(store, id)

    assert kinds(store, b"w") == [
        (Kind.ADDED, NONE),
        (Kind.DELIVERED, Reason.NO_ACK),
        (Kind.ACKED, NONE),
    ]


def test_a_message_that_is_held_and_a_lease_that_goes_on(store: Store) -> None:
    id = add_one(store)
    hold(store, id)
    enqueue(store, id)
    take(store)
    extend(store, id)

    assert kinds(store, b"w")[1:] == [
        (Kind.HELD, NONE),
        (Kind.RETURNED, Reason.ASKED),
        (Kind.DELIVERED, NONE),
        (Kind.HELD, NONE),
    ]


def test_a_pause_holds_what_would_come_back(store: Store, clock: ManualClock) -> None:
    add_one(store)
    add_one(store, b"later", delay_ms=1_000)
    take(store)
    pause_in(store)
    clock.advance(1_000)
    words.tick(store)
    clock.advance(AFTER_MS)
    words.tick(store)

    found = kinds(store, b"w")[4:]
    assert (Kind.DELAYED, NONE) in found, "its delay goes on"
    assert (Kind.HELD, NONE) in found, "its lease goes on"
    assert {kind for kind, _ in found} == {Kind.DELAYED, Kind.HELD}


def test_dead_by_a_nack_and_back(store: Store) -> None:
    (id,) = kill(store, b"1")
    store.run(Redrive(JOBS, [id]))

    assert seen(store, b"w")[2:] == [
        Seen(Kind.DEAD, Reason.NACKED, id),
        Seen(Kind.RETURNED, Reason.REDRIVEN, id),
    ]


def test_dead_by_a_lapsed_lease(store: Store, clock: ManualClock) -> None:
    configure(store, max_deliveries=1)
    id = add_one(store)
    take(store)
    clock.advance(AFTER_MS)
    words.tick(store)

    assert seen(store, b"w")[-1] == Seen(Kind.DEAD, Reason.LAPSED, id)


def test_a_life_that_ends(store: Store, clock: ManualClock) -> None:
    id = add_one(store, ttl_ms=1_000)
    clock.advance(1_000)
    words.tick(store)

    assert seen(store, b"w")[1:] == [Seen(Kind.EXPIRED, NONE, id)]


def test_deleted_is_not_acked(store: Store) -> None:
    id = add_one(store)
    store.run(Finish(JOBS, [id], is_ack=False))

    assert seen(store, b"w")[1:] == [Seen(Kind.REMOVED, Reason.DELETED, id)]


@pytest.mark.parametrize("states", [(), (State.READY,)])
def test_a_purge_names_all_that_went(store: Store, states: tuple[State, ...]) -> None:
    ids = add(store, b"1", b"2", b"3")
    store.run(Purge(JOBS, b"w", states))

    found = seen(store, b"w")[3:]
    assert sorted(found) == sorted(Seen(Kind.REMOVED, Reason.PURGED, id) for id in ids)


def test_a_purge_of_everything_names_all_that_went(store: Store) -> None:
    first, second = add_one(store), add_one(store, queue=b"v")
    store.run(PurgeAll(JOBS))

    assert seen(store, b"w")[1:] == [Seen(Kind.REMOVED, Reason.PURGED, first)]
    assert seen(store, b"v")[1:] == [Seen(Kind.REMOVED, Reason.PURGED, second)]


# -- feeds -------------------------------------------------------------------------------------


def test_each_group_has_its_own_deliveries_and_acks(store: Store) -> None:
    (id,) = words.put(store, b"body")
    words.take(store)
    words.take(store, group=b"h")
    words.ack(store, id, group=b"h")

    assert seen(store, b"q") == [
        Seen(Kind.ADDED, NONE, id, size=4),
        Seen(Kind.DELIVERED, NONE, id, b"g"),
        Seen(Kind.DELIVERED, NONE, id, b"h"),
        Seen(Kind.ACKED, NONE, id, b"h"),
    ]
    assert {row.family for row in rows(store)} == {EVENTS.code}


def test_delivered_without_an_ack_to_come(store: Store) -> None:
    (id,) = words.put(store, b"1")
    words.take(store, lease_ms=0)

    assert seen(store, b"q")[1:] == [
        Seen(Kind.DELIVERED, NONE, id, b"g"),
        Seen(Kind.ACKED, Reason.NO_ACK, id, b"g"),
    ]


def test_given_back_extended_and_lapsed(store: Store, clock: ManualClock) -> None:
    (id,) = words.put(store, b"1")
    words.take(store, lease_ms=1_000)
    words.release(store, id)
    words.take(store, lease_ms=1_000)
    words.extend(store, id, b"?", lease_ms=2_000)
    clock.advance(2_000)
    words.tick(store)

    assert seen(store, b"q")[2:] == [
        Seen(Kind.RETURNED, Reason.NACKED, id, b"g"),
        Seen(Kind.DELIVERED, NONE, id, b"g"),
        Seen(Kind.HELD, NONE, id, b"g"),
        Seen(Kind.RETURNED, Reason.LAPSED, id, b"g"),
    ]


def test_an_event_that_expires(store: Store, clock: ManualClock) -> None:
    (id,) = words.put(store, b"1", ttl_ms=1_000)
    clock.advance(1_000)
    words.tick(store)

    assert seen(store, b"q")[1:] == [Seen(Kind.EXPIRED, NONE, id)]


def test_a_flush_names_all_that_went(store: Store) -> None:
    ids = words.put(store, b"1", b"2")
    store.run(Flush(EVENTS, b"q"))

    found = seen(store, b"q")[2:]
    assert sorted(found) == sorted(Seen(Kind.REMOVED, Reason.PURGED, id) for id in ids)


def test_a_single_message_is_finished_for_its_group_and_for_everyone(store: Store) -> None:
    words.put_single(store, b"x", b"y", b"z")
    words.take(store, 1)
    words.ack(store, b"x")
    words.take(store, 1, lease_ms=0)
    words.ack(store, b"z", held_only=False)

    assert seen(store, b"q")[3:] == [
        Seen(Kind.DELIVERED, NONE, b"x", b"g"),
        Seen(Kind.ACKED, NONE, b"x", b"g"),
        Seen(Kind.ACKED, NONE, b"x"),
        Seen(Kind.DELIVERED, NONE, b"y", b"g"),
        Seen(Kind.ACKED, Reason.NO_ACK, b"y", b"g"),
        Seen(Kind.ACKED, Reason.NO_ACK, b"y"),
        Seen(Kind.ACKED, NONE, b"z", b"g"),
        Seen(Kind.ACKED, NONE, b"z"),
    ]


# -- claims and batches -----------------------------------------------------------------------


def test_a_claim_that_is_settled(store: Store) -> None:
    ids = add(store, b"1", b"2")
    driver = subscribe(store)
    driver.claim(1)
    driver.settle(1)

    assert seen(store, b"w")[2:] == [
        *[Seen(Kind.DELIVERED, Reason.CLAIMED, id, b"s", 1) for id in ids],
        *[Seen(Kind.ACKED, Reason.CLAIM_SETTLED, id, b"s", 1) for id in ids],
    ]


def test_a_claim_that_is_released_and_one_that_nobody_renewed(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    driver = subscribe(store, release_ms=LEASE_MS)
    driver.claim(1)
    driver.release(1)
    driver.claim(2)
    store.commit()
    clock.advance(LEASE_MS)
    words.tick(store)

    assert seen(store, b"w")[1:] == [
        Seen(Kind.DELIVERED, Reason.CLAIMED, id, b"s", 1),
        Seen(Kind.RETURNED, Reason.CLAIM_RELEASED, id, b"s", 1),
        Seen(Kind.DELIVERED, Reason.CLAIMED, id, b"s", 2),
        Seen(Kind.RETURNED, Reason.CLAIM_FORFEITED, id, b"s", 2),
    ]


def test_a_claim_some_of_whose_messages_are_marked(store: Store) -> None:
    ids = add(store, b"1", b"2", b"3", b"4")
    driver = subscribe(store)
    driver.claim(1)
    driver.mark(1, Outcome.NACK, ids[0])
    driver.mark(1, Outcome.NACK, ids[1], delay_ms=1_000)
    driver.mark(1, Outcome.DEAD, ids[2], reason=b"bad")
    driver.settle(1)

    found = seen(store, b"w")[8:]
    assert sorted(found) == sorted(
        [
            Seen(Kind.RETURNED, Reason.NACKED, ids[0], b"s", 1),
            Seen(Kind.DELAYED, Reason.NACKED, ids[1], b"s", 1),
            Seen(Kind.DEAD, Reason.NACKED, ids[2], b"s", 1),
            Seen(Kind.ACKED, Reason.CLAIM_SETTLED, ids[3], b"s", 1),
        ]
    )


def test_a_claim_that_is_made_smaller(store: Store) -> None:
    ids = add(store, b"1", b"2", b"3")
    driver = subscribe(store)
    driver.claim(1)
    driver.play(1, keep=1)

    found = seen(store, b"w")[6:]
    assert sorted(found) == sorted(
        Seen(Kind.RETURNED, Reason.CLAIM_SHRUNK, id, b"s", 1) for id in ids[1:]
    )


def test_a_claim_on_a_feed_is_its_group_s(store: Store) -> None:
    ids = words.put(store, b"1", b"2")
    driver = subscribe_group(store)
    driver.claim(1, 1)
    driver.settle(1)
    driver.claim(2)
    driver.release(2)

    assert seen(store, b"q")[2:] == [
        Seen(Kind.DELIVERED, Reason.CLAIMED, ids[0], b"g", 1),
        Seen(Kind.ACKED, Reason.CLAIM_SETTLED, ids[0], b"g", 1),
        Seen(Kind.DELIVERED, Reason.CLAIMED, ids[1], b"g", 2),
        Seen(Kind.RETURNED, Reason.CLAIM_RELEASED, ids[1], b"g", 2),
    ]


def test_a_single_message_in_a_claim_is_finished_for_everyone(store: Store) -> None:
    words.put_single(store, b"x")
    driver = subscribe_group(store)
    driver.claim(1)
    driver.settle(1)

    assert seen(store, b"q")[1:] == [
        Seen(Kind.DELIVERED, Reason.CLAIMED, b"x", b"g", 1),
        Seen(Kind.ACKED, Reason.CLAIM_SETTLED, b"x", b"g", 1),
        Seen(Kind.ACKED, Reason.CLAIM_SETTLED, b"x", b"", 1),
    ]


@pytest.mark.parametrize("family", [JOBS, EVENTS])
def test_what_was_staged_comes_when_it_is_published(store: Store, family: Family) -> None:
    rows = msgpack.packb([[0, 0, 60_000, 0, None, [b"1", b"22"]]])
    store.run(Stage(family, b"w", b"sink", b"run", 1, 0, 0, 0, rows))
    assert seen(store, b"w") == []

    store.run(Publish(family, b"w", b"sink", b"run", 1, [Part(0, 0, 1)], 100))

    found = seen(store, b"w")
    assert [(row.kind, row.reason) for row in found] == [(Kind.ADDED, Reason.STAGED)] * 2
    assert [row.size for row in found] == [1, 2]
    if family is JOBS:
        add(store, b"3")
    else:
        words.put(store, b"3", queue=b"w")
    assert kinds(store, b"w")[-1] == (Kind.ADDED, NONE)


# -- numbers -----------------------------------------------------------------------------------


def test_a_store_in_which_nothing_happened_has_no_rows(store: Store) -> None:
    assert rows(store) == []


def test_what_is_only_looked_at_is_not_recorded(store: Store) -> None:
    add(store, b"1")
    before = rows(store)
    nack(store, b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1")
    take(store, 1, b"empty")
    words.take(store, queue=b"nothing")

    assert rows(store) == before


@pytest.mark.parametrize("count", [1, 2, 7, 10_000])
def test_reading_goes_on_from_any_row_without_a_gap(store: Store, count: int) -> None:
    for number in range(5):
        ids = add(store, *[b"x"] * number, b"y")
        finish(store, *ids)
        store.commit()
    whole = rows(store)

    assert len(whole) == 30
    assert rows(store, count) == whole
    for row in whole:
        entries = store.run(ReadRecord(row.shard, row.number, 1))
        assert row in list(rows_of(row.shard, entries))


def test_there_is_nothing_after_the_last_row(store: Store) -> None:
    add(store, b"1")
    store.commit()
    (record,) = [it for it in store.run(FindRecords()) if it.next > it.first]

    assert store.run(ReadRecord(record.shard, record.next, 10)) == []
    assert store.run(ReadRecord(record.shard, record.next + 1_000, 10)) == []


def test_the_record_keeps_the_number_that_tells_it_from_others(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    add(store, b"1")
    store.commit()
    (record,) = [it for it in store.run(FindRecords()) if it.next > it.first]
    store = reopen(clock)

    (again,) = [it for it in store.run(FindRecords()) if it.next > it.first]

    assert again.log == record.log > 0


def test_a_shard_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(BadArgument, match="no shard 99999"):
        store.run(ReadRecord(99_999, 1, 10))


def test_numbers_go_on_after_a_restart(reopen: Reopen, store: Store, clock: ManualClock) -> None:
    id = add_one(store, ttl_ms=DAY_MS)
    store.commit()
    before = rows(store)

    store = reopen(clock)
    finish(store, id)

    found = rows(store)
    assert found[:1] == before
    assert [row.seen.kind for row in found] == [Kind.ADDED, Kind.ACKED]
    assert [row.number for row in found] == [found[0].number, found[0].number + 1]
