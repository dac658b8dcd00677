"""The changes that are due in events queues: leases that end, messages that expire.

Called by   stores, before an operation looks at a queue and whenever the clock reaches
            `Feed.soonest_ms`.
Calls       nothing.

Not here: waking readers (server/waiters.py), the clock (server/ticker.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quinque.model.events import EXPIRED, LAPSED, Event, Expired, Lapsed

if TYPE_CHECKING:
    from quinque.engine.feed.feed import Feed

# 20 times 500 reminders are a millisecond's work.
_LOOKS_MOST: Final = 20


def settle(queue: Feed, now_ms: int, most: int) -> list[Event]:
    """The events that time has made due in this queue: at most `most` messages of each kind, and
    at least one if there is one among _LOOKS_MOST times as many reminders that come to nothing."""
    events: list[Event] = []
    messages = queue.messages
    gone: list[bytes] = []
    for _ in range(_LOOKS_MOST):
        if gone or queue.expiries.next_ms > now_ms:
            break
        gone = [
            id
            for id in queue.expiries.take(now_ms, most)
            if (message := messages.get(id)) is not None and 0 < message.expires_ms <= now_ms
        ]
    if gone:
        events.append(Expired(EXPIRED, queue.name, _once(gone)))
    for group in queue.groups.values():
        if group.deadlines.next_ms > now_ms and not group.overdue:
            continue
        held = group.held
        late: list[bytes] = []
        for _ in range(_LOOKS_MOST):
            if late:
                break
            if group.overdue and not gone and queue.expiries.next_ms > now_ms:
                # All expired events are removed. The others were flushed before.
                some = group.overdue[-most:]
                del group.overdue[-most:]
            elif group.deadlines.next_ms <= now_ms:
                some = group.deadlines.take(now_ms, most)
            else:
                break
            for id in some:
                lease = held.get(id)
                if lease is None or lease.deadline_ms > now_ms:
                    continue
                message = lease.message
                if 0 < message.expires_ms <= now_ms and messages.get(id) is message:
                    # An expired message does not come back: its own reminder removes it.
                    group.overdue.append(id)
                else:
                    late.append(id)
        if late:
            events.append(Lapsed(LAPSED, queue.name, group.name, _once(late)))
    queue.soonest_ms = soonest(queue)
    return events


def _once(ids: list[bytes]) -> list[bytes]:
    """Each id once: a message that was leased several times may have several reminders."""
    return ids if len(ids) == 1 else list(dict.fromkeys(ids))


def soonest(queue: Feed) -> int:
    """Return when the next reminder of this queue is due."""
    earliest_ms = queue.expiries.next_ms
    for group in queue.groups.values():
        if group.overdue:
            return 0
        if group.deadlines.next_ms < earliest_ms:
            earliest_ms = group.deadlines.next_ms
    return earliest_ms
