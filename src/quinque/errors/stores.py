"""Errors of a store: no room, no answer, damage, another process; and of copies of one.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: what a request asked for and is not there (queues.py).
"""

from __future__ import annotations

from quinque.errors.base import QuinqueError


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


class OutcomeUnknown(StoreUnavailable):
    """A broker was asked and no answer came: what was asked may be done, or may not."""


class StoreClosed(QuinqueError):
    """The store was closed, or belongs to another process; nothing was changed."""

    code = "CLOSED"


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
