"""Finish a request that is in progress when a program with threads is interrupted.

Called by   broker.py.
Calls       nothing.

client/aio/interrupted.py has the same names for programs on an event loop.

Not here: the messages that an interrupted program returns (model/giving_back.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# Anything that a signal handler may raise, such as KeyboardInterrupt.
INTERRUPTED: Final = BaseException

LATE_S: Final = 1.0  # time limit for a reply that is on its way; the program waits for it


def sheltered(do: Callable[..., None], *args: Any) -> None:
    """Call the function and wait for its end."""
    do(*args)
