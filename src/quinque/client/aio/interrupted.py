"""Finish a request that is in progress when a program on an event loop is interrupted.

Called by   broker.py and local.py.
Calls       asyncio.

client/sync/interrupted.py has the same names for programs with threads.

Not here: the messages that an interrupted program returns (model/giving_back.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

INTERRUPTED: Final = asyncio.CancelledError

LATE_S: Final = 30.0  # time limit for a reply that is on its way
_WAIT_S: Final = 1.0  # how long an interrupted caller waits for it


async def sheltered(do: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    """Wait for the task. After a short time, or if the caller is interrupted again, the task
    continues on its own."""
    task = asyncio.create_task(do(*args))
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    await asyncio.wait([task], timeout=_WAIT_S)


_TASKS: Final = set[asyncio.Task[None]]()  # the event loop has only weak references to tasks
