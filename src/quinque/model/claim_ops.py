"""The operations on claims, and the result of each.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

A subscription reads one queue in claims, numbered from 1. A claim is filled, sealed, and holds the
same messages from then on, whatever fails, until it is settled: then they are finished. The client
that opened the subscription last has its epoch. A client with an earlier one changes nothing.

Claimed messages have left a worklist, and do not expire; in a feed the group holds them, and the
claim has what it needs should they expire there. They lie in the claim as rows
(model/rows.py), some hundreds to a chunk, so that reading them again costs little.

A queue that is partitioned over several slots is claimed slot by slot, by `shard`.

Not here: the rules (engine/claims/), messages that are added (model/stage_ops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from quinque.model.families import Family
from quinque.model.ops import Op


class ClaimState(IntEnum):
    """The journal keeps these numbers."""

    FILLING = 0
    SEALED = 1
    SETTLED = 2  # its messages are finished; it can be read until it is purged
    FORFEITED = 3  # its messages returned to the queue; it cannot be read


class Outcome(IntEnum):
    """The fate of a claimed message when its claim is settled. The journal keeps these numbers."""

    ACK = 0
    NACK = 1  # back to the queue, after a delay if one is given
    DEAD = 2  # dead, in a family that has dead messages; else finished


@dataclass
class ClaimView:
    """A claim as it is now. `plays` counts the read attempts."""

    number: int
    state: ClaimState
    messages: int
    body_bytes: int
    chunks: int
    plays: int
    age_ms: int


@dataclass
class SubscriptionView:
    """A subscription as it is now: its claims that are not purged, the oldest first.

    `settled` is the number of the last claim that was settled or forfeited, with all before it.
    `backlog` is the number of messages that could be claimed now, `oldest_ms` how long the first of
    them has been in the queue. `stamp_us` is the newest position: later messages have a larger one.
    The subscription is stalled if it has open claims and was not renewed within its lease.
    `created_us` is when it was first opened, which distinguishes it from one of the same name that
    was dropped before, or is in another store; 0 if that is unknown.
    """

    family: Family
    queue: bytes
    subscription: bytes
    group: bytes
    shard: int
    shards: int
    epoch: int
    settled: int
    lease_ms: int
    release_ms: int
    unrenewed_ms: int
    is_stalled: bool
    backlog: int
    oldest_ms: int
    stamp_us: int
    claims: list[ClaimView] = field(default_factory=list)
    created_us: int = 0


@dataclass
class OpenClaims(Op):
    """Make the caller the only reader of the subscription; the result is the SubscriptionView,
    with a new epoch.

    A subscription that is not renewed for `lease_ms` is stalled; for `release_ms` (0 = never), and
    its open claims are forfeited. `group` is that of a feed.
    """

    family: Family
    queue: bytes
    subscription: bytes
    group: bytes
    lease_ms: int
    release_ms: int = 0
    shard: int = 0


@dataclass
class FillClaim(Op):
    """Move up to `count` messages into the claim. The result is its ClaimView, or None if the claim
    does not exist and there are no messages for it.

    A sealed claim accepts no more messages, and is returned unchanged. Only the claim after the
    last one can be started, and only if the last one is sealed; otherwise BadClaim is raised.
    Messages with a later position than `until_place` (0: any) are left. With `seals`, the claim is
    sealed if it has messages. There are fewer than `count` if the queue has no more, or if they are
    large or very many.

    Raises Superseded, NoSubscription.
    """

    queue: bytes
    subscription: bytes
    epoch: int
    number: int
    count: int
    until_place: int = 0
    seals: bool = False
    shard: int = 0


@dataclass
class ReadClaim(Op):
    """Rows of a claim that is sealed or settled: its chunks from `chunk` on, each packed, as many
    as fit in a reply and at most `count`. Changes nothing.

    Raises NoClaim if it was removed or forfeited.
    """

    queue: bytes
    subscription: bytes
    number: int
    chunk: int
    count: int
    shard: int = 0


@dataclass
class PlayClaim(Op):
    """Count one more read attempt of a sealed or settled claim; the result is its ClaimView. Marks
    of a sealed claim are removed: they are of an attempt that did not finish.

    Its first `keep` messages (0 = all) stay in it, and the others go back to the queue uncounted.
    Raises Superseded, NoSubscription, NoClaim.
    """

    queue: bytes
    subscription: bytes
    epoch: int
    number: int
    keep: int = 0
    shard: int = 0


@dataclass
class MarkClaim(Op):
    """Set the outcome of these messages for when the claim is settled, in place of ACK; the result
    is how many of them the claim has. A later mark replaces an earlier one. A nack too many makes a
    message dead; in a feed there is no delay, and DEAD is ACK.

    Raises NoClaim when the claim is not open; with an `epoch` (0 = any), Superseded.
    """

    queue: bytes
    subscription: bytes
    number: int
    outcome: Outcome
    message_ids: Sequence[bytes]
    delay_ms: int = 0
    reason: bytes = b""
    shard: int = 0
    epoch: int = 0


@dataclass
class SettleClaims(Op):
    """Settle all claims up to `number`. The result is the number of messages that this finished. It
    does not include marked messages that return or are dead, or events that had already ended.
    Claims that were settled before are not changed.

    The last one settled can still be read until the next is, or for CLAIM_KEPT_MS. Raises
    Superseded, NoSubscription.
    """

    queue: bytes
    subscription: bytes
    epoch: int
    number: int
    shard: int = 0


@dataclass
class PurgeClaims(Op):
    """Remove settled and forfeited claims up to `number`; the result is how many."""

    queue: bytes
    subscription: bytes
    number: int
    shard: int = 0


@dataclass
class ReleaseClaims(Op):
    """Forfeit all open claims up to `number`: their messages return to their positions, and their
    deliveries stay counted. The result is how many messages returned.

    Raises Superseded, NoSubscription, WrongType.
    """

    queue: bytes
    subscription: bytes
    epoch: int
    number: int
    shard: int = 0


@dataclass
class RenewClaims(Op):
    """Restart the lease of the subscription; the result is the number of its open claims.

    Raises Superseded, NoSubscription.
    """

    queue: bytes
    subscription: bytes
    epoch: int
    shard: int = 0


@dataclass
class LookAtClaims(Op):
    """The SubscriptionView, or None."""

    queue: bytes
    subscription: bytes
    shard: int = 0


@dataclass
class FindClaims(Op):
    """Return the SubscriptionViews of all subscriptions, or of those on one queue; with `sees`,
    only on queues for whose names it returns True.

    With `most`, they may be cut off, and be in any order, when they have more rows: one for each
    subscription, and one for each of its claims.
    """

    queue: bytes | None = None
    most: int = 0
    sees: Callable[[bytes], bool] | None = field(default=None, compare=False)


@dataclass
class DropClaims(Op):
    """Remove the subscription. Its open claims are released first. The result is how many messages
    returned to the queue, or None if the subscription does not exist."""

    queue: bytes
    subscription: bytes
    shard: int = 0
