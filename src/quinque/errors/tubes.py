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
    """The tube does not exist."""

    code = "NOTUBE"

    def __init__(self, name: bytes) -> None:
        self.begins = f"there is no tube '{printable(name[:128])}'"
        self.name = name
        QuinqueError.__init__(
            self, f"{self.begins}; create it with TUBE.CREATE, or make() in Python"
        )


class TubeExists(QuinqueError):
    """The tube already exists."""

    code = "EXISTS"

    def __init__(self, name: bytes) -> None:
        super().__init__(f"Space '{printable(name[:128])}' already exists")


class NoKind(QuinqueError):
    """The tube type is unknown: it is neither built in nor a driver."""

    code = "NOKIND"

    def __init__(self, kind: bytes, known: str, why: str = "") -> None:
        begins = f"Unknown tube type {printable(kind[:128])}"
        self.short = f"{begins}{why}"  # the text of Tarantool
        super().__init__(f"{begins}: use {known}{why}")


class DriverMissing(QuinqueError):
    """The driver of the tube is not loaded. The tasks are kept until it is."""

    code = "ASLEEP"
    retry = True

    def __init__(self, name: bytes, kind: bytes) -> None:
        super().__init__(
            f"the driver '{printable(kind[:128])}' of tube '{printable(name[:128])}' is not "
            "loaded; start the broker with it (setting drivers)"
        )


class BadDriver(QuinqueError):
    """A driver cannot be registered. The text has the reason."""


class DriverFailed(QuinqueError):
    """The driver of the tube raised an error, and nothing changed."""

    code = "DRIVER"

    def __init__(self, kind: bytes, why: str) -> None:
        shown = printable(why.encode("utf-8", "backslashreplace"))[:500]
        super().__init__(f"driver '{printable(kind[:128])}' failed: {shown}")


class TubeBusy(QuinqueError):
    """The tube cannot be dropped while its tasks are taken or clients wait for one."""

    code = "BUSYTUBE"
    retry = True


class NoTerm(BadArgument):
    """Tubes of that type do not support the option."""

    code = "NOTERM"

    def __init__(self, kind: bytes, term: str) -> None:
        super().__init__(f"tubes of the type '{printable(kind[:128])}' do not support {term}")


class TouchRefused(QuinqueError):
    """Tasks of that tube type have no ttl and ttr, and cannot be touched."""

    code = "NOTOUCH"

    def __init__(self, kind: bytes) -> None:
        super().__init__(f"{printable(kind[:128])} queue does not support touch")


class TubeFull(QuinqueError):
    """The tube is full and had no room in time; nothing was put."""

    code = "FULL"
    retry = True

    def __init__(self, name: bytes) -> None:
        super().__init__(f"tube '{printable(name[:128])}' is full; retry when tasks are done")


class NotTaken(QuinqueError):
    """The session does not hold the task, or no longer."""

    code = "NOTTAKEN"

    def __init__(self) -> None:
        super().__init__("Task was not taken")


class NoTask(QuinqueError):
    """The task does not exist."""

    code = "NOTASK"

    def __init__(self, message_id: bytes) -> None:
        super().__init__(f"Task {printable(message_id[:128])} not found")


class NoSession(QuinqueError):
    """The session does not exist."""

    code = "NOSESSION"

    def __init__(self, session: bytes) -> None:
        super().__init__(f"The UUID {shown_session(session)} is unknown.")


def shown_session(session: bytes) -> str:
    """Return a session as text: 16 bytes as a UUID, anything else as it is."""
    if len(session) != 16:
        return printable(session)
    text = session.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
