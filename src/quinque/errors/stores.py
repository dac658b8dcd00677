"""Errors of a store: no room, no answer, damage, another process; and of copies of one.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: errors about queues and messages that do not exist (queues.py).
"""

from __future__ import annotations

from quinque.errors.base import QuinqueError


class DiskFull(QuinqueError):
    """The disk has no space for the request. Nothing changed, and accepted data is safe."""

    code = "DISKFULL"
    retry = True


class NotDone(QuinqueError):
    """The store could not be reached in time, or refused the request. Nothing was changed."""

    code = "NOTDONE"
    retry = True


class StoreRefused(NotDone):
    """Redis cannot be used as it is set up: a password, a right of the user or a setting is wrong.
    Nothing was changed, and the same request fails until a person changes that."""

    retry = False


class NotConnected(NotDone, ConnectionError):
    """No broker answers, or the connection was lost before the request was sent. Nothing was
    changed. It is a ConnectionError of Python too."""


class StoreUnavailable(QuinqueError):
    """The store failed during the request. Its effect is unknown."""

    code = "UNAVAILABLE"
    retry = True


class OutcomeUnknown(StoreUnavailable):
    """The broker did not answer. The request may or may not have been carried out."""


class ConnectionLost(OutcomeUnknown, ConnectionError):
    """The connection was lost before the broker answered. It is a ConnectionError of Python too."""


class StoreClosed(QuinqueError):
    """The store is closed, or belongs to another process; or the client was closed while it waited
    for a message. Nothing was changed."""

    code = "CLOSED"


class FolderLocked(QuinqueError):
    """Another process uses the data directory."""

    code = "LOCKED"
    retry = True


class JournalDamaged(QuinqueError):
    """The journal is corrupted: it has lost acknowledged data. The text has the location."""

    code = "DAMAGED"


class CopyRefused(QuinqueError):
    """A store cannot be copied, or cannot be the target of a copy. Nothing changed."""


class CopyUnfinished(QuinqueError):
    """A store contains an unfinished copy, and cannot be used until the copy is finished."""

    def __init__(self, target: str, source: str) -> None:
        super().__init__(
            f"{target} contains an unfinished copy of {source}: finish it with 'quinque copy', "
            "or empty the store"
        )


class CopyDiffers(QuinqueError):
    """The copy differs from the source. The text names the queues."""
