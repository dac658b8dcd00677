"""All memory that one process of a worker shares with its supervisor.

Called by   process.py and runtime.py.
Calls       board.py, failures.py, figures.py, lives.py.

Not here: the supervisor's own side of it (supervisor.py).
"""

from __future__ import annotations

from typing import NamedTuple

from quinque.worker.board import Board
from quinque.worker.failures import Failures
from quinque.worker.figures import Figures
from quinque.worker.lives import Lives


class Shared(NamedTuple):
    board: Board
    failures: Failures
    figures: Figures
    lives: Lives

    def close(self) -> None:
        for each in self:
            each.close()


def alone() -> Shared:
    """Return the memory of a process that has no supervisor."""
    return Shared(Board(), Failures(), Figures(), Lives(1))
