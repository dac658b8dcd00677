"""The commands that read the lifecycle log: LIFECYCLE.SHARDS LIFECYCLE.READ.

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py.

Not here: the format of entries (model/lifecycle.py), their storage (stores/).
"""

from __future__ import annotations

from typing import Final

from quinque.dialects.args import read_int
from quinque.dialects.command import Command, Session, no_queues
from quinque.dialects.options import SLOTS_MOST, Options, read_number
from quinque.errors import NoPermission
from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.wire.resp import Value

GROUP: Final = "lifecycle"
_COUNT: Final = 10_000  # entries; some hundred kB


def parse_shards(argv: list[bytes], session: Session) -> FindRecords:
    """LIFECYCLE.SHARDS

    Return the state of the lifecycle log for each shard: the number of the first row, the number of
    the next row, the time of the first row (ms since 1970), and a number that is different in the
    log of another store. Requires a user who can access every queue.
    """
    _check_sees_all("LIFECYCLE.SHARDS", session)
    return FindRecords()


def reply_shards(asked: FindRecords, records: list[Record], session: Session) -> Value:
    """[[shard, first, next, milliseconds, log], …]"""
    return [
        [record.shard, record.first, record.next, record.first_ms, record.log] for record in records
    ]


def parse_read(argv: list[bytes], session: Session) -> ReadRecord:
    """LIFECYCLE.READ shard start [COUNT n]

    Return entries of the lifecycle log from the row start on, about COUNT rows (10000), each
    packed. At the end of the log the reply is empty. Requires a user who can access every queue.
    """
    _check_sees_all("LIFECYCLE.READ", session)
    shard = read_int("shard", argv[1], least=0, most=SLOTS_MOST)
    read = ReadRecord(shard, read_number("start", argv[2]), _COUNT)
    options = Options("LIFECYCLE.READ", argv, 3)
    for word in options:
        if word != b"COUNT":
            raise options.refused()
        read.count = options.number(least=1)
    return read


def reply_read(asked: ReadRecord, entries: list[bytes], session: Session) -> Value:
    """The entries."""
    return list(entries)


def _check_sees_all(command: str, session: Session) -> None:
    if not session.sees_all():
        raise NoPermission(f"{command} requires a user who can access every queue")


COMMANDS: Final = [
    Command(
        "LIFECYCLE.SHARDS",
        GROUP,
        "read",
        1,
        parse_shards,
        reply_shards,
        queues=no_queues,
        with_session=True,
    ),
    Command(
        "LIFECYCLE.READ",
        GROUP,
        "read",
        -3,
        parse_read,
        reply_read,
        queues=no_queues,
        with_session=True,
    ),
]
