"""The jobs family with the commands of Disque that show jobs: SHOW QPEEK JSCAN. They change
nothing.

Called by   server/dispatch.py, through COMMANDS.
Calls       disque_args.py, disque.py for jobs with their counters.

Disque calls a job active if a consumer has it, or if its delay has not ended. The replies of Disque
keep this word. In Quinque extensions (DETAILS, and STATE of QPEEK), the second is delayed.

Not here: commands that change jobs (disque.py), queues (disque_queues.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.dialects.command import Command, Session, Wait, no_queues
from quinque.dialects.disque import with_counters
from quinque.dialects.disque_args import (
    INTEGER_MOST,
    NOTHING,
    STATES,
    once,
    read_ids,
    read_integer,
    read_queue,
    read_state,
    scan_options,
    syntax_error,
    unknown_state,
)
from quinque.errors import BadArgument, printable
from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import Browse, ScanMessages, Show, WorkView
from quinque.wire.resp import Simple, Value

# Nodes of Disque notify each other this long before they queue a job again.
_AWAKE_BEFORE_MS: Final = 500

_SHOWN_STATES: Final = {
    State.READY: b"queued",
    State.DELAYED: b"active",
    State.LEASED: b"active",
    State.DEAD: b"dead",
}
_STATUSES: Final = {state: word for word, state in STATES.items()}
_PEEKED_STATES: Final = (b"queued", b"delayed", b"dead")

_SCANNED_STATES: Final[dict[bytes, Sequence[State]]] = {
    b"queued": (State.READY,),
    b"active": (State.LEASED, State.DELAYED),
    b"delayed": (State.DELAYED,),
    b"dead": (State.DEAD,),
    # A single node does not wait for others, and removes an acked job at once.
    b"wait-repl": (),
    b"acked": (),
}


def parse_show(argv: list[bytes], session: Session) -> Wait:
    """SHOW id [DETAILS]

    Return all fields of a job, or null. DETAILS, for more fields, is a Quinque extension.
    """
    [id] = read_ids(argv[1:2])
    for word in argv[2:]:
        if word.upper() != b"DETAILS":
            raise syntax_error("SHOW", word)
    return once(Show(JOBS, id), detail=len(argv) > 2)


def reply_show(asked: Wait, job: WorkView | None, session: Session) -> Value:
    """Names and values in turn; or null."""
    if job is None:
        return None
    shown = _shown(job, session.node_id())
    return shown + _details(job) if asked.detail else shown


def parse_qpeek(argv: list[bytes], session: Session) -> Wait:
    """QPEEK queue count [STATE state]

    Return the first jobs in the queue, or with a negative count the last ones, last first.
    STATE, for delayed and dead jobs with more fields, is a Quinque extension.
    """
    queue = read_queue(argv[1])
    count = read_integer("count", argv[2], least=-INTEGER_MOST)
    if len(argv) == 3:
        return once(Browse(JOBS, queue, State.READY, count), detail=False)
    if len(argv) != 5 or argv[3].upper() != b"STATE":
        raise syntax_error("QPEEK", argv[3])
    state = read_state(argv[4], _PEEKED_STATES)
    return once(Browse(JOBS, queue, state, count), detail=True)


def reply_qpeek(asked: Wait, jobs: list[WorkView], session: Session) -> Value:
    """[[queue, id, body], …], with more fields of each if the request has STATE."""
    if not asked.detail:
        return [[job.queue, job.message_id, job.body] for job in jobs]
    return [[*with_counters(job), *_why_not_queued(job)] for job in jobs]


def parse_jscan(argv: list[bytes], session: Session) -> ScanMessages:
    """JSCAN [cursor] [COUNT n] [BUSYLOOP] [QUEUE queue] [STATE state] [REPLY id|all]

    Iterate over all jobs: start with cursor 0 and repeat with the returned cursor until it is
    0. STATE can be repeated; the states delayed and dead are Quinque extensions.
    """
    scan = ScanMessages(JOBS, cursor=0, count=0)
    states: dict[State, None] | None = None
    for word, text in scan_options("JSCAN", argv, scan, _JSCAN_OPTIONS):
        if word == b"QUEUE":
            scan.queue = read_queue(text)
        elif word == b"STATE":
            states = {} if states is None else states
            states.update(dict.fromkeys(_scanned_states(text)))
        else:
            scan.with_bodies = _is_all(text)
    if states is not None:
        scan.states = list(states)
        if not states:
            scan.count = NOTHING
    return scan


def reply_jscan(asked: ScanMessages, found: tuple[int, list[WorkView]], session: Session) -> Value:
    """[cursor, [id, …]] with the ids as simple strings; or with the replies of SHOW in place of the
    ids."""
    if asked.count == NOTHING:
        return [b"0", []]
    cursor, jobs = found
    seen = [job for job in jobs if session.sees(job.queue)]
    if not asked.with_bodies:
        return [b"%d" % cursor, [Simple(job.message_id) for job in seen]]
    node_id = session.node_id()
    return [b"%d" % cursor, [_shown(job, node_id) for job in seen]]


def _shown(job: WorkView, node_id: bytes) -> list[Value]:
    """Return the fields of SHOW in Disque, in its order: names and values in turn."""
    requeue_ms = _requeue_within_ms(job)
    assert job.terms is not None
    assert job.ttl_left_ms is not None
    assert job.place is not None
    return [
        b"id",
        job.message_id,
        b"queue",
        job.queue,
        b"state",
        _SHOWN_STATES[job.state],
        b"repl",
        job.terms.replicas,
        b"ttl",
        -(-job.ttl_left_ms // 1000),
        b"ctime",
        job.place * 1000,  # a position is the time when the job was added, in microseconds
        b"delay",
        job.terms.delay_ms // 1000,
        b"retry",
        job.terms.retry_ms // 1000,
        b"nacks",
        job.nacks,
        b"additional-deliveries",
        job.requeues,
        b"nodes-delivered",
        [node_id],  # the nodes that may have a copy
        b"nodes-confirmed",
        [],
        b"next-requeue-within",
        requeue_ms,
        b"next-awake-within",
        _awake_within_ms(job, requeue_ms),
        b"body",
        job.body,
    ]


def _requeue_within_ms(job: WorkView) -> int | None:
    """Return when the job is queued next, if clients only take it."""
    if job.state == State.READY and job.terms is not None:
        return job.terms.retry_ms or None
    return job.due_within_ms


def _awake_within_ms(job: WorkView, requeue_ms: int | None) -> int | None:
    if job.state == State.DEAD:
        return None
    if requeue_ms is None or job.ttl_left_ms is None:
        return job.ttl_left_ms
    return min(max(requeue_ms - _AWAKE_BEFORE_MS, 0), job.ttl_left_ms)


def _details(job: WorkView) -> list[Value]:
    return [
        b"status",
        _STATUSES[job.state],
        b"deliveries",
        job.deliveries,
        b"max-deliveries",
        job.max_deliveries,
        b"reason",
        job.reason or None,
        b"key",
        job.key,
    ]


def _why_not_queued(job: WorkView) -> list[Value]:
    if job.state == State.DELAYED:
        return [b"due-within", job.due_within_ms]
    if job.state == State.DEAD:
        return [b"reason", job.reason or None]
    return []


def _scanned_states(text: bytes) -> Sequence[State]:
    states = _SCANNED_STATES.get(text.lower())
    if states is None:
        raise unknown_state(text, _SCANNED_STATES)
    return states


def _is_all(text: bytes) -> bool:
    word = text.lower()
    if word not in (b"id", b"all"):
        raise BadArgument(f"REPLY '{printable(text[:64])}' is not id or all")
    return word == b"all"


def _queues_of_jscan(argv: list[bytes]) -> Sequence[bytes]:
    queues = []
    at = 1
    while at + 1 < len(argv):
        word = argv[at].upper()
        if word == b"QUEUE":
            queues.append(argv[at + 1])
        at += 2 if word == b"COUNT" or word in _JSCAN_OPTIONS else 1
    return queues


def _first_id(argv: list[bytes]) -> Sequence[bytes]:
    return argv[1:2]


_JSCAN_OPTIONS: Final = (b"QUEUE", b"STATE", b"REPLY")

COMMANDS: Final = [
    Command(
        "SHOW",
        JOBS.name,
        "read",
        -2,
        parse_show,
        reply_show,
        queues=no_queues,
        ids=_first_id,
        with_session=True,
    ),
    Command("QPEEK", JOBS.name, "read", -3, parse_qpeek, reply_qpeek, with_session=True),
    Command(
        "JSCAN",
        JOBS.name,
        "read",
        -1,
        parse_jscan,
        reply_jscan,
        queues=_queues_of_jscan,
        with_session=True,
    ),
]
