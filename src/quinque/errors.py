"""Every error the package raises on purpose: one tree, one class per condition.

Called by   everything.
Calls       nothing.

    QuinqueError              ERR          base; catch this to catch all of them
    ├── BadRequest            ERR          the words of the request are wrong
    │   ├── UnknownCommand    ERR
    │   ├── WrongArity        ERR
    │   ├── BadArgument       ERR
    │   ├── WrongUsage        usage:       RedisRQ's word for the same; the usage follows
    │   └── NoSuchProtocol    NOPROTO      HELLO asked for neither 2 nor 3
    ├── ProtocolBroken        ERR          the bytes are not a request; the connection closes
    ├── WrongType             WRONGTYPE    the queue belongs to another family
    ├── NoQueue               ERR          there is no queue of that name
    │   └── EmptyKey          EMPTYKEY     RedisRQ's word for the same, and its only one
    ├── Duplicate             ERR          the caller's id is already in the queue
    ├── BadId                 BADID        what should be a message's id does not look like one
    ├── NoMessage             NOJOB        no such message, or not any more
    ├── TooLate               TOOLATE      more than half of the message's life is over
    ├── QueueFull             MAXLEN       as many wait as the request allows
    ├── QueuePaused           PAUSED       the queue takes nothing at the moment
    ├── NoReplicas            NOREPL       there are not that many nodes to keep a copy
    ├── Leaving               LEAVING      the node is about to go: ask another one
    ├── NoSubscription        NOSUB        nobody opened that subscription
    ├── Superseded            SUPERSEDED   somebody opened the subscription since
    ├── NoClaim               NOCLAIM      no such claim, or its messages went back to the queue
    ├── BadClaim              BADCLAIM     that claim cannot be begun now
    ├── NoStage               NOSTAGE      a part of the batch is not staged as a whole
    ├── Refused
    │   ├── NoAuth            NOAUTH       not authenticated yet
    │   ├── WrongPass         WRONGPASS    no such user, or not that password
    │   ├── NoPermission      NOPERM       the user lacks a right
    │   ├── LimitReached      ERR          a limit of the server, named
    │   └── Busy              ERR          the background pool is full
    ├── DiskFull              DISKFULL     nothing changed; free some room and repeat
    ├── NotDone               NOTDONE      the store was not reached in time; nothing changed
    ├── StoreUnavailable      UNAVAILABLE  the effect of the request is unknown
    ├── Unblocked             UNBLOCKED    CLIENT UNBLOCK … ERROR
    ├── FolderLocked          LOCKED       another process uses the data folder
    ├── JournalDamaged        DAMAGED      a checksum does not match what was acknowledged
    ├── CopyRefused           ERR          a store is not fit to be copied, or to be copied into
    ├── CopyUnfinished        ERR          a store holds a part of a copy
    ├── CopyDiffers           ERR          what was copied is not what is in the source
    └── BadSetting            ERR          a setting is unknown or has a wrong value

`code` is the first word on the wire. `retry` says whether the same request may succeed
later, unchanged. `closes` says that the connection ends after the reply.

Not here: a family's own wording of an error (the ERRORS table of its dialect).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final


class QuinqueError(Exception):
    """Base class. Catch this to catch everything the package raises on purpose."""

    code: ClassVar[str] = "ERR"
    retry: ClassVar[bool] = False
    closes: ClassVar[bool] = False


class BadRequest(QuinqueError):
    """The request cannot mean anything, whatever the state of the queues."""


class UnknownCommand(BadRequest):
    """No command has that name."""

    def __init__(self, name: bytes, args: list[bytes]) -> None:
        # Redis quotes the name and the first arguments, each cut at 128 bytes, with no line breaks.
        text = printable(name[:128])
        began = " ".join(f"'{printable(arg[:128])}'" for arg in args[:20])
        super().__init__(f"unknown command '{text}', with args beginning with: {began}".rstrip())


class WrongArity(BadRequest):
    """The command exists and takes another number of arguments."""

    def __init__(self, name: str) -> None:
        super().__init__(f"wrong number of arguments for '{name.lower()}' command")


class BadArgument(BadRequest):
    """One argument is not what the command takes; the text names it."""


class WrongUsage(BadRequest):
    """The words do not follow the usage that is told, as RedisRQ says it."""

    code = "usage:"


class NoSuchProtocol(BadRequest):
    """HELLO asked for a version of the protocol that is not spoken here."""

    code = "NOPROTO"

    def __init__(self) -> None:
        super().__init__("unsupported protocol version")


class ProtocolBroken(QuinqueError):
    """The bytes received are not a request, and nothing after them can be trusted."""

    closes = True

    def __init__(self, what: str) -> None:
        super().__init__(f"Protocol error: {what}")


class WrongType(QuinqueError):
    """The queue belongs to another family."""

    code = "WRONGTYPE"

    def __init__(self) -> None:
        super().__init__("Operation against a key holding the wrong kind of value")


class NoQueue(QuinqueError):
    """There is no queue of that name."""

    def __init__(self) -> None:
        super().__init__("no such key")


class EmptyKey(NoQueue):
    """There is no queue of that name, as RedisRQ says it: with no text."""

    code = "EMPTYKEY"

    def __init__(self) -> None:
        QuinqueError.__init__(self, "")


class Duplicate(QuinqueError):
    """The id the caller chose is already in the queue."""

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"duplicate event {printable(message_id)}")
        self.message_id = message_id


class BadId(QuinqueError):
    """What should be a message's id does not look like one."""

    code = "BADID"

    def __init__(self, text: bytes) -> None:
        super().__init__(f"'{printable(text[:64])}' is not a job id")


class NoMessage(QuinqueError):
    """The message is not there, or not any more."""

    code = "NOJOB"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"{printable(message_id)} is not known here")


class TooLate(QuinqueError):
    """More than half of the message's life is over, so its lease is not prolonged."""

    code = "TOOLATE"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"more than half of the life of {printable(message_id)} is over")


class QueueFull(QuinqueError):
    """As many messages wait in the queue as the request allows."""

    code = "MAXLEN"
    retry = True

    def __init__(self, queue: bytes, length: int, most: int) -> None:
        super().__init__(f"queue '{printable(queue)}' has {length} waiting; MAXLEN is {most}")


class QueuePaused(QuinqueError):
    """The queue takes nothing until it is resumed."""

    code = "PAUSED"
    retry = True

    def __init__(self, queue: bytes) -> None:
        super().__init__(f"queue '{printable(queue)}' is paused and takes nothing")


class NoReplicas(QuinqueError):
    """There are not that many nodes that could keep a copy; nothing was stored."""

    code = "NOREPL"
    retry = True


class Leaving(QuinqueError):
    """The node is about to go and nobody should wait on it."""

    code = "LEAVING"
    retry = True

    def __init__(self) -> None:
        super().__init__("this node is leaving; wait on another one")


class NoSubscription(QuinqueError):
    """Nobody opened that subscription on that queue."""

    code = "NOSUB"

    def __init__(self, subscription: bytes, queue: bytes) -> None:
        super().__init__(
            f"no subscription '{printable(subscription)}' on queue '{printable(queue)}'"
        )


class Superseded(QuinqueError):
    """Somebody opened the subscription after the caller did, and reads it now."""

    code = "SUPERSEDED"

    def __init__(self, subscription: bytes, epoch: int, newest: int) -> None:
        super().__init__(
            f"epoch {epoch} of subscription '{printable(subscription)}' is over: "
            f"it was opened again, as epoch {newest}"
        )


class NoClaim(QuinqueError):
    """The claim is not there, or cannot be read."""

    code = "NOCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class BadClaim(QuinqueError):
    """The claim cannot be begun, or not filled any more."""

    code = "BADCLAIM"

    def __init__(self, subscription: bytes, number: int, why: str) -> None:
        super().__init__(f"claim {number} of subscription '{printable(subscription)}' {why}")


class NoStage(QuinqueError):
    """What is to be published is not staged as a whole."""

    code = "NOSTAGE"

    def __init__(self, sink: bytes, number: int, part: int, attempt: int) -> None:
        super().__init__(
            f"part {part} (attempt {attempt}) of batch {number} of sink '{printable(sink)}' "
            "is not staged as a whole"
        )


class Refused(QuinqueError):
    """The server will not do this for this client now."""


class NoAuth(Refused):
    """The client must authenticate first."""

    code = "NOAUTH"

    def __init__(self, text: str = "Authentication required.") -> None:
        super().__init__(text)


class WrongPass(Refused):
    """No such user, or not that user's password."""

    code = "WRONGPASS"

    def __init__(self) -> None:
        super().__init__("invalid username-password pair or user is disabled.")


class NoPermission(Refused):
    """The user may not do this."""

    code = "NOPERM"


class LimitReached(Refused):
    """A limit of the server; the text names it and its value."""

    retry = True


class Busy(Refused):
    """The pool of background additions is full."""

    retry = True


class DiskFull(QuinqueError):
    """The disk has no room for the request; nothing changed and all that was accepted stays."""

    code = "DISKFULL"
    retry = True


class NotDone(QuinqueError):
    """The store could not be reached in time, or refused: nothing was changed."""

    code = "NOTDONE"
    retry = True


class StoreUnavailable(QuinqueError):
    """The store failed while the request was under way: its effect is unknown."""

    code = "UNAVAILABLE"
    retry = True


class Unblocked(QuinqueError):
    """CLIENT UNBLOCK id ERROR ended the wait."""

    code = "UNBLOCKED"

    def __init__(self) -> None:
        super().__init__("client unblocked via CLIENT UNBLOCK")


class FolderLocked(QuinqueError):
    """Another process holds the data folder."""

    code = "LOCKED"
    retry = True


class JournalDamaged(QuinqueError):
    """The journal does not hold what it once acknowledged; the text says where."""

    code = "DAMAGED"


class CopyRefused(QuinqueError):
    """A store is not fit to be copied, or to be copied into; nothing changed."""


class CopyUnfinished(QuinqueError):
    """A store holds a part of a copy, and is of no use until it holds all of it."""

    def __init__(self, target: str, source: str) -> None:
        super().__init__(
            f"{target} holds a part of {source}: finish it with 'quinque copy', or empty it"
        )


class CopyDiffers(QuinqueError):
    """What was copied is not what is in the source; the text names the queues."""


class BadSetting(QuinqueError):
    """A setting is unknown or has a value it cannot have; the text names it."""


def printable(text: bytes) -> str:
    """Bytes from a client as text that cannot break a reply line or a log line."""
    return text.decode("utf-8", "backslashreplace").translate(_NO_BREAKS)


def error_told(text: str) -> QuinqueError:
    """The error that an error reply, `CODE text`, tells of. One of no class is a QuinqueError."""
    code, _, rest = text.partition(" ")
    kind = BY_CODE.get(code)
    if kind is None:
        return QuinqueError(rest if code == QuinqueError.code else text)
    # Its own way to begin would ask for the parts that the text was made of.
    error = kind.__new__(kind, rest)
    Exception.__init__(error, rest)
    return error


def _classes(kind: type[QuinqueError]) -> Iterator[type[QuinqueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _classes(child)


# ERR is the code of many, and tells of none.
BY_CODE: Final = {kind.code: kind for kind in _classes(QuinqueError) if kind.code != "ERR"}

_NO_BREAKS = {ord("\r"): " ", ord("\n"): " ", 0: "\\0"}
