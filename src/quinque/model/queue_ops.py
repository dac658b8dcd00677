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
    """The Family of each queue, None where there is no such queue."""

    queues: Sequence[bytes]


@dataclass
class DeleteQueues(Op):
    """The queues are gone, with all that was in them; the result is how many there were.

    Raises WrongType when one is of another family, and then none is gone.
    """

    family: Family
    queues: Sequence[bytes]


@dataclass
class RenameQueue(Op):
    """The queue has the other name, and one of the family that had it is gone; with `only_free`
    nothing happens if there is one, and the result is False, else True. Messages keep their ids,
    their order and what was counted.

    Raises NoQueue, WrongType when either is of another family, and LimitReached where a store would
    stand still for long, or has them on different servers.
    """

    family: Family
    queue: bytes
    new_name: bytes
    only_free: bool = False


@dataclass
class SetExpiry(Op):
    """The queue is gone from that moment on, with all that is in it; 0 = it stays. The result is
    whether there is such a queue and, for 0, whether it was to go."""

    family: Family
    queue: bytes
    expires_ms: int


@dataclass
class LookAtExpiry(Op):
    """When the queue is gone (ms since 1970): 0 = it stays; None when there is no such queue."""

    family: Family
    queue: bytes
