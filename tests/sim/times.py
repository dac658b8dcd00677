"""The time, which only the simulator moves, and chance, which is the seed's.

`install()` replaces the functions of `time` and `os.urandom` before any module of the package takes
them. The time
that work takes (`perf_counter`) is simulated too: each reading finds some microseconds more, now
and then milliseconds, as the seed decides. So budgets of a turn end in the middle of it, as they do
on a busy machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random

_START_NS = 1_800_000_000_000_000_000  # the wall clock when a run begins
_WORK_NS = 2_000
_SLOW_WORK_NS = 3_000_000
_SLOW = 0.002  # of all readings


class Times:
    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000  # monotonic
        self._work_ns = 0
        self._random = Random(0)
        # How far the wall clock of the process that is running is ahead.
        self.skew_ns: Callable[[], int] = lambda: 0

    def begin(self, random: Random) -> None:
        self._random = random

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def advance(self, seconds: float) -> None:
        self.now_ns += max(1, round(seconds * 1e9))

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9

    def time_ns(self) -> int:
        return _START_NS + self.now_ns + self.skew_ns()

    def time(self) -> float:
        return self.time_ns() / 1e9

    def perf_counter_ns(self) -> int:
        is_slow = self._random.random() < _SLOW
        self._work_ns += _SLOW_WORK_NS if is_slow else _WORK_NS
        return self.now_ns + self._work_ns

    def urandom(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def perf_counter(self) -> float:
        return self.perf_counter_ns() / 1e9


def install() -> Times:
    """Replace the functions of `time`, and `os.urandom`, by those of the simulator."""
    times = Times()
    for name in ("monotonic", "monotonic_ns", "time", "time_ns", "perf_counter", "perf_counter_ns"):
        setattr(time, name, getattr(times, name))
    os.urandom = times.urandom
    return times
