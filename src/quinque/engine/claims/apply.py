"""Carry out events on subscriptions, claims and the queues they are on. The only writer of claims.

Called by   stores/embedded/claims.py after journaling, and recover_claims.py for each record.
Calls       apply_to_queue.py, engine/feed/apply.py, Worklist, Subscription.

Each returns what came and what went, chunks and messages: the store counts their bodies.

While a journal is read back (`in_order` of the queue is False) what a worklist knows of its claims
is left alone; count_claimed() tells it in the end.

Not here: whether an event is right (decide.py, returning.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.engine.claims.apply_to_queue import (
    NOTHING,
    Changed,
    apply_acked,
    apply_released,
    apply_returned,
)
from quinque.engine.claims.rows import make_chunk, unpack
from quinque.engine.claims.subscription import (
    FILLING,
    FORFEITED,
    SEALED,
    SETTLED,
    Chunk,
    Claim,
    Mark,
    Subscription,
    Subscriptions,
)
from quinque.engine.feed.apply import apply_leased
from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.model.claim_events import (
    ChunkKept,
    ChunksClosed,
    ClaimAcked,
    Claimed,
    ClaimEvent,
    ClaimForfeited,
    ClaimMarked,
    ClaimPlayed,
    ClaimReleased,
    ClaimReturned,
    ClaimsClosed,
    ClaimSealed,
    ClaimSettled,
    ClaimShrunk,
    ClaimsPurged,
    Subscribed,
    SubscriptionKept,
    Unsubscribed,
)
from quinque.model.claim_ops import Outcome
from quinque.model.events import LEASED, Leased
from quinque.model.families import BY_CODE
from quinque.model.limits import NEVER_MS
from quinque.model.message import Message


def apply_subscribed(subscriptions: Subscriptions, event: Subscribed, now_ms: int) -> Subscription:
    """Set a new epoch. Create the subscription if it does not exist."""
    found = _known(subscriptions, event.queue, event.subscription, event.family, event.group)
    if event.is_new:
        found.is_known = True
    found.epoch = event.epoch
    found.created_us = event.created_us
    found.family, found.group = BY_CODE[event.family], event.group
    found.lease_ms, found.release_ms = event.lease_ms, event.release_ms
    found.renewed_ms = now_ms
    subscriptions.remind(found)
    return found


def apply_claimed(
    subscriptions: Subscriptions,
    queue: Worklist | Feed,
    event: Claimed,
    home: int,
    rows: Sequence[Sequence[Any]],
) -> Changed:
    """The messages are in the claim. `home` is where the store keeps the chunk."""
    found = _known(subscriptions, event.queue, event.subscription, event.family, event.group)
    claim = _claim(found, event.number, event.at_ms)
    chunk = make_chunk(event.chunk, rows, event.rows, home)
    ids = [row[0] for row in rows]
    gone: Sequence[Message] = ()
    if isinstance(queue, Worklist):
        gone = queue.take_away(ids)
        queue.went += len(ids)
        queue.active_ms = event.at_ms
        if queue.rate is not None:
            queue.rate.take(len(ids), event.at_ms)
        if queue.in_order:
            queue.claimed += len(ids)
            queue.claimed_keys.update(chunk.keys)
    else:
        apply_leased(queue, Leased(LEASED, queue.name, event.group, NEVER_MS, event.cursor, ids))
    if claim.marks and not queue.in_order:
        # Marks of messages that had left the claim, if the chunk that left is not on record.
        for id in ids:
            claim.marks.pop(id, None)
    old = claim.take_out(event.chunk)  # only when records were damaged
    claim.add(chunk)
    subscriptions.remind(found)
    return Changed([chunk], gone if old is None else [*gone, old])


def apply_sealed(found: Subscription, event: ClaimSealed) -> None:
    """The claim is complete."""
    claim = found.claims.get(event.number)
    if claim is not None and claim.state == FILLING:
        claim.state = SEALED


def apply_played(found: Subscription, event: ClaimPlayed) -> None:
    """Count one more read attempt of the claim. Remove the marks of the attempt before, except in a
    settled claim, which still needs them to be closed."""
    claim = found.claims.get(event.number)
    if claim is not None:
        claim.plays += 1
        if claim.is_open:
            claim.marks = {}


def apply_marked(found: Subscription, event: ClaimMarked) -> None:
    """Set the outcome of the messages for the end of the claim."""
    claim = found.claims.get(event.number)
    if claim is None:
        return
    for id in event.ids:
        if event.outcome == Outcome.ACK:
            claim.marks.pop(id, None)
        else:
            claim.marks[id] = Mark(event.outcome, event.delay_ms, event.reason)


def apply_claims_closed(
    subscriptions: Subscriptions, found: Subscription, event: ClaimsClosed
) -> None:
    """The claims are settled or forfeited, and closing: it is not true of their messages yet."""
    found.settled = max(found.settled, event.number)
    for claim in found.open_claims():
        if claim.number <= event.number:
            claim.state, claim.why, claim.ended_ms = event.state, event.why, event.at_ms
            claim.is_closing = True
            if event.state == FORFEITED:
                claim.marks = {}
    subscriptions.remind(found)


def apply_chunks_closed(
    found: Subscription, queue: Worklist | None, event: ChunksClosed
) -> Changed:
    """Close the chunks: the worklist no longer counts their messages as claimed."""
    claim = found.claims.get(event.number)
    if claim is None:
        return NOTHING
    went: list[Message] = []
    if claim.holds:
        _let_go(claim, queue, max(event.first, claim.closed), event.last)
    for number in range(event.first, event.last + 1):
        chunk = claim.chunks.get(number)
        if chunk is not None and event.is_kept:
            claim.done += chunk.messages
        elif chunk is not None:
            claim.take_out(number)
            went.append(chunk)
            if number < claim.closed:
                claim.done -= chunk.messages
    if claim.is_closing:
        if event.first <= claim.closed:
            claim.closed = max(claim.closed, event.last + 1)
    else:
        _drop_marks(claim, went)
        if event.last + 1 == claim.end:
            claim.end = event.first
    return Changed((), went)


def apply_settled(
    subscriptions: Subscriptions,
    found: Subscription,
    queue: Worklist | None,
    event: ClaimSettled,
) -> Changed:
    """Finish the claim's messages; earlier claims can no longer be read."""
    went: list[Message] = []
    found.settled = max(found.settled, event.number)
    for number in list(found.claims):
        if number < event.number and not found.claims[number].holds:
            went += found.claims.pop(number).chunks.values()
    claim = found.claims.get(event.number)
    if claim is not None:
        _end(claim, queue, SETTLED, event.at_ms)
        subscriptions.remind(found)
    return Changed((), went)


def apply_forfeited(
    subscriptions: Subscriptions,
    found: Subscription,
    queue: Worklist | None,
    event: ClaimForfeited,
) -> Changed:
    """End the claim: it holds no messages."""
    found.settled = max(found.settled, event.number)
    claim = found.claims.get(event.number)
    if claim is None:
        return NOTHING
    _end(claim, queue, FORFEITED, event.at_ms)
    subscriptions.remind(found)
    return Changed((), _empty(claim, 0))


def apply_shrunk(
    subscriptions: Subscriptions, queue: Worklist | None, event: ClaimShrunk, home: int
) -> Changed:
    """The claim ends with this chunk."""
    found = _known(subscriptions, event.queue, event.subscription, event.family, b"")
    claim = _claim(found, event.number, 0)
    _let_go(claim, queue, event.chunk, claim.end - 1)
    went = _empty(claim, event.chunk)
    chunk = make_chunk(event.chunk, unpack(event.rows), event.rows, home)
    claim.add(chunk)
    if queue is not None and queue.in_order:
        queue.claimed += chunk.messages
        queue.claimed_keys.update(chunk.keys)
    _drop_marks(claim, went, [chunk])
    return Changed([chunk], went)


def apply_purged(found: Subscription, event: ClaimsPurged) -> Changed:
    """Remove finished claims up to that number."""
    went: list[Message] = []
    for number in list(found.claims):
        if number <= event.number and not found.claims[number].holds:
            went += found.claims.pop(number).chunks.values()
    return Changed((), went)


def apply_unsubscribed(
    subscriptions: Subscriptions,
    found: Subscription | None,
    queue: Worklist | None,
    event: Unsubscribed,
) -> Changed:
    """Remove the subscription."""
    subscriptions.last_epoch = max(subscriptions.last_epoch, event.epoch)
    if found is None:
        return NOTHING
    went: list[Message] = []
    for claim in found.claims.values():
        if claim.holds:
            _end(claim, queue, FORFEITED, 0)
        went += claim.chunks.values()
    subscriptions.remove(found)
    return Changed((), went)


def apply_subscription_kept(subscriptions: Subscriptions, event: SubscriptionKept) -> Changed:
    """Set the subscription to the contents of the record. Keep only the chunks that the record
    names."""
    found = _known(subscriptions, event.queue, event.subscription, event.family, event.group)
    found.is_known = True
    found.family, found.group = BY_CODE[event.family], event.group
    found.epoch, found.settled = event.epoch, event.settled
    found.created_us = event.created_us
    found.lease_ms, found.release_ms = event.lease_ms, event.release_ms
    had, found.claims = found.claims, {}
    for row in event.claims:
        number, state, plays, began_ms, ended_ms, marks = row[:6]
        claim = had.pop(number, None) or Claim(number, began_ms)
        claim.state, claim.plays = state, plays
        claim.began_ms, claim.ended_ms = began_ms, ended_ms
        if marks is not None:
            claim.marks = {id: Mark(outcome, ms, reason) for id, outcome, ms, reason in marks}
        claim.is_closing = len(row) > 6
        claim.why, claim.closed = row[6:8] if claim.is_closing else (0, 0)
        found.claims[number] = claim
    return Changed((), [chunk for claim in had.values() for chunk in claim.chunks.values()])


def apply_chunk_kept(subscriptions: Subscriptions, event: ChunkKept, home: int) -> Changed:
    """Add the chunk to its claim, unless it is in it."""
    found = _known(subscriptions, event.queue, event.subscription, event.family, b"")
    claim = _claim(found, event.number, 0)
    if event.chunk in claim.chunks:
        return NOTHING
    chunk = make_chunk(event.chunk, unpack(event.rows), event.rows, home)
    claim.add(chunk)
    return Changed([chunk], ())


def apply(
    subscriptions: Subscriptions,
    found: Subscription | None,
    queue: Worklist | Feed | None,
    event: ClaimEvent,
    home: int,
) -> Changed:
    """Carry out any event but Subscribed and Claimed. `found` is its subscription, `queue` its
    queue, if that is there and of the subscription's family."""
    worklist = queue if isinstance(queue, Worklist) else None
    changed = NOTHING
    if isinstance(event, Unsubscribed):
        changed = apply_unsubscribed(subscriptions, found, worklist, event)
    elif isinstance(event, SubscriptionKept):
        changed = apply_subscription_kept(subscriptions, event)
    elif isinstance(event, ClaimShrunk):
        changed = apply_shrunk(subscriptions, worklist, event, home)
    elif isinstance(event, ChunkKept):
        changed = apply_chunk_kept(subscriptions, event, home)
    elif isinstance(event, ClaimReturned):
        if worklist is not None:
            changed = apply_returned(found, worklist, event, home)
    elif isinstance(event, ClaimAcked):
        if isinstance(queue, Feed):
            changed = apply_acked(queue, event)
    elif isinstance(event, ClaimReleased):
        if isinstance(queue, Feed):
            apply_released(queue, event)
    elif found is not None:
        if isinstance(event, ClaimsClosed):
            apply_claims_closed(subscriptions, found, event)
        elif isinstance(event, ChunksClosed):
            changed = apply_chunks_closed(found, worklist, event)
        elif isinstance(event, ClaimSettled):
            changed = apply_settled(subscriptions, found, worklist, event)
        elif isinstance(event, ClaimForfeited):
            changed = apply_forfeited(subscriptions, found, worklist, event)
        elif isinstance(event, ClaimsPurged):
            changed = apply_purged(found, event)
        elif isinstance(event, ClaimSealed):
            apply_sealed(found, event)
        elif isinstance(event, ClaimPlayed):
            apply_played(found, event)
        elif isinstance(event, ClaimMarked):
            apply_marked(found, event)
    return changed


def has_claimed(found: Subscription) -> bool:
    """Return whether messages are in claims of this subscription. Rows may have been lost."""
    return any(True for claim in found.held_claims() for _ in claim.to_close())


def count_claimed(found: Subscription, queue: Worklist) -> None:
    """Count the messages in claims of this subscription for a worklist that was just read back."""
    for claim in found.held_claims():
        for chunk in claim.to_close():
            queue.claimed += chunk.messages
            queue.claimed_keys.update(chunk.keys)


def finish(claim: Claim) -> None:
    """All records are read: what is known of the chunks as a whole is right."""
    claim.done = sum(it.messages for it in claim.chunks.values() if it.place < claim.closed)
    if claim.marks and not claim.is_closing:
        claim.marks = {id: it for id, it in claim.marks.items() if claim.has(id, unpack)}


def _known(
    subscriptions: Subscriptions, queue: bytes, name: bytes, code: int, group: bytes
) -> Subscription:
    found = subscriptions.find(queue, name)
    if found is None:
        found = Subscription(queue, name, BY_CODE[code], group)
        found.is_known = False
        subscriptions.add(found)
    return found


def _claim(found: Subscription, number: int, began_ms: int) -> Claim:
    claim = found.claims.get(number)
    if claim is None:
        claim = found.claims[number] = Claim(number, began_ms)
    return claim


def _empty(claim: Claim, first: int) -> list[Message]:
    """The claim has no chunk from this one on; those that it had."""
    numbers = [number for number in claim.chunks if number >= first]
    claim.end = min(claim.end, first)
    return [chunk for number in numbers if (chunk := claim.take_out(number)) is not None]


def _drop_marks(claim: Claim, gone: Sequence[Message], kept: Sequence[Chunk] = ()) -> None:
    """Drop the marks of messages that are no longer in the claim."""
    if not claim.marks:
        return
    left = {id for chunk in kept for id in unpack(chunk.ids)}
    for chunk in gone:
        assert isinstance(chunk, Chunk)
        for id in unpack(chunk.ids):
            if id not in left:
                claim.marks.pop(id, None)


def _let_go(claim: Claim, queue: Worklist | None, first: int, last: int) -> None:
    """Remove the messages of these chunks from the worklist's count of claimed messages."""
    back, claim.returned = claim.returned, 0
    if queue is None or not queue.in_order:
        return
    for number in range(first, last + 1):
        chunk = claim.chunks.get(number)
        if chunk is None:
            continue
        queue.claimed -= chunk.messages
        for key, id in chunk.keys.items():
            if queue.claimed_keys.get(key) == id:
                del queue.claimed_keys[key]
    queue.claimed += back  # those were taken off when they went back
    if not queue.size:
        queue.set_soonest()


def _end(claim: Claim, queue: Worklist | None, state: int, at_ms: int) -> None:
    """The claim is over, and its worklist knows it."""
    if claim.holds:
        _let_go(claim, queue, claim.closed, claim.end - 1)
    claim.state = state
    claim.is_closing = False
    claim.closed = claim.done = 0
    claim.ended_ms = at_ms
    claim.marks = {}
