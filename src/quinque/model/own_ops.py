"""The operations on worklists whose ids are their own, and the result of each.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

A request that names an id names its queue as well, because another queue may have the same id. The
same holds for feeds, and ExtendLeases is for them too.

Not here: the operations that all worklists share (model/work_ops.py), those on a queue as a whole
(model/queue_ops.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quinque.model.families import Family
from quinque.model.ops import Op
from quinque.model.work_ops import Terms, WorkDelivery

# They live until they are acked, and a lease ends only when a client ends it.
RELIABLE_TERMS: Final = Terms(ttl_ms=0)
# They live until they are completed; each take sets how long its lease runs.
ITEM_TERMS: Final = Terms(ttl_ms=0)


@dataclass
class Complete(Op):
    """Finish and remove the messages: all that exist, or with `is_leased` those that are leased.
    The result says for each whether it was removed, the first time it is named. None if the queue
    does not exist."""

    family: Family
    queue: bytes
    message_ids: Sequence[bytes]
    is_leased: bool


@dataclass
class Recover(Op):
    """Deliver again up to `count` leased messages whose last delivery was at least `elapsed_ms`
    ago, the oldest delivery first, and none of them twice. The result has a WorkDelivery for each.
    None if the queue does not exist."""

    family: Family
    queue: bytes
    count: int
    elapsed_ms: int


@dataclass
class Undeliver(Op):
    """Make messages that were taken ready, in the place they had: their delivery did not reach its
    consumer, and does not count. A message that was delivered again since, or is gone, is not
    changed. Without a `lease` the store knows that only of a message that was delivered once. The
    result is how many became ready."""

    family: Family
    deliveries: Sequence[WorkDelivery]


@dataclass
class Inspected:
    """A message as it is now. `delivered_ms` is when it was delivered last; 0 = never."""

    message_id: bytes
    body: bytes
    delivered_ms: int
    deliveries: int

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.message_id.decode("utf-8", "surrogateescape")


@dataclass
class Inspect(Op):
    """Return `count` messages from index `start` on, fewer if they are large or very many: the
    ready ones in their order, or the leased ones in the order of their last delivery. A negative
    `start` counts from the end. None if the queue does not exist."""

    family: Family
    queue: bytes
    is_leased: bool
    start: int
    count: int


@dataclass
class AddItems(Op):
    """Store messages under ids that the caller chose, at the back; the result says for each whether
    it is new. An existing message is not changed. With `is_known_new` the caller guarantees that
    the ids are new; an existing message then gets the new body."""

    family: Family
    queue: bytes
    message_ids: Sequence[bytes]
    bodies: Sequence[bytes]
    is_known_new: bool = False


@dataclass
class ExtendLeases(Op):
    """Let leases that still run end `lease_ms` from now, which may be later or sooner; the result
    says for each message whether its lease was set. In a feed they are those of `group`. With
    `deadline_ms`, only leases of items that end then, as in Release."""

    family: Family
    queue: bytes
    message_ids: Sequence[bytes]
    lease_ms: int
    group: bytes = b""
    deadline_ms: int = 0


@dataclass
class Cleaned:
    """The counts of a slice of cleaning, and the next cursor: 0 at the end.

    returned   abandoned items that are in the queue again
    dropped    ids that were in a list, and whose items are done or never were
    doubled    ids that were in a list more than once, or in both, before the cleaning
    """

    cursor: int
    looked_at: int
    returned: int
    dropped: int
    doubled: int


@dataclass
class CleanItems(Op):
    """Clean a slice of about `count` ids: requeue items that workers abandoned. Deep cleaning looks
    at every item, and also finds those that are in no list. The result is Cleaned.

    A store that only the broker writes to has nothing to clean, and looks at nothing.
    """

    family: Family
    queue: bytes
    is_deep: bool
    cursor: int = 0
    count: int = 1_000
