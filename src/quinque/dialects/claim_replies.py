"""Replies of the commands on claims: subscriptions, claims and messages as maps.

Called by   claims.py.
Calls       nothing.

Not here: the meaning of the fields (model/claim_ops.py, model/rows.py).
"""

from __future__ import annotations

from typing import Final

import msgpack

from quinque.dialects.command import Session, Wait
from quinque.dialects.listings import check_listing
from quinque.model.claim_ops import ClaimView, FindClaims, SubscriptionView
from quinque.model.rows import Row
from quinque.wire.resp import NULL_ARRAY, Value

GROUP: Final = (
    "claims"  # the group of these commands, and of those on stages and pages, in COMMAND DOCS
)


def reply_subscription(view: SubscriptionView | None) -> Value:
    """Names and values, with a map for each claim; or null."""
    return NULL_ARRAY if view is None else _subscription(view)


def reply_claim(claim: ClaimView | None) -> Value:
    """Names and values; or null."""
    return NULL_ARRAY if claim is None else _claim(claim)


def reply_fill(asked: Wait, claim: ClaimView | None, session: Session) -> Value:
    """Names and values; or null."""
    return reply_claim(claim)


def reply_read(asked: Wait, chunks: list[bytes], session: Session) -> Value:
    """A map for each message, or the packed chunks."""
    if asked.detail:
        return list(chunks)
    return [
        _message(Row(*fields)) for chunk in chunks for fields in msgpack.unpackb(chunk, raw=True)
    ]


def reply_list(asked: FindClaims, views: list[SubscriptionView], session: Session) -> Value:
    """A map for each subscription on a queue that the user may see."""
    check_listing(
        "all subscriptions and their claims" if asked.queue is None else "these claims",
        sum(1 + len(view.claims) for view in views),
        [name for view in views for name in (view.queue, view.subscription)],
        "name a queue" if asked.queue is None else "CLAIM.INFO returns one subscription",
    )
    return [_subscription(view) for view in views if session.sees(view.queue)]


def _subscription(view: SubscriptionView) -> Value:
    return {
        "family": view.family.name.encode(),
        "queue": view.queue,
        "subscription": view.subscription,
        "group": view.group,
        "shard": view.shard,
        "shards": view.shards,
        "epoch": view.epoch,
        "settled": view.settled,
        "lease-ms": view.lease_ms,
        "release-ms": view.release_ms,
        "unrenewed-ms": view.unrenewed_ms,
        "stalled": int(view.is_stalled),
        "backlog": view.backlog,
        "oldest-ms": view.oldest_ms,
        "stamp-us": view.stamp_us,
        "created-us": view.created_us,
        "claims": [_claim(claim) for claim in view.claims],
    }


def _claim(claim: ClaimView) -> Value:
    return {
        "number": claim.number,
        "state": claim.state.name.lower().encode(),
        "messages": claim.messages,
        "body-bytes": claim.body_bytes,
        "chunks": claim.chunks,
        "plays": claim.plays,
        "age-ms": claim.age_ms,
    }


def _message(row: Row) -> Value:
    return {
        "id": row.id,
        "body": row.body,
        "attempt": row.attempt,
        "place": row.place,
        "expires-ms": row.expires_ms,
        "nacks": row.nacks,
        "requeues": row.requeues,
        "reason": row.reason,
        "key": row.key,
    }
