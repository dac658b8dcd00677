"""Readers of arguments that Disque's commands share: ids, names, numbers, states.

Called by   disque.py, disque_jobs.py, disque_queues.py, while they parse.
Calls       args.py.

The id of a job. Clients and the broker first read four bytes of it:

    D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
    01        10                       35

Not here: readers that other families use too (args.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from quinque.dialects.args import check_count, read_seconds
from quinque.dialects.command import Wait
from quinque.errors import BadArgument, BadId, printable
from quinque.model.limits import NAME_MOST_BYTES, NEVER_MS, SPAN_MOST_MS, SPAN_MOST_S
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ids import is_id
from quinque.model.work_ops import ScanMessages, ScanQueues

INTEGER_MOST: Final = (1 << 63) - 1

# The count of a scan that needs no messages, because none can match; clients send 1 or more.
NOTHING: Final = 0
_SCAN_COUNT: Final = 100

# In the order of the life of a job. `active` is a job that a consumer has.
STATES: Final = {
    b"queued": State.READY,
    b"delayed": State.DELAYED,
    b"active": State.LEASED,
    b"dead": State.DEAD,
}

_CURSOR_MOST_DIGITS: Final = 20  # of 64 bits
# As in Disque, digits beyond the 64 bits are refused for their value, not for their number.
_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,40}")


def read_ids(texts: Sequence[bytes]) -> Sequence[bytes]:
    """Return the ids unchanged if each has the format of a job id. Raises BadId."""
    for text in texts:
        if not is_id(text):
            raise BadId
    return texts


def read_queue(text: bytes) -> bytes:
    """Return the name of a queue: any bytes, also none, that are not too long."""
    if len(text) > NAME_MOST_BYTES:
        raise BadArgument(f"queue has {len(text)} bytes; at most {NAME_MOST_BYTES}")
    return text


def read_queues(texts: list[bytes]) -> list[bytes]:
    """Return the names of queues without repetitions."""
    check_count("queues", texts)
    for text in texts:
        read_queue(text)
    return texts if len(texts) == 1 else list(dict.fromkeys(texts))


def read_text(what: str, text: bytes) -> bytes:
    """Return text of a client that is stored with its job."""
    if len(text) > NAME_MOST_BYTES:
        raise BadArgument(f"{what} has {len(text)} bytes; at most {NAME_MOST_BYTES}")
    return text


def read_integer(what: str, text: bytes, least: int = 0) -> int:
    """Return a whole number of 64 bits that is at least `least`."""
    number = _integer(text)
    if number is None:
        raise BadArgument(f"{what} '{_shown(text)}' is not an integer or out of range")
    if number < least:
        raise BadArgument(f"{what} {number} is less than {least}")
    return number


def read_span_ms(what: str, text: bytes, least_s: int = 0) -> int:
    """Return a duration of whole seconds as milliseconds."""
    span_s = read_integer(what, text, least_s)
    if span_s > SPAN_MOST_S:
        raise BadArgument(f"{what} {span_s} is over {SPAN_MOST_S} s")
    return span_s * 1000


def read_delay_ms(text: bytes) -> int:
    """Return the seconds after DELAY as milliseconds. Fractions are a Quinque extension."""
    return read_seconds("DELAY", text) if b"." in text else read_span_ms("DELAY", text)


def read_timeout_ms(text: bytes) -> int:
    """Return the time to wait. 0, which means no limit on the wire, becomes NEVER_MS."""
    timeout_ms = _integer(text)
    if timeout_ms is None:
        raise BadArgument("timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise BadArgument("timeout is negative")
    if timeout_ms > SPAN_MOST_MS:
        raise BadArgument(f"timeout {timeout_ms} is over {SPAN_MOST_MS} ms")
    return timeout_ms or NEVER_MS


def read_state(text: bytes, among: Collection[bytes] = STATES) -> State:
    """Return the state with this name."""
    word = text.lower()
    if word not in among:
        raise unknown_state(text, among)
    return STATES[word]


def unknown_state(text: bytes, among: Collection[bytes]) -> BadArgument:
    """Make the error for an argument that does not name one of these states."""
    listed = ", ".join(state.decode() for state in among)
    return BadArgument(f"STATE '{_shown(text)}' is not one of {listed}")


def scan_options(
    command: str, argv: list[bytes], scan: ScanQueues | ScanMessages, options: Collection[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield these options with their values. At the end, the scan has its cursor and its count.

    The cursor is the argument, in any place, that is not an option. An option without a value is
    read as the cursor too, as in Disque.
    """
    scan.count = _SCAN_COUNT
    has_cursor = is_all = False
    at, end = 1, len(argv)
    while at < end:
        word = argv[at].upper()
        if at + 1 < end and (word == b"COUNT" or word in options):
            if word == b"COUNT":
                scan.count = read_integer("COUNT", argv[at + 1], least=1)
            else:
                yield word, argv[at + 1]
            at += 2
            continue
        if word == b"BUSYLOOP":
            is_all = True
        elif has_cursor:
            raise syntax_error(command, argv[at])
        elif not argv[at].isdigit() or len(argv[at]) > _CURSOR_MOST_DIGITS:
            raise BadArgument(f"invalid cursor or option name '{_shown(argv[at])}'")
        else:
            scan.cursor = int(argv[at])
            has_cursor = True
        at += 1
    if is_all:
        scan.count = INTEGER_MOST


def syntax_error(command: str, word: bytes) -> BadArgument:
    """Make the error for an argument in the wrong place, or without its value."""
    return BadArgument(f"syntax error in {command}, at '{_shown(word)}'")


def once(op: Op, *, detail: bool) -> Wait:
    """Return a Wait that runs the operation once, with the options for the reply."""
    return Wait(op, (), b"", timeout_ms=0, detail=detail)


def _integer(text: bytes) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -INTEGER_MOST - 1 <= number <= INTEGER_MOST else None


def _shown(text: bytes) -> str:
    return printable(text[:64])
