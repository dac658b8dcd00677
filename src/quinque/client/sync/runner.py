"""The protocol of what runs the operations of queues: a broker, or a store in the process.

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
        """Run the operation and return its result, or raise its error. `wait_ms` is how long to
        wait for messages if there are none; NEVER_MS means forever."""

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """Run the operations in one round trip and one sync of the disk, and return their results.
        The first error is raised after all operations are carried out."""

    def close(self) -> None:
        """Close all connections or files."""
