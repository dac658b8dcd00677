"""The jobs family with the commands of Disque for whole queues: QLEN QSTAT QSCAN PAUSE.

Called by   server/dispatch.py, through COMMANDS.
Calls       disque_args.py.

Not here: single jobs (disque.py, disque_jobs.py), settings of queues (disque_ours.py).
"""

from __future__ import annotations

from typing import Final

from quinque.dialects.command import Command, Session, Wait, no_queues
from quinque.dialects.disque_args import (
    NOTHING,
    once,
    read_integer,
    read_queue,
    scan_options,
    syntax_error,
)
from quinque.model.families import JOBS
from quinque.model.work_ops import Configure, LookAt, QueueView, ScanQueues
from quinque.wire.resp import NULL_ARRAY, Simple, Value

# The treatment of expired jobs, as an option of QSET.
EXPIRED_DEAD: Final = b"dead"
EXPIRED_DELETE: Final = b"delete"


def parse_qlen(argv: list[bytes]) -> LookAt:
    """QLEN queue

    Return the number of queued jobs.
    """
    return LookAt(JOBS, read_queue(argv[1]))


def reply_qlen(queue: QueueView | None) -> Value:
    """The number; 0 if the queue does not exist."""
    return 0 if queue is None else queue.ready


def parse_qstat(argv: list[bytes], session: Session) -> Wait:
    """QSTAT queue [DETAILS]

    Return the state and the counts of a queue, or null. DETAILS, for more fields, is a Quinque
    extension.
    """
    for word in argv[2:]:
        if word.upper() != b"DETAILS":
            raise syntax_error("QSTAT", word)
    return once(LookAt(JOBS, read_queue(argv[1])), detail=len(argv) > 2)


def reply_qstat(asked: Wait, queue: QueueView | None, session: Session) -> Value:
    """Names and values in turn; or null."""
    if queue is None:
        return NULL_ARRAY
    assert queue.age_ms is not None
    assert queue.idle_ms is not None
    shown: list[Value] = [
        b"name",
        queue.queue,
        b"len",
        queue.ready,
        b"age",
        queue.age_ms // 1000,
        b"idle",
        queue.idle_ms // 1000,
        b"blocked",
        session.waiting_on(queue.queue),
        b"import-from",
        [],
        b"import-rate",
        0,
        b"jobs-in",
        queue.came,
        b"jobs-out",
        queue.went,
        b"pause",
        _pause_of(queue),
    ]
    if asked.detail:
        shown += [b"delayed", queue.delayed, b"active", queue.leased, b"dead", queue.dead]
        for name, value in settings_of(queue):
            shown += [name, value]
    return shown


def parse_qscan(argv: list[bytes], session: Session) -> ScanQueues:
    """QSCAN [cursor] [COUNT n] [BUSYLOOP] [MINLEN n] [MAXLEN n] [IMPORTRATE n]

    Iterate over the names of all queues, or of those with the given number of jobs: start with
    cursor 0 and repeat with the returned cursor until it is 0.
    """
    scan = ScanQueues(JOBS, cursor=0, count=0, skips_idle=True)
    import_rate = 0
    for word, text in scan_options("QSCAN", argv, scan, (b"MINLEN", b"MAXLEN", b"IMPORTRATE")):
        if word == b"MINLEN":
            scan.least = read_integer("MINLEN", text)
        elif word == b"MAXLEN":
            scan.most = read_integer("MAXLEN", text)
        else:
            import_rate = read_integer("IMPORTRATE", text)
    if import_rate:  # no job comes from another node
        scan.count = NOTHING
    return scan


def reply_qscan(asked: ScanQueues, found: tuple[int, list[bytes]], session: Session) -> Value:
    """[cursor, [name, …]]"""
    if asked.count == NOTHING:
        return [b"0", []]
    cursor, queues = found
    return [b"%d" % cursor, [queue for queue in queues if session.sees(queue)]]


def parse_pause(argv: list[bytes]) -> Configure | LookAt:
    """PAUSE queue option [option ...]

    Refuse new jobs (in), stop deliveries (out), do both (all) or neither (none). state changes
    nothing. Returns the resulting state.
    """
    queue = read_queue(argv[1])
    is_set = is_paused_in = is_paused_out = False
    for word in argv[2:]:
        match word.lower():
            case b"in":
                is_set = is_paused_in = True
            case b"out":
                is_set = is_paused_out = True
            case b"all":
                is_set = is_paused_in = is_paused_out = True
            case b"none":
                is_set = True
                is_paused_in = is_paused_out = False
            case b"state" | b"bcast":  # there are no other nodes to notify
                pass
            case _:
                raise syntax_error("PAUSE", word)
    if is_set:
        return Configure(JOBS, queue, is_paused_in, is_paused_out)
    return LookAt(JOBS, queue)


def reply_pause(queue: QueueView | None) -> Value:
    """none, in, out or all, as a simple string."""
    return Simple(b"none" if queue is None else _pause_of(queue))


def settings_of(queue: QueueView) -> list[tuple[bytes, int | bytes]]:
    """Return the settings of QSET, which QSTAT has with DETAILS."""
    set_here: list[tuple[bytes, int | bytes]] = [
        (b"max-deliveries", queue.max_deliveries),
        (b"rate-count", queue.rate_count),
        (b"rate-seconds", queue.rate_ms // 1000),
        (b"expired", EXPIRED_DEAD if queue.keeps_expired else EXPIRED_DELETE),
    ]
    if queue.partitions > 1:
        set_here.append((b"partitions", queue.partitions))
    return set_here


def _pause_of(queue: QueueView) -> bytes:
    if queue.is_paused_in:
        return b"all" if queue.is_paused_out else b"in"
    return b"out" if queue.is_paused_out else b"none"


COMMANDS: Final = [
    Command("QLEN", JOBS.name, "read", 2, parse_qlen, reply_qlen),
    Command("QSTAT", JOBS.name, "read", -2, parse_qstat, reply_qstat, with_session=True),
    Command(
        "QSCAN",
        JOBS.name,
        "read",
        -1,
        parse_qscan,
        reply_qscan,
        queues=no_queues,
        with_session=True,
    ),
    Command("PAUSE", JOBS.name, "write", -3, parse_pause, reply_pause),
]
