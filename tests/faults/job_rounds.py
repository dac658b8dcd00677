"""From one snapshot of all jobs to the next: what may have become of each.

Called by   job_checks.py, for each pair of snapshots.
Calls       job_beliefs.py (what follows from what was done last).

    snapshot ── clients ask ── SIGKILL ── restart ── snapshot

A job that nobody touched is exactly what it was, unless its time came. Where the last thing done
to a job is known, its state follows from that; where it is not (two at once, or an answer that was
lost), its counters are at least what was acknowledged and at most what was asked for.

Not here: what must hold over the whole history (job_checks.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from tests.faults.job_beliefs import JITTER_S, TOLERANCE_NS, Case, Touch, overlap
from tests.faults.job_history import (
    SECOND_NS,
    Adds,
    JobOperation,
    JobView,
    QueueView,
    Snapshot,
    Verb,
    moved,
)


class Round:
    """What was asked between two snapshots, and `blame` to say what does not fit."""

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        ops: list[JobOperation],
        adds: Adds,
        blame: Callable[[str, str], None],
    ) -> None:
        self._before = before
        self._after = after
        self._ops = ops
        self._adds = adds
        self._blame = blame
        self._touches: dict[str, list[Touch]] = defaultdict(list)
        for op in ops:
            for touch in Touch.all_of(op):
                self._touches[touch.id].append(touch)
        self._lost = [op for op in ops if op.verb == "get" and not op.answered_ns]
        self._unseen: Counter[str] = Counter()  # deliveries whose answers were lost, by queue
        self._seen: Counter[str] = Counter(
            row[0] for op in ops if op.verb == "get" and op.answered_ns for row in op.rows
        )

    def check(self) -> None:
        added = {op.id: op for op in self._ops if op.verb == "add" and op.id}
        for id in {**self._before.jobs, **added}:
            if id not in self._after.jobs:
                self._check_gone(id, added.get(id))
        for view in self._after.jobs.values():
            self._check_there(view)
        self._check_unseen()
        self._check_keys()
        for queue, found in self._after.queues.items():
            self._check_queue(queue, found, self._before.queues.get(queue))

    # -- one job ---------------------------------------------------------------------------------

    def _check_gone(self, id: str, add: JobOperation | None) -> None:
        if any(touch.verb == "ack" and touch.is_done is not False for touch in self._touches[id]):
            return
        view = self._before.jobs.get(id)
        if view is not None:
            ends_ns = view.end[0]
        else:
            assert add is not None
            ends_ns = add.sent_ns + add.seconds("TTL") * SECOND_NS
        if ends_ns > self._after.answered_ns + TOLERANCE_NS:
            self._blame("acknowledged, then lost", f"{id} {view or add}")

    def _check_there(self, view: JobView) -> None:
        before = self._before.jobs.get(view.id)
        add = self._adds.find(view.body, view.id)
        if add is None:
            self._blame("delivered, never sent", f"{view}")
            return
        touches = self._touches[view.id]
        if before is None and add.sent_ns < self._before.sent_ns:
            self._blame("acked, then there again", f"{view}")
        if any(touch.verb == "ack" and touch.is_done for touch in touches):
            self._blame("acked, then there again", f"{view}")
            return
        lost_ns = [op.sent_ns for op in self._lost if view.queue in op.queues]
        case = Case(view, before, add, touches, lost_ns, self._after.sent_ns)
        self._check_terms(case)
        self._check_counters(case)
        beliefs = list(case.beliefs())
        if beliefs and not any(belief.fits(view) for belief in beliefs):
            self._blame("another state or time than before", f"{view} is none of {beliefs}")

    def _check_terms(self, case: Case) -> None:
        view, add = case.view, case.add
        sent = (add.queues[0], add.seconds("RETRY"), add.seconds("DELAY"), add.option("ID"))
        if sent != (view.queue, view.retry_s, view.delay_s, view.key):
            self._blame("other terms than were sent", f"{view}: {sent}")
        if add.option("MAXDELIVERIES", str(view.max_deliveries)) != str(view.max_deliveries):
            self._blame("other terms than were sent", f"{view}: {add.options}")
        if view.status == "dead" or any(touch.verb == "redrive" for touch in case.touches):
            return
        end = moved(case.added, add.seconds("TTL"))
        if case.before is not None:
            end = case.before.end
        if end[1] + TOLERANCE_NS < view.sent_ns:
            self._blame("there after its life", f"{view}")
        elif not overlap(end, view.end):
            self._blame("other terms than were sent", f"{view}: ends {end}")

    def _check_counters(self, case: Case) -> None:
        view, before = case.view, case.before
        done = Counter(touch.verb for touch in case.touches if touch.is_done)
        maybe = Counter(touch.verb for touch in case.touches if touch.is_done is None)
        nacks, requeues, deliveries = (
            (before.nacks, before.requeues, before.deliveries) if before is not None else (0, 0, 0)
        )
        is_redriven = bool(done["redrive"] or maybe["redrive"])
        least = 0 if is_redriven else nacks + done["nack"]
        most = nacks + done["nack"] + maybe["nack"]
        if not least <= view.nacks <= most:
            self._blame("counters that are wrong", f"{view}: nacks {least} to {most}")
        least = 0 if is_redriven else requeues
        most = requeues + done["enqueue"] + maybe["enqueue"] + self._lapses(view, case.add)
        if not least <= view.requeues <= most:
            self._blame("counters that are wrong", f"{view}: requeues {least} to {most}")
        if is_redriven:
            return
        unseen = view.deliveries - deliveries - done["get"]
        if unseen < 0:
            self._blame("counters that are wrong", f"{view}: {done['get']} more were seen")
        self._unseen[view.queue] += unseen

    def _lapses(self, view: JobView, add: JobOperation) -> int:
        """How often at most the job can have come back by itself in this round."""
        lease_s = view.retry_s - JITTER_S
        if lease_s < 0 or view.answered_ns < add.sent_ns + lease_s * SECOND_NS - TOLERANCE_NS:
            return 0
        return 1 + int((view.answered_ns - self._before.sent_ns) / (lease_s * SECOND_NS))

    # -- all jobs and queues ---------------------------------------------------------------------

    def _check_unseen(self) -> None:
        """So many deliveries may be unknown as answers were lost, and no more."""
        for queue, unseen in self._unseen.items():
            room = self._room(queue)
            if unseen > room:
                self._blame("delivered by no known request", f"{queue}: {unseen} over {room}")

    def _room(self, queue: str) -> int:
        """How many deliveries of a queue nobody may have seen: of answers that were lost."""
        return sum(op.seconds("COUNT") for op in self._lost if queue in op.queues)

    def _check_keys(self) -> None:
        """While a job lives its key is its own."""
        living: dict[tuple[str, str], str] = {}
        for view in self._after.jobs.values():
            if view.key and view.status != "dead":
                if (view.queue, view.key) in living:
                    self._blame("one key, two jobs", f"{view}")
                living[view.queue, view.key] = view.id
        if living != self._after.keys:
            self._blame("one key, two jobs", f"{living} {self._after.keys}")
        for (queue, key), id in self._before.keys.items():
            if any(touch.is_done is not False for touch in self._touches[id]):
                continue
            for op in self._ops:
                if op.id and op.queues == [queue] and op.option("ID") == key and op.id != id:
                    self._blame("one key, two jobs", f"{queue} {key}: {op.id} while {id} lived")

    def _check_queue(self, queue: str, now: QueueView, then: QueueView | None) -> None:
        then = then or QueueView(0, 0, "none", 0, "0 0", [])
        pauses = [(op, op.options[0]) for op in self._ops_on(queue, "pause")]
        self._check_setting(queue, then.pause, now.pause, pauses)
        sets = self._ops_on(queue, "set")
        limits = [(op, op.option("MAXDELIVERIES")) for op in sets if "MAXDELIVERIES" in op.options]
        self._check_setting(queue, str(then.max_deliveries), str(now.max_deliveries), limits)
        rates = [(op, " ".join(op.options[-2:])) for op in sets if "RATE" in op.options]
        self._check_setting(queue, then.rate, now.rate, rates)
        room = self._room(queue)
        if not 0 <= now.jobs_out - then.jobs_out - self._seen[queue] <= room:
            seen = f"{self._seen[queue]} seen, {room} lost"
            self._blame("counts that are wrong", f"{queue} {then.jobs_out} {now.jobs_out} {seen}")
        came = {
            op.id
            for op in self._ops_on(queue, "add")
            if op.id and not op.seconds("DELAY") and op.id not in self._before.jobs
        }
        if now.jobs_in < then.jobs_in + len(came):
            self._blame("counts that are wrong", f"{queue} {then.jobs_in} {now.jobs_in}")
        self._check_order(queue, now.peeked)

    def _check_setting(
        self, queue: str, then: str, now: str, writes: list[tuple[JobOperation, str]]
    ) -> None:
        """It is what was set last, or may have been."""
        answered = [op for op, _ in writes if op.answered_ns]
        possible = {
            value
            for op, value in writes
            if not op.answered_ns or all(other.sent_ns <= op.answered_ns for other in answered)
        }
        if not answered:
            possible.add(then)
        if now not in possible:
            self._blame("settings that are wrong", f"{queue} {now}: {sorted(possible)}")

    def _check_order(self, queue: str, peeked: list[str]) -> None:
        """What is queued is in the queue, by its ctime."""
        ctimes = [self._after.jobs[id].ctime for id in peeked if id in self._after.jobs]
        if ctimes != sorted(ctimes):
            self._blame("out of order", f"{queue} {peeked}")
        there = set(peeked)
        # A look at large jobs ends before the last one.
        last = max(ctimes, default=0)
        for view in self._after.jobs.values():
            if view.queue != queue or view.status != "queued" or view.id in there:
                continue
            if (view.ctime < last or not peeked) and view.end[0] > self._after.answered_ns:
                self._blame("queued, but not in the queue", f"{view}")

    def _ops_on(self, queue: str, verb: Verb) -> list[JobOperation]:
        return [op for op in self._ops if op.verb == verb and op.queues == [queue]]
