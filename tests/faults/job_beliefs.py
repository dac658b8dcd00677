"""What a job must be after what was done to it last, and after some time.

Called by   job_rounds.py, for each job of a snapshot.
Calls       job_history.py.

Not here: counters and terms, which are checked whatever was done (job_rounds.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from quinque.model.limits import JITTER_MS
from tests.faults.job_history import (
    NEVER_NS,
    JobOperation,
    JobView,
    Span,
    Status,
    Verb,
    moved,
)

JITTER_S = JITTER_MS / 1000
# The broker counts in whole milliseconds, and a restarted one reads the wall clock anew, which may
# have been set right meanwhile: by half a millisecond a second, or by a small step.
TOLERANCE_NS = 25_000_000


@dataclass(frozen=True)
class Touch:
    """One operation on one job. None: it may have been done."""

    id: str
    op: JobOperation
    is_done: bool | None
    body: str = ""  # of a get, as its counters
    nacks: int = 0
    requeues: int = 0

    @classmethod
    def all_of(cls, op: JobOperation) -> Iterator[Touch]:
        """The operation, once for each job it names or was given. One whose answer is known though
        it counts as unanswered may have been forgotten since."""
        if op.verb == "get":
            for _, id, body, nacks, requeues in op.rows:
                yield cls(id, op, True if op.answered_ns else None, body, nacks, requeues)
        for id in op.ids:
            yield cls(id, op, op.was_done)

    @property
    def verb(self) -> Verb:
        return self.op.verb

    @property
    def sent_ns(self) -> int:
        return self.op.sent_ns

    @property
    def answered_ns(self) -> int:
        return self.op.answered_ns


@dataclass(frozen=True)
class Belief:
    """What a job is until its time comes. None: it may be anything."""

    status: Status
    due: Span | None = None
    reason: str | None = None
    nacks: int | None = None
    requeues: int | None = None

    def fits(self, view: JobView) -> bool:
        return (
            self.status == view.status
            and overlap(self.due, view.due)
            and self.reason in (None, view.reason)
            and self.nacks in (None, view.nacks)
            and self.requeues in (None, view.requeues)
        )


@dataclass(frozen=True)
class Case:
    """A job after a round: what it is, what it was, how it was added and what was done to it.

    `lost_ns` are when those asked for jobs of its queue who got no answer; the broker ended at
    `killed_ns`.
    """

    view: JobView
    before: JobView | None
    add: JobOperation
    touches: list[Touch]
    lost_ns: list[int]
    killed_ns: int

    def beliefs(self) -> Iterator[Belief]:
        """What the job may be; nothing when that is not known."""
        effective = [touch for touch in self.touches if touch.is_done is not False]
        if any(touch.is_done is None for touch in effective):
            return
        last = max(effective, key=lambda touch: touch.sent_ns, default=None)
        if last is None:
            some = [self._first()]
        elif any(touch.answered_ns > last.sent_ns for touch in effective if touch is not last):
            return
        else:
            some = list(self._after(last))
        if self.lost_ns and self.view.deliveries > self._known_deliveries(effective):
            some.append(self._leased((min(self.lost_ns), self.killed_ns)))
        for belief in some:
            yield from self._moved_on(belief)

    @property
    def added(self) -> Span:
        return self.add.sent_ns, self.add.answered_ns or self.killed_ns

    def _known_deliveries(self, touches: list[Touch]) -> int:
        """How many somebody knows of, since the job was added or redriven."""
        deliveries = 0 if self.before is None else self.before.deliveries
        for touch in touches:
            if touch.verb == "redrive":
                deliveries = 0
            deliveries += touch.verb == "get"
        return deliveries

    def _first(self) -> Belief:
        """As it was, or as it was added."""
        was = self.before
        if was is not None:
            return Belief(was.status, was.due, was.reason, was.nacks, was.requeues)
        if delay_s := self.add.seconds("DELAY"):
            return Belief("delayed", moved(self.added, delay_s), "", 0, 0)
        return Belief("queued", None, "", 0, 0)

    def _after(self, last: Touch) -> Iterator[Belief]:
        match last.verb:
            case "get":
                held = self._leased(last.op.span)
                yield replace(held, nacks=last.nacks, requeues=last.requeues)
            case "working":
                yield self._leased(last.op.span)
            case "enqueue":
                yield Belief("queued")
            case "redrive":
                yield Belief("queued", None, "", 0, 0)
            case "nack":
                reason = last.op.option("REASON")
                if self._may_be_dead:
                    yield Belief("dead", None, reason or "nacked")
                if self._may_come_back:
                    delay_s = last.op.seconds("DELAY")
                    due = moved(last.op.span, delay_s) if delay_s else None
                    yield Belief("delayed" if delay_s else "queued", due, reason)
            case _:
                raise AssertionError(f"{last.verb} leaves nothing to believe in")

    def _leased(self, at: Span) -> Belief:
        retry_s = self.view.retry_s
        return Belief("active", moved(at, retry_s, JITTER_S) if retry_s else None)

    def _moved_on(self, belief: Belief) -> Iterator[Belief]:
        """The same a while later: it is as it was, or its time has come, or either may be."""
        due = belief.due
        if due is None:
            yield belief
            return
        if self.view.sent_ns <= due[1] + TOLERANCE_NS:
            yield belief
        if self.view.answered_ns < due[0] - TOLERANCE_NS:
            return
        if self._is_of_changing_queue:  # paused, it waits for another RETRY
            yield replace(belief, due=(due[0], NEVER_NS))
        if belief.status == "delayed":
            yield replace(belief, status="queued", due=None)
            return
        if self._may_be_dead:
            yield replace(belief, status="dead", due=None, reason="lapsed")
        if self._may_come_back:
            requeues = None if belief.requeues is None else belief.requeues + 1
            yield replace(belief, status="queued", due=None, requeues=requeues)

    @property
    def _is_of_changing_queue(self) -> bool:
        return self.view.queue == "changing"

    @property
    def _may_be_dead(self) -> bool:
        limit = int(self.add.option("MAXDELIVERIES", "0"))
        return self._is_of_changing_queue or 0 < limit <= self.view.deliveries

    @property
    def _may_come_back(self) -> bool:
        limit = int(self.add.option("MAXDELIVERIES", "0"))
        return self._is_of_changing_queue or not 0 < limit <= self.view.deliveries


def overlap(one: Span | None, other: Span | None) -> bool:
    """Whether the two may be the same instant, or both none."""
    if one is None or other is None:
        return one is other
    return one[0] <= other[1] + TOLERANCE_NS and other[0] <= one[1] + TOLERANCE_NS
