"""How an interrupted program finishes a request that is under way: on an event loop.

Called by   broker.py and local.py.
Calls       asyncio.

client/sync/interrupted.py has the same names for programs with threads.

Not here: what an interrupted program gives back (model/giving_back.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

INTERRUPTED: Final = asyncio.CancelledError

LATE_S: Final = 30.0  # time limit for a reply that is on its way
_WAIT_S: Final = 1.0  # how long an interrupted caller waits for it


async def sheltered(do: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    """Return when it is done. After a short time, or when the caller is interrupted once more, it
    goes on by itself."""
    task = asyncio.create_task(do(*args))
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    await asyncio.wait([task], timeout=_WAIT_S)


_TASKS: Final = set[asyncio.Task[None]]()  # the loop alone would not keep them
