"""Spans of time as programs say them, in seconds, and as operations have them, in milliseconds.

Called by   the queues of client/aio/.
Calls       nothing.

Not here: spans as commands have them (dialects/).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quinque.errors import BadArgument
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS

Delay = float | timedelta


def as_ms(seconds: float) -> int:
    """Raises BadArgument."""
    if not 0 <= seconds * 1000 <= SPAN_MOST_MS:
        raise BadArgument(f"{seconds} is not a duration in seconds")
    return round(seconds * 1000)


def as_delay_ms(delay: Delay, eta: datetime | None, now: datetime | None = None) -> int:
    """Return the delay of a message, which is given as `delay` or as the time `eta`. A time in the
    past means at once. Raises BadArgument for both, and for an `eta` without a time zone."""
    return as_ms(as_delay_s(delay, eta, now))


def as_delay_s(delay: Delay, eta: datetime | None, now: datetime | None = None) -> float:
    """Return the same in seconds."""
    if eta is None:
        return delay.total_seconds() if isinstance(delay, timedelta) else delay
    if delay:
        raise BadArgument("pass delay or eta, not both")
    if eta.utcoffset() is None:
        raise BadArgument(
            f"eta {eta} has no time zone: pass an aware datetime, for example "
            "datetime.now(UTC) + timedelta(hours=1)"
        )
    return max(0.0, (eta - (datetime.now(UTC) if now is None else now)).total_seconds())


def as_some_ms(what: str, seconds: float) -> int:
    """The same of a span that lasts. Raises BadArgument."""
    span_ms = as_ms(seconds)
    if not span_ms:
        raise BadArgument(f"{what} {seconds} must be more than 0 s")
    return span_ms


def as_whole_ms(what: str, seconds: float) -> int:
    """The same of a span that Disque has in whole seconds. Raises BadArgument."""
    if seconds % 1:
        raise BadArgument(f"{what} {seconds} is not a whole number of seconds")
    return as_ms(seconds)


def as_wait_ms(seconds: float | None) -> int:
    """How long to wait; None = as long as it takes. Raises BadArgument."""
    return NEVER_MS if seconds is None else as_ms(seconds)
