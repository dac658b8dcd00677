"""Whole queues, with the commands that Redis has for keys: TYPE EXISTS DEL RENAME EXPIRE SCAN …

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py.

TYPE, EXISTS and SCAN work with queues of every family. The other commands work only with reliable
queues.

A cursor of SCAN contains the family that is scanned, and the position in it:

    cursor = 8 × how far + number of the family, in the order of FAMILIES

Not here: the messages of a queue (the dialect of its family), MEMORY USAGE
(server/commands/memory.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from quinque.dialects.args import check_count, read_pattern
from quinque.dialects.command import Command, Right, Session, Wait, first_queue, no_queues
from quinque.dialects.options import read_any_queue
from quinque.errors import BadArgument, printable
from quinque.model.families import FAMILIES, RELIABLE, Family
from quinque.model.glob import compile_glob, match_cost
from quinque.model.limits import NAME_MOST_BYTES, SCAN_MOST, SPAN_MOST_MS
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.work_ops import ScanQueues
from quinque.wire.resp import OK, Simple, Value

GROUP: Final = "queues"  # the group of these commands in COMMAND DOCS

_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")  # without leading zeros or signs, as in Redis
_CURSOR: Final = re.compile(rb"[0-9]{1,20}")
_SCAN_COUNT: Final = 10  # as in Redis
_LONGEST: Final = bytes(NAME_MOST_BYTES)
_NO_TYPE: Final = b"none"
_TYPES: Final = {family: family.name.encode() for family in FAMILIES} | {RELIABLE: b"RELIABLEQ"}
_LAST: Final = len(FAMILIES) - 1
_STEP: Final = 8  # of cursors from one position to the next: more than there are families


def parse_type(argv: list[bytes]) -> FindFamilies:
    """TYPE queue

    Return the family of the queue, or none.
    """
    return FindFamilies([read_any_queue(argv[1])])


def reply_type(families: list[Family | None]) -> Value:
    """RELIABLEQ, or the name of another family, or none, as a simple string."""
    [family] = families
    return Simple(_NO_TYPE if family is None else _TYPES[family])


def parse_exists(argv: list[bytes]) -> FindFamilies:
    """EXISTS queue [queue ...]

    Return how many of the queues exist. A queue that is named twice counts twice.
    """
    return FindFamilies(_read_queues(argv[1:]))


def reply_exists(families: list[Family | None]) -> Value:
    """A number."""
    return len(families) - families.count(None)


def parse_del(argv: list[bytes]) -> DeleteQueues:
    """DEL queue [queue ...]

    Delete the queues and their messages. Returns the number of queues that existed.
    """
    return DeleteQueues(RELIABLE, _read_queues(argv[1:]))


def parse_unlink(argv: list[bytes]) -> DeleteQueues:
    """UNLINK queue [queue ...]

    Delete queues like DEL.
    """
    return parse_del(argv)


def reply_number(number: int) -> Value:
    """A number."""
    return int(number)


def parse_rename(argv: list[bytes]) -> RenameQueue:
    """RENAME queue newname

    Rename the queue. A queue that has the new name is deleted.
    """
    return RenameQueue(RELIABLE, read_any_queue(argv[1]), read_any_queue(argv[2]))


def reply_rename(is_done: bool) -> Value:
    """OK, as a simple string."""
    return OK


def parse_renamenx(argv: list[bytes]) -> RenameQueue:
    """RENAMENX queue newname

    Rename the queue, unless a queue with the new name exists. Returns 1, or 0 if it exists.
    """
    queue, new_name = read_any_queue(argv[1]), read_any_queue(argv[2])
    return RenameQueue(RELIABLE, queue, new_name, only_free=True)


def parse_expire(argv: list[bytes], session: Session) -> SetExpiry:
    """EXPIRE queue seconds

    Delete the queue and its messages after the given seconds. Returns 1, or 0 if the queue does
    not exist.
    """
    return _expiring(argv, session, 1000, session.now_ms())


def parse_pexpire(argv: list[bytes], session: Session) -> SetExpiry:
    """PEXPIRE queue milliseconds

    Set an expiry like EXPIRE, in milliseconds.
    """
    return _expiring(argv, session, 1, session.now_ms())


def parse_expireat(argv: list[bytes], session: Session) -> SetExpiry:
    """EXPIREAT queue unix-seconds

    Set an expiry like EXPIRE, at the given Unix time in seconds.
    """
    return _expiring(argv, session, 1000, 0)


def parse_pexpireat(argv: list[bytes], session: Session) -> SetExpiry:
    """PEXPIREAT queue unix-milliseconds

    Set an expiry like EXPIRE, at the given Unix time in milliseconds.
    """
    return _expiring(argv, session, 1, 0)


def reply_expire(asked: SetExpiry, is_done: bool, session: Session) -> Value:
    """1 or 0."""
    return int(is_done)


def parse_persist(argv: list[bytes]) -> SetExpiry:
    """PERSIST queue

    Remove the expiry of the queue. Returns 1, or 0 if it has no expiry or does not exist.
    """
    return SetExpiry(RELIABLE, read_any_queue(argv[1]), 0)


def parse_ttl(argv: list[bytes], session: Session) -> LookAtExpiry:
    """TTL queue

    Return the seconds until the queue expires: -1 if it has no expiry, -2 if it does not exist.
    """
    return LookAtExpiry(RELIABLE, read_any_queue(argv[1]))


def reply_ttl(asked: LookAtExpiry, expires_ms: int | None, session: Session) -> Value:
    """The number of seconds, rounded to the nearest."""
    left_ms = _left_ms(expires_ms, session)
    return left_ms if left_ms < 0 else (left_ms + 500) // 1000


def parse_pttl(argv: list[bytes], session: Session) -> LookAtExpiry:
    """PTTL queue

    Return the time to live of the queue like TTL, in milliseconds.
    """
    return LookAtExpiry(RELIABLE, read_any_queue(argv[1]))


def reply_pttl(asked: LookAtExpiry, expires_ms: int | None, session: Session) -> Value:
    """A number of milliseconds."""
    return _left_ms(expires_ms, session)


def parse_scan(argv: list[bytes], session: Session) -> Wait:
    """SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]

    Iterate over the names of all queues, or of those that match the pattern or have that type:
    start with cursor 0 and repeat with the returned cursor until it is 0.
    """
    if not _CURSOR.fullmatch(argv[1]):
        raise BadArgument("invalid cursor")
    cursor, number = divmod(int(argv[1]), _STEP)
    count, pattern, of_type = _SCAN_COUNT, b"*", b""
    at, end = 2, len(argv)
    while at < end:
        word = argv[at].upper()
        if at + 1 == end or word not in (b"MATCH", b"COUNT", b"TYPE"):
            raise BadArgument("syntax error")
        text = argv[at + 1]
        if word == b"MATCH":
            pattern = read_pattern(text)
        elif word == b"TYPE":
            of_type = text.lower()
        else:
            count = _integer(text)
            if count < 1:
                raise BadArgument("syntax error")
        at += 2
    if of_type:
        of_this = [at for at, family in enumerate(FAMILIES) if _TYPES[family].lower() == of_type]
        if not of_this:
            return Wait(FindFamilies(()), (), b"", timeout_ms=0)
        [number] = of_this
    number = min(number, _LAST)
    family = FAMILIES[number]
    # Fewer names than requested if each could take long to match: 0.3 ms at worst.
    count = min(count, max(1, SCAN_MOST // (1 + match_cost((pattern,)).of(_LONGEST))))
    is_last = bool(of_type) or number == _LAST
    return Wait(
        ScanQueues(family, cursor, count), (), b"", timeout_ms=0, patterns=[pattern], detail=is_last
    )


def reply_scan(asked: Wait, found: Any, session: Session) -> Value:
    """[cursor, [name, …]]"""
    op = asked.op
    if not isinstance(op, ScanQueues):
        return [b"0", []]
    number = FAMILIES.index(op.family)
    cursor, names = found
    place = cursor * _STEP + number
    if not cursor:
        place = 0 if asked.detail else number + 1
    matches = compile_glob(asked.patterns[0]).fullmatch
    shown: list[Value] = [name for name in names if matches(name) and session.sees(name)]
    return [b"%d" % place, shown]


def _expiring(argv: list[bytes], session: Session, unit_ms: int, from_ms: int) -> SetExpiry:
    """Make the operation that sets the expiry to `unit_ms` times the number after `from_ms`. A time
    in the past is allowed."""
    queue = read_any_queue(argv[1])
    if len(argv) > 3:
        raise BadArgument(f"Unsupported option {printable(argv[3][:64])}")
    span_ms = _integer(argv[2]) * unit_ms
    if from_ms + span_ms > session.now_ms() + SPAN_MOST_MS:
        command = printable(argv[0].lower())
        raise BadArgument(f"invalid expire time in '{command}' command")
    return SetExpiry(RELIABLE, queue, max(1, from_ms + span_ms))


def _left_ms(expires_ms: int | None, session: Session) -> int:
    if expires_ms is None:
        return -2
    return max(0, expires_ms - session.now_ms()) if expires_ms else -1


def _read_queues(texts: list[bytes]) -> list[bytes]:
    check_count("queues", texts)
    return [read_any_queue(text) for text in texts]


def _integer(text: bytes) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise BadArgument("value is not an integer or out of range")
    return number


def _all_queues(argv: list[bytes]) -> Sequence[bytes]:
    return argv[1:]


def _two_queues(argv: list[bytes]) -> Sequence[bytes]:
    return argv[1:3]


def _of_reliable(argv: list[bytes]) -> Family:
    return RELIABLE


def of_any(argv: list[bytes]) -> None:
    """Return no family: the command works with queues of every family."""


def _row(
    name: str,
    right: Right,
    arity: int,
    parse: Callable[..., Any],
    reply: Callable[..., Value],
    queues: Callable[[list[bytes]], Sequence[bytes]] = first_queue,
    *,
    with_session: bool = False,
    family: Callable[[list[bytes]], Family | None] = _of_reliable,
) -> Command:
    return Command(
        name,
        GROUP,
        right,
        arity,
        parse,
        reply,
        queues=queues,
        with_session=with_session,
        family=family,
    )


_looks: Final = partial(_row, right="read", family=of_any)
_timed: Final = partial(_row, with_session=True)

COMMANDS: Final = [
    _looks("TYPE", arity=2, parse=parse_type, reply=reply_type),
    _looks("EXISTS", arity=-2, parse=parse_exists, reply=reply_exists, queues=_all_queues),
    _looks(
        "SCAN", arity=-2, parse=parse_scan, reply=reply_scan, queues=no_queues, with_session=True
    ),
    _row("DEL", "write", -2, parse_del, reply_number, _all_queues),
    _row("UNLINK", "write", -2, parse_unlink, reply_number, _all_queues),
    _row("RENAME", "write", 3, parse_rename, reply_rename, _two_queues),
    _row("RENAMENX", "write", 3, parse_renamenx, reply_number, _two_queues),
    _timed("EXPIRE", "write", -3, parse_expire, reply_expire),
    _timed("PEXPIRE", "write", -3, parse_pexpire, reply_expire),
    _timed("EXPIREAT", "write", -3, parse_expireat, reply_expire),
    _timed("PEXPIREAT", "write", -3, parse_pexpireat, reply_expire),
    _row("PERSIST", "write", 2, parse_persist, reply_number),
    _timed("TTL", "read", 2, parse_ttl, reply_ttl),
    _timed("PTTL", "read", 2, parse_pttl, reply_pttl),
]
