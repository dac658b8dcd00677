"""How long a message rests after a failure, and what a handler raises to say it itself.

Called by   desk.py; handlers raise Retry.
Calls       nothing.

Not here: how often a message may fail (handlers.py), how a family lets it rest (sources.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass


class Retry(Exception):
    """The handler could not do it now: the message comes back in `delay` seconds."""

    def __init__(self, delay: float, why: str = "asked for later") -> None:
        super().__init__(why)
        self.delay = delay


@dataclass(frozen=True)
class Backoff:
    """Twice as long each time: from `first` to `most` seconds, and up to half of it less by chance,
    so that what failed together does not come back together."""

    first: float = 1.0
    most: float = 300.0

    def delay_s(self, failures: int, chance: float | None = None) -> float:
        """How long to rest after so many failures; `chance` is from 0 to 1."""
        if chance is None:
            chance = random.random()
        # The exponent is bounded, or the power would be too large for a float.
        longest_s = min(self.most, self.first * 2.0 ** min(max(failures, 1) - 1, 60))
        return longest_s * (1 - chance / 2)
