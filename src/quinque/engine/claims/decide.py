"""Decide what an operation does to a subscription and its claims. No I/O, no clock, no mutation.

Called by   stores/embedded/claims.py and claim_filling.py, once per operation.
Calls       nothing; it reads what it is handed.

Not here: how claimed messages go back (returning.py), what time alone does (due.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.engine.claims.rows import feed_rows, unpack, work_rows
from quinque.engine.claims.subscription import FILLING, FORFEITED, Claim, Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.work.message import WorkMessage
from quinque.errors import BadArgument, BadClaim, NoClaim, Superseded, WrongType, printable
from quinque.model.claim_events import (
    CLAIM_MARKED,
    CLAIMS_PURGED,
    SUBSCRIBED,
    ClaimMarked,
    ClaimsPurged,
    Subscribed,
)
from quinque.model.claim_ops import MarkClaim, OpenClaims, PurgeClaims
from quinque.model.message import FeedMessage


def open_(found: Subscription | None, op: OpenClaims, last_epoch: int, now_ms: int) -> Subscribed:
    """Give the caller a new epoch.

    `last_epoch` is one that is never given again. Raises WrongType when the subscription has
    claims of another family, BadArgument when it has some of another group.
    """
    if found is not None and found.held_claims():
        if found.family is not op.family:
            raise WrongType.of_subscription(found.name, found.family.name)
        if found.group != op.group:
            raise BadArgument(
                f"subscription '{printable(found.name)}' has open claims of another group"
            )
    epoch = (found.epoch if found is not None else last_epoch) + 1
    created_us = found.created_us if found is not None else 0
    return Subscribed(
        SUBSCRIBED,
        op.queue,
        op.family.code,
        op.subscription,
        op.group,
        epoch,
        op.lease_ms,
        op.release_ms,
        found is None,
        # Two that are created in one millisecond differ by their epochs.
        created_us or now_ms * 1000 + epoch % 1000,
    )


def check_epoch(found: Subscription, epoch: int) -> None:
    """Raise Superseded if that is not the newest epoch."""
    if epoch != found.epoch:
        raise Superseded(found.name, epoch, found.epoch)


def claim_to_fill(found: Subscription, number: int) -> Claim | None:
    """Return the claim, or None if it can be started. Raises BadClaim."""
    claim = found.claims.get(number)
    if claim is not None:
        if claim.state == FORFEITED:
            raise BadClaim(found.name, number, "was released")
        return claim
    newest = found.newest
    if number != newest + 1:
        raise BadClaim(found.name, number, f"cannot be started: the next claim is {newest + 1}")
    last = found.claims.get(newest)
    if last is not None and last.state == FILLING:
        raise BadClaim(found.name, number, f"cannot be started: claim {newest} is not sealed")
    return None


def claim_to_read(found: Subscription, number: int) -> Claim:
    """Return the claim, which is sealed or settled. Raises NoClaim."""
    claim = found.claims.get(number)
    if claim is None:
        raise NoClaim(found.name, number, "does not exist")
    if claim.state == FORFEITED:
        raise NoClaim(found.name, number, "was released: its messages returned to the queue")
    if claim.state == FILLING:
        raise NoClaim(found.name, number, "is not sealed")
    return claim


def mark(found: Subscription, op: MarkClaim) -> ClaimMarked:
    """Mark the messages that are in the claim. Raises NoClaim if it is not open."""
    claim = found.claims.get(op.number)
    if claim is None:
        raise NoClaim(found.name, op.number, "does not exist")
    if not claim.is_open:
        raise NoClaim(found.name, op.number, "is not open")
    ids = [id for id in dict.fromkeys(op.message_ids) if claim.has(id, unpack)]
    return ClaimMarked(
        CLAIM_MARKED,
        found.queue,
        found.name,
        op.number,
        int(op.outcome),
        op.delay_ms,
        op.reason,
        ids,
    )


def purge(found: Subscription, op: PurgeClaims) -> tuple[ClaimsPurged, int]:
    """Let go of finished claims; also how many these are."""
    count = sum(not claim.holds for number, claim in found.claims.items() if number <= op.number)
    return ClaimsPurged(CLAIMS_PURGED, found.queue, found.name, op.number), count


def rows_to_claim(messages: Sequence[WorkMessage], bodies: Sequence[bytes]) -> list[list[Any]]:
    """Messages of a worklist as the rows of a claim: that they are in it is a delivery."""
    return work_rows(messages, bodies, deliveries=1)


def feed_rows_to_claim(
    queue: Feed, group_name: bytes, messages: Sequence[FeedMessage], bodies: Sequence[bytes]
) -> list[list[Any]]:
    """Messages of a feed as the rows of a claim."""
    group = queue.groups.get(group_name)
    if group is None or not group.again:
        return feed_rows(messages, bodies, [1] * len(messages))
    attempts = []
    for message in messages:
        lease = group.again.get(message.id)
        attempts.append(1 if lease is None else lease.deliveries + 1)
    return feed_rows(messages, bodies, attempts)
