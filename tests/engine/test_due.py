"""What time makes due: the calendar, slices of it, and when the next thing is due."""

from __future__ import annotations

from quinque.engine.calendar import Calendar
from quinque.engine.feed.due import settle, soonest
from quinque.engine.feed.feed import Feed
from quinque.model.events import EXPIRED, LAPSED, Expired, Lapsed
from quinque.model.limits import NEVER_MS
from tests.engine.invariants import check_invariants
from tests.engine.steps import NOW_MS, ack, flush, lease, pass_time, put, release


def test_a_calendar_gives_what_is_due_the_earliest_first() -> None:
    calendar = Calendar()
    for due_ms, id in ((30, b"c"), (10, b"a"), (20, b"b"), (10, b"A")):
        calendar.add(due_ms, id)

    assert (calendar.next_ms, calendar.size) == (10, 4)
    assert calendar.take(9, 99) == []
    assert calendar.take(20, 99) == [b"a", b"A", b"b"]
    assert (calendar.next_ms, calendar.size) == (30, 1)
    assert calendar.take(30, 99) == [b"c"]
    assert (calendar.next_ms, calendar.size) == (NEVER_MS, 0)


def test_a_calendar_gives_slices_and_forgets_nothing() -> None:
    calendar = Calendar()
    calendar.add_all(10, [b"%d" % number for number in range(10)])
    calendar.add_all(20, [b"x", b"y"])
    calendar.add_all(20, [b"z"])

    slices = [calendar.take(20, 4) for _ in range(5)]

    assert [len(slice) for slice in slices] == [4, 4, 4, 1, 0]
    assert {id for slice in slices[:2] for id in slice} < {b"%d" % number for number in range(10)}
    assert sorted(id for slice in slices for id in slice) == sorted(
        [b"x", b"y", b"z", *(b"%d" % number for number in range(10))]
    )


def test_a_calendar_does_not_share_the_list_it_was_given() -> None:
    calendar = Calendar()
    ids = [b"a", b"b"]
    calendar.add_all(10, ids)
    calendar.add_all(10, [b"c"])

    assert ids == [b"a", b"b"]


def test_leases_lapse_and_messages_expire_in_their_millisecond(queue: Feed) -> None:
    put(queue, b"a", b"b", ttl_ms=20)
    lease(queue, lease_ms=10)

    assert settle(queue, NOW_MS + 9, 99) == []
    assert settle(queue, NOW_MS + 10, 99) == [Lapsed(LAPSED, b"q", b"g", [b"a"])]
    assert settle(queue, NOW_MS + 20, 99) == [Expired(EXPIRED, b"q", [b"a", b"b"])]


def test_reminders_of_what_ended_early_come_to_nothing(queue: Feed) -> None:
    put(queue, b"a", b"b", b"c")
    lease(queue, 3, lease_ms=10)
    ack(queue, b"a")
    release(queue, b"b")
    assert lease(queue, lease_ms=30) == [b"b"], "its first reminder is still there"

    assert settle(queue, NOW_MS + 10, 99) == [Lapsed(LAPSED, b"q", b"g", [b"c"])]


def test_reminders_that_come_to_nothing_do_not_hide_what_is_due(queue: Feed) -> None:
    ids = [b"%d" % number for number in range(20)]
    put(queue, *ids)
    lease(queue, 20, lease_ms=10)
    ack(queue, *ids[1:])

    events = settle(queue, NOW_MS + 10, most=5)

    assert events == [Lapsed(LAPSED, b"q", b"g", [b"0"])]


def test_a_slice_takes_no_more_than_it_may_and_the_rest_stays_due(queue: Feed) -> None:
    put(queue, *(b"%d" % number for number in range(20)))
    lease(queue, 20, lease_ms=10)

    pass_time(queue, NOW_MS + 10, most=8)

    assert len(queue.groups[b"g"].again) == 8
    assert queue.soonest_ms == NOW_MS + 10
    check_invariants(queue, NOW_MS + 10)


def test_a_lease_on_a_message_that_expired_with_it_comes_back_to_nobody(queue: Feed) -> None:
    put(queue, *(b"%d" % number for number in range(20)), ttl_ms=10)
    lease(queue, 20, lease_ms=10)
    put(queue, b"lives", ttl_ms=50)
    lease(queue, lease_ms=10)

    pass_time(queue, NOW_MS + 10, most=5)

    assert set(queue.groups[b"g"].again) == {b"lives"}
    for _ in range(3):
        pass_time(queue, NOW_MS + 10, most=5)
    assert set(queue.messages) == {b"lives"}
    assert queue.groups[b"g"].held == {}


def test_a_lease_on_a_flushed_message_ends_though_the_message_expired(queue: Feed) -> None:
    put(queue, b"a", ttl_ms=10)
    lease(queue, lease_ms=10)
    flush(queue)

    pass_time(queue, NOW_MS + 10)

    assert queue.is_empty


def test_a_lease_that_ended_after_its_message_expired_ends_when_the_queue_is_flushed(
    queue: Feed,
) -> None:
    """More had expired than was removed by then, and the leases had no other reminders."""
    ids = [b"%d" % number for number in range(20)]
    put(queue, *ids, ttl_ms=10)
    lease(queue, 20, lease_ms=10)
    pass_time(queue, NOW_MS + 10, most=5)
    assert len(queue.messages) == 15
    flush(queue)

    while queue.soonest_ms <= NOW_MS + 10:
        pass_time(queue, NOW_MS + 10, most=5)

    assert queue.is_empty


def test_what_is_known_of_leases_of_expired_messages_goes_with_the_messages(queue: Feed) -> None:
    put(queue, b"lives")
    lease(queue)
    put(queue, *(b"%d" % number for number in range(20)), ttl_ms=10)
    lease(queue, 20, lease_ms=10)

    while queue.soonest_ms <= NOW_MS + 10:
        pass_time(queue, NOW_MS + 10, most=5)

    assert set(queue.messages) == set(queue.groups[b"g"].held) == {b"lives"}
    assert queue.groups[b"g"].overdue == []


def test_the_next_thing_due_is_the_earliest_of_all(queue: Feed) -> None:
    assert soonest(queue) == NEVER_MS
    put(queue, b"a", ttl_ms=50)
    lease(queue, lease_ms=40)
    lease(queue, group=b"h", lease_ms=30)

    assert queue.soonest_ms == soonest(queue) == NOW_MS + 30
    pass_time(queue, NOW_MS + 30)
    assert queue.soonest_ms == NOW_MS + 40
