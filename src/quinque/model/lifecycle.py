"""The entries of the lifecycle log: every state change of every message.

Called by   stores (record), spark/ and the exporter (read).
Calls       nothing.

There is one entry for each change, with all messages that it changed at once. Each message is a
row, and rows are numbered without a gap in each shard. An entry is a list packed with msgpack. The
order of its fields and all numbers never change.

Kinds and reasons are small integers because readers aggregate hundreds of millions of them.

Not here: the storage of entries (stores/), the tables made from them (spark/tables/).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    ADDED = 1  # it was added; `sizes` has the bytes of each body
    DELIVERED = 2  # a consumer has it
    ACKED = 3  # it is finished; in a feed, for that group
    RETURNED = 4  # it is available again
    DELAYED = 5  # it will be ready later
    EXPIRED = 6  # its time to live ended
    DEAD = 7  # it is stored, and is no longer delivered
    REMOVED = 8  # it was removed, unfinished
    HELD = 9  # it is leased without a consumer, or its lease is extended


class Reason(IntEnum):
    """The cause of the change."""

    NONE = 0
    LAPSED = 1  # a lease ended
    NACKED = 2
    ASKED = 3  # a client requested exactly that
    DELAY_OVER = 4
    REDRIVEN = 5  # it was dead
    CLAIM_SETTLED = 6
    CLAIM_RELEASED = 7
    CLAIM_FORFEITED = 8  # it was not renewed in time
    CLAIM_SHRUNK = 9
    DELETED = 10
    PURGED = 11  # with all of its state, or its queue
    NO_ACK = 12  # delivered, and that was all
    CLAIMED = 13  # delivered to a claim
    STAGED = 14  # added by a batch that was published
    RECOVERED = 15  # delivered once more, while it was leased
    RENAMED = 16  # its queue was renamed: it left the old name and is under the new one
    SESSION_OVER = 17  # its session ended, or a client returned all taken tasks
    TTL_OVER = 18  # its life ended, and it is kept


class Entry(NamedTuple):
    """`number` is the number of its first row. `ids` is a packed list of ids, `sizes` one of
    integers.

    group is that of a feed, or the subscription of a claim; claim is its number, else 0.
    """

    number: int
    at_ms: int
    kind: int
    reason: int
    family: int
    queue: bytes
    group: bytes
    claim: int
    ids: bytes
    sizes: bytes | None
