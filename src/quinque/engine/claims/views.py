"""Make the views of subscriptions and claims. Nothing changes.

Called by   stores/embedded/claims.py.
Calls       due.py.

Not here: replies (dialects/).
"""

from __future__ import annotations

from collections.abc import Collection

from quinque.engine.claims.due import is_stalled
from quinque.engine.claims.rows import unpack
from quinque.engine.claims.subscription import Claim, Subscription, Subscriptions
from quinque.engine.feed.decide import count_group
from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.model.claim_ops import ClaimState, ClaimView, SubscriptionView


def claim_view(claim: Claim, now_ms: int) -> ClaimView:
    """The claim as it is now."""
    return ClaimView(
        claim.number,
        ClaimState(claim.state),
        claim.messages,
        claim.body_bytes,
        claim.end,
        claim.plays,
        max(0, now_ms - claim.began_ms),
    )


def subscription_view(
    found: Subscription, queue: Worklist | Feed | None, stamp_us: int, now_ms: int
) -> SubscriptionView:
    """The subscription as it is now."""
    backlog, first_us = _backlog(found, queue, now_ms)
    return SubscriptionView(
        found.family,
        found.queue,
        found.name,
        found.group,
        0,
        1,
        found.epoch,
        found.settled,
        found.lease_ms,
        found.release_ms,
        max(0, now_ms - found.renewed_ms),
        is_stalled(found, now_ms),
        backlog,
        max(0, now_ms - first_us // 1000) if backlog else 0,
        stamp_us,
        [claim_view(found.claims[number], now_ms) for number in sorted(found.claims)],
        found.created_us,
    )


def claimed_among(
    subscriptions: Subscriptions, message_ids: Collection[bytes], queue: bytes | None = None
) -> set[bytes]:
    """Return those of the ids under which the queue, or any queue, has a claimed message that is
    not finished."""
    some = subscriptions.all() if queue is None else subscriptions.of(queue)
    wanted = set(message_ids)
    claimed: set[bytes] = set()
    for found in some:
        if found.family.is_worklist:
            for claim in found.held_claims():
                claimed |= claim.among(wanted, unpack)
    return claimed


def _backlog(found: Subscription, queue: Worklist | Feed | None, now_ms: int) -> tuple[int, int]:
    """Return how many messages could be claimed, and the position of the first."""
    if queue is None or queue.family is not found.family:
        return 0, 0
    if isinstance(queue, Worklist):
        first = queue.ready.first(1)
        return queue.ready.size, first[0].place if first else 0
    group = queue.groups.get(found.group)
    again = group.first_again(now_ms) if group is not None else None
    following = again or queue.next_for(group, now_ms)
    if following is None:
        return 0, 0
    if group is None:
        return len(queue.messages), following.place
    count = count_group(queue, group)
    return count.available + count.redo, following.place
