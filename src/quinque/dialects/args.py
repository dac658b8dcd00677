"""Typed readers of arguments: each returns a valid value, or raises an error that says what is
wrong.

Called by   dialects, while they parse.
Calls       nothing.

Not here: the number of arguments (server/dispatch.py checks arity).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from quinque.errors import BadArgument, printable
from quinque.model.limits import NAME_MOST_BYTES, NAMES_MOST, SPAN_MOST_MS, SPAN_MOST_S

_DECIMAL: Final = re.compile(rb"[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}")
_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}")


def read_name(what: str, text: bytes) -> bytes:
    """Return a queue, a group or an id: any bytes that are neither empty nor too long."""
    if not text:
        raise BadArgument(f"{what} must not be empty")
    if len(text) > NAME_MOST_BYTES:
        raise BadArgument(f"{what} has {len(text)} bytes; at most {NAME_MOST_BYTES}")
    return text


def read_names(what: str, texts: Sequence[bytes]) -> list[bytes]:
    """Return names of queues or groups, if there are not too many."""
    check_count(what + "s", texts)
    return [read_name(what, text) for text in texts]


def check_count(what: str, texts: Sequence[bytes], most: int = NAMES_MOST) -> None:
    """Raise BadArgument if a request has too many names."""
    if len(texts) > most:
        raise BadArgument(f"{len(texts)} {what} in one request; at most {most}")


def read_pattern(text: bytes) -> bytes:
    """Return a pattern for names, which is not longer than a name."""
    if len(text) > NAME_MOST_BYTES:
        raise BadArgument(f"pattern has {len(text)} bytes; at most {NAME_MOST_BYTES}")
    return text


def read_seconds(what: str, text: bytes, *, least_ms: int = 0, is_endless: bool = False) -> int:
    """Return a duration in seconds, whole or with a fraction, as milliseconds. A short one is at
    least 1 ms.

    With `is_endless`, a duration that is too long becomes the longest one.
    """
    # Nearly all clients send whole seconds.
    if text.isdigit() and len(text) < 10:
        span_ms = int(text) * 1000
    elif _DECIMAL.fullmatch(text):
        whole, _, part = text.partition(b".")
        nanoseconds = int(whole or b"0") * 10**9 + int(part[:9].ljust(9, b"0"))
        nanoseconds += bool(part[9:].strip(b"0"))  # a client may write a float with all its digits
        span_ms = -(-nanoseconds // 10**6)
    else:
        least = "more than 0" if least_ms else "0 or more"
        raise BadArgument(f"{what} '{_shown(text)}' is not a number of seconds, {least}")
    if span_ms > SPAN_MOST_MS:
        if is_endless:
            return SPAN_MOST_MS
        raise BadArgument(f"{what} {_shown(text)} is over {SPAN_MOST_S} s")
    if span_ms < least_ms:
        raise BadArgument(f"{what} {_shown(text)} must be more than 0 s")
    return span_ms


def read_int(what: str, text: bytes, *, least: int, most: int) -> int:
    """Return a whole number within bounds."""
    if not _NUMBER.fullmatch(text):
        raise BadArgument(f"{what} '{_shown(text)}' is not a whole number")
    number = int(text)
    if not least <= number <= most:
        raise BadArgument(f"{what} {number} is not within {least} and {most}")
    return number


def refuse_option(command: str, word: bytes) -> BadArgument:
    """Make the error for an option that the command does not have."""
    return BadArgument(f"{command} has no option '{_shown(word)}'")


def _shown(text: bytes) -> str:
    return printable(text[:64])
