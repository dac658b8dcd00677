"""Wait for something that another process brings about and of which it gives no sign.

Called by   the servers beside this file, and tests that use them.
Calls       nothing.

Not here: waiting for a broker (tests/server/broker.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

# What has not come true by then never will; nothing waits for this to pass.
PATIENCE_S = 60.0
_PAUSE_S = 0.01  # between two looks: the other process may need the processor


def wait_until(holds: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """It holds, now at the latest.

    Raises AssertionError, which says what did not come true.
    """
    end_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end_s, f"not within {patience_s:g} s: {what}"
        time.sleep(_PAUSE_S)


def holds_within(holds: Callable[[], object], patience_s: float) -> bool:
    """Whether it came true by then; if not, it is asked for again, or done without."""
    try:
        wait_until(holds, "it", patience_s)
    except AssertionError:
        return False
    return True
