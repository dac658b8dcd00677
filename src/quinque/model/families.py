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
    is_worklist: bool = False  # each message is worked by one consumer; else it is a feed


EVENTS: Final = Family("events", 1, "every consumer group sees every event until it expires")
JOBS: Final = Family(
    "jobs", 2, "one consumer works each job; it comes back until it is acked", is_worklist=True
)

FAMILIES: Final = (EVENTS, JOBS)
BY_CODE: Final = {family.code: family for family in FAMILIES}
BY_NAME: Final = {family.name: family for family in FAMILIES}
