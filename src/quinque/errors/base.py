"""The class that all errors have in common, and text that is fit for one.

Called by   the other modules of this folder.
Calls       nothing.

Not here: the tree of all of them (__init__.py).
"""

from __future__ import annotations

from typing import ClassVar


class QuinqueError(Exception):
    """Base class. Catch this to catch everything the package raises on purpose."""

    code: ClassVar[str] = "ERR"
    retry: ClassVar[bool] = False
    closes: ClassVar[bool] = False


def printable(text: bytes) -> str:
    """Bytes from a client as text that cannot break a reply line or a log line."""
    return text.decode("utf-8", "backslashreplace").translate(_NO_BREAKS)


_NO_BREAKS = {ord("\r"): " ", ord("\n"): " ", 0: "\\0"}
