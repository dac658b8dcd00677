"""How long a message rests after a failure, and what a handler raises to say it itself.

Called by   desk.py; handlers raise Retry.
Calls       nothing.

Not here: how often a message may fail (handlers.py), how a family lets it rest (sources.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

REST_MOST_S: Final = 365 * 86_400.0


class Retry(Exception):
    """Raise this in a handler to have the message delivered again in `delay` seconds."""

    def __init__(self, delay: float, why: str = "the handler requested a retry") -> None:
        """Raises ValueError if `delay` is not a number from 0 to one year."""
        super().__init__(why)
        if not 0 <= delay <= REST_MOST_S:
            raise ValueError(f"the delay of a retry must be 0 to {REST_MOST_S:.0f} s, not {delay}")
        self.delay = delay


@dataclass(frozen=True)
class Backoff:
    """Delays that double with each failure, from `first` to `most` seconds. A random part of up to
    half is subtracted, so that messages that failed together are not retried together."""

    first: float = 1.0
    most: float = 300.0

    def delay_s(self, failures: int, chance: float | None = None) -> float:
        """How long to rest after so many failures; `chance` is from 0 to 1."""
        if chance is None:
            chance = random.random()
        # The exponent is bounded, or the power would be too large for a float.
        longest_s = min(self.most, self.first * 2.0 ** min(max(failures, 1) - 1, 60))
        return longest_s * (1 - chance / 2)


def rest_s(error: BaseException, backoff: Backoff, failures: int) -> float:
    """How long a message rests whose handler raised this: as long as that says, if it can be."""
    asked_s = getattr(error, "delay", None) if isinstance(error, Retry) else None
    if isinstance(asked_s, int | float) and 0 <= asked_s <= REST_MOST_S:
        return asked_s
    return backoff.delay_s(failures)
