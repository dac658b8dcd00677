"""Handle SIGINT and SIGTERM in a job of the data pipeline.

Called by   cli/pipeline_run.py (around every job), cli/pipeline.py (jobs that stop cleanly).
Calls       nothing.

When a session is made, Spark installs a handler for SIGINT that cancels running jobs with a request
to the Java process, while a reply may be half read. So these handlers are installed after that.
Spark's Java process ignores SIGINT, and its workers are not in the group of this process.

Not here: how a query is stopped (spark/jobs/progress.py).
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
    """Within this block, either signal raises KeyboardInterrupt."""
    with _handled_by(_interrupt):
        yield


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal has come. A second signal raises
    KeyboardInterrupt."""
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
    # py4j logs an interrupted request as an error, with a traceback.
    logging.disable(logging.ERROR)
    raise KeyboardInterrupt
