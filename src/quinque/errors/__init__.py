"""Every error the package raises on purpose: one tree, one class per condition.

Called by   everything.
Calls       nothing.

    QuinqueError              ERR          base; catch this to catch all of them
    ├── BadRequest            ERR          the words of the request are wrong
    │   ├── UnknownCommand    ERR
    │   ├── HttpRequest       ERR          the client speaks HTTP; the connection closes
    │   ├── WrongArity        ERR
    │   ├── BadArgument       ERR
    │   │   ├── BadTuple      ERR          an invalid tuple; Tarantool has a number for the reason
    │   │   └── NoTerm        NOTERM       tubes of that type do not support the option
    │   ├── NotDefined        ERR          unknown function, in Tarantool's words
    │   ├── WrongUsage        usage:       wrong arguments, in RedisRQ's words; the usage follows
    │   ├── NoSuchProtocol    NOPROTO      HELLO asked for neither 2 nor 3
    │   └── TransactionBroken EXECABORT    a command of the transaction was refused when queued
    ├── ProtocolBroken        ERR          the bytes are not a request; the connection closes
    │   └── TooLarge          ERR          the request is over a limit, and was not read
    ├── WrongType             WRONGTYPE    the queue belongs to another family
    ├── NoQueue               ERR          the queue does not exist
    │   ├── EmptyKey          EMPTYKEY     the same, in RedisRQ's words
    │   └── NoTube            NOTUBE       the tube does not exist
    ├── TubeExists            EXISTS       the tube already exists
    ├── NoKind                NOKIND       unknown tube type
    ├── DriverMissing         ASLEEP       the tube's driver is not loaded; its tasks are kept
    ├── BadDriver             ERR          a driver cannot be registered as it is
    ├── DriverFailed          DRIVER       the tube's driver raised an error
    ├── TubeBusy              BUSYTUBE     tasks are taken, or a client waits for one
    ├── TubeFull              FULL         the tube has no room; raised only by the Python client
    ├── TouchRefused          NOTOUCH      tasks of this tube have no ttl and ttr
    ├── NotTaken              NOTTAKEN     the session has not taken that task
    ├── NoTask                NOTASK       the task does not exist
    ├── NoSession             NOSESSION    the session does not exist
    ├── Duplicate             ERR          the caller's id is already in the queue
    ├── BadId                 BADID        the id of a message has the wrong format
    ├── NoMessage             NOJOB        the message does not exist, or no longer
    ├── TooLate               TOOLATE      more than half of the message's time to live is over
    ├── QueueFull             MAXLEN       the queue has reached the limit of the request
    ├── QueuePaused           PAUSED       the queue is paused and accepts no messages
    ├── NoReplicas            NOREPL       there are fewer nodes than requested copies
    ├── Leaving               LEAVING      the node is draining; use another one
    ├── NoSubscription        NOSUB        the subscription does not exist
    ├── Superseded            SUPERSEDED   another reader has opened the subscription since
    ├── NoClaim               NOCLAIM      the claim does not exist, or was released
    ├── BadClaim              BADCLAIM     the claim cannot be started now
    ├── NoStage               NOSTAGE      a part of the batch is not completely staged
    ├── OtherBatch            OTHERBATCH   another batch was published under that number
    ├── Refused
    │   ├── NoAuth            NOAUTH       not authenticated yet
    │   ├── WrongPass         WRONGPASS    unknown user or wrong password
    │   ├── NoPermission      NOPERM       the user does not have permission
    │   ├── LimitReached      ERR          a limit of the server, named
    │   └── Busy              ERR          the background pool is full
    ├── DiskFull              DISKFULL     nothing changed; free some space and repeat
    ├── NotDone               NOTDONE      the store was not reached in time; nothing changed
    │   ├── StoreRefused      NOTDONE      Redis is not set up for a broker: act before a repeat
    │   └── NotConnected      NOTDONE      no broker answers; a ConnectionError too
    ├── StoreUnavailable      UNAVAILABLE  the effect of the request is unknown
    │   └── OutcomeUnknown    UNAVAILABLE  a client got no answer
    │       └── ConnectionLost UNAVAILABLE the connection was lost; a ConnectionError too
    ├── StoreClosed           CLOSED       a program closed its own store or client
    ├── Unblocked             UNBLOCKED    CLIENT UNBLOCK … ERROR
    ├── FolderLocked          LOCKED       another process uses the data directory
    ├── JournalDamaged        DAMAGED      the journal is corrupted: a checksum does not match
    ├── CopyRefused           ERR          a store cannot be copied, or cannot be a target
    ├── CopyUnfinished        ERR          a store contains an unfinished copy
    ├── CopyDiffers           ERR          the copy differs from the source
    └── BadSetting            ERR          a setting is unknown or has a wrong value
        ├── AddressInUse      ERR          the address is in use, or not yet one of this machine
        └── NotABroker        ERR          the URL names another server, for example Redis

`code` is the first word on the wire. `retry` is True if the same request can succeed later,
unchanged. `closes` is True if the connection closes after the reply.

Not here: a family's own wording of an error (the ERRORS table of its dialect).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quinque.errors.base import (
    QuinqueError,
    many,
    printable,
    told_again,
)
from quinque.errors.queues import (
    BadClaim,
    BadId,
    Duplicate,
    EmptyKey,
    Leaving,
    NoClaim,
    NoMessage,
    NoQueue,
    NoReplicas,
    NoStage,
    NoSubscription,
    OtherBatch,
    QueueFull,
    QueuePaused,
    Superseded,
    TooLate,
    WrongType,
)
from quinque.errors.requests import (
    AddressInUse,
    BadArgument,
    BadRequest,
    BadSetting,
    BadTuple,
    Busy,
    HttpRequest,
    LimitReached,
    NoAuth,
    NoPermission,
    NoSuchProtocol,
    NotABroker,
    NotDefined,
    ProtocolBroken,
    Refused,
    TooLarge,
    TransactionBroken,
    Unblocked,
    UnknownCommand,
    WrongArity,
    WrongPass,
    WrongUsage,
)
from quinque.errors.stores import (
    ConnectionLost,
    CopyDiffers,
    CopyRefused,
    CopyUnfinished,
    DiskFull,
    FolderLocked,
    JournalDamaged,
    NotConnected,
    NotDone,
    OutcomeUnknown,
    StoreClosed,
    StoreRefused,
    StoreUnavailable,
)
from quinque.errors.tubes import (
    BadDriver,
    DriverFailed,
    DriverMissing,
    NoKind,
    NoSession,
    NoTask,
    NoTerm,
    NotTaken,
    NoTube,
    TouchRefused,
    TubeBusy,
    TubeExists,
    TubeFull,
    shown_session,
)

__all__ = [
    "BY_CODE",
    "AddressInUse",
    "BadArgument",
    "BadClaim",
    "BadDriver",
    "BadId",
    "BadRequest",
    "BadSetting",
    "BadTuple",
    "Busy",
    "ConnectionLost",
    "CopyDiffers",
    "CopyRefused",
    "CopyUnfinished",
    "DiskFull",
    "DriverFailed",
    "DriverMissing",
    "Duplicate",
    "EmptyKey",
    "FolderLocked",
    "HttpRequest",
    "JournalDamaged",
    "Leaving",
    "LimitReached",
    "NoAuth",
    "NoClaim",
    "NoKind",
    "NoMessage",
    "NoPermission",
    "NoQueue",
    "NoReplicas",
    "NoSession",
    "NoStage",
    "NoSubscription",
    "NoSuchProtocol",
    "NoTask",
    "NoTerm",
    "NoTube",
    "NotABroker",
    "NotConnected",
    "NotDefined",
    "NotDone",
    "NotTaken",
    "OtherBatch",
    "OutcomeUnknown",
    "ProtocolBroken",
    "QueueFull",
    "QueuePaused",
    "QuinqueError",
    "Refused",
    "StoreClosed",
    "StoreRefused",
    "StoreUnavailable",
    "Superseded",
    "TooLarge",
    "TooLate",
    "TouchRefused",
    "TransactionBroken",
    "TubeBusy",
    "TubeExists",
    "TubeFull",
    "Unblocked",
    "UnknownCommand",
    "WrongArity",
    "WrongPass",
    "WrongType",
    "WrongUsage",
    "error_told",
    "many",
    "printable",
    "shown_session",
]


def error_told(text: str) -> QuinqueError:
    """The error of an error reply, `CODE text`. An unknown code is a QuinqueError."""
    code, _, rest = text.partition(" ")
    kind = BY_CODE.get(code)
    if kind is None and code == QuinqueError.code and rest.startswith(ProtocolBroken.begins):
        kind = TooLarge  # our clients speak the protocol, so it can only be a limit
    if kind is None:
        return QuinqueError(rest if code == QuinqueError.code else text)
    error: QuinqueError = told_again(kind, (rest,), {})
    return error


def _classes(kind: type[QuinqueError]) -> Iterator[type[QuinqueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _classes(child)


# ERR is the code of many classes, and names none. An inherited code is that of the parent.
BY_CODE: Final = {
    kind.code: kind for kind in reversed([*_classes(QuinqueError)]) if kind.code != "ERR"
}
