"""What a store in the process can be asked: stores/opened.py is one.

Called by   aio/local.py and sync/local.py, which make of it what a program runs operations on.
Calls       nothing.

Not here: such a store, which a client does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from quinque.model.ops import Op


class Opened(Protocol):
    def run(self, op: Op, wait_ms: int = 0) -> Any:
        """The result of the operation, or its error is raised."""

    def attempt(self, op: Op) -> tuple[Any, float | None]:
        """The same at once, and in how many seconds time alone may bring another result."""

    def watching(self, op: Op) -> AbstractContextManager[None]:
        """Within this block, `on_ready` callbacks also see the end of messages that `op` awaits."""

    def on_ready(self, call: Callable[[], None]) -> None:
        """It is called, in any thread, when there may be something for those who wait."""

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """The result of each operation, with one sync of the disk."""

    def close(self) -> None:
        """Everything that was done stays."""
