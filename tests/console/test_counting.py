"""What is counted while messages are handled: sizes in classes, changes per queue."""

from __future__ import annotations

from quinque.model.families import EVENTS, JOBS
from quinque.model.lifecycle import Kind, Reason
from quinque.stats.doublings import Doublings
from quinque.stats.tally import Tally, change_code

ADDED = change_code(Kind.ADDED, Reason.NONE)
ACKED = change_code(Kind.ACKED, Reason.NONE)


def test_a_size_is_counted_in_every_class_that_is_no_smaller() -> None:
    sizes = Doublings()
    for size in (0, 1, 2, 3, 4, 1000):
        sizes.add(size)

    assert sizes.up_to(1, 3) == [(1, 2), (3, 4), (7, 5)]
    assert (sizes.count, sizes.total) == (6, 1010)


def test_changes_of_a_queue_add_up() -> None:
    tally = Tally()

    tally.add(Kind.ADDED, Reason.NONE, JOBS.code, b"q", b"", 2)
    tally.add(Kind.ADDED, Reason.NONE, JOBS.code, b"q", b"", 3)

    assert tally.by_queue == {b"q": {ADDED: 5}}


def test_in_a_feed_groups_ack_and_messages_come() -> None:
    tally = Tally()

    tally.add(Kind.ADDED, Reason.NONE, EVENTS.code, b"f", b"", 1)
    tally.add(Kind.ACKED, Reason.NONE, EVENTS.code, b"f", b"g", 1)
    tally.add(Kind.ACKED, Reason.NONE, EVENTS.code, b"f", b"", 1)  # over for everyone

    assert tally.by_queue == {b"f": {ADDED: 1, ACKED: 1}}


def test_a_queue_that_has_another_name_got_nothing_new() -> None:
    tally = Tally()

    tally.add(Kind.ADDED, Reason.RENAMED, JOBS.code, b"q", b"", 1)

    assert tally.by_queue == {}


def test_queues_that_are_gone_are_forgotten_when_they_are_many() -> None:
    tally = Tally()
    for number in range(1_003):
        tally.add(Kind.ADDED, Reason.NONE, JOBS.code, b"%d" % number, b"", 1)

    tally.forget_all_but([b"7"])

    assert list(tally.by_queue) == [b"7"]
