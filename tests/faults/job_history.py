"""What clients of the jobs family did, and what was there when nobody did anything.

Called by   load_jobs.py and job_looks.py (write it), job_checks.py (reads it).
Calls       nothing.

An operation that was sent and not answered is indeterminate. A snapshot is taken after each
restart, before any client connects, so whatever was indeterminate has happened by then or never
will. Times are of one monotonic clock.

Not here: what must hold (job_checks.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Verb = Literal["add", "get", "ack", "nack", "enqueue", "working", "redrive", "peek", "pause", "set"]
Status = Literal["queued", "delayed", "active", "dead"]
Span = tuple[int, int]  # an instant is not before the first, and not after the second, in ns

SECOND_NS = 10**9
NEVER_NS = 1 << 62


@dataclass(slots=True)
class JobOperation:
    """What a client sent, and what came back, if it did.

    verb      asked with             answer
    add       queue, body, options   id
    get       queues, options        rows: [queue, id, body, nacks, additional deliveries]
    peek      queue                  rows, of dead jobs
    working   id                     number of seconds
    pause     queue, options
    set       queue, options
    others    ids, options           number of those it was done to
    """

    client: str
    verb: Verb
    queues: list[str]
    ids: list[str]
    body: str
    options: list[str]
    sent_ns: int
    answered_ns: int = 0  # 0: indeterminate
    id: str = ""
    number: int = -1
    rows: list[list[Any]] = field(default_factory=list)
    error: str = ""

    def option(self, word: str, default: str = "") -> str:
        """What was sent after that word."""
        if word not in self.options:
            return default
        return self.options[self.options.index(word) + 1]

    def seconds(self, word: str) -> int:
        return int(self.option(word, "0"))

    @property
    def was_done(self) -> bool | None:
        """Whether it was done to all of its ids; None when that is unknown."""
        if self.error:
            return False
        if not self.answered_ns:
            return None
        if self.verb == "working":
            return True
        return {0: False, len(self.ids): True}.get(self.number)

    @property
    def span(self) -> Span:
        """When it took effect, if it is answered."""
        return self.sent_ns, self.answered_ns


class Adds:
    """Additions that were done or may have been, by body. One that was repeated, because it got no
    answer, may be stored as often as it was sent."""

    def __init__(self, history: Iterable[JobOperation]) -> None:
        self._of_body: dict[str, list[JobOperation]] = defaultdict(list)
        for op in history:
            if op.verb == "add" and not op.error:
                self._of_body[op.body].append(op)

    def find(self, body: str, id: str) -> JobOperation | None:
        """The addition that was answered with the id; else one that was not answered."""
        some = self._of_body.get(body, [])
        told = (add for add in some if add.id == id)
        untold = (add for add in some if not add.answered_ns)
        return next(told, None) or next(untold, None)

    def first_sent_ns(self, body: str, id: str) -> int:
        """The earliest time at which the job can have been stored. An add that has a unique key and
        was repeated, because it got no answer, is answered with the id that its first try made."""
        some = self._of_body.get(body, [])
        return min(add.sent_ns for add in some if add.id == id or not add.answered_ns)

    def too_many(self, body: str, ids: Iterable[str]) -> int:
        """So many of these ids are more than were answered or may not have been."""
        some = self._of_body.get(body, [])
        if not some:
            return 0  # never sent, which is another fault
        told = {add.id for add in some}
        return len(set(ids) - told) - sum(not add.answered_ns for add in some)


@dataclass(slots=True)
class JobView:
    """A job as SHOW … DETAILS told of it."""

    id: str
    queue: str
    body: str
    status: Status
    ctime: int
    delay_s: int
    retry_s: int
    ttl_s: int  # that it has left
    nacks: int
    requeues: int
    deliveries: int
    max_deliveries: int
    reason: str
    key: str
    due_within_ms: int | None
    sent_ns: int
    answered_ns: int

    @property
    def due(self) -> Span | None:
        """When it is queued next, if it is not queued."""
        if self.due_within_ms is None or self.status == "queued":
            return None
        return moved((self.sent_ns, self.answered_ns), self.due_within_ms / 1000)

    @property
    def end(self) -> Span:
        """When its life ends; SHOW rounds that up to seconds."""
        if self.status == "dead":
            return NEVER_NS, NEVER_NS
        return (
            self.sent_ns + (self.ttl_s - 1) * SECOND_NS,
            self.answered_ns + self.ttl_s * SECOND_NS,
        )


@dataclass(slots=True)
class QueueView:
    """A queue as QSTAT … DETAILS and QPEEK told of it."""

    jobs_in: int
    jobs_out: int
    pause: str
    max_deliveries: int
    rate: str  # as QSET takes it: number and seconds
    peeked: list[str]  # ids, in the queue's order


@dataclass(slots=True)
class Snapshot:
    """Everything, while nobody did anything."""

    sent_ns: int
    answered_ns: int
    jobs: dict[str, JobView] = field(default_factory=dict)
    queues: dict[str, QueueView] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)  # (queue, key): id


def moved(span: Span, by_s: float, give_s: float = 0.0) -> Span:
    """So much later, and so much less sure."""
    return (
        span[0] + round((by_s - give_s) * SECOND_NS),
        span[1] + round((by_s + give_s) * SECOND_NS),
    )
