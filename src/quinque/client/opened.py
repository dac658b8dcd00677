"""The protocol of a store in the process, such as stores/opened.py.

Called by   aio/local.py and sync/local.py, which run operations on it.
Calls       nothing.

Not here: such a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from quinque.model.ops import Op


class Opened(Protocol):
    def run(self, op: Op, wait_ms: int = 0) -> Any:
        """Return the result of the operation, or raise its error."""

    def attempt(self, op: Op) -> tuple[Any, float | None]:
        """Try the operation once. Return the result, and the seconds after which time alone may
        change it."""

    def watching(self, op: Op) -> AbstractContextManager[None]:
        """Within this block, `on_ready` callbacks are also called when messages end that `op`
        awaits."""

    def on_ready(self, call: Callable[[], None]) -> None:
        """Register a callback. It is called, in any thread, when there may be messages for blocked
        callers."""

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """Return the result of each operation. The disk is synced once."""

    def close(self) -> None:
        """Close the store. Completed changes stay."""
