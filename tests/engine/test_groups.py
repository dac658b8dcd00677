"""One group's view of a queue: how far it came, what it holds, what it may have again."""

from __future__ import annotations

import pytest

from quinque.engine.feed import decide
from quinque.engine.feed.feed import Feed
from quinque.model.families import EVENTS
from quinque.model.ops import Peek
from tests.engine.invariants import check_invariants
from tests.engine.steps import (
    HOUR_MS,
    NOW_MS,
    ack,
    expire,
    extend,
    flush,
    lease,
    pass_time,
    put,
    release,
)


def test_a_group_that_passed_nothing_that_lives_is_dropped(queue: Feed) -> None:
    put(queue, b"a", b"b")
    lease(queue, lease_ms=0)
    assert set(queue.groups) == {b"g"}

    expire(queue, b"a")

    assert queue.groups == {}


def test_a_group_that_still_holds_something_is_not_dropped(queue: Feed) -> None:
    put(queue, b"a")
    lease(queue)

    flush(queue)

    assert queue.groups[b"g"].detached == 1
    assert not queue.is_empty
    assert ack(queue, b"a") == [True]
    assert queue.is_empty


@pytest.mark.parametrize("gone", [b"a", b"b", b"c"])
def test_a_group_stands_where_it_stood_when_a_message_goes(queue: Feed, gone: bytes) -> None:
    put(queue, b"a", b"b", b"c", b"d")
    lease(queue, 3)

    expire(queue, gone)

    check_invariants(queue)
    assert lease(queue, 5) == [b"d"]


def test_messages_passed_over_because_they_were_dead_count_as_passed(queue: Feed) -> None:
    put(queue, b"a")
    put(queue, b"b", b"c", ttl_ms=10)
    put(queue, b"d")
    lease(queue)

    assert lease(queue, now_ms=NOW_MS + 10) == [b"d"]

    assert queue.groups[b"g"].passed == 4
    check_invariants(queue, NOW_MS + 10)
    expire(queue, b"b", b"c")
    assert queue.groups[b"g"].passed == 2
    check_invariants(queue, NOW_MS + 10)


def test_what_comes_back_comes_in_the_order_of_the_queue(queue: Feed) -> None:
    put(queue, b"a", b"b", b"c", b"d")
    lease(queue, 4)

    for id in (b"c", b"a", b"d"):
        release(queue, id)

    check_invariants(queue)
    assert lease(queue, 5) == [b"a", b"c", b"d"]


@pytest.mark.parametrize("count", [1, 3, 9])
def test_what_comes_back_in_any_order_is_had_in_the_order_of_the_queue(
    queue: Feed, count: int
) -> None:
    names = [b"%d" % number for number in range(9)]
    put(queue, *names)
    lease(queue, 9)

    for at in (2, 5, 0, 7, 1, 8, 3, 6, 4):
        release(queue, names[at])
        check_invariants(queue)

    assert [id for _ in range(9 // count) for id in lease(queue, count)] == names


def test_reminders_of_a_lease_that_is_extended_again_and_again_do_not_pile_up(queue: Feed) -> None:
    put(queue, b"a")
    lease(queue)

    for step in range(10_000):
        assert extend(queue, b"a", lease_ms=HOUR_MS, now_ms=NOW_MS + step) == [b"a"]

    assert queue.groups[b"g"].deadlines.size < 5_000
    check_invariants(queue)
    assert queue.groups[b"g"].held[b"a"].deadline_ms == NOW_MS + step + HOUR_MS


def test_what_went_from_the_middle_of_what_comes_back_is_not_found_again(queue: Feed) -> None:
    put(queue, b"a", b"b", b"c")
    lease(queue, 3)
    release(queue, b"a", b"b", b"c")

    expire(queue, b"b")

    check_invariants(queue)
    assert lease(queue, 5) == [b"a", b"c"]


def test_an_id_used_again_does_not_inherit_the_place_of_its_first_message(queue: Feed) -> None:
    put(queue, b"a", b"b", b"x")
    lease(queue, 3)
    release(queue, b"b", b"x")
    assert peek_last(queue) == b"x"
    expire(queue, b"x")

    put(queue, b"x", to_front=True)

    assert peek_last(queue) == b"b"
    assert lease(queue, 3) == [b"x", b"b"]


def test_a_lease_since_before_a_flush_is_not_taken_for_one_of_a_new_message(queue: Feed) -> None:
    put(queue, b"x")
    lease(queue)
    flush(queue)
    put(queue, b"x")
    assert lease(queue) == [b"x"]

    assert queue.groups[b"g"].detached == 0
    check_invariants(queue)
    assert ack(queue, b"x", b"x") == [True, False]


def test_a_lease_since_before_a_flush_may_end_beside_a_new_message_of_its_id(queue: Feed) -> None:
    put(queue, b"x")
    lease(queue, lease_ms=10)
    flush(queue)
    put(queue, b"y", first_place=1_001)
    put(queue, b"x", to_front=True)  # at the place of the old one: the group is past it
    assert queue.groups[b"g"].fresh == 1

    check_invariants(queue)
    pass_time(queue, NOW_MS + 10)

    check_invariants(queue)
    assert lease(queue, 5) == [b"x", b"y"]


def test_a_new_message_may_be_leased_beside_a_lease_since_before_a_flush(queue: Feed) -> None:
    put(queue, b"x")
    lease(queue)
    flush(queue)
    put(queue, b"y", first_place=1_001)
    put(queue, b"x", to_front=True)

    assert lease(queue) == [b"x"]

    assert queue.groups[b"g"].detached == 0
    assert decide.count(queue).groups[0].leased == 1
    check_invariants(queue)


@pytest.mark.parametrize("is_single", [False, True])
def test_reminders_of_leases_that_ended_early_do_not_pile_up(queue: Feed, is_single: bool) -> None:
    put(queue, b"stays")
    lease(queue, lease_ms=5_000)
    for number in range(10_000):
        put(queue, b"%d" % number, is_single=is_single)
        lease(queue, lease_ms=HOUR_MS + number)
        ack(queue, b"%d" % number)

    assert queue.groups[b"g"].deadlines.size < 5_000
    pass_time(queue, NOW_MS + 5_000)
    assert lease(queue) == [b"stays"]


def test_peeking_looks_past_the_dead_at_both_ends(queue: Feed) -> None:
    put(queue, b"a", ttl_ms=10)
    put(queue, b"b", b"c")
    put(queue, b"d", ttl_ms=10)
    lease(queue, 4)
    release(queue, b"a", b"b", b"c", b"d")

    for last, id in ((False, b"b"), (True, b"c")):
        found = decide.peek(queue, Peek(EVENTS, b"q", b"g", last), NOW_MS + 10)
        assert found is queue.messages[id]
    assert decide.has_work(queue, b"g", NOW_MS + 10)
    check_invariants(queue, NOW_MS + 10)


def peek_last(queue: Feed) -> bytes | None:
    found = decide.peek(queue, Peek(EVENTS, b"q", b"g", last=True), NOW_MS)
    return found.id if found is not None else None
