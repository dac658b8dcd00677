"""Subscriptions over time: claims that no reader renews, claims that are kept too long.

Called by   stores/embedded/claims.py, when the clock reaches `Subscriptions.soonest_ms` and before
            an operation on a subscription.
Calls       nothing.

Not here: how claimed messages go back (returning.py).
"""

from __future__ import annotations

from quinque.engine.claims.subscription import Claim, Subscription


def lapsed_claims(found: Subscription, now_ms: int) -> list[Claim]:
    """Return the open claims to forfeit, if the subscription was not renewed within
    `release_ms`."""
    if not found.release_ms or found.renewed_ms + found.release_ms > now_ms:
        return []
    return found.open_claims()


def stale_number(found: Subscription, now_ms: int) -> int:
    """Finished claims up to this number have been kept for long enough; 0 = there are none."""
    return max(
        (
            number
            for number, claim in found.claims.items()
            if found.kept_until_ms(claim) <= now_ms and not claim.holds
        ),
        default=0,
    )


def is_stalled(found: Subscription, now_ms: int) -> bool:
    """Return whether it has open claims and was not renewed within its lease."""
    return found.renewed_ms + found.lease_ms <= now_ms and bool(found.open_claims())
