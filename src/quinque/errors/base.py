"""The base class of all errors, and functions for their texts.

Called by   the other modules of this folder.
Calls       nothing.

Not here: the tree of all of them (__init__.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class QuinqueError(Exception):
    """Base class. Catch this to catch everything the package raises on purpose."""

    code: ClassVar[str] = "ERR"
    retry: ClassVar[bool] = False
    closes: ClassVar[bool] = False
    # If a call sent several requests and some were carried out: the reply to each, None for others.
    replies: Sequence[Any] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text only, because the arguments of the class differ."""
        return told_again, (type(self), self.args, self.__dict__)


def told_again(kind: type[QuinqueError], args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """Return an error of that class with that text and the given attributes."""
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    error.__dict__.update(more)
    return error


def printable(text: bytes) -> str:
    """Return bytes from a client as text that cannot break a reply line or a log line."""
    return text.decode("utf-8", "backslashreplace").translate(_NO_BREAKS)


def many(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun, such as 1 message, 2,000 messages."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_NO_BREAKS = {ord("\r"): " ", ord("\n"): " ", 0: "\\0"}
