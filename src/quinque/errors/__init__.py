"""Every error the package raises on purpose: one tree, one class per condition.

Called by   everything.
Calls       nothing.

    QuinqueError              ERR          base; catch this to catch all of them
    ├── BadRequest            ERR          the words of the request are wrong
    │   ├── UnknownCommand    ERR
    │   ├── WrongArity        ERR
    │   ├── BadArgument       ERR
    │   │   ├── BadTuple      ERR          Tarantool has a number for what is wrong with it
    │   │   └── NoTerm        NOTERM       tubes of that kind have no such option
    │   ├── NotDefined        ERR          Tarantool's word for a function that there is not
    │   ├── WrongUsage        usage:       RedisRQ's word for the same; the usage follows
    │   ├── NoSuchProtocol    NOPROTO      HELLO asked for neither 2 nor 3
    │   └── TransactionBroken EXECABORT    a command of the transaction was refused when queued
    ├── ProtocolBroken        ERR          the bytes are not a request; the connection closes
    │   └── TooLarge          ERR          the request is over a limit, and was not read
    ├── WrongType             WRONGTYPE    the queue belongs to another family
    ├── NoQueue               ERR          there is no queue of that name
    │   ├── EmptyKey          EMPTYKEY     RedisRQ's word for the same, and its only one
    │   └── NoTube            NOTUBE       there is no tube of that name
    ├── TubeExists            EXISTS       there is a tube of that name already
    ├── NoKind                NOKIND       no driver is called so
    ├── DriverMissing         ASLEEP       the tube's driver is not there; its tasks are kept
    ├── BadDriver             ERR          a driver cannot be registered as it is
    ├── DriverFailed          DRIVER       the tube's driver raised an error of its own
    ├── TubeBusy              BUSYTUBE     tasks are taken, or somebody waits for one
    ├── TubeFull              FULL         the tube has no room; said by the Python client only
    ├── TouchRefused          NOTOUCH      tasks of this tube have no times
    ├── NotTaken              NOTTAKEN     the session has not taken that task
    ├── NoTask                NOTASK       there is no such task
    ├── NoSession             NOSESSION    nobody is of that session, and it is not kept
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
    │   └── OutcomeUnknown    UNAVAILABLE  a client got no answer
    ├── StoreClosed           CLOSED       a program closed its own store
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
from typing import Final

from quinque.errors.base import (
    QuinqueError,
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
    QueueFull,
    QueuePaused,
    Superseded,
    TooLate,
    WrongType,
)
from quinque.errors.requests import (
    BadArgument,
    BadRequest,
    BadSetting,
    BadTuple,
    Busy,
    LimitReached,
    NoAuth,
    NoPermission,
    NoSuchProtocol,
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
    CopyDiffers,
    CopyRefused,
    CopyUnfinished,
    DiskFull,
    FolderLocked,
    JournalDamaged,
    NotDone,
    OutcomeUnknown,
    StoreClosed,
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
    "BadArgument",
    "BadClaim",
    "BadDriver",
    "BadId",
    "BadRequest",
    "BadSetting",
    "BadTuple",
    "Busy",
    "CopyDiffers",
    "CopyRefused",
    "CopyUnfinished",
    "DiskFull",
    "DriverFailed",
    "DriverMissing",
    "Duplicate",
    "EmptyKey",
    "FolderLocked",
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
    "NotDefined",
    "NotDone",
    "NotTaken",
    "OutcomeUnknown",
    "ProtocolBroken",
    "QueueFull",
    "QueuePaused",
    "QuinqueError",
    "Refused",
    "StoreClosed",
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
    "printable",
    "shown_session",
]


def error_told(text: str) -> QuinqueError:
    """The error that an error reply, `CODE text`, tells of. One of no class is a QuinqueError."""
    code, _, rest = text.partition(" ")
    kind = BY_CODE.get(code)
    if kind is None and code == QuinqueError.code and rest.startswith(ProtocolBroken.begins):
        kind = TooLarge  # whoever asks like this speaks the protocol: only limits are left
    if kind is None:
        return QuinqueError(rest if code == QuinqueError.code else text)
    error: QuinqueError = told_again(kind, (rest,), {})
    return error


def _classes(kind: type[QuinqueError]) -> Iterator[type[QuinqueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _classes(child)


# ERR is the code of many, and tells of none; one that a class has from its parent is the parent's.
BY_CODE: Final = {
    kind.code: kind for kind in reversed([*_classes(QuinqueError)]) if kind.code != "ERR"
}
