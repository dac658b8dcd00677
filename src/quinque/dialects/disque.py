"""The jobs family with the commands of Disque that change jobs: ADDJOB GETJOB ACKJOB and others.

Called by   server/dispatch.py, through COMMANDS.
Calls       disque_args.py.

Disque calls a ready job queued. A job that a consumer has, or whose delay has not ended, is active.

Not here: commands that show jobs (disque_jobs.py), queues (disque_queues.py), commands that Disque
does not have (disque_ours.py), HELLO and CLUSTER (server/commands/), the rules
(engine/work/decide.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.dialects.args import check_count, read_name, read_pattern
from quinque.dialects.command import Command, Session, Wait, no_queues
from quinque.dialects.disque_args import (
    read_delay_ms,
    read_ids,
    read_integer,
    read_queue,
    read_queues,
    read_span_ms,
    read_text,
    read_timeout_ms,
    syntax_error,
)
from quinque.dialects.quick_replies import reply_job, reply_simple_id, reply_whether
from quinque.errors import BadArgument, NoPermission, WrongArity
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS, PATTERNS_MOST, WORK_TTL_MS
from quinque.model.work_ids import is_id
from quinque.model.work_ops import (
    PLAIN_TERMS,
    Add,
    Extend,
    Finish,
    Hold,
    Requeue,
    Take,
    Terms,
    WorkDelivery,
    default_retry_ms,
)
from quinque.wire.resp import NULL_ARRAY, Simple, Value

_WITH_VALUE: Final = (b"FROM", b"MATCH", b"TIMEOUT", b"COUNT")  # of GETJOB
_REPLICAS_MOST: Final = 65_535  # Disque keeps the number in 16 bits


def parse_addjob(argv: list[bytes]) -> Add:
    """ADDJOB queue body timeout-ms [REPLICATE n] [DELAY s] [RETRY s] [TTL s] [MAXLEN n] [ASYNC]
    [MAXDELIVERIES n] [ID key]

    Add a job and return its id. The job is queued after DELAY, is delivered again if it is not
    acked within RETRY seconds (0 = never), and is deleted after TTL seconds, by default a day, even
    if no consumer took it. MAXDELIVERIES and ID are Quinque extensions.
    """
    queue = read_queue(argv[1])
    if len(argv) == 4 and argv[3] == b"0":
        return Add(JOBS, queue, argv[2:3], PLAIN_TERMS)
    ttl_ms, delay_ms, retry_ms, replicas = WORK_TTL_MS, 0, -1, 1
    max_length = max_deliveries = 0
    key: bytes | None = None
    is_async = False
    at, end = 4, len(argv)
    while at < end:
        word = argv[at].upper()
        if word == b"ASYNC":
            is_async = True
            at += 1
            continue
        if at + 1 == end:
            raise syntax_error("ADDJOB", argv[at])
        text = argv[at + 1]
        match word:
            case b"TTL":
                ttl_ms = read_span_ms("TTL", text, least_s=1)
            case b"RETRY":
                retry_ms = read_span_ms("RETRY", text)
            case b"DELAY":
                delay_ms = read_delay_ms(text)
            case b"REPLICATE":
                replicas = read_integer("REPLICATE", text, least=1)
                if replicas > _REPLICAS_MOST:
                    raise BadArgument(f"REPLICATE {replicas} is over {_REPLICAS_MOST}")
            case b"MAXLEN":
                max_length = read_integer("MAXLEN", text, least=1)
            case b"MAXDELIVERIES":
                max_deliveries = read_integer("MAXDELIVERIES", text, least=1)
            case b"ID":
                key = read_name("ID", text)
            case _:
                raise syntax_error("ADDJOB", argv[at])
        at += 2
    timeout_ms = read_timeout_ms(argv[3])
    if retry_ms == 0 and replicas > 1:
        raise BadArgument("RETRY 0 requires REPLICATE 1: a second copy would be a second delivery")
    if delay_ms >= ttl_ms:
        delay = f"{delay_ms // 1000}.{delay_ms % 1000:03}".rstrip("0").rstrip(".")
        raise BadArgument(f"DELAY {delay} must be less than TTL {ttl_ms // 1000}")
    if retry_ms < 0:
        retry_ms = default_retry_ms(ttl_ms)
    terms = Terms(ttl_ms, delay_ms, retry_ms, max_deliveries, replicas)
    confirm_ms = None if is_async else timeout_ms
    return Add(JOBS, queue, argv[2:3], terms, key, max_length, confirm_ms)


def gather_addjob(add: Add, bodies: list[bytes]) -> bool:
    """Merge jobs for one queue with the same options, unless the queue could refuse one of them, or
    have one already, and accept the next."""
    if add.key is not None or add.max_length:
        return False
    add.bodies = bodies
    return True


def reply_addjob(ids: list[bytes]) -> Value:
    """Return the id of the job as a simple string."""
    return Simple(ids[0])


def parse_getjob(argv: list[bytes], session: Session) -> Wait:
    """GETJOB [NOHANG] [TIMEOUT ms] [COUNT n] [WITHCOUNTERS] [FROM queue ...|MATCH pattern ...]

    Take a job, or up to COUNT, from the queues in turn. If there is none, block until one
    arrives: forever, or up to TIMEOUT. NOHANG does not block. MATCH, for queues by pattern, is
    a Quinque extension.

    A client that was blocked gets one job, whatever the COUNT: other blocked clients get the rest.
    """
    timeout_ms, count = NEVER_MS, 1
    is_waiting, with_counters = True, False
    at, end = 1, len(argv)
    while at < end:
        word = argv[at].upper()
        at += 1
        match word:
            case b"FROM" if at < end:
                queues = read_queues(argv[at:])
                op = Take(JOBS, queues, count, is_waiting=is_waiting)
                again = Take(JOBS, queues, is_waiting=True)
                wait_ms = timeout_ms if is_waiting else 0
                return Wait(op, queues, b"", wait_ms, again, detail=with_counters)
            case b"MATCH" if at < end:
                if not session.sees_all():
                    raise NoPermission("MATCH requires a user who can access every queue")
                check_count("patterns", argv[at:], PATTERNS_MOST)
                patterns = list(dict.fromkeys(map(read_pattern, argv[at:])))
                op = Take(JOBS, (), count, patterns, is_waiting)
                again = Take(JOBS, (), patterns=patterns, is_waiting=True)
                wait_ms = timeout_ms if is_waiting else 0
                return Wait(op, (), b"", wait_ms, again, patterns, with_counters)
            case b"NOHANG":
                is_waiting = False
            case b"WITHCOUNTERS":
                with_counters = True
            case b"TIMEOUT" if at < end:
                timeout_ms = read_timeout_ms(argv[at])
                at += 1
            case b"COUNT" if at < end:
                count = read_integer("COUNT", argv[at], least=1)
                at += 1
            case _:
                # Not kept in a variable: an error that is raised would hold it in a circle.
                if any(it.upper() in (b"FROM", b"MATCH") for it in argv) or word in _WITH_VALUE:
                    raise syntax_error("GETJOB", argv[at - 1])
                why = str(syntax_error("GETJOB", argv[at - 1]))
                raise BadArgument(f"{why}: FROM or MATCH is missing before it")
    raise BadArgument("syntax error in GETJOB: FROM and the queue names are missing")


def gather_getjob(wait: Wait, same: list[bytes]) -> bool:
    """Merge requests for one job each from the same queue."""
    op = wait.op
    assert isinstance(op, Take)
    if op.count != 1 or len(op.queues) != 1 or wait.detail:
        return False
    op.count = len(same)
    return True


def reply_getjob(asked: Wait, found: list[WorkDelivery] | None, session: Session) -> Value:
    """[[queue, id, body], …], with the counters of each if requested; or null."""
    if not found:
        return NULL_ARRAY
    if asked.detail:
        return [with_counters(job) for job in found]
    return [[job.queue, job.message_id, job.body] for job in found]


def with_counters(job: Any) -> list[Value]:
    """[queue, id, body, "nacks", number, "additional-deliveries", number]"""
    counters: list[Value] = [b"nacks", job.nacks, b"additional-deliveries", job.requeues]
    return [job.queue, job.message_id, job.body, *counters]


def parse_ackjob(argv: list[bytes]) -> Finish:
    """ACKJOB [id ...]

    Ack the jobs of any consumer and remove them. Returns the number of jobs that existed.
    """
    return Finish(JOBS, read_ids(argv[1:]))


def parse_fastack(argv: list[bytes]) -> Finish:
    """FASTACK [id ...]

    Ack the jobs like ACKJOB. In Disque it is faster and less safe between several nodes.
    """
    return Finish(JOBS, read_ids(argv[1:]))


def parse_deljob(argv: list[bytes]) -> Finish:
    """DELJOB [id ...]

    Remove the jobs in any state. Returns the number of jobs that existed.
    """
    return Finish(JOBS, read_ids(argv[1:]), is_ack=False)


def gather_finish(finish: Finish, ids: list[bytes]) -> bool:
    """Merge requests with one id each, unless an id is invalid."""
    if len(finish.message_ids) != 1 or not all(map(is_id, ids)):
        return False
    finish.message_ids = ids
    return True


def reply_number(were_so: list[bool]) -> Value:
    """Return the number of jobs for which the command took effect."""
    return sum(were_so)


def parse_nack(argv: list[bytes]) -> Requeue:
    """NACK [id ...] [DELAY s] [REASON text] [DEAD]

    Return jobs to the queue and count a nack for each. Returns the number of jobs that were
    active. DELAY, to queue them later, REASON, which is stored with the job, and DEAD, which makes
    the jobs dead at once, are Quinque extensions.
    """
    ids = _ids_of_nack(argv)
    nack = Requeue(JOBS, read_ids(ids), is_nack=True)
    at = 1 + len(ids)
    while at < len(argv):
        word = argv[at].upper()
        if word == b"DEAD":
            nack.is_dead = True
            at += 1
            continue
        if at + 1 == len(argv):
            raise syntax_error("NACK", argv[at])
        match word:
            case b"DELAY":
                nack.delay_ms = read_delay_ms(argv[at + 1])
            case b"REASON":
                nack.reason = read_text("REASON", argv[at + 1])
            case _:
                raise syntax_error("NACK", argv[at])
        at += 2
    return nack


def parse_enqueue(argv: list[bytes]) -> Requeue:
    """ENQUEUE [id ...]

    Queue active jobs now. Returns the number of jobs that were queued.
    """
    return Requeue(JOBS, read_ids(argv[1:]), is_nack=False)


def parse_ungetjob(argv: list[bytes]) -> Requeue:
    """UNGETJOB [id ...] [UNSEEN]

    Queue active jobs now, like ENQUEUE, without counting the delivery, because they were not tried.
    With UNSEEN, which states that no consumer has seen them, this includes jobs with RETRY 0.
    Returns the number of jobs that were queued. Quinque extension.
    """
    ids = _ids_of_ungetjob(argv)
    lease = None if len(ids) == len(argv) - 1 else 0
    return Requeue(JOBS, read_ids(ids), is_nack=False, lease=lease, is_uncounted=True)


def parse_dequeue(argv: list[bytes]) -> Hold:
    """DEQUEUE [id ...]

    Take queued jobs off the queue. They stay active until their RETRY time ends. Returns the
    number of jobs that were taken off.
    """
    return Hold(JOBS, read_ids(argv[1:]))


def parse_working(argv: list[bytes]) -> Extend:
    """WORKING id [ANYTIME]

    Restart the RETRY time of a job that a consumer works on. Returns that time in seconds.
    Refused when more than half of the job's time to live is over, unless ANYTIME (Quinque
    extension) is given.
    """
    is_anytime = argv[-1].upper() == b"ANYTIME"
    if len(argv) != 2 + is_anytime:
        raise WrongArity("WORKING")
    [id] = read_ids(argv[1:2])
    return Extend(JOBS, id, is_anytime)


def reply_working(retry_ms: int) -> Value:
    """Return the RETRY time of the job in seconds."""
    return retry_ms // 1000


def _ids_of_nack(argv: list[bytes]) -> Sequence[bytes]:
    """Return the ids, which come before the options."""
    for at in range(1, len(argv)):
        if argv[at].upper() in (b"DELAY", b"REASON", b"DEAD"):
            return argv[1:at]
    return argv[1:]


def _ids_of_ungetjob(argv: list[bytes]) -> Sequence[bytes]:
    return argv[1:-1] if argv[-1].upper() == b"UNSEEN" else argv[1:]


def _queues_of_getjob(argv: list[bytes]) -> Sequence[bytes]:
    for at in range(1, len(argv)):
        word = argv[at].upper()
        if word == b"FROM":
            return argv[at + 1 :]
        if word == b"MATCH":
            return ()
    return ()


def all_ids(argv: list[bytes]) -> Sequence[bytes]:
    """Return all arguments, which are ids."""
    return argv[1:]


def _on_ids(
    name: str,
    arity: int,
    parse: Callable[..., Any],
    reply: Callable[..., Value],
    ids: Callable[[list[bytes]], Sequence[bytes]] = all_ids,
) -> Command:
    return Command(name, JOBS.name, "write", arity, parse, reply, queues=no_queues, ids=ids)


def _finishes(name: str, parse: Callable[..., Any]) -> Command:
    row = _on_ids(name, -1, parse, reply_number)
    row.gather, row.reply_each = gather_finish, reply_whether
    return row


COMMANDS: Final = [
    Command(
        "ADDJOB",
        JOBS.name,
        "write",
        -4,
        parse_addjob,
        reply_addjob,
        gather=gather_addjob,
        reply_each=reply_simple_id,
        varies=2,
    ),
    Command(
        "GETJOB",
        JOBS.name,
        "write",
        -2,
        parse_getjob,
        reply_getjob,
        queues=_queues_of_getjob,
        with_session=True,
        gather=gather_getjob,
        reply_each=reply_job,
        varies=0,
        is_blocking=True,
    ),
    _finishes("ACKJOB", parse_ackjob),
    _finishes("FASTACK", parse_fastack),
    _finishes("DELJOB", parse_deljob),
    _on_ids("NACK", -1, parse_nack, reply_number, _ids_of_nack),
    _on_ids("ENQUEUE", -1, parse_enqueue, reply_number),
    _on_ids("UNGETJOB", -1, parse_ungetjob, reply_number, _ids_of_ungetjob),
    _on_ids("DEQUEUE", -1, parse_dequeue, reply_number),
    _on_ids("WORKING", -2, parse_working, reply_working, lambda argv: argv[1:2]),
]
