"""How an interrupted program finishes a request that is under way: with threads.

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

LATE_S: Final = 1.0  # time limit for a reply that is on its way; the program waits for it


def sheltered(do: Callable[..., None], *args: Any) -> None:
    """It is done."""
    do(*args)
