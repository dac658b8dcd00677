"""Errors about tubes, their tasks, sessions and drivers. The texts are Tarantool's, if it has any.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: the codes that Tarantool has for them (dialects/).
"""

from __future__ import annotations

from quinque.errors.base import QuinqueError, printable
from quinque.errors.queues import NoQueue
from quinque.errors.requests import BadArgument


class NoTube(NoQueue):
    """There is no tube of that name."""

    code = "NOTUBE"

    def __init__(self, name: bytes) -> None:
        QuinqueError.__init__(self, f"there is no tube '{printable(name[:128])}'")
        self.name = name


class TubeExists(QuinqueError):
    """There is a tube of that name already."""

    code = "EXISTS"

    def __init__(self, name: bytes) -> None:
        super().__init__(f"Space '{printable(name[:128])}' already exists")


class NoKind(QuinqueError):
    """No kind of tube is called so, and no driver either."""

    code = "NOKIND"

    def __init__(self, kind: bytes, why: str = "") -> None:
        super().__init__(f"Unknown tube type {printable(kind[:128])}{why}")


class DriverMissing(QuinqueError):
    """The driver of the tube is not there. The tasks are kept until it is."""

    code = "ASLEEP"
    retry = True

    def __init__(self, name: bytes, kind: bytes) -> None:
        super().__init__(
            f"tube '{printable(name[:128])}' is asleep: the driver '{printable(kind[:128])}'"
            " is not there"
        )


class BadDriver(QuinqueError):
    """A driver cannot be registered: the text says what it lacks, or who has the name."""


class DriverFailed(QuinqueError):
    """The driver of the tube raised an error of its own, and nothing changed."""

    code = "DRIVER"

    def __init__(self, kind: bytes, why: str) -> None:
        shown = printable(why.encode("utf-8", "backslashreplace"))[:500]
        super().__init__(f"driver '{printable(kind[:128])}' failed: {shown}")


class TubeBusy(QuinqueError):
    """The tube cannot be dropped as long as somebody works or waits there."""

    code = "BUSYTUBE"
    retry = True


class NoTerm(BadArgument):
    """Tubes of that kind have no use for what was said."""

    code = "NOTERM"

    def __init__(self, kind: bytes, term: str) -> None:
        super().__init__(f"tubes of the kind '{printable(kind[:128])}' have no {term}")


class TouchRefused(QuinqueError):
    """The tasks of that kind of tube have no times."""

    code = "NOTOUCH"

    def __init__(self, kind: bytes) -> None:
        super().__init__(f"{printable(kind[:128])} queue does not support touch")


class TubeFull(QuinqueError):
    """The tube has as many tasks as it may have, and no room came in time; nothing was put."""

    code = "FULL"
    retry = True

    def __init__(self, name: bytes) -> None:
        super().__init__(f"tube '{printable(name[:128])}' is full")


class NotTaken(QuinqueError):
    """The session has not taken that task, or not any more."""

    code = "NOTTAKEN"

    def __init__(self) -> None:
        super().__init__("Task was not taken")


class NoTask(QuinqueError):
    """There is no such task."""

    code = "NOTASK"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"Task {printable(message_id[:128])} not found")


class NoSession(QuinqueError):
    """Nobody is of that session, and it is not kept either."""

    code = "NOSESSION"

    def __init__(self, session: bytes) -> None:
        super().__init__(f"The UUID {shown_session(session)} is unknown.")


def shown_session(session: bytes) -> str:
    """A session as people read it: 16 bytes are a UUID, anything else is a text."""
    if len(session) != 16:
        return printable(session)
    text = session.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
