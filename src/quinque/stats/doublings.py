"""Count values by size, in classes that are each twice as large as the one before.

Called by   stores/embedded/journal.py (counts), stores/embedded/measures.py (reads).
Calls       nothing.

    class   0    1    2      3      4       …   64
    size    0    1    2–3    4–7    8–15    …   up to 2^64 - 1

The class of a number is its length in bits, so that counting one takes no search.

Not here: units, which only the caller knows.
"""

from __future__ import annotations


class Doublings:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * 65
        self.total = 0  # of all that was counted

    def add(self, size: int) -> None:
        """Count one more value, of 64 bits at most."""
        self.counts[size.bit_length()] += 1
        self.total += size

    @property
    def count(self) -> int:
        return sum(self.counts)

    def up_to(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return how many values were at most 2^n - 1, for each n from `first` to `last`."""
        found: list[tuple[int, int]] = []
        count = sum(self.counts[:first])
        for power in range(first, last + 1):
            count += self.counts[power]
            found.append(((1 << power) - 1, count))
        return found
