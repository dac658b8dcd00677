"""The time brokers on one Redis share: that of Redis, which each of them follows.

Called by   served.py (asks once a second), the steps of operations.
Calls       stores/clock.py, time.

A lease taken at one broker ends at another, so their clocks must agree. Each starts at the time of
Redis, whatever the machine's own clock shows, and moves on by the monotonic clock. Later it is set
by what Redis says: forward at once, back only slowly, so that it never stands still for long and
never goes back.

Not here: the clock of a store that is alone (stores/clock.py).
"""

from __future__ import annotations

import time
from typing import Final

from quinque.stores.clock import wall_ahead_ns

_BACK_MOST_US: Final = 100_000  # by one look, of which there is one a second


class FollowingClock:
    def __init__(self) -> None:
        self._offset_us = wall_ahead_ns() // 1000
        self._latest_us = 0
        self._has_followed = False
        self.wall_off_us = 0  # how far this machine's own clock is ahead, as far as is sure

    def now_us(self) -> int:
        now_us = time.monotonic_ns() // 1000 + self._offset_us
        if now_us < self._latest_us:
            return self._latest_us
        self._latest_us = now_us
        return now_us

    def start_from(self, least_us: int) -> None:
        self._offset_us += max(0, least_us - self.now_us())

    def follow(self, there_us: int, took_us: int) -> None:
        """The other clock showed this time at some moment of the last `took_us`."""
        off_us = time.time_ns() // 1000 - there_us
        self.wall_off_us = max(0, off_us - took_us) + min(0, off_us)
        # Moved by what is sure and no further: after a long way the rest may be anything.
        ahead_most_us = time.monotonic_ns() // 1000 + self._offset_us - there_us
        ahead_least_us = ahead_most_us - took_us
        if not self._has_followed:
            self._has_followed = True
            if ahead_least_us > 0 or ahead_most_us < 0:
                self._offset_us -= ahead_most_us
                self._latest_us = 0  # nothing was done by the time before
        elif ahead_most_us < 0:
            self._offset_us -= ahead_most_us
        elif ahead_least_us > 0:
            self._offset_us -= min(ahead_least_us, _BACK_MOST_US)
