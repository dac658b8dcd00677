"""A space: the rows that a driver keeps, and indexes of them.

Called by   drivers, which users write; stores/embedded/driver_calls.py, which begins and ends the
            calls within which rows change.
Calls       index.py.

A row is a tuple of values that msgpack holds. The first two are its id, a whole number, and the
letter of its state. The driver decides the meaning of the others:

    READY r    TAKEN t    DELAYED ~    BURIED !

Rows change only within a call of the driver. The changes of a call are atomic: they are stored
together when it returns, and undone if it raises.

Not here: the storage of rows, the session that has taken a task (both in stores/embedded/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from quinque.drivers.index import ID as ID
from quinque.drivers.index import Index

Row = tuple[Any, ...]

STATE: Final = 1  # the column of the state's letter

READY: Final = "r"
TAKEN: Final = "t"
DELAYED: Final = "~"
BURIED: Final = "!"
DONE: Final = "-"  # the state of a removed task in its last event; no row has it

STATES: Final = (READY, TAKEN, DELAYED, BURIED)
# A task's place in the store is its priority and its number, which has 44 bits.
ID_MOST: Final = (1 << 44) - 1


class Space:
    """`now_ms` is the time of the call under way: a driver reads no clock.

    There is always an index `id`, by ids.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.now_ms = 0
        self._rows: dict[int, Row] = {}
        self._indexes: dict[str, Index] = {"id": Index("id", (ID,))}
        self._next_id = 0
        self._is_open = False
        self._was: dict[int, Row | None] = {}  # the rows that changed, as they were before the call
        self._was_next_id = 0

    def create_index(self, name: str, parts: Sequence[int], *, is_unique: bool = False) -> None:
        """Create an index over these columns, counted from 0. With `is_unique`, two rows cannot
        have the same values there. Raises ValueError if an index with that name exists."""
        if name in self._indexes:
            raise ValueError(f"space '{self.name}' already has an index '{name}'")
        index = Index(name, parts, is_unique=is_unique)
        index.fill(self._rows.values())
        self._indexes[name] = index

    # -- looking ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def get(self, id: int) -> Row | None:
        """The row with that id."""
        return self._rows.get(id)

    def select(
        self,
        index: str,
        key: Sequence[Any] = (),
        *,
        limit: int | None = None,
        is_reversed: bool = False,
    ) -> list[Row]:
        """Return the rows whose first columns of the index have the values of `key`, in its order,
        up to `limit`. Raises KeyError if the index does not exist."""
        found = self._indexes[index].ids(key, is_reversed=is_reversed)
        return [self._rows[id] for id in islice(found, limit)]

    def min(self, index: str, key: Sequence[Any] = ()) -> Row | None:
        """The first row of select()."""
        return next(iter(self.select(index, key, limit=1)), None)

    def max(self, index: str, key: Sequence[Any] = ()) -> Row | None:
        """The last row of select()."""
        return next(iter(self.select(index, key, limit=1, is_reversed=True)), None)

    # -- changing: within a call of the driver ---------------------------------------------------

    def next_id(self) -> int:
        """An id that no row ever had, unless the space was emptied with truncate()."""
        self._check_open()
        id = self._next_id
        self._next_id += 1
        return id

    def insert(self, row: Sequence[Any]) -> Row:
        """Add a row. Raises ValueError if its id or its unique values exist."""
        new = self._checked(row)
        if new[ID] in self._rows:
            raise ValueError(f"space '{self.name}' already has a row {new[ID]}")
        return self._put(None, new)

    def replace(self, row: Sequence[Any]) -> Row:
        """The row is as given, whether or not there was one with its id."""
        new = self._checked(row)
        return self._put(self._rows.get(new[ID]), new)

    def update(self, id: int, values: Mapping[int, Any]) -> Row:
        """Set these columns of the row to these values. Return the new row. Raises KeyError if the
        row does not exist."""
        old = self._rows[id]
        columns = list(old)
        for column, value in values.items():
            if column == ID:
                raise ValueError("the id of a row cannot change")
            columns[column] = value
        return self._put(old, self._checked(columns))

    def delete(self, id: int) -> Row:
        """Remove the row and return it. Raises KeyError if it does not exist."""
        self._check_open()
        row = self._rows.pop(id)
        for index in self._indexes.values():
            index.remove(row)
        self._was.setdefault(id, row)
        return row

    def truncate(self) -> int:
        """Remove all rows and restart the ids at 0. Return how many rows there were."""
        self._check_open()
        count = len(self._rows)
        for id, row in self._rows.items():
            self._was.setdefault(id, row)
        self._rows = {}
        for index in self._indexes.values():
            index.clear()
        self._next_id = 0
        return count

    def _checked(self, row: Sequence[Any]) -> Row:
        """Return the row as a tuple. Raises ValueError if it is not a valid row."""
        self._check_open()
        new = tuple(row)
        if len(new) <= STATE:
            raise ValueError("a row must have an id and a state")
        if type(new[ID]) is not int or not 0 <= new[ID] <= ID_MOST:
            raise ValueError(
                f"{new[ID]!r:.100} is not an id: an id is a whole number up to {ID_MOST}"
            )
        if new[STATE] not in STATES:
            raise ValueError(f"{new[STATE]!r:.100} is not a state of a row: use one of r t ~ !")
        return new

    def _put(self, old: Row | None, new: Row) -> Row:
        for index in self._indexes.values():
            index.entry(new)  # raises before anything has changed
            self._check_unique(index, new)
        for index in self._indexes.values():
            if old is not None:
                index.remove(old)
            index.add(new)
        id = new[ID]
        self._rows[id] = new
        self._was.setdefault(id, old)
        self._next_id = max(self._next_id, id + 1)
        return new

    def _check_unique(self, index: Index, row: Row) -> None:
        if not index.is_unique:
            return
        values = index.values(row)
        for id in index.ids(values):
            if id != row[ID]:
                raise ValueError(
                    f"index '{index.name}' is unique, but row {id} already has {values!r:.100}"
                )

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeError(
                f"space '{self.name}' can be changed only during a call of its driver"
            )

    # -- for the store ---------------------------------------------------------------------------

    def load(self, rows: Iterable[Row], next_id: int) -> None:
        """Fill the empty space with these rows. Raises ValueError if they are not valid."""
        self.begin(0)
        self._rows = {row[ID]: self._checked(row) for row in rows}
        self.end()
        for index in self._indexes.values():
            index.fill(self._rows.values())
        self._next_id = max(next_id, max(self._rows, default=-1) + 1)

    def restart_ids(self) -> None:
        """Ids begin at 0 again, if there is no row."""
        if not self._rows:
            self._next_id = 0

    def begin(self, now_ms: int) -> None:
        """Rows may change until end() or undo()."""
        self.now_ms = now_ms
        self._was = {}
        self._was_next_id = self._next_id
        self._is_open = True

    def changes(self) -> list[tuple[int, Row | None, Row | None]]:
        """Id, the row before the call and the row now, of each that changed, in the order in which
        they first did."""
        rows = self._rows
        return [(id, was, rows.get(id)) for id, was in self._was.items() if was is not rows.get(id)]

    def end(self) -> None:
        """Keep the changes."""
        self._is_open = False
        self._was = {}

    def undo(self) -> None:
        """All rows are as they were at begin()."""
        for id, was in self._was.items():
            row = self._rows.pop(id, None)
            for index in self._indexes.values():
                if row is not None:
                    index.remove(row)
                if was is not None:
                    index.add(was)
            if was is not None:
                self._rows[id] = was
        self._next_id = self._was_next_id
        self.end()

    @property
    def number(self) -> int:
        """The id that next_id() gives next."""
        return self._next_id
