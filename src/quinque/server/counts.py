"""Counts of what the server did, and how fast they grow.

Called by   broker.py (has one of each), connection.py and dispatch.py (count), commands/info.py.
Calls       nothing.

Not here: counts of the store (its info), calls of a command (its row).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Counts since the start, or since CONFIG RESETSTAT."""

    connections: int = 0
    refused_connections: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # by code


class Rates:
    """Counts per second, over the time between the last two measurements."""

    def __init__(self) -> None:
        self.commands = 0.0
        self.input_bytes = 0.0
        self.output_bytes = 0.0
        self._at_s = 0.0
        self._last = (0, 0, 0)

    def measure(self, now_s: float, commands: int, stats: Stats) -> None:
        """The rates are those since the last measurement.

        Counts that have become less were reset to 0.
        """
        counts = (commands, stats.input_bytes, stats.output_bytes)
        if self._at_s and now_s > self._at_s:
            span_s = now_s - self._at_s
            self.commands, self.input_bytes, self.output_bytes = (
                (count - (last if last <= count else 0)) / span_s
                for count, last in zip(counts, self._last, strict=True)
            )
        self._at_s, self._last = now_s, counts
