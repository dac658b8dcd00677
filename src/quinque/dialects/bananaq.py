"""The events family with the commands of bananaq: QADD QGET QACK QNOTIFY QFLUSH QSTATUS QINFO.

Called by   server/dispatch.py, through COMMANDS.
Calls       dialects/args.py.

Two commands have a second form that okq's clients send. The number of arguments shows which it is:
QACK with two arguments, or with REDO as the third, and QNOTIFY with one.

Not here: okq's own commands (okq.py), the rules (engine/feed/decide.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quinque.dialects.args import read_name, read_names, read_seconds
from quinque.dialects.command import Command, Request, Session, Wait
from quinque.dialects.okq import (
    gather_reserve,
    parse_lease,
    parse_noblock,
    parse_okq_qack,
    parse_okq_qnotify,
)
from quinque.dialects.quick_replies import reply_event, reply_id, reply_whether
from quinque.errors import BadArgument, LimitReached, WrongArity
from quinque.model.families import EVENTS
from quinque.model.limits import COUNTS_MOST, COUNTS_MOST_BYTES
from quinque.model.ops import (
    Ack,
    Count,
    FindReady,
    Flush,
    GroupCount,
    Put,
    QueueCount,
    Reserve,
)
from quinque.wire.resp import OK, Value

_NUMBERS_BYTES: Final = 150  # the counts of a group in a reply of QSTATUS, with their names


def parse_qadd(argv: list[bytes]) -> Request:
    """QADD queue expireSeconds contents [NOBLOCK]

    Add an event. Every consumer group receives it until it expires. NOBLOCK returns OK at once
    and adds the event in the background.
    """
    ttl_ms = read_seconds("expireSeconds", argv[2], least_ms=1)
    put = Put(EVENTS, read_name("queue", argv[1]), argv[3:4], ttl_ms)
    return put if len(argv) == 4 else parse_noblock("QADD", put, argv[4:])


def gather_qadd(put: Request, bodies: list[bytes]) -> bool:
    """Merge requests that add to one queue with the same expiry, and do not have NOBLOCK."""
    if not isinstance(put, Put):
        return False
    put.bodies = bodies
    return True


def parse_qget(argv: list[bytes]) -> Reserve:
    """QGET queue consumerGroup [EX seconds] [WITHDELIVERIES]

    Take the group's next event and lease it for EX seconds (30). If the group does not QACK it
    in this time, it is delivered again. EX 0 acks it at once. WITHDELIVERIES (Quinque
    extension) adds the number of deliveries to the group.
    """
    queue, group = read_name("queue", argv[1]), read_name("consumerGroup", argv[2])
    words = argv[3:]
    if len(words) != 2 or words[0] != b"EX":  # the most frequent form
        words = [word for word in words if word.upper() != b"WITHDELIVERIES"]
    tells_deliveries = len(words) < len(argv) - 3
    return Reserve(EVENTS, queue, group, parse_lease("QGET", words), 1, tells_deliveries)


def parse_qack(argv: list[bytes]) -> Request:
    """QACK queue consumerGroup eventID

    Ack the event for the group. Returns 1, or 0 if the group does not hold the event. The okq
    form, QACK queue eventID [REDO], acks the event of any consumer, or returns it to the queue.
    """
    if len(argv) == 3 or (len(argv) == 4 and argv[3].upper() == b"REDO"):
        return parse_okq_qack(argv)
    if len(argv) > 4:
        raise WrongArity("QACK")
    queue, group = read_name("queue", argv[1]), read_name("consumerGroup", argv[2])
    return Ack(EVENTS, queue, group, argv[3:4])


def gather_qack(ack: Request, ids: list[bytes]) -> bool:
    """Merge acks of one group, but not okq's REDO, which is in the place of the id."""
    if not isinstance(ack, Ack) or any(len(id) == 4 and id.upper() == b"REDO" for id in ids):
        return False
    if not ack.held_only:  # the form of okq, whose ids are names
        for id in ids:
            read_name("id", id)
    ack.message_ids = ids
    return True


def parse_qnotify(argv: list[bytes], session: Session) -> Wait:
    """QNOTIFY consumerGroup timeout [queue ...]

    Wait up to timeout seconds for an event and return the first of the queues that has one for
    the group. The okq form, QNOTIFY timeout, waits on the queues of QREGISTER.
    """
    if len(argv) == 2:
        return parse_okq_qnotify(argv, session)
    group = read_name("consumerGroup", argv[1])
    timeout_ms = read_seconds("timeout", argv[2])
    queues = read_names("queue", argv[3:])
    return Wait(FindReady(EVENTS, group, queues), queues, group, timeout_ms)


def reply_qnotify(asked: Wait, queue: bytes | None, session: Session) -> Value:
    """The queue's name, or null when time is up."""
    return queue


def parse_qflush(argv: list[bytes]) -> Flush:
    """QFLUSH queue

    Remove all events. Consumers can still ack leased events, but these are not delivered again.
    """
    return Flush(EVENTS, read_name("queue", argv[1]))


def reply_qflush(done: None) -> Value:
    """OK."""
    return OK


def parse_qstatus(argv: list[bytes], session: Session) -> Count:
    """QSTATUS [queue ...] [GROUPS group ...]

    Return counts for each queue and group: total, inprogress, redo, done, available, consumers.
    The later bananaq form, QSTATUS QUEUE queue ... GROUP group ..., is supported too.
    """
    queues, groups = _split_at_groups(argv)
    asked = Count(
        EVENTS,
        read_names("queue", queues),
        None if groups is None else read_names("group", groups),
    )
    rows = len(asked.queues) * len(asked.groups or ())
    if rows > COUNTS_MOST:
        raise BadArgument(
            f"{_some(len(asked.queues), 'queue')} and {_some(len(asked.groups or ()), 'group')} are"
            f" {rows} rows in one reply; at most {COUNTS_MOST}"
        )
    if (
        not asked.queues and session.sees_all()
    ):  # otherwise the reply limit might cut off queues that the user may see
        asked.most = COUNTS_MOST
    return asked


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def reply_qstatus(asked: Count, counts: list[QueueCount], session: Session) -> Value:
    """[[queue, {group: {statistic: number}}], …]"""
    told = _with_consumers(asked, counts, session)
    _check_size(
        sum(
            len(row.queue) + sum(_NUMBERS_BYTES + len(group.group) for group, _ in groups)
            for row, groups in told
        )
    )
    return [
        [
            row.queue,
            {group.group: dict(_statistics(group, consumers)) for group, consumers in groups},
        ]
        for row, groups in told
    ]


def parse_qinfo(argv: list[bytes], session: Session) -> Count:
    """QINFO [queue ...] [GROUPS group ...]

    Return the counts of QSTATUS as readable lines.
    """
    return parse_qstatus(argv, session)


def reply_qinfo(asked: Count, counts: list[QueueCount], session: Session) -> Value:
    """Return a line for each queue and group, in columns."""
    rows: list[list[str]] = []
    for row, groups in _with_consumers(asked, counts, session):
        queue = _shown(row.queue)
        if not groups:
            rows.append([queue, "", f"total:{row.total}"])
        for group, consumers in groups:
            cells = [f"{word}:{number}" for word, number in _statistics(group, consumers)]
            rows.append([queue, _shown(group.group), *cells])
    widths = [
        max((len(row[column]) for row in rows if column < len(row)), default=0)
        for column in range(max(map(len, rows), default=0))
    ]
    _check_size(len(rows) * (sum(widths) + len(widths)))
    return [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        .rstrip()
        .encode()
        for row in rows
    ]


def _split_at_groups(argv: list[bytes]) -> tuple[Sequence[bytes], Sequence[bytes] | None]:
    """Return the names before the option GROUPS and those after it, or None without it. If every
    second argument is QUEUE or GROUP, return the names after each of these."""
    if len(argv) > 2 and len(argv) % 2 and argv[1].upper() in (b"QUEUE", b"GROUP"):
        words = [word.upper() for word in argv[1::2]]
        if {b"QUEUE", b"GROUP"}.issuperset(words):
            named = list(zip(words, argv[2::2], strict=True))
            groups = [name for word, name in named if word == b"GROUP"]
            return [name for word, name in named if word == b"QUEUE"], groups or None
    for at in range(1, len(argv)):
        if argv[at].upper() == b"GROUPS":
            return argv[1:at], argv[at + 1 :]
    return argv[1:], None


def _with_consumers(
    asked: Count, counts: list[QueueCount], session: Session
) -> list[tuple[QueueCount, list[tuple[GroupCount, int]]]]:
    """Add the number of blocked consumers to each queue and group.

    Queues and groups that only have consumers are added, and so are requested ones. Raises
    LimitReached if that is too much for one reply.
    """
    waiting = session.consumers(asked.queues)
    rows = {row.queue: row for row in counts}
    if not asked.queues:
        for queue in waiting:
            rows.setdefault(queue, QueueCount(queue, 0, []))
        rows = {queue: rows[queue] for queue in sorted(rows) if session.sees(queue)}
    found: list[tuple[QueueCount, list[tuple[GroupCount, int]]]] = []
    count = 0
    for row in rows.values():
        consumers = waiting.get(row.queue, {})
        known = {group.group: group for group in row.groups}
        names = sorted({*known, *consumers}) if asked.groups is None else asked.groups
        count += max(1, len(names))
        if count > COUNTS_MOST:
            which = _some(len(rows), "queue") if asked.queues else "all queues"
            raise LimitReached(
                f"the counts of {which} and their groups are over {COUNTS_MOST} rows in one reply:"
                " name fewer queues or groups"
            )
        found.append((row, _groups_of(row, names, known, consumers)))
    return found


def _check_size(size_bytes: int) -> None:
    """Raise LimitReached if a reply would be too large."""
    if size_bytes > COUNTS_MOST_BYTES:
        raise LimitReached(
            f"the reply would have {size_bytes} bytes, and at most {COUNTS_MOST_BYTES} are sent:"
            " name fewer queues or groups"
        )


def _groups_of(
    row: QueueCount,
    names: Sequence[bytes],
    known: Mapping[bytes, GroupCount],
    waiting: Mapping[bytes, int],
) -> list[tuple[GroupCount, int]]:
    return [
        (
            known.get(name) or GroupCount(name, row.total, 0, 0, 0, available=row.total),
            waiting.get(name, 0),
        )
        for name in names
    ]


def _statistics(group: GroupCount, consumers: int) -> list[tuple[str, int]]:
    return [
        ("total", group.total),
        ("inprogress", group.leased),
        ("redo", group.redo),
        ("done", group.done),
        ("available", group.available),
        ("consumers", consumers),
    ]


def _shown(name: bytes) -> str:
    """Return a name on one line, without control characters."""
    text = name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else ascii(text)[1:-1].replace("\\\\", "\\")


def _queues_of_qnotify(argv: list[bytes]) -> Sequence[bytes]:
    return argv[3:]


def _queues_of_qstatus(argv: list[bytes]) -> Sequence[bytes]:
    return _split_at_groups(argv)[0]


_EVENTS: Final = EVENTS.name
COMMANDS: Final = [
    Command("QADD", _EVENTS, "write", -4, parse_qadd, gather=gather_qadd, reply_each=reply_id),
    Command(
        "QGET",
        _EVENTS,
        "write",
        -3,
        parse_qget,
        gather=gather_reserve,
        reply_each=reply_event,
        varies=0,
    ),
    Command("QACK", _EVENTS, "write", -3, parse_qack, gather=gather_qack, reply_each=reply_whether),
    Command(
        "QNOTIFY",
        _EVENTS,
        "read",
        -2,
        parse_qnotify,
        reply_qnotify,
        queues=_queues_of_qnotify,
        with_session=True,
        is_blocking=True,
    ),
    Command("QFLUSH", _EVENTS, "write", 2, parse_qflush, reply_qflush),
    Command(
        "QSTATUS",
        _EVENTS,
        "read",
        -1,
        parse_qstatus,
        reply_qstatus,
        queues=_queues_of_qstatus,
        with_session=True,
    ),
    Command(
        "QINFO",
        _EVENTS,
        "read",
        -1,
        parse_qinfo,
        reply_qinfo,
        queues=_queues_of_qstatus,
        with_session=True,
    ),
]
