"""How claimed messages are finished, or go back to where they were, as events.

Called by   stores/embedded/claims.py.
Calls       the function that reads the rows of a chunk, which the store hands it.

A message of a worklist that goes back has its old id, place, terms, key and counters. That it was
delivered stays counted, unless its claim shrank: then nobody has had it in hand. A nack too many
makes it dead, as everywhere.

Of a feed, what the group still holds is acked or given back; the rest has ended by itself. There is
nothing dead in a feed and no delay.

Not here: carrying the events out (apply.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quinque.engine.claims.rows import chunk_sizes, pack, unpack
from quinque.engine.claims.subscription import Chunk, Claim, Mark, Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.work.decide import NACKED
from quinque.engine.work.worklist import DEAD, DELAYED, READY, Worklist
from quinque.model.claim_events import (
    CLAIM_ACKED,
    CLAIM_FORFEITED,
    CLAIM_RELEASED,
    CLAIM_RETURNED,
    CLAIM_SETTLED,
    CLAIM_SHRUNK,
    ClaimAcked,
    ClaimEvent,
    ClaimForfeited,
    ClaimReleased,
    ClaimReturned,
    ClaimSettled,
    ClaimShrunk,
    Why,
)
from quinque.model.claim_ops import Outcome
from quinque.model.limits import NEVER_MS, TOGETHER_MOST, TOGETHER_MOST_BYTES

Read = Callable[[Chunk], bytes]
Returning = tuple[list[ClaimEvent], int]


def settle(
    found: Subscription, claim: Claim, queue: Worklist | Feed | None, read: Read, now_ms: int
) -> Returning:
    """The claim is settled; also how many messages that finishes."""
    events: list[ClaimEvent] = []
    finished = 0
    if found.family.is_worklist:
        finished = claim.messages
        if claim.marks:
            events, back = _marked(found, claim, queue, read, now_ms)
            finished -= back
    elif isinstance(queue, Feed):
        events, finished = _settle_in_feed(found, claim, queue)
    events.append(ClaimSettled(CLAIM_SETTLED, found.queue, found.name, claim.number, now_ms))
    return events, finished


def release(
    found: Subscription,
    claim: Claim,
    queue: Worklist | Feed | None,
    read: Read,
    now_ms: int,
    why: Why,
) -> Returning:
    """The claim is forfeited; also how many messages go back."""
    events: list[ClaimEvent] = []
    back = 0
    for chunk in claim.in_order():
        if found.family.is_worklist:
            events += _returned(found, claim, now_ms, why, unpack(read(chunk)))
            back += chunk.messages
        elif isinstance(queue, Feed):
            ids = _still_held(queue, found.group, chunk)
            back += len(ids)
            if ids:
                events.append(_released(found, claim, why, ids))
    events.append(ClaimForfeited(CLAIM_FORFEITED, found.queue, found.name, claim.number, now_ms))
    return events, back


def shrink(
    found: Subscription,
    claim: Claim,
    queue: Worklist | Feed | None,
    read: Read,
    now_ms: int,
    keep: int,
) -> list[ClaimEvent]:
    """Only the first `keep` messages stay in the claim, which has more of them."""
    events: list[ClaimEvent] = []
    border: ClaimShrunk | None = None
    for chunk in claim.in_order():
        if border is None and keep > chunk.messages:
            keep -= chunk.messages
            continue
        rows = unpack(read(chunk))
        if border is None:
            border = ClaimShrunk(
                CLAIM_SHRUNK,
                found.queue,
                found.family.code,
                found.name,
                claim.number,
                chunk.place,
                pack(rows[:keep]),
            )
            rows = rows[keep:]
        if not rows:
            continue
        if found.family.is_worklist:
            for row in rows:
                row[2] -= 1
            events += _returned(found, claim, now_ms, Why.SHRUNK, rows)
        elif isinstance(queue, Feed):
            wanted = {row[0] for row in rows}
            ids = [id for id in _still_held(queue, found.group, chunk) if id in wanted]
            if ids:
                events.append(_released(found, claim, Why.SHRUNK, ids))
    assert border is not None, "a claim that shrinks had more"
    return [*events, border]


def settled_ids(claim: Claim) -> list[bytes]:
    """Packed lists of the ids that settling the claim finishes, if it is one on a worklist: those
    that no event beside ClaimSettled names."""
    if not claim.marks:
        return [chunk.ids for chunk in claim.in_order()]
    return [
        pack([id for id in unpack(chunk.ids) if id not in claim.marks])
        for chunk in claim.in_order()
    ]


def _marked(
    found: Subscription, claim: Claim, queue: Worklist | Feed | None, read: Read, now_ms: int
) -> Returning:
    """Marked messages of a worklist are in it again, some of them dead."""
    where = claim.where(unpack)
    limit = queue.max_deliveries if isinstance(queue, Worklist) else 0
    back: list[Sequence[Any]] = []
    dead: list[Sequence[Any]] = []
    for number in sorted({where[id] for id in claim.marks}):
        for row in unpack(read(claim.chunks[number])):
            mark = claim.marks.get(row[0])
            if mark is not None:
                _change(row, mark, limit, now_ms)
                (dead if row[5] == DEAD else back).append(row)
    events = [
        *_returned(found, claim, now_ms, Why.NACKED, back),
        *_returned(found, claim, now_ms, Why.DEAD, dead),
    ]
    return events, len(back) + len(dead)


def _change(row: Any, mark: Mark, limit: int, now_ms: int) -> None:
    """The row says what the mark makes of the message."""
    deliveries, most = row[2], row[11][3] or limit
    row[9] = mark.reason
    if mark.outcome == Outcome.NACK:
        row[7] += 1
        if not 0 < most <= deliveries:
            row[5] = DELAYED if mark.delay_ms else READY
            row[6] = now_ms + mark.delay_ms if mark.delay_ms else 0
            return
        row[9] = mark.reason or NACKED
    row[4], row[5], row[6] = 0, DEAD, 0


def _settle_in_feed(found: Subscription, claim: Claim, queue: Feed) -> Returning:
    events: list[ClaimEvent] = []
    finished = 0
    nacked = {id for id, mark in claim.marks.items() if mark.outcome == Outcome.NACK}
    for chunk in claim.in_order():
        held = _still_held(queue, found.group, chunk)
        back = [id for id in held if id in nacked] if nacked else []
        if back:
            events.append(_released(found, claim, Why.NACKED, back))
            held = [id for id in held if id not in nacked]
        if held:
            finished += len(held)
            events.append(
                ClaimAcked(
                    CLAIM_ACKED,
                    found.queue,
                    found.family.code,
                    found.group,
                    found.name,
                    claim.number,
                    held,
                )
            )
    return events, finished


def _still_held(queue: Feed, group_name: bytes, chunk: Chunk) -> list[bytes]:
    """The ids of the chunk that the group holds with no deadline."""
    group = queue.groups.get(group_name)
    if group is None:
        return []
    held = group.held
    # Another message may have the id of one that has expired; its place is a later one.
    least, most = chunk.least_place, chunk.most_place
    return [
        id
        for id in unpack(chunk.ids)
        if (lease := held.get(id)) is not None
        and lease.deadline_ms >= NEVER_MS
        and least <= lease.message.place <= most
    ]


def _returned(
    found: Subscription, claim: Claim, now_ms: int, why: Why, rows: Sequence[Sequence[Any]]
) -> list[ClaimEvent]:
    """The rows are messages again: some to an event, so that a body can be read back alone."""
    events: list[ClaimEvent] = []
    at = 0
    for size in chunk_sizes([row[1] for row in rows], TOGETHER_MOST, TOGETHER_MOST_BYTES):
        events.append(
            ClaimReturned(
                CLAIM_RETURNED,
                found.queue,
                found.family.code,
                found.name,
                claim.number,
                now_ms,
                int(why),
                rows[at : at + size],
            )
        )
        at += size
    return events


def _released(found: Subscription, claim: Claim, why: Why, ids: list[bytes]) -> ClaimReleased:
    return ClaimReleased(
        CLAIM_RELEASED,
        found.queue,
        found.family.code,
        found.group,
        found.name,
        claim.number,
        int(why),
        ids,
    )
