"""Was a job lost, doubled, brought back or changed? What many clients saw, checked as a whole.

Called by   kill_loop.py and redis_run.py, with the history that the clients of load_jobs.py wrote.
Calls       job_rounds.py (what a restart must not change).

Two kinds of checks: over the whole history, each job on its own (here); and from one snapshot to
the next, where every job must be what the last snapshot said, moved on by what was asked in
between and by time.

Not here: making a history (load_jobs.py), faults (kill_loop.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.faults.job_beliefs import JITTER_S, TOLERANCE_NS, Touch
from tests.faults.job_history import SECOND_NS, Adds, JobOperation, Snapshot, moved
from tests.faults.job_rounds import Round

FAULTS = (
    "acknowledged, then lost",
    "delivered, never sent",
    "sent once, stored twice",
    "acked, then there again",
    "RETRY 0, delivered twice",
    "delivered more often than allowed",
    "held by two at once",
    "there after its life",
    "other terms than were sent",
    "counters that are wrong",
    "another state or time than before",
    "queued, but not in the queue",
    "delivered by no known request",
    "one key, two jobs",
    "settings that are wrong",
    "counts that are wrong",
    "out of order",
    "not delivered in the end",
    "answered with an error",
)
# What may be answered while a queue is paused, and to who works on what has gone.
_ERRORS = {"add": ("PAUSED ",), "working": ("NOJOB ", "TOOLATE ")}


@dataclass(slots=True)
class JobVerdict:
    """Counts of what happened, and a line for each thing that must not."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: dict[str, list[str]] = field(
        default_factory=lambda: {fault: [] for fault in FAULTS}
    )

    def blame(self, fault: str, line: str) -> None:
        self.violations[fault].append(line)

    @property
    def is_good(self) -> bool:
        return not any(self.violations.values())


def check(
    history: list[JobOperation], snapshots: Sequence[Snapshot], brokers: int = 1
) -> JobVerdict:
    """The verdict on a history with a snapshot at the beginning, after each restart and at the end.

    The last two are before and after everything was drained. One broker's ctimes grow over all
    queues; those of several grow within each.
    """
    verdict = JobVerdict()
    history = sorted(history, key=lambda op: op.sent_ns)
    adds = Adds(history)
    touches = _touches(history)
    for op in history:
        _check_answer(op, verdict)
    for id, some in touches.items():
        _check_job(id, some, adds, verdict)
    _check_replies(history, adds, verdict)
    for before, after in pairwise(snapshots):
        ops = [op for op in history if before.sent_ns <= op.sent_ns < after.sent_ns]
        Round(before, after, ops, adds, verdict.blame).check()
    _check_stored(touches, adds, snapshots, verdict)
    _check_ctimes(adds, snapshots, brokers, verdict)
    if len(snapshots) > 1:
        _check_drained(history, snapshots[-2], snapshots[-1], verdict)
    _count(history, touches, snapshots, verdict)
    return verdict


def _touches(history: list[JobOperation]) -> dict[str, list[Touch]]:
    """What was done, or may have been, to each job, in the order it was asked for."""
    touches: dict[str, list[Touch]] = defaultdict(list)
    for op in history:
        for touch in Touch.all_of(op):
            touches[touch.id].append(touch)
    return touches


def _check_answer(op: JobOperation, verdict: JobVerdict) -> None:
    if op.error and not op.error.startswith(_ERRORS.get(op.verb, ("nothing",))):
        verdict.blame("answered with an error", f"{op.verb} {op.queues} {op.ids}: {op.error}")


def _check_job(id: str, touches: list[Touch], adds: Adds, verdict: JobVerdict) -> None:
    """Of one job: what was delivered was sent, and nothing of it comes back that must not."""
    gets = [touch for touch in touches if touch.verb == "get"]
    acks = [touch for touch in touches if touch.verb == "ack"]
    bodies = {touch.body for touch in gets}
    add = adds.find(next(iter(bodies), ""), id)
    if gets and (add is None or len(bodies) > 1):
        verdict.blame("delivered, never sent", f"{id} {sorted(bodies)}")
        return
    _check_acks(id, acks, gets, add, verdict)
    if add is None:
        return
    _check_hands(id, add, gets, touches, verdict)
    asked = Counter(touch.verb for touch in touches if touch.is_done is not False)
    known = sum(touch.is_done is True for touch in gets)
    limit = int(add.option("MAXDELIVERIES", "0"))
    if limit and known > limit * (1 + asked["redrive"]) + asked["enqueue"]:
        verdict.blame("delivered more often than allowed", f"{id} {known} times")
    if not asked["redrive"]:
        _check_nacks(id, touches, gets, verdict)


def _check_acks(
    id: str,
    acks: list[Touch],
    gets: list[Touch],
    add: JobOperation | None,
    verdict: JobVerdict,
) -> None:
    """Once it is acked it is neither delivered nor acked again; before that an ack finds it."""
    done = [ack for ack in acks if ack.is_done]
    for ack in done:
        for other in (*gets, *done):
            if other.sent_ns > ack.answered_ns:
                verdict.blame("acked, then there again", f"{id} {other.verb} by {other.op.client}")
    ends_ns = _ends_ns(add)
    if not any(get.is_done for get in gets) and (add is None or not add.answered_ns):
        return  # nobody is sure that it was kept
    for ack in acks:
        others = [
            other
            for other in acks
            if other is not ack and other.is_done is not False and other.sent_ns < ack.answered_ns
        ]
        if ack.is_done is False and not others and ack.answered_ns < ends_ns:
            verdict.blame("acknowledged, then lost", f"{id}: nothing there to ack")


def _check_hands(
    id: str,
    add: JobOperation,
    gets: list[Touch],
    touches: list[Touch],
    verdict: JobVerdict,
) -> None:
    """It is in one hand at a time until RETRY is over, and only ever in one if that is 0."""
    retry_s = add.seconds("RETRY")
    if not retry_s and sum(get.is_done is True for get in gets) > 1:
        verdict.blame("RETRY 0, delivered twice", f"{id} {len(gets)} times")
        return
    for earlier, later in pairwise(gets):
        ends_ns, _ = moved((earlier.sent_ns, 0), retry_s - JITTER_S)
        is_given_back = any(
            touch.verb in ("nack", "enqueue", "redrive")
            and touch.is_done is not False
            and touch.sent_ns < later.answered_ns
            and (not touch.answered_ns or touch.answered_ns > earlier.sent_ns)
            for touch in touches
        )
        if not earlier.is_done or not later.is_done:
            why = "it may be forgotten that it was delivered"
        elif later.sent_ns < earlier.answered_ns:
            why = "both were asked for at once"
        elif is_given_back:
            why = "it was given back"
        elif later.answered_ns >= ends_ns - TOLERANCE_NS:
            why = "its lease was over"
        else:
            why = "no reason"
            verdict.blame("held by two at once", f"{id} {earlier.op.client} {later.op.client}")
        verdict.counts[f"get delivered again: {why}"] += 1


def _check_nacks(id: str, touches: list[Touch], gets: list[Touch], verdict: JobVerdict) -> None:
    """A delivery tells of every nack that was answered before, and of none that was not sent."""
    nacks = [touch for touch in touches if touch.verb == "nack" and touch.is_done is not False]
    for get in gets:
        if not get.is_done:
            continue
        least = sum(bool(nack.is_done) and nack.answered_ns < get.sent_ns for nack in nacks)
        most = sum(nack.sent_ns < get.answered_ns for nack in nacks)
        if not least <= get.nacks <= most:
            verdict.blame("counters that are wrong", f"{id} nacks {get.nacks}: {least} to {most}")


def _check_replies(history: list[JobOperation], adds: Adds, verdict: JobVerdict) -> None:
    """What one reply holds of one queue is in the order in which it was added."""
    for op in history:
        newest_ns: dict[str, int] = defaultdict(int)
        for queue, id, body, *_ in op.rows if op.verb == "get" else ():
            add = adds.find(body, id)
            if add is None:
                continue
            if 0 < add.answered_ns < newest_ns[queue]:
                verdict.blame("out of order", f"{queue} {id} to {op.client}")
            newest_ns[queue] = max(newest_ns[queue], adds.first_sent_ns(body, id))


def _check_stored(
    touches: dict[str, list[Touch]],
    adds: Adds,
    snapshots: Sequence[Snapshot],
    verdict: JobVerdict,
) -> None:
    """Nothing is stored more often than it was sent."""
    ids: dict[str, set[str]] = defaultdict(set)
    for id, some in touches.items():
        for touch in some:
            if touch.verb == "get":
                ids[touch.body].add(id)
    for snapshot in snapshots:
        for view in snapshot.jobs.values():
            ids[view.body].add(view.id)
    for body, found in ids.items():
        verdict.counts["add repeated, stored again"] += len(found) - 1
        if adds.too_many(body, found) > 0:
            verdict.blame("sent once, stored twice", f"{body} as {sorted(found)}")


def _check_ctimes(
    adds: Adds, snapshots: Sequence[Snapshot], brokers: int, verdict: JobVerdict
) -> None:
    """A job's ctime stays, and is later than that of every job that was there when it was sent."""
    ctimes: dict[str, int] = {}
    known: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)  # when: sent, answered
    for snapshot in snapshots:
        for view in snapshot.jobs.values():
            if ctimes.setdefault(view.id, view.ctime) != view.ctime:
                verdict.blame("out of order", f"{view.id} has another ctime")
            if (add := adds.find(view.body, view.id)) is not None:
                sent_ns = adds.first_sent_ns(view.body, view.id)
                known["" if brokers == 1 else view.queue][view.id] = (sent_ns, add.answered_ns)
    for some in known.values():
        answered = sorted(
            (answer_ns, ctimes[id]) for id, (_, answer_ns) in some.items() if answer_ns
        )
        newest, at = 0, 0
        for id, (sent_ns, _) in sorted(some.items(), key=lambda pair: pair[1]):
            while at < len(answered) and answered[at][0] < sent_ns:
                newest = max(newest, answered[at][1])
                at += 1
            if ctimes[id] <= newest:
                verdict.blame("out of order", f"{id} has ctime {ctimes[id]}")


def _check_drained(
    history: list[JobOperation], before: Snapshot, after: Snapshot, verdict: JobVerdict
) -> None:
    """All that could be delivered was, once more, and then nothing was left."""
    delivered = {
        row[1]
        for op in history
        if op.verb == "get" and op.sent_ns > before.sent_ns
        for row in op.rows
    }
    for view in before.jobs.values():
        is_over = not view.retry_s and view.status == "active"
        may_end = view.end[0] < after.sent_ns
        if view.id not in delivered and not is_over and not may_end:
            verdict.blame("not delivered in the end", f"{view.queue} {view.id} {view.status}")
    for view in after.jobs.values():
        verdict.blame("not delivered in the end", f"{view.queue} {view.id} is left")


def _count(
    history: list[JobOperation],
    touches: dict[str, list[Touch]],
    snapshots: Sequence[Snapshot],
    verdict: JobVerdict,
) -> None:
    counts = verdict.counts
    for op in history:
        counts[f"{op.verb} sent"] += 1
        counts[f"{op.verb} indeterminate"] += not op.answered_ns
    for some in touches.values():
        gets = sum(touch.verb == "get" for touch in some)
        counts["get delivered"] += gets
        counts["get delivered again"] += max(0, gets - 1)
        counts["ack done"] += any(touch.verb == "ack" and touch.is_done for touch in some)
    for snapshot in snapshots:
        for view in snapshot.jobs.values():
            counts[f"seen {view.status} in a snapshot"] += 1
        for queue in snapshot.queues.values():
            counts["seen paused in a snapshot"] += queue.pause != "none"


def _ends_ns(add: JobOperation | None) -> float:
    """Before this the job has not expired."""
    if add is None:
        return float("inf")
    return add.sent_ns + add.seconds("TTL") * SECOND_NS - TOLERANCE_NS
