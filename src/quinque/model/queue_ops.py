"""The operations on a queue as a whole, by its name, as on a key of Redis.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Not here: operations on its messages (model/ops.py, model/work_ops.py, model/own_ops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quinque.model.families import Family
from quinque.model.ops import Op


@dataclass
class FindFamilies(Op):
    """Find the Family of each queue; None if it does not exist."""

    queues: Sequence[bytes]


@dataclass
class DeleteQueues(Op):
    """Remove the queues, with all that is in them; the result is how many existed.

    Raises WrongType when one is of another family, and then removes no queue.
    """

    family: Family
    queues: Sequence[bytes]


@dataclass
class RenameQueue(Op):
    """Rename the queue, and remove a queue of the family that had the new name. With `only_free`
    such a queue stays: nothing happens, and the result is False, else True. Messages keep their
    ids, their order and their counters.

    Raises NoQueue, WrongType when either is of another family, and LimitReached where a store would
    stand still for long, or has them on different servers.
    """

    family: Family
    queue: bytes
    new_name: bytes
    only_free: bool = False


@dataclass
class SetExpiry(Op):
    """Remove the queue at that moment, with all that is in it; 0 = it stays. The result is whether
    the queue exists and, for 0, whether it had an expiry."""

    family: Family
    queue: bytes
    expires_ms: int


@dataclass
class LookAtExpiry(Op):
    """Return when the queue expires (ms since 1970). 0: never. None if it does not exist."""

    family: Family
    queue: bytes
