"""One queue: the list of its messages, the hint about dead ones, and putting it in order."""

from __future__ import annotations

from typing import Any

import pytest

from quinque.engine.feed import decide
from quinque.engine.feed.apply import apply_group_kept, apply_kept, apply_leased, apply_stored
from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.errors import Duplicate, WrongType
from quinque.model.events import (
    GROUP_KEPT,
    KEPT,
    LEASED,
    STORED,
    GroupKept,
    Kept,
    Leased,
    Stored,
)
from quinque.model.families import EVENTS, Family
from quinque.model.message import FeedMessage
from quinque.model.ops import Put
from tests.engine.invariants import check_invariants
from tests.engine.steps import NOW_MS, expire, flush, lease, pass_time, put, remove


def ids(queue: Feed) -> list[bytes]:
    """Read from both ends."""
    forward, backward = [], []
    step = queue.head
    while step is not None:
        forward.append(step.id)
        step = step.after
    step = queue.tail
    while step is not None:
        backward.append(step.id)
        step = step.before
    assert forward == backward[::-1]
    return forward


@pytest.mark.parametrize("gone", [b"a", b"b", b"c"])
def test_a_message_may_go_from_any_place(queue: Feed, gone: bytes) -> None:
    put(queue, b"a", b"b", b"c")

    remove(queue, gone)

    assert ids(queue) == [id for id in (b"a", b"b", b"c") if id != gone]
    check_invariants(queue)


def test_a_message_that_is_gone_holds_on_to_no_other(queue: Feed) -> None:
    """Else a lease on it would keep all that came after it in memory."""
    put(queue, b"a", b"b", b"c")
    middle = queue.messages[b"b"]

    remove(queue, b"b")

    assert (middle.before, middle.after, middle.run) == (None, None, None)


def test_messages_of_a_flushed_queue_hold_on_to_no_others(queue: Feed) -> None:
    put(queue, b"a", b"b", b"c")
    messages = list(queue.messages.values())

    flush(queue)

    assert all(it.before is None and it.after is None for it in messages)
    assert (queue.head, queue.tail, queue.is_empty) == (None, None, True)


def test_each_message_before_all_stands_one_place_before_the_last_such(queue: Feed) -> None:
    put(queue, b"a")
    put(queue, b"b", b"c", to_front=True)

    assert ids(queue) == [b"c", b"b", b"a"]
    assert [queue.messages[id].place for id in ids(queue)] == [998, 999, 1_000]
    check_invariants(queue)


def test_messages_that_come_together_have_places_that_follow_each_other(queue: Feed) -> None:
    op = Put(EVENTS, b"q", [b"1", b"2", b"3"])

    messages = apply_stored(queue, decide.put(queue, op, NOW_MS, 5_000), home=70)

    assert [(it.id, it.place, it.home) for it in messages] == [
        (b"5000", 5_000, 70),
        (b"5001", 5_001, 71),
        (b"5002", 5_002, 72),
    ]
    check_invariants(queue)


class CountedMessages(dict[bytes, FeedMessage]):
    """Counts how often an id is looked for."""

    looks = 0

    def __contains__(self, id: object) -> bool:
        self.looks += 1
        return super().__contains__(id)


@pytest.mark.parametrize("apart", [1, 2, 249, 250, 251])
def test_stamps_that_are_no_ids_yet_are_found_in_few_looks(queue: Feed, apart: int) -> None:
    """Producers may have chosen numbers a little ahead of the clock."""
    put(queue, *(b"%d" % number for number in range(5_000, 5_000 + 100 * apart, apart)))
    queue.messages = messages = CountedMessages(queue.messages)
    op = Put(EVENTS, b"q", [b""] * 250)

    stamp = decide.free_stamp(queue, op, 4_900)

    looks = messages.looks
    free = [b"%d" % number not in messages for number in range(4_900, 5_000 + 100 * apart + 250)]
    assert stamp - 4_900 == next(at for at in range(len(free)) if all(free[at : at + 250]))
    assert looks <= stamp + 250 - 4_900, "none twice"


def test_stamps_pass_over_ids_that_are_about_to_come(queue: Feed) -> None:
    put(queue, b"5002")
    op = Put(EVENTS, b"q", [b""] * 2)

    assert decide.free_stamp(queue, op, 5_000, {b"5001", b"5004"}) == 5_005
    assert decide.free_stamp(queue, op, 5_000, {b"5004"}) == 5_000


def test_a_taken_id_and_another_family_are_refused(queue: Feed) -> None:
    put(queue, b"a")

    with pytest.raises(Duplicate):
        put(queue, b"a")
    with pytest.raises(WrongType):
        decide.put(queue, Put(Family("other", 9, ""), b"q", [b""]), NOW_MS, 5_000)


def test_dead_messages_are_stepped_over_once_and_then_known(queue: Feed) -> None:
    put(queue, *(b"%d" % number for number in range(50)), ttl_ms=10)
    put(queue, b"lives")

    found = queue.next_for(None, NOW_MS + 10)

    assert found is queue.messages[b"lives"]
    assert queue.dead_until is queue.messages[b"49"]
    check_invariants(queue, NOW_MS + 10)


def test_runs_of_dead_messages_are_stepped_over_from_both_ends(queue: Feed) -> None:
    put(queue, b"first")
    put(queue, *(b"%d" % number for number in range(20)), ttl_ms=10)
    put(queue, b"last")
    put(queue, *(b"a%d" % number for number in range(20)), ttl_ms=10)

    assert lease(queue, now_ms=NOW_MS + 10) == [b"first"]
    assert lease(queue, now_ms=NOW_MS + 10) == [b"last"]
    assert queue.groups[b"g"].passed == 22
    assert queue.last_living(NOW_MS + 10) is queue.messages[b"last"]
    assert queue.last_living(NOW_MS + 9) is queue.tail
    assert lease(queue, now_ms=NOW_MS + 10) == []
    check_invariants(queue, NOW_MS + 10)


@pytest.mark.parametrize("gone", range(8))
def test_a_run_of_which_one_went_is_stepped_over_as_before(queue: Feed, gone: int) -> None:
    put(queue, *(b"%d" % number for number in range(8)), ttl_ms=10)
    put(queue, b"lives")

    expire(queue, b"%d" % gone)

    check_invariants(queue, NOW_MS + 10)
    assert lease(queue, now_ms=NOW_MS + 10) == [b"lives"]
    assert queue.groups[b"g"].passed == 8


def test_one_that_lives_keeps_its_run_from_being_stepped_over(queue: Feed) -> None:
    put(queue, b"a", ttl_ms=10)
    put(queue, b"lives", ttl_ms=11)
    put(queue, b"c", ttl_ms=10)

    assert queue.next_for(None, NOW_MS + 10) is queue.messages[b"lives"]
    assert queue.last_living(NOW_MS + 10) is queue.messages[b"lives"]


def test_a_group_in_the_middle_of_the_dead_goes_on_after_them(queue: Feed) -> None:
    put(queue, b"a", b"b", b"c", ttl_ms=10)
    put(queue, b"d")
    lease(queue)
    assert queue.next_for(None, NOW_MS + 10) is queue.messages[b"d"]

    assert lease(queue, now_ms=NOW_MS + 10) == [b"d"]

    check_invariants(queue, NOW_MS + 10)


def test_what_a_group_finds_dead_in_the_middle_is_not_taken_for_the_start(queue: Feed) -> None:
    """It lives for groups that are not as far: only a row of dead ones from the head is known."""
    put(queue, b"lives")
    put(queue, b"dies", ttl_ms=10)
    put(queue, b"last")
    lease(queue)

    assert lease(queue, now_ms=NOW_MS + 10) == [b"last"]

    assert queue.dead_until is None
    assert lease(queue, group=b"h", now_ms=NOW_MS + 10) == [b"lives"]


def test_what_is_known_of_the_dead_follows_them_as_they_go(queue: Feed) -> None:
    put(queue, b"a", b"b", ttl_ms=10)
    put(queue, b"c")
    queue.next_for(None, NOW_MS + 10)

    expire(queue, b"b")
    assert queue.dead_until is queue.head
    expire(queue, b"a")

    check_invariants(queue, NOW_MS + 10)
    assert queue.next_for(None, NOW_MS + 10) is queue.messages[b"c"]


def test_a_message_before_all_is_seen_though_all_behind_it_is_dead(queue: Feed) -> None:
    put(queue, b"a", ttl_ms=10)
    put(queue, b"b")
    queue.next_for(None, NOW_MS + 10)

    put(queue, b"front", to_front=True, now_ms=NOW_MS + 10)

    assert lease(queue, 2, now_ms=NOW_MS + 10) == [b"front", b"b"]
    check_invariants(queue, NOW_MS + 10)


def test_messages_read_back_in_any_order_are_put_in_order() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    for place in (5, 2, 9, 1):
        apply_kept(queue, kept(b"%d" % place, place, holds=[]), 0)
    apply_group_kept(queue, GroupKept(GROUP_KEPT, b"q", EVENTS.code, b"g", 5))

    queue.relink()

    assert ids(queue) == [b"1", b"2", b"5", b"9"]
    assert (queue.groups[b"g"].passed, queue.groups[b"g"].at) == (3, queue.messages[b"5"])
    check_invariants(queue)


def test_a_group_that_came_to_nothing_is_dropped_when_all_is_read() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    apply_kept(queue, kept(b"7", 7, holds=[]), 0)
    apply_group_kept(queue, GroupKept(GROUP_KEPT, b"q", EVENTS.code, b"g", 6))

    queue.relink()

    assert queue.groups == {}


def test_what_groups_held_is_read_back_from_the_message_itself() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    holds = [(b"held", 5_000, 3), (b"again", 0, 2), (b"fresh", 0, 0)]
    apply_kept(queue, kept(b"7", 7, holds), 0)

    queue.relink()

    assert queue.soonest_ms == 5_000
    rows = {it.group: (it.leased, it.redo, it.available) for it in decide.count(queue).groups}
    assert rows == {b"held": (1, 0, 0), b"again": (0, 1, 0), b"fresh": (0, 0, 1)}
    check_invariants(queue)


def test_a_message_that_goes_before_it_is_known_how_far_its_group_came_leaves_nothing() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    apply_kept(queue, kept(b"7", 7, [(b"g", 5_000, 1), (b"h", 0, 1)]), 0)
    apply_kept(queue, kept(b"8", 8, []), 0)
    remove(queue, b"7")
    apply_group_kept(queue, GroupKept(GROUP_KEPT, b"q", EVENTS.code, b"g", 8))

    queue.relink()

    assert (queue.groups[b"g"].held, set(queue.groups)) == ({}, {b"g"})
    check_invariants(queue)


def test_a_lease_of_a_message_that_is_not_there_moves_its_group_on() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    apply_leased(queue, Leased(LEASED, b"q", b"g", 5_000, 7, [b"7"]))
    apply_kept(queue, kept(b"7", 7, holds=[]), 0)
    apply_kept(queue, kept(b"8", 8, holds=[]), 0)

    queue.relink()

    assert lease(queue, 5) == [b"8"]


def test_a_message_before_all_names_the_groups_that_have_come_further(queue: Feed) -> None:
    put(queue, b"a")
    lease(queue)
    op = Put(EVENTS, b"q", [b""], message_id=b"front", to_front=True)

    event = decide.put(queue, op, NOW_MS, 5_000)

    assert event.to_front == [b"g"]


def test_a_message_before_all_is_read_back_though_its_group_is_not_known_yet() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    stored = Stored(STORED, b"q", EVENTS.code, 7, 0, False, [b"g"], [b"front"], [b""])
    apply_stored(queue, stored, 0)
    apply_kept(queue, kept(b"8", 8, holds=[]), 0)
    apply_group_kept(queue, GroupKept(GROUP_KEPT, b"q", EVENTS.code, b"g", 8))

    queue.relink()

    assert lease(queue, 5) == [b"front"]
    check_invariants(queue)


class CountedGroups(dict[bytes, Group]):
    """Counts the groups that are looked at one after the other."""

    looks = 0

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()


@pytest.mark.parametrize("to_front", [False, True])
def test_groups_that_ended_are_not_looked_at_again_and_again_while_a_journal_is_read(
    to_front: bool,
) -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    queue.groups = groups = CountedGroups()
    past: list[bytes] | None = [] if to_front else None
    for number in range(1_000):
        id = b"%d" % number
        apply_stored(
            queue, Stored(STORED, b"q", EVENTS.code, number, 0, True, past, [id], [b""]), 0
        )
        apply_leased(queue, Leased(LEASED, b"q", b"group " + id, 5_000, number, [id]))
        remove(queue, id)

    assert groups.looks <= 5_000
    queue.relink()
    assert queue.is_empty


def test_a_flush_that_is_read_back_looks_only_at_groups_that_have_leases() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    queue.groups = groups = CountedGroups()
    for place in range(1_000):
        apply_stored(
            queue, Stored(STORED, b"q", EVENTS.code, place, 0, False, None, None, [b""]), 0
        )
        id = b"%d" % place
        apply_leased(queue, Leased(LEASED, b"q", b"group " + id, 0, place, [id]))
        flush(queue)

    assert groups.looks == 0


def test_a_flush_that_is_read_back_leaves_how_far_groups_came() -> None:
    """A copied folder says it first: a message that was flushed and is held follows."""
    queue = Feed(b"q", EVENTS, in_order=False)
    apply_group_kept(queue, GroupKept(GROUP_KEPT, b"q", EVENTS.code, b"g", 8))
    apply_kept(queue, kept(b"held", 7, [(b"h", 5_000, 1)]), 0)
    flush(queue)
    apply_kept(queue, kept(b"8", 8, []), 0)
    apply_kept(queue, kept(b"9", 9, []), 0)

    queue.relink()

    assert lease(queue, 5) == [b"9"]
    assert list(queue.groups[b"h"].held) == [b"held"]
    check_invariants(queue)


def test_groups_that_hold_a_message_let_go_of_it_while_a_journal_is_read() -> None:
    queue = Feed(b"q", EVENTS, in_order=False)
    apply_kept(queue, kept(b"7", 7, [(b"g", 5_000, 1), (b"h", 0, 1)]), 0)
    apply_kept(queue, kept(b"8", 8, []), 0)
    for name in (b"g", b"i"):
        apply_leased(queue, Leased(LEASED, b"q", name, 6_000, 8, [b"7", b"8"]))
    remove(queue, b"7")

    assert [list(group.held) for group in queue.groups.values()] == [[b"8"], [], [b"8"]]
    remove(queue, b"8")
    queue.relink()

    assert queue.is_empty


class CountedNames(list[bytes]):
    """Counts how often a name is looked for."""

    looks = 0

    def __contains__(self, name: object) -> bool:
        self.looks += 1
        return super().__contains__(name)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_message_before_all_is_put_there_without_a_search_for_each_group(in_order: bool) -> None:
    queue = Feed(b"q", EVENTS, in_order=in_order)
    apply_stored(queue, Stored(STORED, b"q", EVENTS.code, 8, 0, False, None, None, [b""]), 0)
    past = CountedNames()
    for number in range(100):
        apply_leased(queue, Leased(LEASED, b"q", b"%d" % number, 0, 8, [b"8"]))
        past.append(b"%d" % number)

    apply_stored(queue, Stored(STORED, b"q", EVENTS.code, 7, 0, False, past, [b"f"], [b""]), 0)

    assert past.looks == 0
    queue.relink()
    assert [len(group.again) for group in queue.groups.values()] == [1] * 100
    check_invariants(queue)


def test_reminders_of_messages_that_went_early_do_not_pile_up(queue: Feed) -> None:
    put(queue, b"stays", ttl_ms=100)
    for number in range(10_000):
        put(queue, b"%d" % number, ttl_ms=number + 1)
        remove(queue, b"%d" % number)

    assert queue.expiries.size < 5_000
    pass_time(queue, NOW_MS + 100)
    assert queue.messages == {}


def kept(id: bytes, place: int, holds: list[tuple[bytes, int, int]]) -> Kept:
    return Kept(KEPT, b"q", EVENTS.code, id, place, 0, False, None, holds, b"")


def test_a_message_is_small() -> None:
    assert not hasattr(FeedMessage(b"", 0, 0, False, b"", 0), "__dict__")
