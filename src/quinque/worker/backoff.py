"""The retry delay after a failure, and the exceptions with which a handler sets it.

Called by   desk.py; handlers raise Retry and Fail.
Calls       nothing.

Not here: the maximum number of failures (handlers.py), the delay in each family (sources.py).
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quinque.client.spans import Seconds, as_delay_s, as_seconds
from quinque.errors import BadArgument

LOG = logging.getLogger("quinque.worker")

REST_MOST_S: Final = 365 * 86_400.0


class Retry(Exception):
    """Raise this in a handler to have the message delivered again: after `delay`, in seconds or as
    a timedelta, or at the time `eta`. The delivery counts: at `max_deliveries`, the message is
    dead."""

    def __init__(
        self,
        delay: Seconds = 0,
        why: str = "the handler requested a retry",
        *,
        eta: datetime | None = None,
    ) -> None:
        """Raises ValueError if the delay is not from 0 to one year, or `eta` has no time zone."""
        super().__init__(why)
        try:
            delay_s = as_delay_s(delay, eta)
        except BadArgument as error:
            raise ValueError(str(error)) from None
        if not 0 <= delay_s <= REST_MOST_S:
            raise ValueError(
                f"the delay of a retry must be 0 to {REST_MOST_S:.0f} s, not {delay_s}"
            )
        self.delay = delay_s


class Fail(Exception):
    """Raise this in a handler if the message can never succeed: it is dead at once, with this
    reason, however often it was delivered."""


@dataclass(frozen=True)
class Backoff:
    """Delays that double with each failure, from `first` to `most` seconds. A random part of up to
    half is subtracted, so that messages that failed together are not retried together."""

    first: float = 1.0
    most: float = 300.0

    def delay_s(self, failures: int, chance: float | None = None) -> float:
        """Return the delay after the last of `failures`. `chance` is from 0 to 1."""
        if chance is None:
            chance = random.random()
        # The exponent is bounded, or the power would be too large for a float.
        longest_s = min(self.most, self.first * 2.0 ** min(max(failures, 1) - 1, 60))
        return longest_s * (1 - chance / 2)


def rest_s(error: BaseException, backoff: Backoff, failures: int) -> float:
    """Return the retry delay after this error: the valid delay of a Retry, or that of `backoff`. If
    a class of the program computes no valid delay, it is that of Backoff."""
    asked_s = getattr(error, "delay", None) if isinstance(error, Retry) else None
    if isinstance(asked_s, int | float) and 0 <= asked_s <= REST_MOST_S:
        return asked_s
    try:
        delay_s = as_seconds("delay", backoff.delay_s(failures))
        if 0 <= delay_s <= REST_MOST_S:
            return delay_s
        LOG.error("%s returned %s, which is not a retry delay", type(backoff).__name__, delay_s)
    except Exception:  # it may raise any error and must not end the process
        LOG.exception("%s failed to compute a retry delay", type(backoff).__name__)
    return Backoff(backoff.first, backoff.most).delay_s(failures)
