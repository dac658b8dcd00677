"""Slow operations by type of event: the samples of LATENCY.

Called by   broker.py (commands), turn.py and ticker.py (what they do themselves),
            commands/latency.py (shows).
Calls       nothing.

Only events that took at least latency-monitor-threshold are kept, and only the slowest of each
second, so that 160 samples cover at least 160 seconds. If it is disabled, no event takes that long.

Not here: the requests (slowlog.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import time
from typing import Final, Literal

Event = Literal["command", "fast-command", "journal-commit", "tick"]

SAMPLES_MOST: Final = 160  # of one event, as Redis keeps them
NEVER_NS: Final = 1 << 62


@dataclass(slots=True)
class Sample:
    """The worst of one second."""

    at_s: int
    spent_ms: int


@dataclass(slots=True)
class Series:
    """The samples of one event, oldest first, and the worst of all times."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MOST))
    worst_ms: int = 0

    def add(self, at_s: int, spent_ms: int) -> None:
        self.worst_ms = max(self.worst_ms, spent_ms)
        if self.samples and self.samples[-1].at_s == at_s:
            self.samples[-1].spent_ms = max(self.samples[-1].spent_ms, spent_ms)
        else:
            self.samples.append(Sample(at_s, spent_ms))


class LatencyMonitor:
    def __init__(self, now_s: Callable[[], float] = time) -> None:
        self._now_s = now_s
        self.least_ns = NEVER_NS  # shorter events are not kept
        self.events: dict[str, Series] = {}

    @property
    def is_on(self) -> bool:
        return self.least_ns < NEVER_NS

    def watch_from(self, threshold_ms: int) -> None:
        """Keep events that take at least `threshold_ms`; 0 means none. Existing samples stay."""
        self.least_ns = threshold_ms * 1_000_000 if threshold_ms > 0 else NEVER_NS

    def note(self, event: Event, spent_ns: int) -> None:
        """The event is kept if it took long."""
        if spent_ns >= self.least_ns:
            series = self.events.setdefault(event, Series())
            series.add(int(self._now_s()), spent_ns // 1_000_000)

    def forget(self, names: Iterable[str]) -> int:
        """Remove the samples of these events. Return how many of the events had samples."""
        return sum(self.events.pop(name, None) is not None for name in names)

    def now_s(self) -> int:
        """The clock of the samples."""
        return int(self._now_s())
