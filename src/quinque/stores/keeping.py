"""Whether what becomes of messages goes on record and is counted, and how much of it is kept.

Called by   the stores, which go by it; cli/serve.py, which has it from the settings.
Calls       nothing.

Not here: what is recorded (model/lifecycle.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Keeping:
    """`max_age_ms` and `max_bytes` of 0 are no limit."""

    is_on: bool = True
    max_age_ms: int = 7 * 86_400_000
    max_bytes: int = 1 << 30
    is_counting: bool = False  # per queue (stats/tally.py)
