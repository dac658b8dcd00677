"""Arguments of the commands that Redis has too, with the errors of Redis.

Called by   the other files here.
Calls       nothing.

Not here: arguments of the families (dialects/args.py).
"""

from __future__ import annotations

import re
from typing import Final

from quinque.errors import BadArgument

_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_GRAPHIC: Final = re.compile(rb"[!-~]*")  # allowed in a line of CLIENT LIST
# Lists and logs keep the label of every client.
_LABEL_MOST_BYTES: Final = 1024


def read_number(text: bytes, otherwise: str = "value is not an integer or out of range") -> int:
    """A 64-bit whole number in its one way of writing.

    Raises BadArgument with `otherwise`.
    """
    number = int(text) if _NUMBER.fullmatch(text) else 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise BadArgument(otherwise)
    return number


def read_switch(text: bytes, yes: bytes, no: bytes) -> bool:
    """Return which of two words the argument is. Raises BadArgument."""
    word = text.upper()
    if word not in (yes, no):
        raise syntax_error()
    return word == yes


def read_label(text: bytes, what: str = "Client names") -> bytes:
    """Return the name that a client gives itself.

    Raises BadArgument if it cannot be part of a line of CLIENT LIST.
    """
    if len(text) > _LABEL_MOST_BYTES:
        raise BadArgument(f"{what} cannot be longer than {_LABEL_MOST_BYTES} bytes")
    if not _GRAPHIC.fullmatch(text):
        raise BadArgument(f"{what} cannot contain spaces, newlines or special characters.")
    return text


def syntax_error() -> BadArgument:
    return BadArgument("syntax error")
