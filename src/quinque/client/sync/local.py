"""A store in the process, as what queues of programs with threads run on.

Called by   quinque.open.
Calls       a store (client/opened.py says what it can be asked).

client/aio/local.py is the same for programs on an event loop. Nothing that talks to brokers is
needed.

Not here: such a store (stores/opened.py), which a client does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.client.opened import Opened
from quinque.model.ops import Op


class Local:
    """A store in the process, as something that runs operations."""

    def __init__(self, store: Opened) -> None:
        self._store = store

    def run(self, op: Op, wait_ms: int = 0) -> Any:
        return self._store.run(op, wait_ms)

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        return self._store.run_all(ops)

    def close(self) -> None:
        self._store.close()
