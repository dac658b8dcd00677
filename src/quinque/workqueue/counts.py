"""The counts and the progress of a cleaning.

Called by   cleaning.py makes them; programs that clean, and cli/clean.py, read them.
Calls       nothing.

Not here: cleaning (cleaning.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Phase = Literal["waiting", "processing", "leases", "items", "returning", "dropping"]


@dataclass(slots=True)
class CleanCounts:
    """The problems that a cleaning found. They are repaired, except in a dry run."""

    looked: int = 0  # items, or ids of items, that were looked at
    returned: int = 0  # items without a lease that wait again
    ghosts: int = 0  # ids without an item that were taken out of a list
    duplicates: int = 0  # ids that were in the lists once more than they should be

    @property
    def repaired(self) -> int:
        return self.returned + self.ghosts + self.duplicates


class Progress(NamedTuple):
    """Progress between two slices of a cleaning: the phase, and how much of it is done."""

    phase: Phase
    done: int
    total: int  # as far as is known; others add and take meanwhile
