"""Operations that add, take, finish and peek at messages, as requests in the commands of their
family.

Called by   broker.py, through CALLS.
Calls       calls.py for the shape of a row, own_calls.py for reliable and items queues.

The commands of the families are older than the operations, and have fewer options. An operation
that no command can express is refused here.

Not here: claims, stages, pages, the lifecycle log (calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.client import own_calls
from quinque.client.calls import Call, Request, as_map, asks, seconds
from quinque.client.job_calls import queue_view
from quinque.client.link import Word
from quinque.client.parts import parts
from quinque.errors import BadArgument, EmptyKey
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.limits import NEVER_MS, RESERVE_MOST
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    FindReady,
    Flush,
    GroupCount,
    Op,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.work_ops import (
    PLAIN_TERMS,
    Add,
    Finish,
    LookAt,
    QueueView,
    Redrive,
    ScanQueues,
    Take,
    Terms,
    WorkDelivery,
)

# A group without consumers. QSTATUS shows the number of events only for groups, so with this group
# there is always a number.
_NOBODY: Final = b"\0"


def _add(op: Add) -> list[Request]:
    if op.family.owns_ids:
        return own_calls.add(op)
    _is_of(op, op.family, JOBS)
    words = [] if op.terms is PLAIN_TERMS else _words(op.terms)
    if op.max_length:
        words += ["MAXLEN", op.max_length]
    if op.key is not None:
        words += ["ID", op.key]
    if op.confirm_ms is None:
        words += ["ASYNC"]
    timeout_ms = 0 if op.confirm_ms is None or op.confirm_ms == NEVER_MS else op.confirm_ms
    return [["ADDJOB", op.queue, body, timeout_ms, *words] for body in op.bodies]


def _words(terms: Terms) -> list[Word]:
    words: list[Word] = ["TTL", _whole_s("ttl_ms", terms.ttl_ms)]
    words += ["RETRY", _whole_s("retry_ms", terms.retry_ms)]
    words += ["REPLICATE", terms.replicas]
    if terms.delay_ms:
        words += ["DELAY", seconds(terms.delay_ms)]
    if terms.max_deliveries:
        words += ["MAXDELIVERIES", terms.max_deliveries]
    return words


def _added(op: Add, replies: list[Any]) -> list[bytes]:
    return own_calls.added(op, replies) if op.family.owns_ids else replies


def _take(op: Take) -> list[Request]:
    return _take_waiting(op, 0)


def _take_waiting(op: Take, wait_ms: int) -> list[Request]:
    if op.family.owns_ids:
        return [own_calls.take(op, wait_ms)]
    _is_of(op, op.family, JOBS)
    whence: Request = ["MATCH", *op.patterns] if op.patterns else ["FROM", *op.queues]
    wait: Request = ["TIMEOUT", wait_ms] if wait_ms else ["NOHANG"]
    return [["GETJOB", *wait, "COUNT", op.count, "WITHCOUNTERS", *whence]]


def _taken(op: Take, replies: list[Any]) -> list[WorkDelivery]:
    [reply] = replies
    if op.family.owns_ids:
        return own_calls.taken(op, reply)
    return [
        WorkDelivery(queue, id, body, nacks, requeues)
        for queue, id, body, _, nacks, _, requeues in reply or ()
    ]


def _finish(op: Finish) -> list[Request]:
    _is_of(op, op.family, JOBS)
    return [["ACKJOB" if op.is_ack else "DELJOB", id] for id in op.message_ids]


def _put(op: Put) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    if op.message_id is not None or op.to_front or op.is_single or not op.ttl_ms:
        raise BadArgument("QADD chooses the id, puts at the back, and needs a time to live")
    return [["QADD", op.queue, seconds(op.ttl_ms), body] for body in op.bodies]


def _reserve(op: Reserve) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    words: list[Word] = ["QGET", op.queue, op.group, "EX", seconds(op.lease_ms)]
    words += ["WITHDELIVERIES"] if op.tells_deliveries else []
    return [words] * min(op.count, RESERVE_MOST)


def _reserved(op: Reserve, replies: list[Any]) -> list[Delivery]:
    given = [reply for reply in replies if reply is not None]
    if op.tells_deliveries:
        return [Delivery(op.queue, id, body, deliveries) for id, body, deliveries in given]
    return [Delivery(op.queue, id, body, 0) for id, body in given]


def _find_ready(op: FindReady) -> list[Request]:
    return _find_ready_waiting(op, 0)


def _find_ready_waiting(op: FindReady, wait_ms: int) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    return [["QNOTIFY", op.group, seconds(wait_ms), *op.queues]]


def _flush(op: Flush) -> Request:
    _is_of(op, op.family, EVENTS)
    return ["QFLUSH", op.queue]


def _ack(op: Ack) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    if not op.held_only:
        raise BadArgument("QACK finishes what the group holds")
    return [["QACK", op.queue, op.group, id] for id in op.message_ids]


def _release(op: Release) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    word = "QUNGET" if op.is_uncounted else "QRELEASE"
    return [[word, op.queue, op.group, id] for id in op.message_ids]


def _look_at(op: LookAt) -> list[Request]:
    if op.family.owns_ids:
        return [own_calls.look_at(op)]
    _is_of(op, op.family, JOBS)
    return [["QSTAT", op.queue, "DETAILS"]]


def _queue_view(op: LookAt, replies: list[Any]) -> QueueView | None:
    [reply] = replies
    if op.family.owns_ids:
        return own_calls.looked_at(op, reply)
    return queue_view(reply)


def _scan(op: ScanQueues) -> Request:
    if op.family.owns_ids:
        return own_calls.scan(op)
    _is_of(op, op.family, JOBS)
    if not op.skips_idle and not own_calls.has_limits(op):
        return own_calls.scan(op)  # QSCAN skips queues that are idle
    return ["QSCAN", op.cursor, "COUNT", op.count, "MINLEN", op.least, "MAXLEN", op.most]


def _scanned(reply: Any) -> tuple[int, list[bytes]]:
    return int(reply[0]), reply[1]


def _count(op: Count) -> list[Request]:
    _is_of(op, op.family, EVENTS)
    # An option before each name: without it, the broker reads a queue that is called groups as the
    # option.
    queues: Request = ["QSTATUS", *_each_after("QUEUE", op.queues)]
    return [[*queues, "GROUP", _NOBODY], [*queues, *_each_after("GROUP", op.groups or ())]]


def _each_after(word: str, names: Sequence[bytes]) -> list[Word]:
    return [told for name in names for told in (word, name)]


def _counted(op: Count, replies: list[Any]) -> list[QueueCount]:
    totals = {queue: as_map(as_map(groups)[_NOBODY])[b"total"] for queue, groups in replies[0]}
    return [
        QueueCount(
            queue,
            totals.get(queue, 0),
            [
                _group(name, as_map(told))
                for name, told in as_map(groups).items()
                if op.groups is None or name in op.groups
            ],
        )
        for queue, groups in replies[1]
    ]


def _group(name: bytes, told: dict[bytes, int]) -> GroupCount:
    return GroupCount(
        name,
        told[b"total"],
        leased=told[b"inprogress"],
        redo=told[b"redo"],
        done=told[b"done"],
        available=told[b"available"],
    )


def _redrive(op: Redrive) -> list[Request]:
    _is_of(op, op.family, JOBS)
    if op.queue is None:
        return [["REDRIVE", *some] for some in parts(op.message_ids)]
    return [["QREDRIVE", op.queue, *(("COUNT", op.count) if op.count else ())]]


def _redriven(op: Redrive, replies: list[int]) -> int:
    return sum(replies)


def _nothing(reply: Any) -> None:
    return None


def _first(op: Op, replies: list[Any]) -> Any:
    return replies[0]


def _each(op: Op, replies: list[Any]) -> list[Any]:
    return replies


def _each_whether(op: Op, replies: list[Any]) -> list[bool]:
    return [bool(reply) for reply in replies]


def _is_of(op: Op, family: Family, only: Family) -> None:
    if family is not only:
        raise BadArgument(f"{type(op).__name__} has no words for the family {family.name}")


def _whole_s(what: str, span_ms: int) -> int:
    if span_ms % 1000:
        raise BadArgument(f"{what} {span_ms} is not a whole number of seconds, as ADDJOB requires")
    return span_ms // 1000


CALLS: Final[dict[type[Op], Call]] = {
    # With a unique key, a repeat adds nothing while the job is unfinished. Without one it adds
    # another job.
    Add: Call(_add, _added, is_safe=lambda op: op.key is not None),
    # A repeat would add or deliver more messages than requested.
    Put: Call(_put, _each, is_safe=False),
    Take: Call(_take, _taken, is_safe=False, waiting=_take_waiting),
    Reserve: Call(_reserve, _reserved, is_safe=False),
    # Jobs that are finished already are not changed, and reported as missing.
    Finish: Call(_finish, _each_whether, is_safe=True),
    Ack: Call(_ack, _each_whether, is_safe=True),
    # Another consumer may hold the message by now, and would lose it.
    Release: Call(_release, _each_whether, is_safe=False),
    # The message may have been delivered and become dead again, and must not be redriven then.
    Redrive: Call(_redrive, _redriven, is_safe=False),
    # A repeat would also remove messages that were added meanwhile.
    Flush: asks(_flush, _nothing, is_safe=False),
    # The other operations change nothing.
    FindReady: Call(_find_ready, _first, is_safe=True, waiting=_find_ready_waiting),
    LookAt: Call(_look_at, _queue_view, is_safe=True, absent=EmptyKey),
    ScanQueues: asks(_scan, _scanned, is_safe=True),
    Count: Call(_count, _counted, is_safe=True),
}
