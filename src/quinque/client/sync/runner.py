"""What the queues of a program run their operations on: a broker, or a store in the process.

Called by   the queues of this folder.
Calls       nothing.

Not here: either of the two (broker.py; stores/opened.py, through local.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quinque.model.ops import Op


class Runner(Protocol):
    def run(self, op: Op, wait_ms: int = 0) -> Any:
        """The result of the operation, or its error is raised. `wait_ms` is how long to wait for
        messages where there are none; NEVER_MS = as long as it takes."""

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """The result of each operation, in one round trip and one sync of the disk. The first error
        is raised when all are carried out."""

    def close(self) -> None:
        """Nothing is held open any more."""
