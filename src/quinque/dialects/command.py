"""One row per command, and what a parsed request can be.

Called by   each dialect (fills the rows), server/dispatch.py (follows them).
Calls       nothing.

A request becomes an operation, now; or a Wait: the operation again and again until it gives
something or time is up; or Later: the operation after the reply.

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
    """Run `op` until it gives something, for at most `timeout_ms` (0 = once, NEVER_MS = as long as
    it takes).

    Woken by work in `queues`, or in queues whose names match one of `patterns`; then `again` is run
    in place of `op`, if there is one. `queues` may be ids too: woken when one comes to its end.
    """

    op: Op
    queues: Sequence[bytes]
    group: bytes
    timeout_ms: int
    again: Op | None = None
    patterns: Sequence[bytes] = ()
    detail: bool = False  # what the reply is to hold; for the dialect's own use


@dataclass
class Later:
    """Answer OK now and run `op` in the background."""

    op: Op


Request = Op | Wait | Later


class NoReply:
    """The command has answered by itself, or must not be answered."""


NO_REPLY: Final = NoReply()


class Session(Protocol):
    """The part of a client's connection that a dialect can see."""

    registered: Collection[bytes]

    def register(self, queues: Sequence[bytes]) -> None:
        """This connection is a consumer of these queues, and no others."""

    def consumers(self, queues: Sequence[bytes]) -> Mapping[bytes, Mapping[bytes, int]]:
        """How many consumers wait, by queue and group: on these queues, or on any if there are
        none."""

    def waiting_on(self, queue: bytes) -> int:
        """How many readers wait on the queue."""

    def sees(self, queue: bytes) -> bool:
        """Whether the user may know of the queue."""

    def sees_all(self) -> bool:
        """Whether the user may know of every queue."""

    def taking_session(self) -> bytes:
        """The session that takes tasks on this connection, which has one from here on."""

    def join_session(self, session: bytes, reply: Value) -> Any:
        """The connection is of that session, and left the one before. Then the reply, or a Pending
        of it."""

    def now_ms(self) -> int:
        """The time at the store, in milliseconds since 1970."""

    def node_id(self) -> bytes:
        """What the broker is called among nodes: 40 hexadecimal digits."""


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
    too, and reply what parse gave, the result, and the Session. Usage and summary are the first
    two paragraphs of the docstring of `parse` or `run`.

    Requests of one turn that differ in argument `varies` only (-1 = the last, 0 = none) can be one
    operation: `gather` gives that of the first what varies in all of them, or refuses. The result
    of such an operation has an item for each, in order; `reply_each` is handed one, or None when
    there are no more, and the protocol, and gives the bytes of the reply. Without `reply`, a
    request that runs alone is answered so too.

    With `varies_on`, they may differ in all arguments from `varies` on, and the result has an item
    for each of these; where none varies, for as many as `gather` says of a request. Then
    `reply_share` is handed the items of one request, the protocol, and what varies in it; unless
    all have one item: then `reply_each`; or `reply_words`, which is handed the items of several
    requests of one client, the protocol, and what varies in each, and gives all their replies.
    `words_each` of these arguments are one item.

    `queues` picks the queues out of a request, `ids` the ids of messages: a user may do this to
    them, or not. `family` is for a command that is of no family itself: that of the queue which the
    request is about, if it says so, or the operation that tells.
    """

    name: str
    group: str
    right: Right
    arity: int
    parse: Callable[..., Any] | None = None  # gives a Request
    reply: Callable[..., Value] | None = None
    run: Callable[..., Any] | None = None  # gives a Value, or a Pending of one, or NO_REPLY
    queues: Callable[[list[bytes]], Sequence[bytes]] = first_queue
    with_session: bool = False
    ids: Callable[[list[bytes]], Sequence[bytes]] | None = None
    family: Callable[[list[bytes]], Family | FindClaims | FindStages | None] | None = None
    gather: Callable[[Any, list[bytes]], int] | None = None  # 0 = refuses
    reply_each: Callable[[Any, int], bytes] | None = None
    reply_words: Callable[[list[Any], int, list[bytes]], bytes] | None = None
    reply_share: Callable[[list[Any], int, list[bytes]], bytes] | None = None
    varies: int = -1
    varies_on: bool = False
    words_each: int = 1
    share: Callable[[Any, list[bytes]], None] | None = None  # tells it whose each item is
    none_is: type[QuinqueError] | None = None  # the error for an item that is None, when gathered
    is_open: bool = False  # needs no authentication
    is_blocking: bool = False  # may wait
    in_multi: InMulti = "queued"  # what becomes of it between MULTI and EXEC
    since: str = "0.1.0"  # the version that had it first
    subcommands: dict[bytes, Command] | None = None  # of a command that is only a first word
    otherwise: str = ""  # the error for an unknown second word, if it differs from that of Redis
    calls: int = 0
    failed_calls: int = 0
    spent_ns: int = 0

    def fresh(self) -> Command:
        """The same row with no calls counted, and its subcommands likewise."""
        rows = self.subcommands
        fresh_rows = None if rows is None else {word: row.fresh() for word, row in rows.items()}
        return replace(self, subcommands=fresh_rows, calls=0, failed_calls=0, spent_ns=0)

    @property
    def is_write(self) -> bool:
        """Whether it may change queues or their messages; an admin's command of a family does."""
        return self.right == "write" or (self.right == "admin" and self.group != "")

    @property
    def is_fast(self) -> bool:
        """Whether it looks only at the connection and the clock."""
        return not self.right and self.subcommands is None

    @property
    def usage(self) -> str:
        return docstring_parts(self.parse or self.run)[0]

    @property
    def summary(self) -> str:
        return docstring_parts(self.parse or self.run)[1]


def docstring_parts(function: Callable[..., object] | None) -> tuple[str, str]:
    """The first two paragraphs of a docstring, each as one line."""
    if function is None:
        return "", ""
    first, _, rest = (function.__doc__ or "").strip().partition("\n\n")
    second = rest.strip().split("\n\n", 1)[0]
    return " ".join(first.split()), " ".join(second.split())
