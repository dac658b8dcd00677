"""The events family with the commands of okq: QLPUSH QRPUSH QLPEEK QRPEEK QRPOP QREGISTER.

Called by   server/dispatch.py, through COMMANDS; bananaq.py for two commands with two forms.
Calls       dialects/args.py.

okq has no groups: all its clients are one group, OKQ_GROUP. Its events have the id of the caller,
do not expire, and are removed when they are acked.

     QLPUSH                 QRPOP
    client -> [e5 e4 e3 e2 e1] -> consumer         QRPUSH adds on the consumers' side

Not here: groups and expiry (bananaq.py), the rules (engine/feed/decide.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.dialects.args import read_name, read_names, read_seconds, refuse_option
from quinque.dialects.command import Command, Later, Request, Session, Wait
from quinque.dialects.quick_replies import reply_event
from quinque.errors import BadArgument
from quinque.model.families import EVENTS
from quinque.model.limits import LEASE_DEFAULT_MS
from quinque.model.ops import Ack, Delivery, FindReady, Peek, Put, Release, Reserve
from quinque.wire.resp import OK, Value

OKQ_GROUP: Final = b"okq"


def parse_qlpush(argv: list[bytes]) -> Request:
    """QLPUSH queue id contents [NOBLOCK]

    Add an event on the left: it is consumed after all others. NOBLOCK returns OK at once and
    adds the event in the background.
    """
    return _parse_push("QLPUSH", argv, to_front=False)


def parse_qrpush(argv: list[bytes]) -> Request:
    """QRPUSH queue id contents [NOBLOCK]

    Add an event on the right: it is consumed before all others. NOBLOCK returns OK at once and
    adds the event in the background.
    """
    return _parse_push("QRPUSH", argv, to_front=True)


def reply_push(ids: list[bytes]) -> Value:
    """OK. The client knows the id."""
    return OK


def parse_qlpeek(argv: list[bytes]) -> Peek:
    """QLPEEK queue

    Return the event on the left, which would be consumed last. Nothing changes.
    """
    return Peek(EVENTS, read_name("queue", argv[1]), OKQ_GROUP, last=True)


def parse_qrpeek(argv: list[bytes]) -> Peek:
    """QRPEEK queue

    Return the event on the right, which would be consumed next. Nothing changes.
    """
    return Peek(EVENTS, read_name("queue", argv[1]), OKQ_GROUP)


def reply_peek(found: Delivery | None) -> Value:
    """[id, contents], or null."""
    return None if found is None else [found.message_id, found.body]


def parse_qrpop(argv: list[bytes]) -> Reserve:
    """QRPOP queue [EX seconds]

    Take the event on the right and lease it for EX seconds (30). If it is not acked with QACK
    in this time, it is delivered again. EX 0 acks it at once.
    """
    queue = read_name("queue", argv[1])
    words = argv[2:]
    # Clients from before EX 0 send NOACK as well.
    if words and words[-1].upper() == b"NOACK":
        words = words[:-1]
    return Reserve(EVENTS, queue, OKQ_GROUP, parse_lease("QRPOP", words), 1, False)


def gather_reserve(reserve: Reserve, last_arguments: list[bytes]) -> bool:
    """Merge identical requests."""
    reserve.count = len(last_arguments)
    return True


def parse_lease(command: str, words: Sequence[bytes]) -> int:
    """Return [EX seconds] as milliseconds, or the default."""
    if not words:
        return LEASE_DEFAULT_MS
    if words[0].upper() != b"EX":
        raise refuse_option(command, words[0])
    if len(words) == 1:
        raise BadArgument(f"{command} EX requires a number of seconds")
    if len(words) > 2:
        raise refuse_option(command, words[2])
    return read_seconds("EX", words[1])


def parse_okq_qack(argv: list[bytes]) -> Ack | Release:
    """QACK queue id [REDO]: finish an event, leased or not, or return it to the queue at once."""
    queue, id = read_name("queue", argv[1]), read_name("id", argv[2])
    if len(argv) == 4:
        return Release(EVENTS, queue, OKQ_GROUP, (id,))
    return Ack(EVENTS, queue, OKQ_GROUP, (id,), held_only=False)


def parse_okq_qnotify(argv: list[bytes], session: Session) -> Wait:
    """QNOTIFY seconds: wait for an event in one of the registered queues."""
    queues = list(session.registered)
    timeout_ms = read_seconds("timeout", argv[1])
    return Wait(FindReady(EVENTS, OKQ_GROUP, queues), queues, OKQ_GROUP, timeout_ms)


def run_qregister(session: Session, argv: list[bytes]) -> Value:
    """QREGISTER [queue ...]

    Make this connection a consumer of these queues only. QNOTIFY seconds waits on them.
    """
    session.register(read_names("queue", argv[1:]))
    return OK


def _parse_push(command: str, argv: list[bytes], *, to_front: bool) -> Request:
    put = Put(
        EVENTS,
        read_name("queue", argv[1]),
        argv[3:4],
        message_id=read_name("id", argv[2]),
        to_front=to_front,
        is_single=True,
    )
    return put if len(argv) == 4 else parse_noblock(command, put, argv[4:])


def parse_noblock(command: str, put: Put, words: Sequence[bytes]) -> Later:
    """Read the arguments after an addition: only the option NOBLOCK is allowed."""
    for word in words:
        if word.upper() != b"NOBLOCK":
            raise refuse_option(command, word)
    return Later(put)


_EVENTS: Final = EVENTS.name
COMMANDS: Final = [
    Command("QLPUSH", _EVENTS, "write", -4, parse_qlpush, reply_push),
    Command("QRPUSH", _EVENTS, "write", -4, parse_qrpush, reply_push),
    Command("QLPEEK", _EVENTS, "read", 2, parse_qlpeek, reply_peek),
    Command("QRPEEK", _EVENTS, "read", 2, parse_qrpeek, reply_peek),
    Command(
        "QRPOP",
        _EVENTS,
        "write",
        -2,
        parse_qrpop,
        gather=gather_reserve,
        reply_each=reply_event,
        varies=0,
    ),
    Command("QREGISTER", _EVENTS, "read", -1, run=run_qregister, queues=lambda argv: argv[1:]),
]
