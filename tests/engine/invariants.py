"""What is true of a queue between any two events, whatever happened before.

Called by   tests/model after every step, tests/engine and tests/store where indexes are at stake.
Calls       nothing; it looks into the indexes of engine/feed/feed.py, engine/feed/groups.py and
            engine/calendar.py.
"""

from __future__ import annotations

from itertools import groupby

from quinque.engine.calendar import Calendar
from quinque.engine.feed import feed
from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage


def check_invariants(queue: Feed, now_ms: int = 0) -> None:
    """Every index of the queue says the same as every other."""
    ordered = _check_list(queue)
    check_calendar(queue.expiries)
    for message in ordered:
        if message.expires_ms:
            assert message.id in queue.expiries._days[message.expires_ms], "expiry has no reminder"
    assert queue.soonest_ms <= queue.expiries.next_ms, "a message may expire unnoticed"
    if queue.dead_until is not None:
        dead = ordered[: ordered.index(queue.dead_until) + 1]
        assert all(0 < message.expires_ms <= now_ms for message in dead), "not all of them expired"
    for name, group in queue.groups.items():
        assert group.name == name
        assert not group.is_over, "a group that is over is dropped"
        _check_group(queue, group, ordered)
        assert queue.soonest_ms <= group.deadlines.next_ms, "a lease may lapse unnoticed"


def _check_list(queue: Feed) -> list[FeedMessage]:
    """The messages in order; the list, read both ways, holds those of the dict."""
    assert queue.in_order
    ordered: list[FeedMessage] = []
    before = None
    step = queue.head
    while step is not None:
        assert step.before is before, "the list is not the same both ways"
        assert queue.messages.get(step.id) is step, "a message is in the list and not in the dict"
        ordered.append(step)
        before, step = step, step.after
    assert queue.tail is before
    assert len(ordered) == len(queue.messages)
    places = [message.place for message in ordered]
    assert places == sorted(set(places)), "places grow"
    _check_runs(ordered)
    return ordered


def _check_runs(ordered: list[FeedMessage]) -> None:
    """Every message is in one run, and a run is an unbroken row of neighbours."""
    for run, members in groupby(ordered, key=lambda message: message.run):
        row = list(members)
        assert run is not None
        assert (run.first, run.last, run.count) == (row[0], row[-1], len(row)), "a broken run"
        assert len(row) <= feed.RUN_MOST
        assert all((it.expires_ms or NEVER_MS) <= run.until_ms for it in row), "one lives longer"


def _check_group(queue: Feed, group: Group, ordered: list[FeedMessage]) -> None:
    passed = [message for message in ordered if message.place <= group.cursor]
    assert group.passed == len(passed)
    assert group.at is (passed[-1] if passed else None)
    detached = set()
    for id, lease in group.held.items():
        assert lease.message.id == id
        assert lease.deadline_ms > 0
        assert lease.deliveries > 0
        if lease.deadline_ms < NEVER_MS:  # else it is in a claim
            assert id in group.deadlines._days[lease.deadline_ms], "a lease has no reminder"
        if lease.message is queue.messages.get(id):
            assert lease.message in passed
        else:
            detached.add(id)
    assert group.detached == len(detached)
    assert not (group.held.keys() - detached) & group.again.keys(), "held, and to be had again"
    for id, lease in group.again.items():
        assert lease.message is queue.messages.get(id), "what is gone cannot be had again"
        assert lease.message in passed
        assert lease.deadline_ms == 0
    assert group.fresh == sum(lease.deliveries == 0 for lease in group.again.values())
    lowest = min((lease.message.place for lease in group.again.values()), default=None)
    following = group.next_again()
    assert lowest == (following.place if following is not None else None)
    check_calendar(group.deadlines)


def check_calendar(calendar: Calendar) -> None:
    assert sorted(calendar._order) == sorted(calendar._days)
    assert all(calendar._days.values()), "a day without reminders"
    assert calendar.next_ms == min(calendar._days, default=NEVER_MS)
    assert calendar.size == sum(map(len, calendar._days.values()))
