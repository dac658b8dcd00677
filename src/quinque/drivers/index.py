"""Rows of a space in an order of their own: by the values of some of their columns.

Called by   space.py.
Calls       nothing.

An entry is what a row is ordered by: the values of the index's columns, then its id, so that no two
are alike. Values of one kind are compared with each other, and the kinds follow one another:

    null  <  false, true  <  numbers  <  text  <  bytes

    ("r", 7)   ->   ((3, "r"), (2, 7))        7 is the id: what an entry ends with

Entries lie in sorted blocks, short enough that shifting one costs less than finding the place.

Not here: the rows themselves (space.py).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

Entry = tuple[tuple[Any, ...], ...]

ID: Final = 0  # the column of a row's id
BLOCK_MOST: Final = 1024
_AFTER_ALL: Final = (5,)  # larger than any value


class Index:
    def __init__(self, name: str, parts: Sequence[int], *, is_unique: bool = False) -> None:
        """Rows are in the order of these columns, counted from 0, and then of their ids.

        Raises ValueError when there are no columns, or a number is not a column.
        """
        if not parts or any(type(part) is not int or part < 0 for part in parts):
            raise ValueError(f"index '{name}' needs columns, counted from 0")
        self.name = name
        self.parts = tuple(parts)
        self.is_unique = is_unique
        self._columns = self.parts if self.parts[-1] == ID else (*self.parts, ID)
        self._blocks: list[list[Entry]] = [[]]

    def fill(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Replace all rows by these. Raises ValueError if two of them have the same unique values,
        or one cannot be sorted."""
        entries = sorted(map(self.entry, rows))
        count = len(self.parts)
        if self.is_unique and self._columns != self.parts:
            for before, after in pairwise(entries):
                if before[:count] == after[:count]:
                    raise ValueError(
                        f"index '{self.name}' is unique, but rows {before[-1][1]} and "
                        f"{after[-1][1]} have the same values"
                    )
        starts = range(0, max(1, len(entries)), BLOCK_MOST)
        self._blocks = [entries[at : at + BLOCK_MOST] for at in starts]

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row that is not in the index."""
        entry = self.entry(row)
        blocks = self._blocks
        last = blocks[-1]
        if not last or entry > last[-1]:
            if len(last) < BLOCK_MOST:
                last.append(entry)
            else:
                blocks.append([entry])
            return
        at = self._block_of(entry)
        block = blocks[at]
        insort(block, entry)
        if len(block) > BLOCK_MOST:
            half = len(block) // 2
            blocks.insert(at + 1, block[half:])
            del block[half:]

    def remove(self, row: tuple[Any, ...]) -> None:
        """Remove a row that is in the index."""
        entry = self.entry(row)
        at = self._block_of(entry)
        block = self._blocks[at]
        where = bisect_left(block, entry)
        assert block[where] == entry, "a row is where its values are"
        del block[where]
        if not block and len(self._blocks) > 1:
            del self._blocks[at]

    def clear(self) -> None:
        self._blocks = [[]]

    def entry(self, row: tuple[Any, ...]) -> Entry:
        """Return the sort key of the row. Raises ValueError if it cannot be sorted."""
        try:
            return tuple([_comparable(row[column]) for column in self._columns])
        except IndexError:
            raise ValueError(
                f"a row of {len(row)} columns does not have all columns of index '{self.name}'"
            ) from None

    def values(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row's values in the columns of the index."""
        return tuple([row[part] for part in self.parts])

    def ids(self, key: Sequence[Any], *, is_reversed: bool = False) -> Iterator[int]:
        """Yield the ids of the rows whose first columns of the index have these values, in order.
        Do not add or remove rows meanwhile."""
        first = tuple(map(_comparable, key))
        if len(first) > len(self._columns):
            raise ValueError(f"index '{self.name}' has only {len(self._columns)} columns")
        if is_reversed:
            return self._backwards(first)
        return self._forwards(first)

    def _forwards(self, first: Entry) -> Iterator[int]:
        count = len(first)
        at = self._block_of(first)
        where = bisect_left(self._blocks[at], first)
        while at < len(self._blocks):
            block = self._blocks[at]
            for entry in block[where:] if where else block:
                if entry[:count] != first:
                    return
                yield entry[-1][1]
            at, where = at + 1, 0

    def _backwards(self, first: Entry) -> Iterator[int]:
        count = len(first)
        end = (*first, _AFTER_ALL)
        at = min(self._block_of(end), len(self._blocks) - 1)
        where = bisect_left(self._blocks[at], end)
        while at >= 0:
            block = self._blocks[at]
            for entry in reversed(block[:where]):
                if entry[:count] != first:
                    return
                yield entry[-1][1]
            at -= 1
            where = len(self._blocks[at])

    def _block_of(self, entry: Entry) -> int:
        """The number of the first block whose last entry is not less; the last, if none is."""
        blocks = self._blocks
        low, high = 0, len(blocks) - 1
        while low < high:
            middle = (low + high) // 2
            if blocks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low


def _comparable(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    kind = type(value)
    if kind is int or (kind is float and value == value):
        return (2, value)
    if kind is str:
        return (3, value)
    if kind is bytes:
        return (4, value)
    if kind is bool:
        return (1, value)
    raise ValueError(f"cannot order rows by {value!r:.100}")
