"""Operations that only jobs have, as requests in the commands of Disque.

Called by   aio/broker.py, through CALLS.
Calls       calls.py for the shape of a row, own_calls.py to peek into the other families.

Not here: adding, taking and finishing (work_calls.py).
"""

from __future__ import annotations

from typing import Any, Final

from quinque.client import own_calls
from quinque.client.calls import Call, Request, as_map, asks
from quinque.errors import BadArgument
from quinque.model.families import JOBS, Family
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ops import (
    AwaitEnd,
    Browse,
    Configure,
    Extend,
    FindKey,
    Hold,
    Purge,
    QueueView,
    Requeue,
    Show,
    Terms,
    WorkView,
)

_WORDS: Final = {
    State.READY: "queued",
    State.DELAYED: "delayed",
    State.LEASED: "active",
    State.DEAD: "dead",
}
_STATES: Final = {word.encode(): state for state, word in _WORDS.items()}


def _requeue(op: Requeue) -> list[Request]:
    _is_of_jobs(op, op.family)
    if not op.is_nack:
        word = "UNGETJOB" if op.is_uncounted else "ENQUEUE"
        unseen = [] if op.lease is None else ["UNSEEN"]
        return [[word, id, *unseen] for id in op.message_ids]
    words: list[bytes | str | int] = []
    if op.delay_ms:
        words += ["DELAY", f"{op.delay_ms // 1000}.{op.delay_ms % 1000:03}"]
    if op.reason:
        words += ["REASON", op.reason]
    if op.is_dead:
        words += ["DEAD"]
    return [["NACK", id, *words] for id in op.message_ids]


def _requeued(op: Requeue, replies: list[Any]) -> list[bool]:
    return [bool(reply) for reply in replies]


def _extend(op: Extend) -> Request:
    _is_of_jobs(op, op.family)
    return ["WORKING", op.message_id, *(["ANYTIME"] if op.is_anytime else [])]


def _extended(seconds: int) -> int:
    return seconds * 1000


def _configure(op: Configure) -> list[Request]:
    _is_of_jobs(op, op.family)
    if (op.is_paused_in is None) != (op.is_paused_out is None):
        raise BadArgument("PAUSE sets both, what comes in and what goes out")
    requests: list[Request] = []
    if op.is_paused_in is not None:
        words = [*(["in"] if op.is_paused_in else []), *(["out"] if op.is_paused_out else [])]
        requests.append(["PAUSE", op.queue, *(words or ["none"])])
    settings: list[bytes | str | int] = []
    if op.max_deliveries is not None:
        settings += ["MAXDELIVERIES", op.max_deliveries]
    if op.rate is not None:
        settings += ["RATE", op.rate[0], _whole_s(op.rate[1])]
    if op.partitions is not None:
        settings += ["PARTITIONS", op.partitions]
    if op.keeps_expired is not None:
        settings += ["EXPIRED", "dead" if op.keeps_expired else "delete"]
    if settings:
        requests.append(["QSET", op.queue, *settings])
    return [*requests, ["QSTAT", op.queue, "DETAILS"]]


def _configured(op: Configure, replies: list[Any]) -> QueueView | None:
    return queue_view(replies[-1])


def queue_view(reply: Any) -> QueueView | None:
    """Read the reply of QSTAT with DETAILS."""
    if reply is None:
        return None
    told = as_map(reply)
    return QueueView(
        queue=told[b"name"],
        ready=told[b"len"],
        delayed=told[b"delayed"],
        leased=told[b"active"],
        dead=told[b"dead"],
        age_ms=told[b"age"] * 1000,
        idle_ms=told[b"idle"] * 1000,
        came=told[b"jobs-in"],
        went=told[b"jobs-out"],
        is_paused_in=told[b"pause"] in (b"in", b"all"),
        is_paused_out=told[b"pause"] in (b"out", b"all"),
        max_deliveries=told[b"max-deliveries"],
        rate_count=told[b"rate-count"],
        rate_ms=told[b"rate-seconds"] * 1000,
        partitions=told.get(b"partitions", 1),
        keeps_expired=told.get(b"expired") == b"dead",
    )


def _browse(op: Browse) -> list[Request]:
    if op.family.owns_ids:
        return [own_calls.peek(op)]
    _is_of_jobs(op, op.family)
    return [["QPEEK", op.queue, op.count, "STATE", _WORDS[op.state]]]


def _browsed(op: Browse, replies: list[Any]) -> list[WorkView]:
    """Read the reply of QPEEK. Fields that it does not have, and SHOW has, are None."""
    if op.family.owns_ids:
        return [own_calls.item_view(op.queue, each) for each in replies[0]]
    views = []
    for queue, id, body, *pairs in replies[0]:
        told = as_map(pairs)
        views.append(
            WorkView(
                queue,
                id,
                body,
                op.state,
                place=None,
                terms=None,
                ttl_left_ms=None,
                due_within_ms=told.get(b"due-within"),
                nacks=told[b"nacks"],
                requeues=told[b"additional-deliveries"],
                deliveries=None,
                max_deliveries=None,
                reason=told.get(b"reason") or b"",
                key=None,
            )
        )
    return views


def _show(op: Show) -> list[Request]:
    if op.family.owns_ids:
        return [own_calls.show(op)]
    _is_of_jobs(op, op.family)
    return [["SHOW", op.message_id, "DETAILS"]]


def _shown(op: Show, replies: list[Any]) -> WorkView | None:
    [reply] = replies
    if reply is None:
        return None
    if op.family.owns_ids:
        return own_calls.item_view(op.queue, reply)
    told = as_map(reply)
    state = _STATES[told[b"status"]]
    has_due = state in (State.DELAYED, State.LEASED)
    return WorkView(
        told[b"queue"],
        told[b"id"],
        told[b"body"],
        state,
        place=told[b"ctime"] // 1000,
        terms=Terms(
            ttl_ms=0,
            delay_ms=told[b"delay"] * 1000,
            retry_ms=told[b"retry"] * 1000,
            max_deliveries=told[b"max-deliveries"],
            replicas=told[b"repl"],
        ),
        ttl_left_ms=told[b"ttl"] * 1000,
        due_within_ms=told[b"next-requeue-within"] if has_due else None,
        nacks=told[b"nacks"],
        requeues=told[b"additional-deliveries"],
        deliveries=told[b"deliveries"],
        max_deliveries=told[b"max-deliveries"],
        reason=told[b"reason"] or b"",
        key=told[b"key"],
    )


def _purge(op: Purge) -> Request:
    _is_of_jobs(op, op.family)
    states = ["STATE", *(_WORDS[State(state)] for state in op.states)] if op.states else []
    return ["QPURGE", op.queue, *(["FORGET"] if op.forgets else states)]


def _find_key(op: FindKey) -> Request:
    _is_of_jobs(op, op.family)
    return ["FINDJOB", op.queue, op.key]


def _whole_s(span_ms: int) -> int:
    """Return whole seconds, as Disque takes them, rounded up."""
    return -(-span_ms // 1000)


def _hold(op: Hold) -> list[Request]:
    _is_of_jobs(op, op.family)
    return [["DEQUEUE", id] for id in op.message_ids]


def _await_end(op: AwaitEnd) -> list[Request]:
    return _await_end_waiting(op, 1)


def _await_end_waiting(op: AwaitEnd, wait_ms: int) -> list[Request]:
    """Make a WAITJOB with at least 1 ms, because 0 means no limit."""
    _is_of_jobs(op, op.family)
    return [["WAITJOB", max(wait_ms, 1), *op.message_ids]]


def _first(op: Op, replies: list[Any]) -> Any:
    return replies[0]


def _as_it_is(reply: Any) -> Any:
    return reply


def _is_of_jobs(op: Op, family: Family) -> None:
    if family is not JOBS:
        raise BadArgument(f"{type(op).__name__} has no words for the family {family.name}")


CALLS: Final[dict[type[Op], Call]] = {
    # A repeat may find a job that was queued again meanwhile, and count it once more.
    Requeue: Call(_requeue, _requeued, is_safe=False),
    # The repeat finds it leased, and counts it as not queued.
    Hold: Call(_hold, _requeued, is_safe=True),
    # In both cases the lease is extended.
    Extend: asks(_extend, _extended, is_safe=True),
    # Setting a value twice changes nothing.
    Configure: Call(_configure, _configured, is_safe=True),
    # A repeat would also remove messages that were added meanwhile.
    Purge: asks(_purge, _as_it_is, is_safe=False),
    # These change nothing.
    AwaitEnd: Call(_await_end, _first, is_safe=True, waiting=_await_end_waiting),
    Browse: Call(_browse, _browsed, is_safe=True),
    Show: Call(_show, _shown, is_safe=True),
    FindKey: asks(_find_key, _as_it_is, is_safe=True),
}
