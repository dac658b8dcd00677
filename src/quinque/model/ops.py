"""The operations on events queues, and their results.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Frequent operations take many messages at once, so that similar requests of one iteration can be
merged.

Not here: operations on worklists (model/work_ops.py), extending leases, which one kind of worklist
has too (model/own_ops.py), what an operation does
(engine/feed/decide.py), how long to wait for one (dialects/command.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quinque.model.families import Family


class Op:
    """An operation. The result types are in stores/base.py."""

    __slots__ = ()


@dataclass
class Delivery:
    """One message delivered to one consumer. `deliveries` includes this one; 0: unknown. The lease
    ends at `deadline_ms`; 0: only the store knows."""

    queue: bytes
    message_id: bytes
    body: bytes
    deliveries: int
    deadline_ms: int = field(default=0, compare=False)


@dataclass
class GroupCount:
    """A group's view of one queue; `total` is the queue's own."""

    group: bytes
    total: int
    leased: int
    redo: int
    done: int
    available: int


@dataclass
class QueueCount:
    """The number of events of a queue, and the view of each of its groups."""

    queue: bytes
    total: int
    groups: list[GroupCount]


@dataclass
class Put(Op):
    """Store messages at the back of the queue, or one at its front; the result is their ids.

    Without `message_id` the store makes ids, each larger than all earlier ones. With it there is
    one message.
    """

    family: Family
    queue: bytes
    bodies: Sequence[bytes]
    ttl_ms: int = 0  # 0 = never expires
    message_id: bytes | None = None
    to_front: bool = False
    is_single: bool = False


@dataclass
class Reserve(Op):
    """Lease up to `count` messages to a group. `lease_ms` 0 = acknowledged at once.

    There are fewer if the queue has no more, or if their bodies are large, but at least one if
    there is one. Without `tells_deliveries` the number of deliveries is always 0.
    """

    family: Family
    queue: bytes
    group: bytes
    lease_ms: int
    count: int = 1
    tells_deliveries: bool = True


@dataclass
class Ack(Op):
    """Finish leased messages; the result says for each whether it was finished. `held_only` False
    also takes single messages that no consumer holds."""

    family: Family
    queue: bytes
    group: bytes
    message_ids: Sequence[bytes]
    held_only: bool = True


@dataclass
class Release(Op):
    """Return leased messages at once; the result says for each whether it was returned. With
    `deadline_ms`, only those whose leases end then: others have been taken again since. With
    `is_uncounted` no consumer tried them: the delivery is not counted."""

    family: Family
    queue: bytes
    group: bytes
    message_ids: Sequence[bytes]
    deadline_ms: int = 0
    is_uncounted: bool = False


@dataclass
class Flush(Op):
    """Forget every message of the queue. Leases still running may be acked, nothing comes back."""

    family: Family
    queue: bytes


@dataclass
class Peek(Op):
    """The message a group would get next, or the one it would get last. Changes nothing."""

    family: Family
    queue: bytes
    group: bytes
    last: bool = False


@dataclass
class FindReady(Op):
    """The first of `queues` that has something for the group. Changes nothing."""

    family: Family
    group: bytes
    queues: Sequence[bytes]


@dataclass
class Count(Op):
    """Count messages by state. Without `queues`, all queues of the family are counted, in their
    order.

    With `most`, the result may be cut off, and be in any order, if there are more rows: one for
    each queue and group, or for each of the `groups`.
    """

    family: Family
    queues: Sequence[bytes] = ()
    groups: Sequence[bytes] | None = None
    most: int = 0

    def rows_of(self, groups: int) -> int:
        """Return how many rows a queue with `groups` groups has."""
        return max(1, groups if self.groups is None else len(self.groups))
