"""One row for each family: the name of its queues, and their differences.

Called by   dialects (the family of an operation), the engine (WRONGTYPE), users' rights.
Calls       nothing.

Not here: the commands of a family (dialects/).
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
    owns_ids: bool = False  # an id is known in its queue only: requests name the queue too
    keeps_deliveries: bool = False  # what is leased is in the order of its last delivery
    is_lasting: bool = False  # a queue stays when it is empty, until a client deletes it
    returns_to_back: bool = False  # a lease that ends puts a message behind all others
    numbers_ids: bool = False  # ids are <ms>-<number>, made by the store, and never go back

    @property
    def has_chosen_ids(self) -> bool:
        """Return whether producers choose the ids of messages of this family's work queues."""
        return self.owns_ids and not self.numbers_ids


EVENTS: Final = Family("events", 1, "every consumer group sees every event until it expires")
JOBS: Final = Family(
    "jobs", 2, "one consumer works each job; it comes back until it is acked", is_worklist=True
)
RELIABLE: Final = Family(
    "reliable",
    3,
    "one consumer works each element; it is delivered again when a client recovers it",
    is_worklist=True,
    owns_ids=True,
    keeps_deliveries=True,
    is_lasting=True,
    numbers_ids=True,
)
ITEMS: Final = Family(
    "items",
    4,
    "one worker leases each item, which has the id that its producer chose",
    is_worklist=True,
    owns_ids=True,
    returns_to_back=True,
)
TUBES: Final = Family(
    "tubes",
    5,
    "one session takes each task, in the order and at the times that the tube's kind says",
    is_worklist=True,
    owns_ids=True,
    is_lasting=True,
)

FAMILIES: Final = (EVENTS, JOBS, RELIABLE, ITEMS, TUBES)
BY_CODE: Final = {family.code: family for family in FAMILIES}
BY_NAME: Final = {family.name: family for family in FAMILIES}
