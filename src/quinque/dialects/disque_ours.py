"""The jobs family: commands that Disque does not have.

Called by   server/dispatch.py, through COMMANDS.
Calls       disque_args.py, disque.py and disque_queues.py for the common parts of their replies.

Not here: Quinque's extra options of Disque's commands (disque.py and the others).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.dialects.args import read_name
from quinque.dialects.command import Command, Session, Wait, no_queues, plain_reply
from quinque.dialects.disque import all_ids
from quinque.dialects.disque_args import (
    read_ids,
    read_integer,
    read_queue,
    read_span_ms,
    read_state,
    read_timeout_ms,
    syntax_error,
)
from quinque.dialects.disque_queues import EXPIRED_DEAD, EXPIRED_DELETE, settings_of
from quinque.errors import BadArgument, printable
from quinque.model.families import JOBS
from quinque.model.limits import PARTITIONS_MOST
from quinque.model.work_ops import (
    AwaitEnd,
    Configure,
    FindKey,
    LookAt,
    Purge,
    QueueView,
    Redrive,
)
from quinque.wire.resp import NULL_ARRAY, Value


def parse_waitjob(argv: list[bytes], session: Session) -> Wait:
    """WAITJOB timeout-ms id [id ...]

    Wait until each of the jobs is removed or dead, up to timeout-ms (0 = forever). Returns the
    number of jobs that are removed. Quinque extension.
    """
    timeout_ms = read_timeout_ms(argv[1])
    ids = list(dict.fromkeys(read_ids(argv[2:])))
    # Clients that wait for the same jobs get the same reply, so they are one group.
    return Wait(AwaitEnd(JOBS, ids), ids, b"".join(ids), timeout_ms)


def reply_waitjob(asked: Wait, gone: int | None, session: Session) -> Value:
    """Return how many jobs are removed, or null if the time is over."""
    return gone


def parse_findjob(argv: list[bytes]) -> FindKey:
    """FINDJOB queue key

    Return the id of the unfinished job that was added to the queue with that ID, or null.
    Quinque extension.
    """
    return FindKey(JOBS, read_queue(argv[1]), read_name("key", argv[2]))


def parse_redrive(argv: list[bytes]) -> Redrive:
    """REDRIVE id [id ...]

    Queue dead jobs again as if they were new. Returns the number of jobs that were dead.
    Quinque extension.
    """
    return Redrive(JOBS, read_ids(argv[1:]))


def parse_qredrive(argv: list[bytes]) -> Redrive:
    """QREDRIVE queue [COUNT n]

    Queue dead jobs of the queue again as if they were new: the first COUNT, and at most 1,000.
    Returns the number of jobs. Repeat it until it returns fewer. Quinque extension.
    """
    redrive = Redrive(JOBS, queue=read_queue(argv[1]))
    if len(argv) > 2:
        if len(argv) != 4 or argv[2].upper() != b"COUNT":
            raise syntax_error("QREDRIVE", argv[2])
        redrive.count = read_integer("COUNT", argv[3], least=1)
    return redrive


def parse_qset(argv: list[bytes]) -> Configure | LookAt:
    """QSET queue [MAXDELIVERIES n] [RATE n s] [PARTITIONS n] [EXPIRED delete|dead]

    Set the delivery limit of jobs without their own limit, the number of jobs delivered in a
    number of seconds (0 = no limit), the number of cluster servers over which the queue is
    partitioned, and whether an expired job is deleted (default) or dead. Returns the settings.
    Quinque extension.
    """
    queue = read_queue(argv[1])
    if len(argv) == 2:
        return LookAt(JOBS, queue)
    asked = Configure(JOBS, queue)
    at, end = 2, len(argv)
    while at < end:
        match argv[at].upper():
            case b"MAXDELIVERIES" if at + 1 < end:
                asked.max_deliveries = read_integer("MAXDELIVERIES", argv[at + 1])
                at += 2
            case b"PARTITIONS" if at + 1 < end:
                asked.partitions = _read_partitions(argv[at + 1])
                at += 2
            case b"EXPIRED" if at + 1 < end:
                asked.keeps_expired = _read_expired(argv[at + 1])
                at += 2
            case b"RATE" if at + 2 < end:
                asked.rate = _read_rate(argv[at + 1], argv[at + 2])
                at += 3
            case _:
                raise syntax_error("QSET", argv[at])
    return asked


def reply_qset(queue: QueueView | None) -> Value:
    """Names and values; or null if the queue does not exist."""
    return NULL_ARRAY if queue is None else dict(settings_of(queue))


def parse_qpurge(argv: list[bytes]) -> Purge:
    """QPURGE queue [FORGET] [STATE state ...]

    Remove the jobs of the queue: all, or those that are queued, delayed, active or dead. FORGET
    removes all jobs and the settings, so that another family can use the name. Returns the number
    of jobs. Quinque extension.
    """
    queue = read_queue(argv[1])
    if len(argv) == 2:
        return Purge(JOBS, queue)
    if argv[2].upper() == b"FORGET":
        if len(argv) > 3:
            raise syntax_error("QPURGE", argv[3])
        return Purge(JOBS, queue, forgets=True)
    if len(argv) == 3 or argv[2].upper() != b"STATE":
        raise syntax_error("QPURGE", argv[2])
    return Purge(JOBS, queue, list(dict.fromkeys(read_state(word) for word in argv[3:])))


def _read_partitions(text: bytes) -> int:
    count = read_integer("PARTITIONS", text, least=1)
    if count > PARTITIONS_MOST:
        raise BadArgument(f"PARTITIONS {count} is over {PARTITIONS_MOST}")
    return count


def _read_expired(text: bytes) -> bool:
    """Return whether expired jobs are kept as dead jobs."""
    word = text.lower()
    if word not in (EXPIRED_DEAD, EXPIRED_DELETE):
        raise BadArgument(f"EXPIRED {printable(text[:64])} is neither delete nor dead")
    return word == EXPIRED_DEAD


def _read_rate(count_text: bytes, span_text: bytes) -> tuple[int, int]:
    """Return a count, and the milliseconds in which it applies. Two zeros mean no limit."""
    count = read_integer("RATE", count_text)
    span_ms = read_span_ms("RATE", span_text)
    if not count and not span_ms:
        return 0, 0
    if not count or not span_ms:
        raise BadArgument(
            "RATE needs a number of jobs and a number of seconds, or 0 0 for no limit"
        )
    return count, span_ms


def _ids_of_waitjob(argv: list[bytes]) -> Sequence[bytes]:
    return argv[2:]


COMMANDS: Final = [
    Command(
        "WAITJOB",
        JOBS.name,
        "read",
        -3,
        parse_waitjob,
        reply_waitjob,
        queues=no_queues,
        ids=_ids_of_waitjob,
        with_session=True,
        is_blocking=True,
    ),
    Command("FINDJOB", JOBS.name, "read", 3, parse_findjob, plain_reply),
    Command(
        "REDRIVE",
        JOBS.name,
        "write",
        -2,
        parse_redrive,
        plain_reply,
        queues=no_queues,
        ids=all_ids,
    ),
    Command("QREDRIVE", JOBS.name, "write", -2, parse_qredrive, plain_reply),
    Command("QSET", JOBS.name, "write", -2, parse_qset, reply_qset),
    Command("QPURGE", JOBS.name, "write", -2, parse_qpurge, plain_reply),
]
