"""The number of messages that a handler prefetches.

Called by   desk.py.
Calls       nothing.

As many as the handler finished in the last tenth of a second: a slow handler leaves messages to
other processes, and a fast one gets many with one request.

Not here: how many run at a time (handlers.py).
"""

from __future__ import annotations

from typing import Final

_AHEAD_S: Final = 0.1
_MEASURED_S: Final = 0.01  # a rate over less time is not reliable


class Ahead:
    """`count` is the number of messages to prefetch, at most `most`, which may change."""

    def __init__(self, most: int, now_s: float) -> None:
        self.count = 0
        self.most = most
        self._rate, self._rated_s, self._rated = 0.0, now_s, 0

    def rate(self, ended: int, now_s: float) -> None:
        """Measure the rate: `ended` is how many messages have ended since the process started."""
        passed_s = now_s - self._rated_s
        if passed_s < _MEASURED_S:
            return
        self._rate = (self._rate + (ended - self._rated) / passed_s) / 2
        self._rated_s, self._rated = now_s, ended
        self.count = min(self.most, int(self._rate * _AHEAD_S))
