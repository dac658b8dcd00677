"""Was anything lost, doubled or invented? What many clients saw of a queue, checked as a whole.

Called by   kill_loop.py and redis_run.py, with what the clients of load_events.py wrote down.
Calls       nothing.

The check is Jepsen's total-queue, made stricter by what this broker promises. A history is a list
of operations; one that was sent and not answered is indeterminate: it may have taken effect or
not, and either is right. Times are of one monotonic clock, so "before" is meant literally: A is
before B when A was answered before B was sent.

An addition that got no answer may be repeated, and is then stored as often as it was, at most.

Not here: making a history (load_events.py), faults (kill_loop.py), jobs (job_checks.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

Verb = Literal["add", "get", "ack", "redo"]
View = tuple[str, str]  # a queue, and a group that reads it
Adds = dict[tuple[str, str], list["Operation"]]  # by queue and key

# The broker counts in whole milliseconds, and a restarted one reads the wall clock anew, which may
# have been set right meanwhile: by half a millisecond a second, or by a small step.
TOLERANCE_NS = 25_000_000
TAKEN = "ERR duplicate event "  # how a chosen id is refused that a message has


@dataclass(slots=True)
class Operation:
    """What a client sent, and what came back, if it did.

    verb   key              answer
    add    name of a body   id
    get    –                id and name of the body, or None for nothing
    ack    id               whether it was held
    redo   id               whether it was held
    """

    client: str
    verb: Verb
    queue: str
    group: str
    key: str
    span_s: float  # of a get, its lease; of an add, its life
    sent_ns: int
    answered_ns: int = 0  # 0: indeterminate
    id: str = ""
    body: str = ""
    was_done: bool = False
    error: str = ""

    @property
    def is_indeterminate(self) -> bool:
        return not self.answered_ns

    @property
    def was_delivered(self) -> bool:
        return self.verb == "get" and bool(self.id)


class Found(Protocol):
    """What a check of a family found."""

    counts: Counter[str]

    @property
    def violations(self) -> dict[str, list[str]]: ...


@dataclass(slots=True)
class Verdict:
    """Counts of what happened, and a line for each thing that must not."""

    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    stored_twice: list[str] = field(default_factory=list)
    came_back: list[str] = field(default_factory=list)
    in_two_hands: list[str] = field(default_factory=list)
    outlived: list[str] = field(default_factory=list)
    ids_went_back: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[str]]:
        return {
            "acknowledged, then lost": self.lost,
            "delivered, never sent": self.unexpected,
            "sent once, stored twice": self.stored_twice,
            "acked, then delivered again": self.came_back,
            "held by two at once": self.in_two_hands,
            "delivered after expiry": self.outlived,
            "ids that went back": self.ids_went_back,
            "delivered out of order": self.out_of_order,
            "answered with an error": self.refused,
        }

    @property
    def is_good(self) -> bool:
        return not any(self.violations.values())


def check(history: list[Operation], views: Iterable[View], brokers: int = 1) -> Verdict:
    """The verdict on a history that ends with every view drained.

    One broker's ids grow over all queues; those of several grow within each.
    """
    verdict = Verdict()
    adds = _adds(history, verdict)
    if brokers == 1:
        _check_ids(history, verdict)
    else:
        for name in {op.queue for op in history}:
            _check_ids([op for op in history if op.queue == name], verdict)
    for queue, group in views:
        ops = [op for op in history if op.queue == queue]
        gets = sorted(
            (op for op in ops if op.verb == "get" and op.group == group),
            key=lambda op: op.answered_ns,
        )
        deliveries = [op for op in gets if op.was_delivered]
        settled = [op for op in ops if op.verb in ("ack", "redo") and op.group == group]
        _check_origin(deliveries, adds, verdict)
        _check_lost(queue, group, adds, gets, verdict)
        _check_holds(deliveries, settled, adds, verdict)
        _check_order(queue, group, gets, verdict)
    _count(history, verdict)
    return verdict


def _adds(history: list[Operation], verdict: Verdict) -> Adds:
    """What was added, or may have been. That an id is taken is right if an addition before may have
    been done; all other errors are wrong."""
    adds: Adds = defaultdict(list)
    for op in sorted(history, key=lambda op: op.sent_ns):
        if op.verb != "add":
            is_wrong = bool(op.error)
        else:
            some = adds[op.queue, op.key]
            is_taken = op.error.startswith(TAKEN)
            is_wrong = bool(op.error) and not (
                is_taken and any(add.is_indeterminate for add in some)
            )
            some.append(op)
            if is_taken:
                op.id = op.key  # so it is there
        if is_wrong:
            verdict.refused.append(f"{op.verb} {op.queue} {op.key}: {op.error}")
    return adds


def _check_origin(deliveries: list[Operation], adds: Adds, verdict: Verdict) -> None:
    """What was delivered was sent, no more often than that, and not after its life."""
    unknown_of: dict[str, set[str]] = defaultdict(set)  # ids by body, that nobody was told of
    for get in deliveries:
        some = adds.get((get.queue, get.body), [])
        told = [add for add in some if add.id == get.id]
        untold = [add for add in some if add.is_indeterminate]
        if not told and not untold:
            verdict.unexpected.append(f"{get.queue} {get.id} {get.body!r}")
            continue
        if not told and get.id not in unknown_of[get.body]:
            unknown_of[get.body].add(get.id)
            if len(unknown_of[get.body]) > len(untold):
                verdict.stored_twice.append(f"{get.queue} {get.body} as {get.id}")
        for add in told:
            ends_ns = add.answered_ns + _ns(add.span_s) + TOLERANCE_NS
            if add.span_s and get.sent_ns > ends_ns:
                verdict.outlived.append(f"{get.queue} {get.id}")


def _check_lost(
    queue: str,
    group: str,
    adds: Adds,
    gets: list[Operation],
    verdict: Verdict,
) -> None:
    """What was acknowledged reached the group.

    A get that needs no ack and whose answer was lost took its message along: that is what it asked
    for. So many may be missing, and no more.
    """
    seen = {op.body for op in gets if op.was_delivered}
    missing = [
        add
        for some in adds.values()
        for add in some
        if add.queue == queue and add.answered_ns and add.key not in seen and not _is_brief(add)
    ]
    taken = sum(op.is_indeterminate and not op.span_s for op in gets)
    verdict.counts["taken along by a lost answer"] += min(len(missing), taken)
    if len(missing) > taken:
        verdict.lost += [f"{queue} {group} {add.id}" for add in missing]


def _check_holds(
    deliveries: list[Operation], settled: list[Operation], adds: Adds, verdict: Verdict
) -> None:
    """A message is in one hand at a time until its lease ends, and never again once acked."""
    of_id: dict[str, list[Operation]] = defaultdict(list)
    for get in deliveries:
        of_id[get.id].append(get)
    acked_ns: dict[str, list[int]] = defaultdict(list)
    for op in settled:
        if op.verb == "ack" and op.was_done:
            acked_ns[op.key].append(op.answered_ns)
    given_back = {op.key for op in settled if op.verb == "redo"}
    for id, gets in of_id.items():
        for get in gets:
            acks = sum(done_ns < get.sent_ns for done_ns in acked_ns[id])
            if acks and acks >= _lives(get, adds):
                verdict.came_back.append(f"{get.queue} {get.group} {id}")
        for earlier, later in pairwise(gets):
            ends_ns = earlier.sent_ns + _ns(earlier.span_s) - TOLERANCE_NS
            if later.sent_ns < earlier.answered_ns:
                why = "both were asked for at once"
            elif earlier.span_s and id in given_back:
                why = "it was given back"
            elif earlier.span_s and later.answered_ns >= ends_ns:
                why = "its lease was over"
            elif _is_new(later, earlier.answered_ns, adds):
                why = "it was added again"
            else:
                why = "no reason"
                is_lease = earlier.span_s > 0
                found = verdict.in_two_hands if is_lease else verdict.came_back
                found.append(f"{later.queue} {later.group} {id}")
            verdict.counts[f"get delivered again: {why}"] += 1


def _lives(get: Operation, adds: Adds) -> int:
    """How often the message may have been added under its id; more than once only if it was chosen
    and the addition was repeated."""
    some = adds.get((get.queue, get.body), [])
    return max(1, sum(add.key == get.id and not add.error for add in some))


def _is_new(get: Operation, since_ns: int, adds: Adds) -> bool:
    """Whether what was delivered may have been added since then, once more under its id."""
    some = adds.get((get.queue, get.body), [])
    return _lives(get, adds) > 1 and any(
        add.key == get.id and not add.error and (add.is_indeterminate or add.answered_ns > since_ns)
        for add in some
    )


def _check_order(queue: str, group: str, gets: list[Operation], verdict: Verdict) -> None:
    """Each client meets new messages in the order of their ids.

    One that comes late was given out before, in an answer that was lost: so many may, and no more.
    """
    sent_ns: dict[str, list[int]] = defaultdict(list)
    for get in gets:
        sent_ns[get.id].append(get.sent_ns)
    newest: dict[str, int] = defaultdict(int)
    late: list[str] = []
    for get in gets:
        # Who had it before others asked met it first; of two who asked at once, either may have.
        if not get.id.isdigit() or sum(it < get.answered_ns for it in sent_ns[get.id]) > 1:
            continue
        if int(get.id) < newest[get.client]:
            late.append(f"{queue} {group} {get.id} to {get.client}")
        newest[get.client] = max(newest[get.client], int(get.id))
    if len(late) > sum(op.is_indeterminate for op in gets):
        verdict.out_of_order += late


def _check_ids(history: list[Operation], verdict: Verdict) -> None:
    """An id is larger than every one that was known before its message was sent."""
    adds = [op for op in history if op.verb == "add" and op.id.isdigit()]
    answered = iter(sorted(adds, key=lambda op: op.answered_ns))
    known = next(answered, None)
    newest = 0
    for add in sorted(adds, key=lambda op: op.sent_ns):
        while known is not None and known.answered_ns < add.sent_ns:
            newest = max(newest, int(known.id))
            known = next(answered, None)
        if int(add.id) <= newest:
            verdict.ids_went_back.append(f"{add.id} after {newest}")


def _count(history: list[Operation], verdict: Verdict) -> None:
    for op in history:
        verdict.counts[f"{op.verb} sent"] += 1
        verdict.counts[f"{op.verb} indeterminate"] += op.is_indeterminate
    deliveries = Counter((op.queue, op.group, op.id) for op in history if op.was_delivered)
    verdict.counts["get delivered"] = deliveries.total()
    verdict.counts["get delivered again"] = deliveries.total() - len(deliveries)
    verdict.counts["ack done"] = sum(op.verb == "ack" and op.was_done for op in history)
    unknown = {(op.queue, op.key) for op in history if op.verb == "add" and not op.answered_ns}
    found = {(op.queue, op.body) for op in history if op.was_delivered}
    verdict.counts["add indeterminate, delivered"] = len(unknown & found)
    stored = {(op.queue, op.body, op.id) for op in history if op.was_delivered}
    verdict.counts["add repeated, stored again"] = len(stored) - len(found)


def _is_brief(add: Operation) -> bool:
    """Whether it may rightly have expired before anyone came for it."""
    return 0 < add.span_s < 60


def _ns(span_s: float) -> int:
    return round(span_s * 1e9)


def lines(verdict: Found) -> Iterator[str]:
    """The verdict as a table for people."""
    for what, count in sorted(verdict.counts.items()):
        yield f"  {what:<52}{count:>8}"
    for what, found in verdict.violations.items():
        yield f"  {what:<52}{len(found):>8}"
