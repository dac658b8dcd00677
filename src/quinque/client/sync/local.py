"""Run the queues of a program with threads on a store in the same process.

Called by   quinque.open.
Calls       a store (its protocol is in client/opened.py).

client/aio/local.py is the same for programs on an event loop. It imports no code that connects to
brokers.

Not here: the store (stores/opened.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.client.opened import Opened
from quinque.model.ops import Op


class Local:
    """Runs operations on a store in the process."""

    def __init__(self, store: Opened) -> None:
        self._store = store

    def run(self, op: Op, wait_ms: int = 0) -> Any:
        return self._store.run(op, wait_ms)

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        return self._store.run_all(ops)

    def close(self) -> None:
        self._store.close()
