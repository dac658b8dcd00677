"""One group's view of a queue: its position, the messages that it holds, and those to deliver
again.

Called by   engine/feed/apply.py (writes), engine/feed/decide.py and engine/feed/due.py (read).
Calls       nothing.

        passed by the group                     not yet
    [ done  held  done  again  held | next  …  …  … ]
                                  at ^

`at` is the last live message the group has passed. Each message passed is done, held or waiting for
redelivery, so `done` needs no record of its own: it is what is left. A group that has passed no
live message and holds nothing is the same as one that never was, and is dropped.

Not here: the order of messages (engine/feed/feed.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from typing import Final

from quinque.engine.calendar import Calendar
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage, Lease

# Places of messages that are not to be redelivered any more stay until they come first. If there
# are more of them than this, and more than of the others, they go early.
_VAIN_MOST: Final = 1024


class Group:
    __slots__ = (
        "again",
        "at",
        "cursor",
        "deadlines",
        "detached",
        "fresh",
        "held",
        "name",
        "overdue",
        "passed",
        "segment",
        "_by_place",
        "_from_last",
        "_in_line",
        "_until_ms",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.cursor = -(1 << 62)  # position of the newest message that the group got
        self.at: FeedMessage | None = None
        self.passed = 0  # live messages at or before the cursor
        self.held: dict[bytes, Lease] = {}
        self.detached = 0  # of the held, those whose message was flushed
        self.again: dict[bytes, Lease] = {}
        # Those in `again` that were never delivered: pushed to the front, or returned untried.
        self.fresh = 0
        # Their places and ids. Leases lapse mostly in the order in which they were given: those are
        # in line, lowest first; the heap has the others. The heads of both are in `again`. The
        # messages behind a head are checked when they become the head.
        self._in_line: deque[tuple[int, bytes]] = deque()
        self._by_place: list[tuple[int, bytes]] = []
        # The same from the other end, made when a client looks there (QLPEEK).
        self._from_last: list[tuple[int, bytes]] | None = None
        self._until_ms = 0  # by then all in `again` have expired
        self.deadlines = Calendar()
        # Leases that had run out when their messages had expired and were not removed yet. Nothing
        # else reminds of them.
        self.overdue: list[bytes] = []
        self.segment = 0  # the journal segment that last recorded the cursor

    def next_again(self) -> FeedMessage | None:
        """The first message to redeliver: the one with the lowest place."""
        if not self.again:
            return None
        line, heap = self._in_line, self._by_place
        first = heap[0] if not line or (heap and heap[0] < line[0]) else line[0]
        return self.again[first[1]].message

    def some_again(self, most: int) -> list[FeedMessage]:
        """The first messages to redeliver, at most `most`, the lowest place first."""
        if most == 1:
            message = self.next_again()
            return [] if message is None else [message]
        found: dict[bytes, FeedMessage] = {}
        line, heap = self._in_line, self._by_place
        for place, id in merge(line, _ascending(heap)) if heap else line:
            if self._is_again(place, id):
                found[id] = self.again[id].message
                if len(found) == most:
                    break
        return list(found.values())

    def first_again(self, now_ms: int) -> FeedMessage | None:
        """The first message to redeliver that has not expired."""
        message = self.next_again()
        if message is None or not 0 < message.expires_ms <= now_ms:
            return message
        if self._until_ms <= now_ms:  # a million that expired together are not gone through
            return None
        return min(self._living_again(now_ms), key=lambda message: message.place, default=None)

    def last_again(self, now_ms: int) -> FeedMessage | None:
        """The last message to redeliver that has not expired."""
        if not self.again or self._until_ms <= now_ms:
            return None
        line = self._in_line
        while line and not self._is_again(line[-1][0], line[-1][1]):
            line.pop()
        if line and not self._by_place:  # as mostly: the last in line is the last of all
            message = self.again[line[-1][1]].message
            if not 0 < message.expires_ms <= now_ms:
                return message
        if self._from_last is None:
            self._from_last = [(-lease.message.place, id) for id, lease in self.again.items()]
            heapify(self._from_last)
        while not self._is_again(-self._from_last[0][0], self._from_last[0][1]):
            heappop(self._from_last)
        message = self.again[self._from_last[0][1]].message
        if not 0 < message.expires_ms <= now_ms:
            return message
        return max(self._living_again(now_ms), key=lambda message: message.place, default=None)

    def give_again(self, lease: Lease) -> None:
        """Make the message of this lease available again, at its old place."""
        message = lease.message
        lease.deadline_ms = 0
        until_ms = message.expires_ms or NEVER_MS
        self._until_ms = max(self._until_ms, until_ms) if self.again else until_ms
        self.again[message.id] = lease
        at = (message.place, message.id)
        if not self._in_line or at > self._in_line[-1]:
            self._in_line.append(at)
        else:
            heappush(self._by_place, at)
        most = 2 * len(self.again) + _VAIN_MOST
        if len(self._in_line) + len(self._by_place) > most:
            self._in_line = deque(sorted((it.message.place, id) for id, it in self.again.items()))
            self._by_place = []
        if self._from_last is not None:
            heappush(self._from_last, (-message.place, message.id))
            if len(self._from_last) > most:
                self._from_last = None  # too long: made again at the next look

    def take_again(self, id: bytes) -> Lease | None:
        """Remove the message from those to redeliver; return its lease, if it was one of them."""
        lease = self.again.pop(id, None)
        if lease is not None:
            if lease.deliveries == 0:
                self.fresh -= 1
            line, heap = self._in_line, self._by_place
            while line and not self._is_again(line[0][0], line[0][1]):
                line.popleft()
            while heap and not self._is_again(heap[0][0], heap[0][1]):
                heappop(heap)
        return lease

    def take_delivered(self, id: bytes) -> None:
        """The journal has an ack of a message that the group does not hold. If the message was
        delivered and waits to be delivered again, a damaged record is missing, and the ack counts.
        If it was never delivered, it is a later message with the same id: the acked one was
        flushed, and compaction removed its records."""
        lease = self.again.get(id)
        if lease is not None and lease.deliveries:
            self.take_again(id)

    def _is_again(self, place: int, id: bytes) -> bool:
        """Return whether that message is to be delivered again. Another one may have its id by
        now."""
        lease = self.again.get(id)
        return lease is not None and lease.message.place == place

    def _living_again(self, now_ms: int) -> list[FeedMessage]:
        return [
            lease.message
            for lease in self.again.values()
            if not 0 < lease.message.expires_ms <= now_ms
        ]

    def pass_by(self, message: FeedMessage, head: FeedMessage | None) -> None:
        """Move on to `message`; what is skipped (expired, not yet removed) is passed too."""
        step = self.at.after if self.at is not None else head
        self.passed += 1
        while step is not message:
            assert step is not None, "a group moves forward only"
            run = step.run
            if run is not None and step is run.first and run is not message.run:
                self.passed += run.count
                step = run.last.after
            else:
                self.passed += 1
                step = step.after
        self.at = message
        self.cursor = message.place

    def forget(self, message: FeedMessage) -> None:
        """Drop a message that the group has passed from those held and those to redeliver."""
        id = message.id
        held = self.held.get(id)
        if held is not None and held.message is message:
            del self.held[id]
            self.trim_deadlines()
        elif id in self.again:
            self.take_again(id)

    def clear(self) -> Group:
        """Leave the group only the messages that it holds; they will not come back. The messages
        to redeliver move to the group that is returned, which is in no queue."""
        gone = Group(self.name)
        gone.again, self.again = self.again, gone.again
        gone._in_line, self._in_line = self._in_line, gone._in_line
        gone._by_place, self._by_place = self._by_place, gone._by_place
        gone._from_last, self._from_last = self._from_last, None
        self.passed = self.fresh = 0
        self.at = None
        self.detached = len(self.held)
        return gone

    def drop_some(self, most: int) -> int:
        """Drop up to `most` entries of each collection of a group that is in no queue; return the
        largest number that one of them lost."""
        again, line = self.again, self._in_line
        dropped = max(len(self.deadlines.take(NEVER_MS - 1, most)), min(most, len(again)))
        for _ in range(min(most, len(again))):
            again.popitem()
        for _ in range(min(most, len(line))):
            line.pop()
        del self._by_place[-most:]
        if self._from_last is not None:
            del self._from_last[-most:]
        return dropped

    def trim_deadlines(self) -> None:
        """Drop some reminders of leases that ended early, if they outnumber the leases."""
        self.deadlines.trim(len(self.held), self._deadline_of)

    def _deadline_of(self, id: bytes) -> int:
        lease = self.held.get(id)
        return lease.deadline_ms if lease is not None else NEVER_MS

    @property
    def is_over(self) -> bool:
        return self.passed == 0 and not self.held


def _ascending(heap: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The heap's own in their order: each at O(log of those before it), and nothing is moved."""
    ahead = [(heap[0], 0)] if heap else []
    while ahead:
        lowest, at = heappop(ahead)
        yield lowest
        for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
            heappush(ahead, (heap[child], child))
