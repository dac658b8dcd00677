"""The time a store runs on: the wall clock at start, moved on by the monotonic clock.

Called by   stores (every operation), server/ticker.py.
Calls       time.

The wall clock may be set back or forward while the broker runs. Leases, expiries and ids must not
notice, so it is read once, at a moment when both clocks could be read together: a process that
stands still between the two readings would be late by that for as long as it runs. A store that
finds later times in its journal than the wall clock shows starts from those.

Not here: the TIME command, which answers with the wall clock.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

_READINGS: Final = 32
_TOGETHER_NS: Final = 50_000


class Clock(Protocol):
    """Microseconds since 1970 that never go back."""

    def now_us(self) -> int: ...

    def start_from(self, least_us: int) -> None:
        """From here on the time is at least `least_us`."""


def wall_ahead_ns() -> int:
    """Return how far the wall clock is ahead of the monotonic one, by the closest of some
    readings."""
    closest_ns, ahead_ns = 1 << 63, 0
    for _ in range(_READINGS):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        apart_ns = time.monotonic_ns() - before_ns
        if apart_ns < closest_ns:
            closest_ns, ahead_ns = apart_ns, wall_ns - before_ns - apart_ns // 2
        if apart_ns <= _TOGETHER_NS:
            break
    return ahead_ns


class SteadyClock:
    def __init__(self) -> None:
        self._offset_ns = wall_ahead_ns()

    def now_us(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1000

    def start_from(self, least_us: int) -> None:
        self._offset_ns += max(0, least_us - self.now_us()) * 1000


class ManualClock:
    """A clock that only its methods move, for tests and simulations."""

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def start_from(self, least_us: int) -> None:
        self._now_us = max(self._now_us, least_us)

    def advance(self, ms: float) -> None:
        self._now_us += round(ms * 1000)
