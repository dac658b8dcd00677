"""How many messages of a handler are taken before they can be begun.

Called by   desk.py.
Calls       nothing.

As many as were worked lately in a tenth of a second: slow work leaves to others what it cannot
begin, and quick work is asked for in one request.

Not here: how many are worked at a time (handlers.py).
"""

from __future__ import annotations

from typing import Final

_AHEAD_S: Final = 0.1
_MEASURED_S: Final = 0.01  # a rate of less time than this says little


class Ahead:
    """`count` is up to `most`, which may be changed."""

    def __init__(self, most: int, now_s: float) -> None:
        self.count = 0
        self.most = most
        self._rate, self._rated_s, self._rated = 0.0, now_s, 0

    def rate(self, ended: int, now_s: float) -> None:
        """Measure the rate: `ended` is how many have ended since it began."""
        passed_s = now_s - self._rated_s
        if passed_s < _MEASURED_S:
            return
        self._rate = (self._rate + (ended - self._rated) / passed_s) / 2
        self._rated_s, self._rated = now_s, ended
        self.count = min(self.most, int(self._rate * _AHEAD_S))
