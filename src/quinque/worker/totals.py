"""The counts of all processes of a worker, including those that have ended.

Called by   supervisor.py; metrics.py reads the results.
Calls       figures.py.

A process counts from 0. When it has ended, its counts are added to those kept here, so that
counters never go back while the supervisor runs.

Not here: the counts of one process (figures.py).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quinque.worker.board import Board, Hand
from quinque.worker.figures import WIDTH, Count, Figures, Numbers, Who


class Working(NamedTuple):
    """A process that runs, or has just ended: its counts, and the messages that it holds."""

    figures: Figures
    board: Board


class Measured(NamedTuple):
    """The measurements of a worker. `in_hand` is how many messages are in each state."""

    counted: Mapping[Who, Numbers]
    in_hand: Mapping[tuple[Who, Hand], int]
    processes: int
    deaths: int
    is_healthy: bool
    started_s: float


class Totals:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # the HTTP port runs in threads
        self._ended: dict[Who, Numbers] = {}
        self._working: list[Working] = []

    def begin(self, working: Working) -> None:
        """Add a process."""
        with self._lock:
            self._working.append(working)

    def end(self, working: Working, crashed: Iterable[int]) -> None:
        """Keep the counts of a process that has ended. `crashed` are the numbers of the handlers
        that ran when it died."""
        counted = working.figures.read()
        for number in crashed:
            for count in (Count.FAILED, Count.RETRIED):
                counted[number][1][count] += 1
        with self._lock:
            self._working.remove(working)
            _add(self._ended, counted)
        working.figures.close()

    def read(self) -> tuple[dict[Who, Numbers], Counter[tuple[Who, Hand]]]:
        """The counts of each handler, and how many of its messages are in each state."""
        in_hand: Counter[tuple[Who, Hand]] = Counter()
        with self._lock:
            counted = {who: list(numbers) for who, numbers in self._ended.items()}
            for working in self._working:
                found = working.figures.read()
                _add(counted, found)
                for (number, hand), some in working.board.count().items():
                    if number < len(found):
                        in_hand[found[number][0], hand] += some
        return counted, in_hand


def _add(to: dict[Who, Numbers], counted: Sequence[tuple[Who, Numbers]]) -> None:
    for who, numbers in counted:
        before = to.get(who) or [0.0] * WIDTH
        to[who] = [one + other for one, other in zip(before, numbers, strict=True)]
