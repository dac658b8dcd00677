"""One row per command, and what a parsed request can be.

Called by   each dialect (fills the rows), server/dispatch.py (follows them).
Calls       nothing.

A request becomes an operation, now; or a Wait: the operation again and again until it gives
something or time is up; or Later: the operation after the reply.

Not here: commands about the server itself (server/commands/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from quinque.model.ops import Op
from quinque.wire.resp import Value

Right = Literal["", "read", "write", "admin"]


@dataclass
class Wait:
    """Run `op` until it gives something, for at most `timeout_ms`; woken by work in `queues`."""

    op: Op
    queues: Sequence[bytes]
    group: bytes
    timeout_ms: int


@dataclass
class Later:
    """Answer OK now and run `op` in the background."""

    op: Op


Request = Op | Wait | Later


class NoReply:
    """The command has answered by itself, or must not be answered."""


NO_REPLY: Final = NoReply()


class Session(Protocol):
    """What a dialect may know of the connection a request came on."""

    registered: Sequence[bytes]

    def register(self, queues: Sequence[bytes]) -> None:
        """This connection is a consumer of these queues, and no others."""

    def consumers(self) -> Mapping[bytes, Mapping[bytes, int]]:
        """How many consumers wait, by queue and group."""

    def sees(self, queue: bytes) -> bool:
        """Whether the user may know of the queue."""


def no_queues(argv: list[bytes]) -> Sequence[bytes]:
    """The command names no queue."""
    return ()


def first_queue(argv: list[bytes]) -> Sequence[bytes]:
    """The command's first argument is its queue."""
    return argv[1:2]


def plain_reply(result: Value) -> Value:
    """The result as it is."""
    return result


@dataclass
class Command:
    """A command: either parsed into an operation and its result replied, or run on the session.

    `arity` counts the name; negative is a minimum. With `with_session`, parse is handed the Session
    too, and reply the operation and the Session. Usage and summary are read from the docstring of
    `parse` or `run`: its first line, and the paragraph after it.

    Requests of one turn that differ in their last argument only (with `gathers_whole`: in nothing)
    can be one operation: `gather` gives that of the first the last arguments of all, or refuses.
    The result of such an operation has an item for each, in order; `reply` is handed one, or None
    when there are no more.
    """

    name: str
    group: str
    right: Right
    arity: int
    parse: Callable[..., Any] | None = None  # gives a Request
    reply: Callable[..., Value] = plain_reply
    run: Callable[..., Value | NoReply] | None = None
    queues: Callable[[list[bytes]], Sequence[bytes]] = first_queue
    with_session: bool = False
    gather: Callable[[Any, list[bytes]], bool] | None = None
    gathers_whole: bool = False
    is_open: bool = False  # needs no authentication
    is_blocking: bool = False  # may wait
    since: str = "0.1.0"  # the version that had it first
    subcommands: dict[bytes, Command] | None = None  # of a command that is only a first word
    calls: int = 0
    failed_calls: int = 0
    spent_ns: int = 0

    def fresh(self) -> Command:
        """The same row with no calls counted, and its subcommands likewise."""
        rows = self.subcommands
        fresh_rows = None if rows is None else {word: row.fresh() for word, row in rows.items()}
        return replace(self, subcommands=fresh_rows, calls=0, failed_calls=0, spent_ns=0)

    @property
    def usage(self) -> str:
        return docstring_parts(self.parse or self.run)[0]

    @property
    def summary(self) -> str:
        return docstring_parts(self.parse or self.run)[1]


def docstring_parts(function: Callable[..., object] | None) -> tuple[str, str]:
    """The first line of a docstring, and the paragraph that follows it as one line."""
    if function is None:
        return "", ""
    first, _, rest = (function.__doc__ or "").strip().partition("\n")
    paragraph = rest.strip().split("\n\n", 1)[0]
    return first, " ".join(paragraph.split())
