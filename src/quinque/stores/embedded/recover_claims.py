"""Read back records of subscriptions and claims.

Called by   replay.py, for each record of one of these kinds, and when all are read.
Calls       engine/claims/apply.py (rules), claim_changes.py (for the record).

Not here: records of queues (recover.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quinque.engine.claims.apply import (
    apply,
    apply_claimed,
    apply_subscribed,
    count_claimed,
    finish,
    has_claimed,
)
from quinque.engine.claims.rows import unpack
from quinque.engine.claims.subscription import Subscriptions
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.worklist import Worklist
from quinque.model.claim_events import (
    AS_CLAIM_EVENT,
    ChunkKept,
    ClaimAcked,
    Claimed,
    ClaimReleased,
    ClaimReturned,
    Subscribed,
    SubscriptionKept,
    Unsubscribed,
)
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.changes import Change
from quinque.stores.embedded.claim_changes import changes_of, claimed_change
from quinque.stores.embedded.journal import segment_of

KINDS: Final = frozenset(AS_CLAIM_EVENT)

QueueOf = Callable[[bytes, int], Queue]  # the queue of that name and family, made if need be
Tell = Callable[[Change], None]


def replay_claim(
    subscriptions: Subscriptions,
    queue_of: QueueOf,
    bodies: Bodies,
    record: Any,
    home: int,
    tell: Tell | None,
) -> int:
    """The record is carried out; the newest place in it, if it has messages."""
    event = AS_CLAIM_EVENT[record[0]](record)
    segment = segment_of(home)
    if isinstance(event, Subscribed):
        found = apply_subscribed(subscriptions, event, 0)
        if event.is_new:
            found.segment = segment
        return 0
    if isinstance(event, Claimed):
        return _replay_claimed(subscriptions, queue_of, bodies, event, home, tell)
    found_ = subscriptions.find(event.queue, event.subscription)
    queue: Queue | None = None
    if isinstance(event, ClaimReturned | ClaimAcked | ClaimReleased):
        queue = queue_of(event.queue, event.family)
    assert queue is None or isinstance(queue, Worklist | Feed)
    if tell is not None:
        for change in changes_of(found_, queue, event):
            tell(change)
    changed = apply(subscriptions, found_, queue, event, home)
    bodies.came(changed.came, [it.body for it in changed.came if it.body is not None])
    bodies.went(changed.went)
    if isinstance(event, ChunkKept) and not changed.came:
        chunk = subscriptions.find(event.queue, event.subscription)
        assert chunk is not None
        bodies.moved(chunk.claims[event.number].chunks[event.chunk], home, event.rows)
    elif isinstance(event, SubscriptionKept):
        kept = subscriptions.find(event.queue, event.subscription)
        assert kept is not None
        # Marks that the record leaves out may be missing after it: a crash came between.
        if all(row[5] is not None for row in event.claims):
            kept.segment = segment
    elif isinstance(event, Unsubscribed):
        subscriptions.segment = segment
    # The rows that stand for damaged messages have new positions.
    return max(row[3] for row in event.rows) if isinstance(event, ClaimReturned) else 0


def finish_claims(
    subscriptions: Subscriptions, queues: Mapping[bytes, Queue], queue_of: QueueOf, bodies: Bodies
) -> None:
    """Worklists know what of them is claimed. A subscription whose own records were damaged is
    there if it has claims. Where a queue of another family has the name of a worklist, claims
    that have messages had ended before, and the record of that is lost."""
    for found in subscriptions.all():
        if not found.is_known and not found.claims:
            subscriptions.remove(found)
            continue
        found.is_known = True
        found.claims = {number: found.claims[number] for number in sorted(found.claims)}
        for claim in found.claims.values():
            finish(claim)
        if not found.family.is_worklist:
            continue
        other = queues.get(found.queue)
        # Code 0: no record says of which family it is.
        if other is not None and other.family.code not in (0, found.family.code):
            for claim in found.held_claims():
                if any(True for _ in claim.to_close()):
                    bodies.went(claim.chunks.values())
                    del found.claims[claim.number]
            continue
        if has_claimed(found):
            queue = queue_of(found.queue, found.family.code)
            assert isinstance(queue, Worklist)
            count_claimed(found, queue)


def _replay_claimed(
    subscriptions: Subscriptions,
    queue_of: QueueOf,
    bodies: Bodies,
    event: Claimed,
    home: int,
    tell: Tell | None,
) -> int:
    queue = queue_of(event.queue, event.family)
    assert isinstance(queue, Worklist | Feed)
    changed = apply_claimed(subscriptions, queue, event, home, unpack(event.rows))
    found = subscriptions.find(event.queue, event.subscription)
    assert found is not None
    chunk = found.claims[event.number].chunks[event.chunk]
    if tell is not None:
        tell(claimed_change(found, event.number, chunk))
    bodies.came(changed.came, [event.rows])
    bodies.went(changed.went)
    return chunk.most_place
