"""Objects by name, in an order in which a scan can continue.

Called by   stores, for the worklists.
Calls       nothing.

Names are spread over shelves by their hash, so that a scan continues where it stopped, shelf by
shelf, whatever was added or removed in between.

Not here: the messages of all worklists (directory.py).
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")

# A hundred thousand work queues are 100 for each shelf, which is about the count of a scan.
SHELVES: Final = 1024


class Shelves(Generic[T]):
    def __init__(self) -> None:
        self._shelves: list[dict[bytes, T]] = [{} for _ in range(SHELVES)]
        self.size = 0

    def add(self, key: bytes, item: T) -> None:
        self._shelves[hash(key) % SHELVES][key] = item
        self.size += 1

    def remove(self, key: bytes) -> None:
        if self._shelves[hash(key) % SHELVES].pop(key, None) is not None:
            self.size -= 1

    def scan(self, cursor: int, count: int) -> tuple[int, list[T]]:
        """Return the objects on the next shelves, at least `count` if there are as many, and the
        next cursor: 0 at the end."""
        found: list[T] = []
        for shelf in range(min(cursor, SHELVES), SHELVES):
            found += self._shelves[shelf].values()
            if len(found) >= count:
                return (shelf + 1) % SHELVES, found
        return 0, found
