"""Errors in the form of Tarantool: a number and a text.

Called by   server/tarantool_calls.py, tarantool_requests.py and tarantool_connection.py.
Calls       nothing.

Errors that a function raises have the number 32 there, which stands for an error of Lua. So have
all errors here that have no other number.

Not here: numbers of bad arguments (tarantool_args.py).
"""

from __future__ import annotations

from typing import Final

from quinque.dialects.tarantool_args import LUA, NOT_DEFINED
from quinque.errors import (
    BadTuple,
    DiskFull,
    NoAuth,
    NoKind,
    NoPermission,
    NotDefined,
    NotDone,
    NoTube,
    ProtocolBroken,
    QuinqueError,
    StoreUnavailable,
    WrongPass,
    printable,
)

NO_SPACE: Final = 36
UNKNOWN_REQUEST: Final = 48
BAD_PACKET: Final = 20
_ACCESS_DENIED: Final = 42
_WRONG_PASSWORD: Final = 47

_NUMBERS: Final[dict[type[QuinqueError], int]] = {
    NotDefined: NOT_DEFINED,
    ProtocolBroken: BAD_PACKET,
    NoPermission: _ACCESS_DENIED,
    WrongPass: _WRONG_PASSWORD,
    DiskFull: 40,  # Tarantool: failed to write to disk
    StoreUnavailable: 40,
    NotDone: 78,  # Tarantool: timeout exceeded
}
# A program may need to distinguish these. Tarantool has no texts for them.
_WITH_CODE: Final = (DiskFull, StoreUnavailable, NotDone)


def described(error: QuinqueError, function: bytes = b"") -> tuple[int, str]:
    """Return the number and the text of an error that a call of that function raised."""
    if isinstance(error, BadTuple):
        return error.number, str(error)
    if isinstance(error, NoAuth):
        shown = printable(function[:1024])
        return _ACCESS_DENIED, f"Execute access to function '{shown}' is denied for user 'guest'"
    if isinstance(error, WrongPass):
        return _WRONG_PASSWORD, "User not found or supplied credentials are invalid"
    if isinstance(error, NoKind):
        return LUA, error.short
    # If the tube is part of the name, the function does not exist.
    if isinstance(error, NoTube):
        if b".tube." not in function:
            return LUA, f"{error.begins}; use queue.create_tube"
        error = NotDefined(function)
    text = f"{error.code} {error}" if isinstance(error, _WITH_CODE) else str(error)
    return _NUMBERS.get(type(error), LUA), text
