"""One row per family: what its queues are called and how they differ.

Called by   dialects (which family an operation is for), the engine (WRONGTYPE), users' rights.
Calls       nothing.

Not here: the words a family speaks (dialects/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Family:
    """`code` is what the journal keeps: it never changes and is never used again."""

    name: str
    code: int
    meaning: str


EVENTS: Final = Family("events", 1, "every consumer group sees every event until it expires")

FAMILIES: Final = (EVENTS,)
BY_CODE: Final = {family.code: family for family in FAMILIES}
