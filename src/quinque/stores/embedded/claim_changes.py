"""Turn events about claims into entries of the lifecycle log.

Called by   claims.py, claim_filling.py and recover_claims.py: before the event is carried out.
Calls       engine/claims/returning.py (which messages a settled claim finishes).

The event of a settled claim names no message, and that of a filled claim has them packed, so both
are read here. The other events of claims are here because they share code with these.

Not here: events of queues (changes.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quinque.engine.claims.returning import settled_ids
from quinque.engine.claims.rows import pack
from quinque.engine.claims.subscription import Chunk, Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.worklist import DEAD, DELAYED
from quinque.model.claim_events import (
    ChunksClosed,
    ClaimAcked,
    ClaimEvent,
    ClaimReleased,
    ClaimReturned,
    ClaimSettled,
    Why,
)
from quinque.model.lifecycle import Kind, Reason
from quinque.stores.embedded.changes import CHANGE, Change

_REASONS: Final = {
    int(Why.RELEASED): Reason.CLAIM_RELEASED,
    int(Why.FORFEITED): Reason.CLAIM_FORFEITED,
    int(Why.SHRUNK): Reason.CLAIM_SHRUNK,
    int(Why.NACKED): Reason.NACKED,
    int(Why.DEAD): Reason.NACKED,
}


def claimed_change(found: Subscription, number: int, chunk: Chunk) -> Change:
    """The messages of the chunk were delivered, to the claim."""
    return _change(found, number, Kind.DELIVERED, Reason.CLAIMED, _group(found), chunk.ids)


def changes_of(
    found: Subscription | None, queue: Queue | None, event: ClaimEvent
) -> Iterable[Change]:
    """Return the changes of an event that is not applied yet."""
    if found is None:
        return
    if isinstance(event, ClaimSettled | ChunksClosed):
        claim = found.claims.get(event.number)
        lots: list[bytes] = []
        if claim is not None and found.family.is_worklist:
            if isinstance(event, ClaimSettled):
                lots = settled_ids(claim)
            elif event.is_kept:
                lots = settled_ids(claim, event.first, event.last)
            for ids in lots:
                yield _change(
                    found, event.number, Kind.ACKED, Reason.CLAIM_SETTLED, found.name, ids
                )
    elif isinstance(event, ClaimReturned):
        yield from _returned(found, event)
    elif isinstance(event, ClaimReleased):
        yield _change(
            found,
            event.number,
            Kind.RETURNED,
            _REASONS[event.why],
            event.group,
            pack(list(event.ids)),
        )
    elif isinstance(event, ClaimAcked):
        yield from _acked(found, queue, event)


def _returned(found: Subscription, event: ClaimReturned) -> Iterable[Change]:
    by_kind: dict[Kind, list[bytes]] = {}
    for row in event.rows:
        kind = Kind.RETURNED
        if row[5] == DELAYED:
            kind = Kind.DELAYED
        elif row[5] == DEAD:
            kind = Kind.DEAD
        by_kind.setdefault(kind, []).append(row[0])
    for kind, ids in by_kind.items():
        yield _change(found, event.number, kind, _REASONS[event.why], found.name, pack(ids))


def _acked(found: Subscription, queue: Queue | None, event: ClaimAcked) -> Iterable[Change]:
    """The ack of a message that one group works is also the end of it for everyone."""
    ends: list[bytes] = []
    if isinstance(queue, Feed) and event.group in queue.groups:
        held = queue.groups[event.group].held
        # A flushed message has ended before, and another may have its id.
        ends = [
            id
            for id in event.ids
            if (lease := held.get(id)) is not None
            and lease.message.is_single
            and lease.message is queue.messages.get(id)
        ]
    for group, ids in ((event.group, list(event.ids)), (b"", ends)):
        if ids:
            yield _change(found, event.number, Kind.ACKED, Reason.CLAIM_SETTLED, group, pack(ids))


def _group(found: Subscription) -> bytes:
    return found.name if found.family.is_worklist else found.group


def _change(
    found: Subscription, number: int, kind: Kind, reason: Reason, group: bytes, ids: bytes
) -> Change:
    fields: Any = (int(kind), int(reason), found.family.code, found.queue, group, number, ids, None)
    return Change(CHANGE, *fields)
