"""Turn the durations of programs, in seconds, into milliseconds.

Called by   the queues and the broker of client/aio/, worker/app.py, worker/backoff.py.
Calls       nothing.

Not here: durations in commands (dialects/).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from quinque.errors import BadArgument, BadSetting
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS

Seconds = float | timedelta


def as_seconds(what: str, span: Seconds) -> float:
    """Return the duration as a number of seconds. Raises BadArgument for a value that is neither a
    number nor a timedelta."""
    given: Any = span  # annotations are not checked at run time
    if isinstance(given, int | float):
        return given
    if isinstance(given, timedelta):
        return given.total_seconds()
    if hasattr(given, "__float__"):  # a number of another kind, such as a Decimal
        with suppress(TypeError, ValueError, OverflowError):
            return float(given)
    raise BadArgument(
        f"{what} must be a number of seconds or a timedelta, not {type(span).__name__}"
    )


def as_setting_s(what: str, span: Seconds) -> float:
    """Return the same for a setting of a client or a worker. Raises BadSetting."""
    try:
        return as_seconds(what, span)
    except BadArgument as error:
        raise BadSetting(str(error)) from None


def as_ms(what: str, span: Seconds) -> int:
    """Return the duration in milliseconds. Raises BadArgument."""
    seconds = as_seconds(what, span)
    if not 0 <= seconds * 1000 <= SPAN_MOST_MS:
        raise BadArgument(f"{what} {seconds} is not a duration in seconds")
    return round(seconds * 1000)


def as_delay_ms(delay: Seconds, eta: datetime | None, now: datetime | None = None) -> int:
    """Return the delay of a message, which is given as `delay` or as the time `eta`. A time in the
    past means at once. Raises BadArgument for both, and for an `eta` without a time zone."""
    return as_ms("delay", as_delay_s(delay, eta, now))


def as_delay_s(delay: Seconds, eta: datetime | None, now: datetime | None = None) -> float:
    """Return the same in seconds."""
    delay_s = as_seconds("delay", delay)
    if eta is None:
        return delay_s
    if delay_s:
        raise BadArgument("pass delay or eta, not both")
    if not isinstance(eta, datetime):
        raise BadArgument(f"eta must be a datetime with a time zone, not {type(eta).__name__}")
    if eta.utcoffset() is None:
        raise BadArgument(
            f"eta {eta} has no time zone: pass an aware datetime, for example "
            "datetime.now(UTC) + timedelta(hours=1)"
        )
    return max(0.0, (eta - (datetime.now(UTC) if now is None else now)).total_seconds())


def as_some_ms(what: str, span: Seconds) -> int:
    """Return a duration of at least 1 ms. Raises BadArgument."""
    span_ms = as_ms(what, span)
    if not span_ms:
        raise BadArgument(f"{what} {as_seconds(what, span)} must be more than 0 s")
    return span_ms


def as_whole_ms(what: str, span: Seconds) -> int:
    """Return a duration in whole seconds, as Disque has it. Raises BadArgument."""
    seconds = as_seconds(what, span)
    if seconds % 1:
        raise BadArgument(f"{what} {seconds} is not a whole number of seconds")
    return as_ms(what, seconds)


def as_wait_ms(timeout: Seconds | None) -> int:
    """Return the time to wait. None means forever. Raises BadArgument."""
    return NEVER_MS if timeout is None else as_ms("timeout", timeout)
