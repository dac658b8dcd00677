"""Types for the functions of Tarantool's queue module, and how their values are packed.

Called by   tarantool_tasks.py and tarantool_tubes.py (fill the tables), tarantool.py (reads them).
Calls       msgpack.

Not here: the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgpack

from quinque.dialects.command import Session, Wait
from quinque.model.ops import Op
from quinque.model.tube_ops import TaskView

Args = Sequence[bytes]

NIL: Final = b"\xc0"
TRUE: Final = b"\xc3"


class Caller(Session, Protocol):
    """The part of a client's connection that functions use."""

    def server_uuid(self) -> str:
        """The UUID in the greeting of the broker."""

    def keep_sessions(self, keep_s: str) -> None:
        """Keep sessions without clients for `keep_s` seconds from here on."""


@dataclass
class Join:
    """Move the connection to that session. `asked` is the session as the client wrote it."""

    session: bytes
    asked: bytes


@dataclass
class Known:
    """The values of a function that needs no operation."""

    values: list[bytes]


Request = Op | Wait | Join | Known


@dataclass(frozen=True)
class Call:
    """A call of a function: what it does, and to which tube."""

    verb: Verb
    tube: bytes
    function: bytes


@dataclass(frozen=True)
class Verb:
    """The implementation of a function. `command` is the command of RESP that does the same.

    `reply` packs the result. If the result has an item for each task, `reply_each` packs one, and
    gets None if there is no task. Consecutive calls that differ only in the first argument, or
    without `varies` in none, can be one operation: `gather` adds their arguments to it.
    """

    command: str
    parse: Callable[[Call, Args, Caller], Request]
    reply: Callable[[Any, Any, Caller], list[bytes]] | None = None
    reply_each: Callable[[Any, TaskView | None], list[bytes]] | None = None
    gather: Callable[[Any, Sequence[Args]], None] | None = None
    varies: bool = False


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def packed_string(text: bytes) -> bytes:
    """Pack these bytes as a string, even if they are not UTF-8."""
    length = len(text)
    return (bytes([0xA0 | length]) if length < 32 else b"\xd9" + bytes([length])) + text


def array_head(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")


def is_array(value: bytes) -> bool:
    return 0x90 <= value[0] <= 0x9F or value[0] in (0xDC, 0xDD)
