"""What time alone makes true: leases that lapse, messages that expire.

Called by   stores, before an operation looks at a queue and whenever the clock reaches
            `Queue.soonest_ms`.
Calls       nothing.

A Calendar only reminds: an id in it may since have been acked, extended or removed, so every
reminder is checked against the queue when it comes up. That makes cancelling free.

Not here: waking readers (server/waiters.py), the clock (server/ticker.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from quinque.model.events import EXPIRED, LAPSED, Event, Expired, Lapsed
from quinque.model.limits import NEVER_MS

if TYPE_CHECKING:
    from quinque.engine.queue import Queue

# 20 times 500 reminders are a millisecond's work.
_LOOKS_MOST: Final = 20


class Calendar:
    """Ids by the millisecond they are due: O(1) to add, O(log of distinct milliseconds) to take."""

    __slots__ = ("_days", "_order", "next_ms", "size")

    def __init__(self) -> None:
        self._days: dict[int, list[bytes]] = {}
        self._order: list[int] = []
        self.next_ms = NEVER_MS
        self.size = 0

    def add(self, due_ms: int, id: bytes) -> None:
        self.size += 1
        day = self._days.get(due_ms)
        if day is not None:
            day.append(id)
            return
        self._days[due_ms] = [id]
        heappush(self._order, due_ms)
        if due_ms < self.next_ms:
            self.next_ms = due_ms

    def add_all(self, due_ms: int, ids: Sequence[bytes]) -> None:
        day = self._days.get(due_ms)
        if day is None:
            self.add(due_ms, ids[0])
            day, ids = self._days[due_ms], ids[1:]
        day += ids
        self.size += len(ids)

    def take(self, now_ms: int, most: int) -> list[bytes]:
        """The ids due by now, earliest first, at most `most`; they are reminded of no more."""
        taken: list[bytes] = []
        while self.next_ms <= now_ms and len(taken) < most:
            day = self._days[self.next_ms]
            room = most - len(taken)
            if len(day) > room:
                # From the end, so that a day of a million is not shifted once per slice.
                taken += day[-room:]
                del day[-room:]
                break
            taken += day
            del self._days[heappop(self._order)]
            self.next_ms = self._order[0] if self._order else NEVER_MS
        self.size -= len(taken)
        return taken


def settle(queue: Queue, now_ms: int, most: int) -> list[Event]:
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
        events.append(Expired(EXPIRED, queue.name, gone))
    for group in queue.groups.values():
        held = group.held
        late: list[bytes] = []
        for _ in range(_LOOKS_MOST):
            if late or group.deadlines.next_ms > now_ms:
                break
            late = [
                id
                for id in group.deadlines.take(now_ms, most)
                if (lease := held.get(id)) is not None
                and lease.deadline_ms <= now_ms
                # What has expired as well comes back to nobody; its own reminder removes it.
                and (
                    not 0 < lease.message.expires_ms <= now_ms
                    or messages.get(id) is not lease.message
                )
            ]
        if late:
            events.append(Lapsed(LAPSED, queue.name, group.name, late))
    queue.soonest_ms = soonest(queue)
    return events


def soonest(queue: Queue) -> int:
    """When the next reminder of this queue comes up."""
    earliest_ms = queue.expiries.next_ms
    for group in queue.groups.values():
        if group.deadlines.next_ms < earliest_ms:
            earliest_ms = group.deadlines.next_ms
    return earliest_ms
