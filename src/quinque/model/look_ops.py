"""The operations that list messages and read the lifecycle log, and their results.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Not here: peeks of a family (model/ops.py, model/work_ops.py), the entries of the log
(model/lifecycle.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quinque.model.families import Family
from quinque.model.ops import Op
from quinque.model.states import State


@dataclass
class Page:
    """Rows (model/rows.py) packed as one list, how many, and the place of the last; `is_last` when
    there are no more."""

    rows: bytes
    count: int
    place: int
    is_last: bool


@dataclass
class BrowsePlaces(Op):
    """Return a Page of messages of the queue in these states, with a position after `after` and up
    to `until` (0: the end), in the order of positions: up to `count`, fewer if they are large. In
    an events queue, return all live messages. Nothing changes."""

    family: Family
    queue: bytes
    after: int
    until: int
    count: int
    states: Sequence[State] = (State.READY, State.DELAYED, State.DEAD)
    shard: int = 0


@dataclass
class Places:
    """About how many messages there are, the number of shards of the queue, and positions that
    divide this shard into parts of about the same size. The last one is the last position of the
    shard."""

    messages: int
    shards: int
    bounds: list[int]


@dataclass
class DividePlaces(Op):
    """The Places of the queue, for up to `parts` readers of BrowsePlaces."""

    family: Family
    queue: bytes
    parts: int
    states: Sequence[State] = (State.READY, State.DELAYED, State.DEAD)
    shard: int = 0


@dataclass
class Record:
    """The lifecycle log of one shard: numbers of rows from `first` to before `next`, and when the
    first of them was written. `log` distinguishes it from the log of another store; 0 if that is
    unknown."""

    shard: int
    first: int
    next: int
    first_ms: int
    log: int = 0


@dataclass
class FindRecords(Op):
    """The Record of each shard."""


@dataclass
class ReadRecord(Op):
    """Return packed entries (model/lifecycle.py) of the shard, from the one with row `start` on, or
    the first after it: about `count` rows. Empty at the end.

    Raises BadArgument if the shard does not exist.
    """

    shard: int
    start: int
    count: int
