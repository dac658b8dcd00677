"""How much work a call is, counted and not timed: the lines of the package that it runs.

Called by   tests that a call stays small however much there is.
Calls       nothing.

A loop runs its lines once more for each thing that it goes through, so the count tells how many
there were. Compiled modules run no lines: there the count is smaller, and never larger.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import quinque

_FOLDER = str(quinque.__path__[0])


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of the package the call runs."""
    count = 0

    def trace_lines(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace_lines

    def trace_calls(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_lines if frame.f_code.co_filename.startswith(_FOLDER) else None

    before = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
