"""The operations that show what a store holds and what happened in it, and the result of each.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Not here: looks that a family has a word for (model/ops.py, model/work_ops.py), what is recorded
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
    """The messages of the queue in one of these states with a place after `after` and up to
    `until` (0 = the end), in the order of places: a Page of up to `count`, fewer when they are
    large. In a feed, all messages that live. Changes nothing."""

    family: Family
    queue: bytes
    after: int
    until: int
    count: int
    states: Sequence[State] = (State.READY, State.DELAYED, State.DEAD)
    shard: int = 0


@dataclass
class Places:
    """How many messages there are about, in how many shards the queue lies, and places that divide
    this shard into parts of about the same size, the last one's being its last place."""

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
    """What the store has on record of one shard: numbers of rows from `first` up to before `next`,
    and when the first of them was written. `log` tells it from the record of another store; 0 if
    that is unknown."""

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
    """Packed entries (model/lifecycle.py) of the shard, from the one that holds row `start` on, or
    the first after it: about `count` rows, and none when there are no more.

    Raises BadArgument when there is no such shard.
    """

    shard: int
    start: int
    count: int
