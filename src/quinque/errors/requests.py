"""Errors of a request: wrong arguments, missing permissions, limits that are reached.

Called by   everything, through quinque.errors.
Calls       nothing.

Not here: errors about queues and messages (queues.py).
"""

from __future__ import annotations

from typing import ClassVar

from quinque.errors.base import QuinqueError, printable


class BadRequest(QuinqueError):
    """The request is invalid in any state of the queues."""


class UnknownCommand(BadRequest):
    """No command has that name."""

    def __init__(self, name: bytes, args: list[bytes]) -> None:
        # Redis quotes the name and the first arguments, each cut at 128 bytes, with no line breaks.
        text = printable(name[:128])
        began = " ".join(f"'{printable(arg[:128])}'" for arg in args[:20])
        super().__init__(f"unknown command '{text}', with args beginning with: {began}".rstrip())


class HttpRequest(BadRequest):
    """The line is of HTTP: a web page may have made a browser send it, with requests after it."""

    closes = True

    def __init__(self) -> None:
        super().__init__("this port does not speak HTTP; the connection closes")


class WrongArity(BadRequest):
    """The command exists and takes another number of arguments."""

    def __init__(self, name: str) -> None:
        super().__init__(f"wrong number of arguments for '{name.lower()}' command")


class BadArgument(BadRequest):
    """An argument has a wrong value, which the text names."""


class BadTuple(BadArgument):
    """An argument is invalid for Tarantool, whose clients know the number of the reason."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class NotDefined(BadRequest):
    """The function does not exist. The text is that of Tarantool."""

    def __init__(self, function: bytes) -> None:
        super().__init__(f"Procedure '{printable(function[:1024])}' is not defined")


class WrongUsage(BadRequest):
    """The arguments do not match the usage, which the error shows as RedisRQ does."""

    code = "usage:"


class NoSuchProtocol(BadRequest):
    """HELLO requested a version of the protocol that the broker does not support."""

    code = "NOPROTO"

    def __init__(self) -> None:
        super().__init__("unsupported protocol version")


class TransactionBroken(BadRequest):
    """A command of the transaction was refused when it was queued, so that EXEC runs none."""

    code = "EXECABORT"

    def __init__(self) -> None:
        super().__init__("Transaction discarded because of previous errors.")


class ProtocolBroken(QuinqueError):
    """The bytes received are not a request, and nothing after them can be trusted."""

    closes = True
    begins: ClassVar[str] = "Protocol error: "  # its text; many errors share the code

    def __init__(self, what: str) -> None:
        super().__init__(self.begins + what)


class TooLarge(ProtocolBroken):
    """A request, or one argument of it, is over a limit of the broker, which the text names."""


class Refused(QuinqueError):
    """The broker refuses the request for this client."""


class NoAuth(Refused):
    """The client must authenticate first."""

    code = "NOAUTH"

    def __init__(self, text: str = "Authentication required.") -> None:
        super().__init__(text)


class WrongPass(Refused):
    """The user does not exist, or the password is wrong."""

    code = "WRONGPASS"

    def __init__(self) -> None:
        super().__init__("invalid username-password pair or user is disabled.")


class NoPermission(Refused):
    """The user does not have permission."""

    code = "NOPERM"


class LimitReached(Refused):
    """A limit of the broker is reached. The text has its name and value."""

    retry = True


class Busy(Refused):
    """The pool of background additions is full."""

    retry = True


class Unblocked(QuinqueError):
    """CLIENT UNBLOCK id ERROR ended the wait."""

    code = "UNBLOCKED"

    def __init__(self) -> None:
        super().__init__("client unblocked via CLIENT UNBLOCK")


class BadSetting(QuinqueError):
    """A setting is unknown or has a value it cannot have; the text names it."""


class AddressInUse(BadSetting):
    """Another process listens on the address, or the machine does not have the address yet."""

    retry = True


class NotABroker(BadSetting):
    """The server at the URL is not a Quinque broker."""

    def __init__(self, shown: str) -> None:
        super().__init__(
            f"{shown} is not a Quinque broker: it is another server, for example Redis; "
            "check the URL"
        )
