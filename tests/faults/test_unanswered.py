"""Trouble means what it says, and a failover excuses what it may have undone and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults import job_checks, total_queue
from tests.faults.job_history import JobOperation
from tests.faults.total_queue import Operation, Verb
from tests.faults.unanswered import (
    Window,
    forget_events,
    forget_jobs,
    outages_ms,
    without_trouble,
)

MS_NS = 10**6
BODY = "c-1-64"


def event(
    verb: Verb, at_ms: int, *, key: str = "", id: str = "", span_s: float = 0.0, error: str = ""
) -> Operation:
    group = "" if verb == "add" else "g"
    op = Operation("c", verb, "q", group, key, span_s, at_ms * MS_NS, (at_ms + 1) * MS_NS, id)
    op.body = BODY if verb == "get" else ""
    op.was_done, op.error = verb == "ack", error
    return op


def faults(history: list[Operation]) -> list[str]:
    found = total_queue.check(without_trouble(history), [("q", "g")]).violations
    return [what for what, lines in found.items() if lines]


def test_what_was_not_done_must_not_come() -> None:
    add, get = event("add", 0, key=BODY), event("get", 10, id="1", span_s=1.0)
    assert faults([add, get]) == ["delivered, never sent"]

    add.error = "NOTDONE the store could not be reached"
    assert faults([add, get]) == ["delivered, never sent"]


def test_what_is_unknown_may_come_or_not() -> None:
    add = event("add", 0, key=BODY, error="UNAVAILABLE the effect is unknown")
    get = event("get", 10, id="1", span_s=1.0)

    assert faults([add]) == []
    assert faults([add, get]) == []


def test_an_ack_that_was_not_done_is_not_excused_by_what_came_of_it() -> None:
    add = JobOperation("c", "add", ["q"], [], BODY, ["RETRY", "9", "TTL", "99"], 1, 2, "a")
    get = JobOperation("c", "get", ["q"], [], "", [], 3, 4, rows=[["q", "a", BODY, 0, 0]])
    acks = [
        JobOperation("c", "ack", [], ["a"], "", ["ACKJOB"], 5, 6, number=-1, error="NOTDONE"),
        JobOperation("c", "ack", [], ["a"], "", ["ACKJOB"], 7, 8, number=0),
    ]
    acks[0].error = "NOTDONE nothing was changed"

    found = job_checks.check(without_trouble([add, get, *acks]), [])

    assert found.violations["acknowledged, then lost"] == ["a: nothing there to ack"]


@pytest.mark.parametrize(("from_ms", "to_ms"), [(0, 99), (122, 250)])
def test_what_was_sent_after_the_window_or_answered_before_it_is_not_excused(
    from_ms: int, to_ms: int
) -> None:
    add, ack = event("add", 100, key=BODY, id="1"), event("ack", 120, key="1")
    gets = [event("get", at_ms, id="1", span_s=60.0) for at_ms in (110, 300)]
    window = Window(from_ms * MS_NS, 200 * MS_NS, to_ms * MS_NS)

    assert forget_events([add, *gets, ack], [window]) == []

    assert faults([add, *gets, ack]) == ["acked, then delivered again", "held by two at once"]


def test_what_was_sent_in_the_window_is_excused_however_late_it_was_answered() -> None:
    add, ack = event("add", 100, key=BODY, id="1"), event("ack", 120, key="1")
    gets = [event("get", at_ms, id="1", span_s=60.0) for at_ms in (110, 9_300)]
    for op in (gets[0], ack):
        op.answered_ns = 9_000 * MS_NS

    forget_events([add, *gets, ack], [Window(0, 200 * MS_NS, 200 * MS_NS)])

    assert faults([add, *gets, ack]) == []


def test_only_slots_of_the_failed_primary_are_excused() -> None:
    add = event("add", 100, key=BODY, id="1")

    forget_events([add], [Window(0, 200 * MS_NS, 200 * MS_NS, frozenset({1}))])

    assert faults([add]) == ["acknowledged, then lost"]


def test_an_addition_that_was_forgotten_is_told_with_its_age() -> None:
    window = Window(0, 200 * MS_NS, 250 * MS_NS)
    add = event("add", 100, key=BODY, id="1")
    options = ["RETRY", "9", "TTL", "99"]
    job = JobOperation("c", "add", ["q"], [], BODY, options, 149 * MS_NS, 150 * MS_NS, "a")

    assert [gone.before_ms for gone in forget_events([add], [window])] == [99.0]
    copied = replace(job, options=[*options, "REPLICATE", "2"])
    assert forget_jobs([copied], [window]) == []
    assert copied.id == "a"
    assert [gone.before_ms for gone in forget_jobs([job], [window])] == [50.0]
    assert job.was_done is None


def test_an_outage_is_the_longest_time_without_a_good_answer() -> None:
    answers = [event("get", at_ms) for at_ms in (0, 10, 200, 210)]
    bad = event("get", 100, error="UNAVAILABLE")

    assert outages_ms([*answers, bad], until_ns=10**12) == {"q": 190.0}
