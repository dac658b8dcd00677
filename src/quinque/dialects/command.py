"""One row for each command, and the types of a parsed request.

Called by   each dialect (fills the rows), server/dispatch.py (follows them).
Calls       nothing.

A request becomes an operation that runs now; or a Wait, which repeats the operation until it
returns a result or the time is over; or a Later, which runs the operation after the reply.

Not here: commands about the server itself (server/commands/).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from quinque.errors import QuinqueError
from quinque.model.claim_ops import FindClaims
from quinque.model.families import Family
from quinque.model.ops import Op
from quinque.model.stage_ops import FindStages
from quinque.wire.resp import Value

Right = Literal["", "read", "write", "admin"]
InMulti = Literal["queued", "run", "refused"]


@dataclass
class Wait:
    """Run `op` until it returns a result, for at most `timeout_ms` (0: once, NEVER_MS: without a
    limit).

    The wait continues when there is work in `queues`, or in queues whose names match one of
    `patterns`. Then `again` runs in place of `op`, if it is set. `queues` may also be ids of
    messages: the wait continues when one of them ends.
    """

    op: Op
    queues: Sequence[bytes]
    group: bytes
    timeout_ms: int
    again: Op | None = None
    patterns: Sequence[bytes] = ()
    detail: bool = False  # options for the reply, used only by the dialect


@dataclass
class Later:
    """Reply OK now and run `op` in the background."""

    op: Op


Request = Op | Wait | Later


class NoReply:
    """The command has replied itself, or must not be answered."""


NO_REPLY: Final = NoReply()


class Session(Protocol):
    """The part of a client's connection that dialects use."""

    registered: Collection[bytes]

    def register(self, queues: Sequence[bytes]) -> None:
        """Make this connection a consumer of exactly these queues."""

    def consumers(self, queues: Sequence[bytes]) -> Mapping[bytes, Mapping[bytes, int]]:
        """Return the number of blocked consumers by queue and group, of these queues or, without
        any, of all."""

    def waiting_on(self, queue: bytes) -> int:
        """Return the number of blocked readers of the queue."""

    def sees(self, queue: bytes) -> bool:
        """Return whether the user may see the queue."""

    def sees_all(self) -> bool:
        """Return whether the user may see every queue."""

    def taking_session(self) -> bytes:
        """Return the session that takes tasks on this connection. If there is none, create it."""

    def join_session(self, session: bytes, reply: Value) -> Any:
        """Move the connection to that session. Return the reply, or a Pending of it."""

    def now_ms(self) -> int:
        """Return the time at the store, in milliseconds since 1970."""

    def node_id(self) -> bytes:
        """Return the id of the broker in the cluster: 40 hexadecimal digits."""


def no_queues(argv: list[bytes]) -> Sequence[bytes]:
    """Return no queues: the command names none."""
    return ()


def first_queue(argv: list[bytes]) -> Sequence[bytes]:
    """Return the first argument, which is the queue of the command."""
    return argv[1:2]


def plain_reply(result: Value) -> Value:
    """Return the result unchanged."""
    return result


@dataclass
class Command:
    """A command: a request is parsed into an operation and its result becomes the reply, or the
    command runs on the session.

    `arity` includes the name; a negative number is a minimum. With `with_session`, `parse` also
    gets the Session, and `reply` gets the parsed request, the result, and the Session. Usage and
    summary are the first two paragraphs of the docstring of `parse` or `run`.

    Requests of one event loop iteration that differ only in argument `varies` (-1: the last, 0:
    none) can be one operation: `gather` adds the arguments of all of them to the operation of the
    first, or refuses. The result has an item for each request, in order. `reply_each` gets an item,
    or None if there are no more, and the protocol, and returns the bytes of the reply. Without
    `reply`, it also makes the reply of a request that runs alone.

    With `varies_on`, requests may differ in all arguments from `varies` on, and the result has an
    item for each of these arguments. If none varies, `gather` returns the number of items of a
    request. `reply_share` gets the items of one request, the protocol, and its varying arguments.
    If each request has one item, `reply_each` is used; or `reply_words`, which gets the items of
    several requests of one client, the protocol, and the varying arguments of each, and returns all
    their replies. `words_each` arguments are one item.

    `queues` returns the queues of a request and `ids` the ids of its messages, for the permissions
    of the user. `family` is for commands without a family: it returns the family that the request
    names, or the operation that finds it.
    """

    name: str
    group: str
    right: Right
    arity: int
    parse: Callable[..., Any] | None = None  # returns a Request
    reply: Callable[..., Value] | None = None
    run: Callable[..., Any] | None = None  # returns a Value, or a Pending of one, or NO_REPLY
    queues: Callable[[list[bytes]], Sequence[bytes]] = first_queue
    with_session: bool = False
    ids: Callable[[list[bytes]], Sequence[bytes]] | None = None
    family: Callable[[list[bytes]], Family | FindClaims | FindStages | None] | None = None
    gather: Callable[[Any, list[bytes]], int] | None = None  # 0: refused
    reply_each: Callable[[Any, int], bytes] | None = None
    reply_words: Callable[[list[Any], int, list[bytes]], bytes] | None = None
    reply_share: Callable[[list[Any], int, list[bytes]], bytes] | None = None
    varies: int = -1
    varies_on: bool = False
    words_each: int = 1
    share: Callable[[Any, list[bytes]], None] | None = None  # adds the session of each item
    none_is: type[QuinqueError] | None = (
        None  # the error for an item that is None in a merged operation
    )
    is_open: bool = False  # needs no authentication
    is_blocking: bool = False  # may block
    in_multi: InMulti = "queued"  # its behaviour between MULTI and EXEC
    since: str = "0.1.0"  # the first version that had it
    subcommands: dict[bytes, Command] | None = None  # if the command is only a first word
    otherwise: str = ""  # the error for an unknown second word, if it differs from that of Redis
    calls: int = 0
    failed_calls: int = 0
    spent_ns: int = 0

    def fresh(self) -> Command:
        """Return the same row, and its subcommands, with no calls counted."""
        rows = self.subcommands
        fresh_rows = None if rows is None else {word: row.fresh() for word, row in rows.items()}
        return replace(self, subcommands=fresh_rows, calls=0, failed_calls=0, spent_ns=0)

    @property
    def is_write(self) -> bool:
        """Return whether the command may change queues or their messages. Commands of a family for
        administrators do."""
        return self.right == "write" or (self.right == "admin" and self.group != "")

    @property
    def is_fast(self) -> bool:
        """Return whether the command uses only the connection and the clock."""
        return not self.right and self.subcommands is None

    @property
    def usage(self) -> str:
        return docstring_parts(self.parse or self.run)[0]

    @property
    def summary(self) -> str:
        return docstring_parts(self.parse or self.run)[1]


def docstring_parts(function: Callable[..., object] | None) -> tuple[str, str]:
    """Return the first two paragraphs of a docstring, each as one line."""
    if function is None:
        return "", ""
    first, _, rest = (function.__doc__ or "").strip().partition("\n\n")
    second = rest.strip().split("\n\n", 1)[0]
    return " ".join(first.split()), " ".join(second.split())
