"""Each operation on its own: what it answers, and what is true afterwards."""

from __future__ import annotations

import pytest

from quinque.errors import Duplicate
from quinque.model.families import EVENTS
from quinque.model.limits import RESERVE_MOST_BYTES
from quinque.model.ops import Count, FindReady, Flush, Peek, QueueCount, Release, Reserve
from quinque.model.work_ops import ScanQueues
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.words import (
    HOUR_MS,
    ack,
    counts,
    everything,
    extend,
    lease,
    peek,
    put,
    put_single,
    release,
    take,
    tick,
)

# -- Put ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"\0\r\n\xff", b"x" * 100_000])
def test_a_body_is_any_bytes(store: Store, reopen: Reopen, clock: ManualClock, body: bytes) -> None:
    put(store, body)

    assert take(store) == [body]
    assert take(reopen(clock), group=b"h") == [body]


def test_names_and_ids_are_any_bytes(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    queue, group, id = b"\0q\r\n}", b" g:\xff", b"\xff\0 id"
    put(store, b"1", queue=queue, message_id=id)
    lease(store, queue=queue, group=group)

    store = reopen(clock)

    assert ack(store, id, queue=queue, group=group) == [True]
    assert [row.queue for row in store.run(Count(EVENTS))] == [queue]


def test_put_answers_with_an_id_for_each_body(store: Store) -> None:
    ids = put(store, b"1", b"2", b"3")

    assert [(it.message_id, it.body) for it in lease(store, 3)] == list(
        zip(ids, [b"1", b"2", b"3"], strict=True)
    )


def test_a_chosen_id_is_refused_while_a_message_has_it(store: Store) -> None:
    put_single(store, b"x")

    with pytest.raises(Duplicate, match="duplicate event x"):
        put_single(store, b"x")

    take(store)
    with pytest.raises(Duplicate):
        put_single(store, b"x")
    ack(store, b"x")
    put_single(store, b"x")
    assert take(store) == [b"x"]


def test_the_same_id_in_another_queue_is_another_message(store: Store) -> None:
    put_single(store, b"x")
    put_single(store, b"x", queue=b"r")

    assert take(store) == take(store, queue=b"r") == [b"x"]
    assert ack(store, b"x") == [True]
    assert counts(store, queue=b"r") == (1, 0, 0, 0)


def test_a_message_put_before_all_comes_first(store: Store) -> None:
    put_single(store, b"1", b"2")
    put_single(store, b"3", b"4", to_front=True)

    assert take(store, 9) == [b"4", b"3", b"1", b"2"]


def test_a_message_put_before_all_comes_first_to_a_group_that_was_past_the_front(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"done", b"new")
    take(store, lease_ms=0)
    put_single(store, b"1", b"2", to_front=True)

    assert counts(store) == (0, 0, 1, 3), "this is not a redelivery: the group never had it"
    store = reopen(clock)
    assert counts(store) == (0, 0, 1, 3)
    assert [(it.body, it.deliveries) for it in lease(store, 9)] == [
        (b"2", 1),
        (b"1", 1),
        (b"new", 1),
    ]


def test_messages_put_before_all_stand_before_what_came_back(store: Store) -> None:
    (id,) = put(store, b"back")
    take(store)
    release(store, id)
    put_single(store, b"front", to_front=True)

    assert take(store, 9) == [b"front", b"back"]


# -- Reserve ------------------------------------------------------------------------------------


def test_reserve_gives_what_is_asked_for_at_most(store: Store) -> None:
    put(store, b"1", b"2", b"3")

    assert take(store, 2) == [b"1", b"2"]
    assert take(store, 2) == [b"3"]
    assert take(store, 2) == []


def test_reserve_on_a_queue_that_is_not_there_gives_nothing_and_makes_nothing(
    store: Store,
) -> None:
    assert take(store) == []

    assert store.run(Count(EVENTS)) == []


def test_groups_know_nothing_of_each_other(store: Store) -> None:
    first, second = put(store, b"1", b"2")
    assert take(store, 2, group=b"a") == [b"1", b"2"]
    ack(store, first, group=b"a")
    release(store, second, group=b"a")

    assert counts(store, b"a") == (0, 1, 1, 0)
    assert counts(store, b"b") == (0, 0, 0, 2)
    assert ack(store, first, group=b"b") == [False]
    assert take(store, 2, group=b"b") == [b"1", b"2"]
    assert counts(store, b"a") == (0, 1, 1, 0)


def test_what_comes_back_goes_before_what_is_new_the_oldest_first(
    store: Store, clock: ManualClock
) -> None:
    ids = put(store, b"1", b"2", b"3", b"4", b"5")
    take(store, 2, lease_ms=100)
    take(store, 2)
    release(store, ids[3])
    release(store, ids[2])
    clock.advance(100)

    assert take(store, 9) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_delivery_says_how_often_it_was_delivered(store: Store, clock: ManualClock) -> None:
    put(store, b"1")

    for number in range(1, 5):
        assert [it.deliveries for it in lease(store, lease_ms=10)] == [number]
        clock.advance(10)
    assert [it.deliveries for it in lease(store, group=b"h")] == [1]


def test_a_lease_of_no_time_is_acknowledged_at_once(store: Store, clock: ManualClock) -> None:
    (id,) = put(store, b"1")

    assert take(store, lease_ms=0) == [b"1"]

    assert counts(store) == (0, 0, 1, 0)
    assert ack(store, id) == [False]
    clock.advance(HOUR_MS)
    assert take(store) == []
    assert take(store, group=b"h") == [b"1"], "for this group only"


def test_a_lease_of_no_time_on_what_came_back_is_acknowledged_at_once(store: Store) -> None:
    (id,) = put(store, b"1")
    take(store)
    release(store, id)

    assert [(it.body, it.deliveries) for it in lease(store, lease_ms=0)] == [(b"1", 2)]

    assert counts(store) == (0, 0, 1, 0)


def test_a_single_message_leased_for_no_time_is_gone(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put_single(store, b"x", b"y")

    assert take(store, lease_ms=0) == [b"x"]

    assert take(store, group=b"h") == [b"y"]
    put_single(store, b"x")
    assert take(reopen(clock), 9, group=b"h") == [b"x"]


def test_a_single_message_that_came_back_and_is_leased_for_no_time_is_gone(store: Store) -> None:
    put_single(store, b"x")
    take(store)
    release(store, b"x")

    assert [(it.body, it.deliveries) for it in lease(store, lease_ms=0)] == [(b"x", 2)]

    assert store.run(Count(EVENTS)) == []


def test_large_bodies_are_handed_out_a_few_at_a_time(store: Store) -> None:
    size = RESERVE_MOST_BYTES // 2
    put(store, *[b"x" * size] * 5)

    assert [len(take(store, 5)) for _ in range(4)] == [2, 2, 1, 0]


# -- Ack ----------------------------------------------------------------------------------------


def test_an_ack_is_true_once_and_only_for_who_holds_it(store: Store) -> None:
    first, second = put(store, b"1", b"2")
    take(store)

    assert ack(store, first, group=b"h") == [False], "another group"
    assert ack(store, second) == [False], "not leased"
    assert ack(store, first) == [True]
    assert ack(store, first) == [False], "again"
    assert ack(store, b"never was") == [False]
    assert ack(store, first, queue=b"none") == [False]


def test_an_ack_of_many_says_of_each(store: Store) -> None:
    first, second, third = put(store, b"1", b"2", b"3")
    take(store, 2)

    results = ack(store, third, first, b"?", first, second)

    assert results == [False, True, False, False, True]
    assert counts(store) == (0, 0, 2, 1)


def test_an_ack_is_late_in_the_millisecond_the_lease_ends(store: Store, clock: ManualClock) -> None:
    first, second = put(store, b"1", b"2")
    take(store, 2, lease_ms=100)

    clock.advance(99)
    assert ack(store, first) == [True]
    clock.advance(1)
    assert ack(store, second) == [False]
    assert counts(store) == (0, 1, 1, 0)


def test_an_ack_by_who_has_it_now_counts_and_not_by_who_had_it(
    store: Store, clock: ManualClock
) -> None:
    """There is one lease of a message in a group: an id is all that an ack names."""
    (id,) = put(store, b"1")
    take(store, lease_ms=100)
    clock.advance(100)
    take(store)

    assert ack(store, id) == [True]
    assert ack(store, id) == [False]


def test_a_message_stays_for_other_groups_when_one_acks_it(store: Store) -> None:
    (id,) = put(store, b"1")
    take(store)

    ack(store, id)

    assert counts(store) == (0, 0, 1, 0)
    assert take(store, group=b"h") == [b"1"]


def test_a_single_message_is_gone_for_everyone_when_one_acks_it(store: Store) -> None:
    put_single(store, b"x")
    take(store)
    take(store, group=b"h")

    assert ack(store, b"x") == [True]

    assert ack(store, b"x", group=b"h") == [False]
    assert store.run(Count(EVENTS)) == []


def test_a_single_message_may_be_acked_though_nobody_holds_it(store: Store) -> None:
    put_single(store, b"x", b"y", b"z")
    take(store)
    release(store, b"x")

    assert ack(store, b"x", b"y", b"?", held_only=False) == [True, True, False]

    assert take(store, 9) == [b"z"]


def test_a_message_of_many_groups_may_not_be_acked_by_who_does_not_hold_it(store: Store) -> None:
    (id,) = put(store, b"1")

    assert ack(store, id, held_only=False) == [False]

    assert take(store) == [b"1"]


# -- Release ------------------------------------------------------------------------------------


def test_a_released_message_is_the_next_one(store: Store) -> None:
    ids = put(store, b"1", b"2", b"3")
    take(store, 2)

    assert release(store, ids[0], ids[0], ids[2], b"?") == [True, False, False, False]

    assert counts(store) == (1, 1, 0, 1)
    assert [(it.body, it.deliveries) for it in lease(store, 2)] == [(b"1", 2), (b"3", 1)]


def test_a_message_that_is_given_back_untried_was_not_delivered(store: Store) -> None:
    ids = put(store, b"1", b"2", b"3")
    take(store, 2)
    release(store, ids[1])
    take(store)
    back = Release(EVENTS, b"q", b"g", [ids[0], ids[0], ids[1], ids[2]], is_uncounted=True)

    assert store.run(back) == [True, False, True, False]

    assert counts(store) == (0, 1, 0, 2)  # one was never delivered, and one is to be had again
    assert [(it.body, it.deliveries) for it in lease(store, 3)] == [(b"1", 1), (b"2", 2), (b"3", 1)]
    release(store, ids[0])
    assert [(it.body, it.deliveries) for it in lease(store, 3)] == [(b"1", 2)]


def test_only_who_holds_a_message_can_release_it(store: Store, clock: ManualClock) -> None:
    (id,) = put(store, b"1")
    take(store, lease_ms=100)

    assert release(store, id, group=b"h") == [False]
    assert store.run(Release(EVENTS, b"none", b"g", [id])) == [False]
    clock.advance(100)
    assert release(store, id) == [False], "it has come back already"


def test_a_single_message_that_is_released_comes_first_again(store: Store) -> None:
    """okq's REDO."""
    put_single(store, b"x", b"y")
    take(store)

    assert release(store, b"x") == [True]

    assert take(store, 9) == [b"x", b"y"]


# -- ExtendLeases -------------------------------------------------------------------------------


def test_an_extended_lease_ends_so_long_from_now(store: Store, clock: ManualClock) -> None:
    ids = put(store, b"1", b"2", b"3")
    take(store, 2, lease_ms=1_000)
    clock.advance(900)

    assert extend(store, ids[0], ids[2], ids[0], b"?", lease_ms=1_000) == [True, False, True, False]

    clock.advance(999)
    assert counts(store) == (1, 1, 0, 1)
    assert ack(store, ids[0], ids[1]) == [True, False]


def test_a_lease_that_is_made_shorter_lets_the_message_rest(
    store: Store, clock: ManualClock
) -> None:
    (id,) = put(store, b"1")
    take(store)

    assert extend(store, id, lease_ms=500) == [True]

    clock.advance(499)
    assert take(store) == []
    store.commit()
    assert store.next_due_ms() == store.now_ms() + 1
    store.ready.clear()
    clock.advance(1)
    tick(store)
    assert store.ready == {b"q"}
    assert [(it.body, it.deliveries) for it in lease(store)] == [(b"1", 2)]


def test_only_a_lease_of_the_group_that_runs_is_extended(store: Store, clock: ManualClock) -> None:
    first, second = put(store, b"1", b"2", ttl_ms=2_000)
    take(store, lease_ms=100)

    assert extend(store, first, second, group=b"h", lease_ms=1_000) == [False, False]
    assert extend(store, first, queue=b"none", lease_ms=1_000) == [False]
    assert extend(store, second, lease_ms=1_000) == [False], "no group has it"
    clock.advance(100)
    assert extend(store, first, lease_ms=1_000) == [False], "it has come back already"
    take(store, lease_ms=HOUR_MS)
    clock.advance(1_900)
    assert extend(store, first, lease_ms=1_000) == [False], "it has expired"


def test_a_lease_of_a_flushed_message_is_extended_too(store: Store, clock: ManualClock) -> None:
    first, second = put(store, b"1", b"2")
    take(store, 2, lease_ms=100)
    store.run(Flush(EVENTS, b"q"))

    assert extend(store, first, lease_ms=1_000) == [True]

    clock.advance(999)
    assert ack(store, first, second) == [True, False]


def test_extended_leases_and_deliveries_are_known_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    longer, shorter, back = put(store, b"longer", b"shorter", b"back")
    take(store, 3, lease_ms=1_000)
    extend(store, longer, lease_ms=2_000)
    extend(store, shorter, lease_ms=500)
    release(store, back)

    store = reopen(clock)

    assert [(it.body, it.deliveries) for it in lease(store, 3)] == [(b"back", 2)]
    clock.advance(500)
    assert [(it.body, it.deliveries) for it in lease(store, 3)] == [(b"shorter", 2)]
    clock.advance(1_499)
    assert take(store) == []
    store = reopen(clock)
    assert extend(store, longer, back, lease_ms=1) == [True, True]
    clock.advance(1)
    found = [(it.body, it.deliveries) for it in lease(store, 3)]
    assert found == [(b"longer", 2), (b"back", 3)]


def test_deliveries_are_told_to_who_wants_to_know(store: Store) -> None:
    (id,) = put(store, b"1")
    take(store)
    release(store, id)

    (quiet,) = store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS, 1, tells_deliveries=False))

    assert quiet.deliveries == 0
    release(store, id)
    assert [it.deliveries for it in lease(store)] == [3]


# -- Flush --------------------------------------------------------------------------------------


def test_a_flushed_queue_is_as_if_it_had_never_been(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"1", b"2", b"3")
    put_single(store, b"x")
    take(store, lease_ms=0)

    store.run(Flush(EVENTS, b"q"))

    assert store.run(Count(EVENTS)) == []
    assert take(store, group=b"new") == take(store) == []
    assert reopen(clock).run(Count(EVENTS)) == []


def test_what_was_held_when_it_was_flushed_may_be_acked_and_does_not_come_back(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    first, second, third = put(store, b"1", b"2", b"3")
    put_single(store, b"x")
    take(store, 4, lease_ms=100)

    store.run(Flush(EVENTS, b"q"))

    assert store.run(Count(EVENTS)) == [], "nothing is to be seen of it"
    assert ack(store, first, b"x") == [True, True]
    assert ack(store, first, b"x") == [False, False]
    store = reopen(clock)
    assert release(store, second) == [True]
    clock.advance(100)
    assert ack(store, third) == [False], "its time was over as if nothing had happened"
    assert take(store, 9) == []


def test_after_a_flush_the_queue_is_used_as_a_new_one(store: Store) -> None:
    put(store, b"1", b"2")
    take(store, 2)
    store.run(Flush(EVENTS, b"q"))

    put(store, b"3")

    assert counts(store) == (0, 0, 0, 1)
    assert take(store, 9) == [b"3"]
    assert counts(store) == (1, 0, 0, 0)


def test_after_a_flush_an_id_is_free_though_somebody_holds_its_old_message(store: Store) -> None:
    put_single(store, b"x")
    take(store)
    store.run(Flush(EVENTS, b"q"))
    put_single(store, b"x")

    assert ack(store, b"x") == [True], "the old one"
    assert counts(store) == (0, 0, 0, 1), "the new one is still there"
    assert take(store) == [b"x"]


def test_to_flush_a_queue_that_is_not_there_does_nothing(store: Store) -> None:
    put(store, b"1")
    before = everything(store)

    store.run(Flush(EVENTS, b"none"))

    assert everything(store) == before


# -- Peek, FindReady ----------------------------------------------------------------------------


def test_peek_shows_what_comes_next_and_what_comes_last(store: Store) -> None:
    put_single(store, b"1", b"2", b"3", b"4")
    take(store, 2)
    release(store, b"2")

    assert (peek(store), peek(store, last=True)) == (b"2", b"4")
    assert (peek(store, group=b"h"), peek(store, group=b"h", last=True)) == (b"1", b"4")
    take(store, 3)
    assert (peek(store), peek(store, last=True)) == (None, None)
    release(store, b"4", b"1", b"3")
    assert (peek(store), peek(store, last=True)) == (b"1", b"4")


def test_peek_changes_nothing(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    (id,) = put(store, b"1")
    before = store.run(Count(EVENTS))

    found = store.run(Peek(EVENTS, b"q", b"g"))

    assert found is not None
    assert (found.queue, found.message_id, found.body, found.deliveries) == (b"q", id, b"1", 0)
    assert store.run(Count(EVENTS)) == before
    assert store.run(Peek(EVENTS, b"none", b"g")) is None
    assert [row.queue for row in store.run(Count(EVENTS))] == [b"q"]


def test_find_ready_answers_with_the_first_that_has_something_for_the_group(store: Store) -> None:
    put(store, b"1", queue=b"a")
    put(store, b"2", queue=b"b")
    names = [b"none", b"b", b"a"]

    assert store.run(FindReady(EVENTS, b"g", names)) == b"b"
    (taken,) = lease(store, queue=b"b")
    assert store.run(FindReady(EVENTS, b"g", names)) == b"a"
    take(store, queue=b"a")
    assert store.run(FindReady(EVENTS, b"g", names)) is None
    assert store.run(FindReady(EVENTS, b"h", names)) == b"b"
    release(store, taken.message_id, queue=b"b")
    assert store.run(FindReady(EVENTS, b"g", names)) == b"b"
    assert store.run(FindReady(EVENTS, b"g", [])) is None


# -- Count --------------------------------------------------------------------------------------


def test_count_tells_where_messages_stand(store: Store) -> None:
    ids = put(store, *[b"x"] * 10)
    take(store, 6)
    ack(store, *ids[:3])
    release(store, ids[3])

    (row,) = store.run(Count(EVENTS, [b"q"]))

    assert (row.queue, row.total) == (b"q", 10)
    (group,) = row.groups
    assert (group.group, group.total) == (b"g", 10)
    assert (group.leased, group.redo, group.done, group.available) == (2, 1, 3, 4)


def test_count_without_names_is_of_all_queues_in_order(store: Store) -> None:
    for name in (b"b", b"c", b"a"):
        put(store, b"1", queue=name)

    assert [row.queue for row in store.run(Count(EVENTS))] == [b"a", b"b", b"c"]


def test_count_answers_for_a_queue_that_is_not_there(store: Store) -> None:
    put(store, b"1")

    rows = store.run(Count(EVENTS, [b"none", b"q", b"none"]))

    assert rows == [
        QueueCount(b"none", 0, []),
        QueueCount(b"q", 1, []),
        QueueCount(b"none", 0, []),
    ]


def test_a_group_appears_with_its_first_message_and_vanishes_with_its_last(
    store: Store, clock: ManualClock, reopen: Reopen
) -> None:
    put(store, b"1", ttl_ms=100)
    put(store, b"2", ttl_ms=200)
    assert groups(store) == []

    take(store, lease_ms=0)
    assert groups(store) == [b"g"]
    assert groups(reopen(clock)) == [b"g"]

    store = reopen(clock)
    clock.advance(100)
    assert groups(store) == [], "it has done nothing with what there is"
    assert groups(reopen(clock)) == []


def test_a_group_that_vanished_begins_anew(store: Store, clock: ManualClock) -> None:
    put(store, b"1", ttl_ms=100)
    take(store)
    clock.advance(100)
    assert store.run(Count(EVENTS)) == []

    put(store, b"2")

    assert counts(store) == (0, 0, 0, 1)
    assert take(store, 9) == [b"2"]


def test_a_message_that_expires_leaves_every_count(store: Store, clock: ManualClock) -> None:
    ids = put(store, *[b"dies"] * 4, ttl_ms=100)
    put(store, b"lives")
    take(store, 3)
    ack(store, ids[0])
    release(store, ids[1])
    assert counts(store) == (1, 1, 1, 2)

    clock.advance(100)

    assert counts(store) == (0, 0, 0, 1)
    assert take(store, 9) == [b"lives"]


def groups(store: Store) -> list[bytes]:
    (row,) = store.run(Count(EVENTS, [b"q"]))
    return [count.group for count in row.groups]


def test_counts_of_all_queues_are_cut_off_when_there_are_too_many(store: Store) -> None:
    names = [b"q%d" % number for number in range(600)]
    for name in names:
        put(store, b"x", queue=name)

    assert 100 < len(store.run(Count(EVENTS, most=100))) < 600
    assert 50 < len(store.run(Count(EVENTS, groups=[b"g", b"h"], most=100))) < 600
    assert len(store.run(Count(EVENTS, most=600))) == 600
    assert len(store.run(Count(EVENTS, names, most=100))) == 600


# -- ScanQueues ---------------------------------------------------------------------------------


def scan(store: Store, count: int) -> list[bytes]:
    """The names that a scan finds, in alphabetical order."""
    names: list[bytes] = []
    cursor = 0
    for _ in range(100_000):
        cursor, some = store.run(ScanQueues(EVENTS, cursor, count))
        names += some
        if cursor == 0:
            return sorted(names)
    raise AssertionError("there is no end to it")


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_a_scan_sees_every_queue_once(
    store: Store, reopen: Reopen, clock: ManualClock, count: int
) -> None:
    names = sorted(b"%d" % number for number in range(50))
    for name in names:
        put(store, b"x", queue=name)

    assert scan(store, count) == names
    assert scan(reopen(clock), count) == names


def test_a_scan_does_not_see_queues_in_which_nothing_is_left(
    store: Store, clock: ManualClock
) -> None:
    put(store, b"x", queue=b"stays")
    put(store, b"x", queue=b"expires", ttl_ms=1_000)
    put(store, b"x", queue=b"flushed")
    lease(store, queue=b"flushed")
    store.run(Flush(EVENTS, b"flushed"))
    clock.advance(1_000)

    assert scan(store, 10) == [b"stays"]

    put(store, b"x", queue=b"expires")
    assert scan(store, 10) == [b"expires", b"stays"]
