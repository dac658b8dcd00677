"""The clock of a store is that of the wall, however badly the process was timed when it read it."""

from __future__ import annotations

import time

import pytest

from quinque.stores.clock import SteadyClock, wall_ahead_ns

MS = 1_000_000
STARTED_NS = 1_700_000_000_000 * MS


class PutAside:
    """Both clocks of a machine, where each of the first readings is followed by a pause."""

    def __init__(self, pauses_ns: list[int]) -> None:
        self._pauses_ns = pauses_ns[::-1]
        self._ns = 5_000 * MS

    def monotonic_ns(self) -> int:
        now_ns = self._ns
        self._ns += self._pauses_ns.pop() if self._pauses_ns else 100
        return now_ns

    def time_ns(self) -> int:
        return STARTED_NS + self.monotonic_ns()


@pytest.mark.parametrize(
    "pauses_ns",
    [
        [],
        [6 * MS],
        [0, 6 * MS],
        [6 * MS] * 12,
        # Never together: the closest counts.
        [9 * MS, 9 * MS, 0, 60_000, 0, 0] + [7 * MS] * 90,
    ],
)
def test_a_pause_between_the_readings_does_not_move_the_clock(
    monkeypatch: pytest.MonkeyPatch, pauses_ns: list[int]
) -> None:
    clocks = PutAside(pauses_ns)
    monkeypatch.setattr(time, "monotonic_ns", clocks.monotonic_ns)
    monkeypatch.setattr(time, "time_ns", clocks.time_ns)

    assert abs(wall_ahead_ns() - STARTED_NS) <= 30_000


def test_a_clock_starts_from_the_latest_time_it_is_told() -> None:
    steady = SteadyClock()
    later_us = steady.now_us() + 60_000_000

    steady.start_from(later_us)
    steady.start_from(later_us - 1)

    assert later_us <= steady.now_us() < later_us + 30_000_000
