"""Answers that say little, and writes that a failover may have forgotten, as the checks know them.

Called by   redis_run.py, with what clients wrote down, before it is checked.
Calls       stores/redis/keys.py (which slot an operation was about).

    NOTDONE      nothing was changed: as if it had not been sent. What it did nevertheless is found:
                 a message that nobody sent, an ack of nothing, a delivery to nobody
    UNAVAILABLE  nobody knows: as if there had been no answer
    NOREPL       too few copies; what was stored is taken back if it can be: nobody knows

A replica that takes over knows nothing of what its primary was told last and could not pass on. A
write of that window was done, and may be undone: as if there had been no answer, only that what it
delivered was delivered.

Not here: the checks (total_queue.py, job_checks.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from quinque.stores.redis.keys import SLOTS, slot_of, slot_of_id
from tests.faults.job_history import JobOperation
from tests.faults.total_queue import Operation

UNKNOWN = ("UNAVAILABLE ", "NOREPL ")
NOT_DONE = "NOTDONE "
OVER_AT_ONCE_S = 1e-9  # a lease that is forgotten ends when the failover comes

AnyOperation = TypeVar("AnyOperation", Operation, JobOperation)


@dataclass(frozen=True)
class Window:
    """What was written to these slots may be forgotten, unless it asked for a replica: what was
    answered no sooner than `from_ns`, when all was kept, and sent no later than `to_ns`, when
    nothing more could be done that is not. When it is answered says nothing of when it was done: a
    broker that stands still passes it on late."""

    from_ns: int
    struck_ns: int
    to_ns: int
    slots: frozenset[int] = frozenset(range(SLOTS))

    def holds(self, op: Operation | JobOperation) -> bool:
        if op.answered_ns < self.from_ns or op.sent_ns > self.to_ns:
            return False
        if isinstance(op, JobOperation) and op.option("REPLICATE"):
            return False  # a replica had it before it was answered
        return bool(self.slots & set(_slots(op)))


@dataclass(frozen=True)
class Gone:
    """An addition that was acknowledged and then forgotten."""

    queue: str
    id: str
    before_ms: float  # so long before the fault it was answered


def count_answers(history: Iterable[Operation | JobOperation]) -> Counter[str]:
    """How many additions were acknowledged; and how often each kind of trouble was answered."""
    counts: Counter[str] = Counter()
    for op in history:
        if op.error.startswith((*UNKNOWN, NOT_DONE)):
            counts[f"{op.verb} answered {op.error.split()[0]}"] += 1
        elif op.verb == "add" and op.id:
            counts["add acknowledged"] += 1
    return counts


def without_trouble(history: Sequence[AnyOperation]) -> list[AnyOperation]:
    """What is left to check when trouble was taken for what it means."""
    left = []
    for op in history:
        if op.error.startswith(NOT_DONE):
            continue
        if op.error.startswith(UNKNOWN):
            op.answered_ns, op.error = 0, ""
        left.append(op)
    return left


def forget_events(history: Sequence[Operation], windows: Sequence[Window]) -> list[Gone]:
    """What was answered in a window may have been undone; the additions that were."""
    delivered = {(op.queue, op.id) for op in history if op.was_delivered}
    gone = []
    for op in history:
        window = next((one for one in windows if one.holds(op)), None)
        if window is None:
            continue
        match op.verb:
            case "add":
                if (op.queue, op.id) not in delivered and op.id and _is_lasting(op.span_s):
                    gone.append(Gone(op.queue, op.id, (window.struck_ns - op.answered_ns) / 1e6))
                op.answered_ns, op.id = 0, ""
            case "get":
                op.span_s = OVER_AT_ONCE_S
            case _:
                op.was_done = False
    return gone


def forget_jobs(history: Sequence[JobOperation], windows: Sequence[Window]) -> list[Gone]:
    """What was answered in a window may have been undone; the additions that were."""
    seen = {row[1] for op in history for row in op.rows}
    seen |= {id for op in history if op.was_done for id in op.ids}
    gone = []
    for op in history:
        window = next((one for one in windows if one.holds(op)), None)
        if window is None:
            continue
        is_kept = op.seconds("RETRY") > 0 and _is_lasting(op.seconds("TTL"))
        if op.verb == "add" and op.id and op.id not in seen and is_kept:
            gone.append(Gone(op.queues[0], op.id, (window.struck_ns - op.answered_ns) / 1e6))
        op.answered_ns, op.id, op.number = 0, "", -1
    return gone


def outages_ms(history: Iterable[Operation | JobOperation], until_ns: int) -> dict[str, float]:
    """For each queue the longest time in which nothing that was asked of it was answered well."""
    answers: dict[str, list[int]] = defaultdict(list)
    for op in history:
        queues = [op.queue] if isinstance(op, Operation) else op.queues
        if op.answered_ns and not op.error and op.answered_ns <= until_ns:
            for queue in queues:
                answers[queue].append(op.answered_ns)
    return {
        queue: max((later - earlier for earlier, later in pairwise(sorted(times))), default=0) / 1e6
        for queue, times in answers.items()
    }


def _slots(op: Operation | JobOperation) -> Iterable[int]:
    if isinstance(op, Operation):
        return [slot_of(op.queue.encode())]
    names = [slot_of(queue.encode()) for queue in op.queues]
    return names + [slot_of_id(id.encode()) for id in op.ids]


def _is_lasting(life_s: float) -> bool:
    """Whether it cannot have expired in a run; 0 is for ever."""
    return not 0 < life_s < 60
