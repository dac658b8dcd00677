"""What a function of Tarantool's queue module is, and how the values that it gives are packed.

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
    """The part of a client's connection that a function can see."""

    def server_uuid(self) -> str:
        """The UUID in the greeting of the broker."""

    def keep_sessions(self, keep_s: str) -> None:
        """Keep sessions without clients for `keep_s` seconds from here on."""


@dataclass
class Join:
    """The connection is to be of that session; `asked` is how its client called it."""

    session: bytes
    asked: bytes


@dataclass
class Known:
    """The values are known already."""

    values: list[bytes]


Request = Op | Wait | Join | Known


@dataclass(frozen=True)
class Call:
    """A function by its name: what it does, and to which tube."""

    verb: Verb
    tube: bytes
    function: bytes


@dataclass(frozen=True)
class Verb:
    """What a function does. `command` is the one of RESP that does the same.

    `reply` packs the result; or, where it has an item for each task, `reply_each`, which gets None
    when there is no task. Neighbouring calls that differ in the first argument only, or,
    without `varies`, in none, can be one operation: `gather` gives it what all of them say.
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
    """A string of these bytes, whether or not they are UTF-8."""
    length = len(text)
    return (bytes([0xA0 | length]) if length < 32 else b"\xd9" + bytes([length])) + text


def array_head(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")


def is_array(value: bytes) -> bool:
    return 0x90 <= value[0] <= 0x9F or value[0] in (0xDC, 0xDD)
