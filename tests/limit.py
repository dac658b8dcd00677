"""No test runs for ever: one that hangs fails, and its traceback shows where it was.

Called by   conftest.py, for every test.
Calls       the timer of the process.

Not here: how long a test waits for something (servers/patience.py).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

# Of each step of a test: its fixtures, itself, and what cleans up after it. The slowest take a few
# minutes on a busy machine. pyproject.toml has when the tracebacks of all threads are printed.
LIMIT_S: Final = 1200.0
_AGAIN_S: Final = 10.0  # until the test hears it: an event loop survives most errors


@contextmanager
def limited(limit_s: float) -> Iterator[None]:
    """What runs inside for longer fails. Only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: object) -> None:
        pytest.fail(f"it took longer than {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
