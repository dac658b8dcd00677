"""What SIGINT and SIGTERM do to a job of the data pipeline.

Called by   cli/pipeline_run.py (around every job), cli/pipeline.py (jobs that end in order).
Calls       nothing.

Spark puts a handler of its own for SIGINT in place when a session is made, which cancels what runs
and asks the Java process for it while an answer may be half read. So these are put in place after
that. Spark's Java process ignores SIGINT, and its workers are not in this process's group.

Not here: how a query is brought to its end (spark/jobs/progress.py).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Within, either signal raises KeyboardInterrupt."""
    with _handled_by(_interrupt):
        yield


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Within, what is given says whether a signal has come; a second one interrupts."""
    numbers: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        if numbers:
            _interrupt(number, frame)
        numbers.append(number)

    with _handled_by(remember):
        yield lambda: bool(numbers)


@contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    silenced = logging.root.manager.disable
    try:
        yield
    finally:
        logging.disable(silenced)
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # py4j logs the interruption of a request as an error, with its trace.
    logging.disable(logging.ERROR)
    raise KeyboardInterrupt
