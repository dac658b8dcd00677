"""The events of subscriptions and their claims in the journal.

Called by   engine/claims/ (makes them, carries them out), the journal.
Calls       nothing.

As in model/events.py, an event is also its record: kinds and the order of fields never change.

`rows` are those of a chunk (model/rows.py), packed; only ClaimReturned has them as they are,
because each of them is a message again.

Not here: events of queues (model/events.py) and of stages (model/stage_events.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

SUBSCRIBED: Final = 23
CLAIMED: Final = 24
CLAIM_SEALED: Final = 25
CLAIM_PLAYED: Final = 26
CLAIM_MARKED: Final = 27
CLAIM_SETTLED: Final = 28
CLAIM_ACKED: Final = 29
CLAIM_RETURNED: Final = 30
CLAIM_RELEASED: Final = 31
CLAIM_FORFEITED: Final = 32
CLAIM_SHRUNK: Final = 33
CLAIMS_PURGED: Final = 34
UNSUBSCRIBED: Final = 35
SUBSCRIPTION_KEPT: Final = 36
CHUNK_KEPT: Final = 37
CLAIMS_CLOSED: Final = 59
CHUNKS_CLOSED: Final = 60


class Why(IntEnum):
    """The reason why claimed messages returned. The journal has these numbers."""

    RELEASED = 0  # a client requested it
    FORFEITED = 1  # the subscription was not renewed in time
    SHRUNK = 2  # the claim holds fewer
    NACKED = 3  # its claim was settled, and they were marked
    DEAD = 4  # likewise; they are dead


class Subscribed(NamedTuple):
    """A client opened the subscription, and has this epoch; `is_new` when it did not exist.
    `created_us` is when it was first opened; 0 in records of before it was kept."""

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    group: bytes
    epoch: int
    lease_ms: int
    release_ms: int
    is_new: bool
    created_us: int = 0


class Claimed(NamedTuple):
    """Messages are in a claim, as its next chunk. They have left their work queue. In an events
    queue, the group has come as far as `cursor` and holds them without a deadline."""

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    group: bytes
    number: int
    chunk: int
    at_ms: int
    cursor: int
    rows: bytes


class ClaimSealed(NamedTuple):
    """The claim is complete."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int


class ClaimPlayed(NamedTuple):
    """A reader started one more read attempt of the claim."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int


class ClaimMarked(NamedTuple):
    """The outcome of these messages when their claim is settled (model/claim_ops.py:Outcome)."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int
    outcome: int
    delay_ms: int
    reason: bytes
    ids: Sequence[bytes]


class ClaimsClosed(NamedTuple):
    """Open claims up to this number are settled or forfeited, by `state`. Their messages follow
    some chunks at a time (ChunksClosed). The last event of each claim is ClaimSettled or
    ClaimForfeited. Claims that are closed in one step have only that event."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int
    state: int
    why: int
    at_ms: int


class ChunksClosed(NamedTuple):
    """All messages of these chunks have returned to the queue, by earlier events, or are finished.
    A settled claim keeps the chunks for readers (`is_kept`). Other claims remove them."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int
    first: int
    last: int
    is_kept: bool


class ClaimSettled(NamedTuple):
    """The claim's messages are finished, except those that an earlier event returned. In a work
    queue, no other event finishes them."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int
    at_ms: int


class ClaimAcked(NamedTuple):
    """With a settled claim, the group of an events queue finished messages that it held. A message
    that only one group handles is removed."""

    kind: int
    queue: bytes
    family: int
    group: bytes
    subscription: bytes
    number: int
    ids: Sequence[bytes]


class ClaimReturned(NamedTuple):
    """Claimed messages are in their work queue again, in the state of their rows."""

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    number: int
    at_ms: int
    why: int
    rows: Sequence[Sequence[Any]]


class ClaimReleased(NamedTuple):
    """The group of a feed may have claimed messages again; those of a claim that shrank are
    counted one delivery less."""

    kind: int
    queue: bytes
    family: int
    group: bytes
    subscription: bytes
    number: int
    why: int
    ids: Sequence[bytes]


class ClaimForfeited(NamedTuple):
    """The claim's messages have gone back, by the events before this one."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int
    at_ms: int


class ClaimShrunk(NamedTuple):
    """The claim ends with this chunk, which has these rows; the other messages have gone back."""

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    number: int
    chunk: int
    rows: bytes


class ClaimsPurged(NamedTuple):
    """Finished claims up to this number are removed."""

    kind: int
    queue: bytes
    subscription: bytes
    number: int


class Unsubscribed(NamedTuple):
    """The subscription is removed, with its claims. A later one has no epoch up to this one.
    Compaction writes the event again, without names."""

    kind: int
    queue: bytes
    subscription: bytes
    epoch: int


class SubscriptionKept(NamedTuple):
    """Compaction wrote the whole subscription again, without its chunks.

    Each claim is a row (number, state, plays, began_ms, ended_ms, marks), a mark is a row
    (id, outcome, delay_ms, reason). Marks that are too many for one record are None: ClaimMarked
    records follow, and those that were read before remain. The row of a claim that is being closed
    has two fields more: why, and the number of the first chunk that is not closed.
    """

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    group: bytes
    epoch: int
    lease_ms: int
    release_ms: int
    settled: int
    claims: Sequence[Sequence[Any]]
    created_us: int = 0


class ChunkKept(NamedTuple):
    """Compaction wrote a chunk of a claim again."""

    kind: int
    queue: bytes
    family: int
    subscription: bytes
    number: int
    chunk: int
    rows: bytes


ClaimEvent = (
    Subscribed
    | Claimed
    | ClaimSealed
    | ClaimPlayed
    | ClaimMarked
    | ClaimsClosed
    | ChunksClosed
    | ClaimSettled
    | ClaimAcked
    | ClaimReturned
    | ClaimReleased
    | ClaimForfeited
    | ClaimShrunk
    | ClaimsPurged
    | Unsubscribed
    | SubscriptionKept
    | ChunkKept
)

# A record read back, as the event it is.
AS_CLAIM_EVENT: Final[dict[int, Callable[[Any], ClaimEvent]]] = {
    SUBSCRIBED: lambda record: Subscribed(*record),
    CLAIMED: Claimed._make,
    CLAIM_SEALED: ClaimSealed._make,
    CLAIM_PLAYED: ClaimPlayed._make,
    CLAIM_MARKED: ClaimMarked._make,
    CLAIM_SETTLED: ClaimSettled._make,
    CLAIM_ACKED: ClaimAcked._make,
    CLAIM_RETURNED: ClaimReturned._make,
    CLAIM_RELEASED: ClaimReleased._make,
    CLAIM_FORFEITED: ClaimForfeited._make,
    CLAIM_SHRUNK: ClaimShrunk._make,
    CLAIMS_PURGED: ClaimsPurged._make,
    UNSUBSCRIBED: Unsubscribed._make,
    SUBSCRIPTION_KEPT: lambda record: SubscriptionKept(*record),
    CHUNK_KEPT: ChunkKept._make,
    CLAIMS_CLOSED: ClaimsClosed._make,
    CHUNKS_CLOSED: ChunksClosed._make,
}
