"""What is done yet when a program that waits for an answer is interrupted: of one with threads.

Called by   broker.py.
Calls       nothing.

client/aio/interrupted.py has the same names for programs on an event loop.

Not here: what an interrupted program gives back (model/giving_back.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# Whatever a handler of signals raises, such as KeyboardInterrupt.
INTERRUPTED: Final = BaseException

LATE_S: Final = 1.0  # so long an answer may take that is on its way, with everybody waiting


def sheltered(do: Callable[..., None], *args: Any) -> None:
    """It is done."""
    do(*args)
