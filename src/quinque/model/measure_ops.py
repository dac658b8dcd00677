"""The operations that measure queues and the store.

Called by   server/measuring.py and server/readiness.py (ask), stores (carry them out).
Calls       nothing.

They do not iterate over messages: stores keep the counts.

Not here: the facts about one queue for users (model/work_ops.py), facts for INFO (stores/base.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from quinque.model.families import Family
from quinque.model.ops import Op

NO_SHARD: Final = -1  # of a store without shards


@dataclass(slots=True)
class GroupMeasure:
    """A group of a feed: how many messages it can have now, and how many it has."""

    name: bytes
    ready: int
    leased: int


@dataclass(slots=True)
class QueueMeasure:
    """A queue as it is, or its part that lies in one shard; messages are counted by state.

    In a feed `ready` is what the group that has most before it can have, or a new one if there is
    none; `kept` is how many there are. `first_ms` is since when the ready message that is next has
    been in its place; None when no message is ready, or the time is unknown. `changes` counts the
    state changes that this broker has seen, by stats/tally.py:change_code.
    """

    family: Family
    queue: bytes
    shard: int
    ready: int
    leased: int
    delayed: int = 0
    dead: int = 0
    claimed: int = 0
    kept: int = 0
    first_ms: int | None = None
    groups: list[GroupMeasure] = field(default_factory=list)
    changes: Mapping[int, int] = field(default_factory=dict)


@dataclass
class QueueMeasures:
    """Some queues, and where to go on; None = that was all."""

    found: Sequence[QueueMeasure]
    cursor: Any  # not object: compiled by mypyc, that cannot be imported


@dataclass
class MeasureQueues(Op):
    """Return the QueueMeasures of about `count` queues, from `cursor` on (None: from the first), or
    of these `names` only. A queue may appear twice with the same shard. Nothing changes, and due
    work is not done. With `is_counting`, the store counts state changes from here on."""

    count: int
    cursor: Any = None
    is_counting: bool = False
    names: Collection[bytes] = ()


class Spread(NamedTuple):
    """A histogram: pairs of a bound and the number of values up to it, the number of all values,
    and their sum."""

    bounds: Sequence[tuple[int, int]]
    size: int
    total: int


@dataclass
class StoreMeasure:
    """The state of a store without a request to it. `trouble` says why the store does not work, and
    is empty if it works. A store that `is_silent` does not answer now."""

    trouble: str
    figures: Mapping[str, float]
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    is_silent: bool = False


@dataclass
class MeasureStore(Op):
    """The StoreMeasure, at once: never a Pending."""
