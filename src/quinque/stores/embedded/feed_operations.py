"""Operations on feeds: settle, decide, append, apply.

Called by   store.py.
Calls       engine/feed/ (rules), books.py (queues, journal, time).

An operation: settle what time made due in its queue, decide, append the events to this turn's
batch, apply them. `append` is the last thing that can refuse, so a refused operation changes
nothing.

Not here: opening, committing, ticking, closing (store.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from quinque.engine.feed import decide
from quinque.engine.feed.apply import (
    apply_acked,
    apply_extended,
    apply_given_back,
    apply_leased,
    apply_removed,
    apply_stored,
)
from quinque.engine.feed.due import settle
from quinque.engine.feed.feed import Feed
from quinque.engine.feed.lots import in_lots
from quinque.engine.queue import Queue
from quinque.errors import DiskFull, Duplicate, NotDone, WrongType
from quinque.model.events import ACKED, EXPIRED, NO_ACK, REMOVED, Expired, Leased, Removed
from quinque.model.families import Family
from quinque.model.limits import (
    RESERVE_MOST_BYTES,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
)
from quinque.model.message import FeedMessage
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    FindReady,
    Flush,
    Peek,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.own_ops import ExtendLeases
from quinque.stores.embedded.books import ASIDE_MOST, Books
from quinque.stores.embedded.journal import SPARE_BYTES

# How often an operation removes messages that have expired and come before others.
LOOKS_MOST: Final = 5


class FeedOperations:
    def __init__(self, books: Books) -> None:
        self._books = books
        self._queues = books.queues
        self._journal = books.journal
        self._bodies = books.bodies
        self.runners: dict[type, Callable[[Any], Any]] = {
            Put: self._put,
            Reserve: self._reserve,
            Ack: self._ack,
            Release: self._release,
            Flush: self._flush,
            Peek: self._peek,
            FindReady: self._find_ready,
            Count: self._count,
        }

    # -- one method per operation -------------------------------------------------------------

    def _put(self, op: Put) -> list[bytes]:
        now_us = self._books.clock.now_us()
        stamp_us = now_us if now_us > self._books.stamp_us else self._books.stamp_us + 1
        self._books.at_ms = now_ms = now_us // 1000
        queue = self._feed(op.queue)
        if queue is not None and queue.soonest_ms <= now_ms:
            queue = self.settle_some(queue, now_ms, SETTLE_MOST)
        is_new = queue is None
        if queue is None:
            queue = Feed(op.queue, op.family)
        elif queue.has_chosen_ids:
            stamp_us = decide.free_stamp(queue, op, stamp_us)
        try:
            event = decide.put(queue, op, now_ms, stamp_us)
        except Duplicate as found:
            message = queue.messages[found.message_id]
            if not 0 < message.expires_ms <= now_ms:
                raise
            self.remove(queue, Expired(EXPIRED, queue.name, [message.id]))
            return self._put(op)
        lots = in_lots(event)
        # The first takes the room of all, so that none of the others is refused.
        spare_bytes = SPARE_BYTES + self._journal.bytes_of(lots[1:])
        messages: list[FeedMessage] = []
        for lot in lots:
            self._journal.append(lot, spare_bytes)
            messages += apply_stored(queue, lot, self._journal.body_home())
            spare_bytes = 0
        self._books.stamp_us = stamp_us + len(messages) - 1
        if is_new:
            self._books.keep_feed(queue)
        self._bodies.came(messages, op.bodies)
        self._books.set_alarm(queue)
        self._books.ready.add(op.queue)
        return [message.id for message in messages]

    def _reserve(self, op: Reserve) -> list[Delivery]:
        queue = self.find(op.family, op.queue, op.group)
        given: list[Delivery] = []
        if queue is None:
            return given
        room_bytes = RESERVE_MOST_BYTES
        aside = 0
        looks = LOOKS_MOST
        while len(given) < op.count and room_bytes > 0:
            group = queue.groups.get(op.group)
            if (
                group is not None
                and group.deadlines.next_ms <= self._books.at_ms
                and not group.again
            ):
                # More lapsed than was settled at once, and they go before what is new.
                self.settle_some(queue, self._books.at_ms, SETTLE_MOST, must=True)
            left = op.count - len(given)
            event = decide.reserve(queue, op, self._books.at_ms, left, removes=looks > 0)
            if event is None:
                break
            if isinstance(event, Expired):
                self.remove(queue, event)
                looks -= 1
                continue
            try:
                messages = [queue.messages[id] for id in event.ids]
                bodies = self._books.read_or_set_aside(queue, messages, room_bytes)
                if not bodies:
                    aside += 1
                    if aside == ASIDE_MOST:
                        break
                    continue
                messages = messages[: len(bodies)]
                if len(messages) < len(event.ids):
                    last = messages[-1].place
                    # A redelivery does not move the group on: the event has the group's cursor.
                    is_new = group is None or last > group.cursor
                    event = event._replace(
                        ids=[message.id for message in messages],
                        cursor=last if is_new else event.cursor,
                    )
                counts = self._lease(queue, op, event, messages)
            except (DiskFull, NotDone):
                if given:  # they are leased, so they must be delivered
                    break
                raise
            room_bytes -= sum(map(len, bodies))
            if not op.tells_deliveries:
                counts = [0] * len(counts)
            given += [
                Delivery(queue.name, message.id, body, count, event.deadline_ms)
                for message, body, count in zip(messages, bodies, counts, strict=True)
            ]
            if not looks:  # one is enough where more has expired than one operation removes
                break
        self._books.set_alarm(queue)
        return given

    def _lease(
        self, queue: Feed, op: Reserve, event: Leased, messages: list[FeedMessage]
    ) -> list[int]:
        """Hand the messages out; how often each was by now."""
        done: list[Removed] = []
        if not op.lease_ms:
            singles = [message.id for message in messages if message.is_single]
            if singles:
                done.append(Removed(REMOVED, queue.name, singles, NO_ACK))
        self._journal.append(event, self._journal.bytes_of(done))
        counts = apply_leased(queue, event)
        queue.groups[op.group].segment = self._journal.segment
        for removed in done:
            self.remove(queue, removed)
        return counts

    def _ack(self, op: Ack) -> list[bool]:
        queue = self.find(op.family, op.queue)
        if queue is None:
            return [False] * len(op.message_ids)
        events, results = decide.ack(queue, op, self._books.at_ms)
        for event in events:
            if event.kind == ACKED:
                self._journal.append(event, self._journal.bytes_of(events[1:]))
                apply_acked(queue, cast(Any, event))
                self.drop_if_empty(queue)
            else:
                self.remove(queue, cast(Removed, event))
        return results

    def _release(self, op: Release) -> list[bool]:
        queue = self.find(op.family, op.queue)
        if queue is None:
            return [False] * len(op.message_ids)
        events, results = decide.release(queue, op, self._books.at_ms)
        for event in events:
            self._journal.append(event)
            apply_given_back(queue, cast(Any, event))
            self._books.ready.add(queue.name)
        self.drop_if_empty(queue)
        return results

    def extend(self, op: ExtendLeases) -> list[bool]:
        """Leases of a feed; item_operations.py has the operation, and those of items."""
        queue = self.find(op.family, op.queue)
        event = None if queue is None else decide.extend(queue, op, self._books.at_ms)
        if queue is None or event is None:
            return [False] * len(op.message_ids)
        self._journal.append(event)
        apply_extended(queue, event)
        self._books.set_alarm(queue)
        extended = set(event.ids)
        return [id in extended for id in op.message_ids]

    def _flush(self, op: Flush) -> None:
        queue = self.find(op.family, op.queue)
        if queue is not None:
            event = decide.flush(queue, op)
            self._journal.append(event)
            self._books.empty_feed(queue)
            self.drop_if_empty(queue)

    def _peek(self, op: Peek) -> Delivery | None:
        queue = self.find(op.family, op.queue, op.group)
        message = decide.peek(queue, op, self._books.at_ms) if queue is not None else None
        if queue is None or message is None:
            return None
        return Delivery(queue.name, message.id, self._bodies.of(message), 0)

    def _find_ready(self, op: FindReady) -> bytes | None:
        for name in op.queues:
            queue = self.find(op.family, name, op.group)
            if queue is not None and decide.has_work(queue, op.group, self._books.at_ms):
                return name
        return None

    def _count(self, op: Count) -> list[QueueCount]:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        counts: list[QueueCount] = []
        rows = 0
        is_cut = 0 < op.most < self._books.feeds.size
        for name in op.queues or (list(self._queues) if is_cut else sorted(self._queues)):
            if not op.queues and 0 < op.most < rows:
                break
            queue: Queue | None = self._queues.get(name)
            if not op.queues and not isinstance(queue, Feed):
                continue
            feed = self._feed(name)
            if feed is not None and feed.soonest_ms <= now_ms:
                feed = self.settle_some(feed, now_ms, SETTLE_MOST_COUNTING)
            if feed is not None and feed.family is not op.family:
                if op.queues:
                    raise WrongType.of_queue(name, feed.family.name)
                continue
            # A flushed feed is there for the leases that still run, and is not to be seen.
            if feed is not None and (feed.messages or op.queues):
                counts.append(decide.count(feed))
                rows += op.rows_of(len(counts[-1].groups))
            elif op.queues:
                counts.append(QueueCount(name, 0, []))
        return counts

    # -- shared steps -------------------------------------------------------------------------

    def _feed(self, name: bytes) -> Feed | None:
        """The feed of that name. Raises WrongType when the name belongs to a worklist."""
        queue = self._queues.get(name)
        if queue is None or isinstance(queue, Feed):
            return queue
        self._books.make_way(queue)
        return None

    def find(self, family: Family, name: bytes, group_name: bytes | None = None) -> Feed | None:
        """The feed as it is now; the group can get at least one message whose lease has ended.

        Raises WrongType.
        """
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._feed(name)
        if queue is not None and queue.soonest_ms <= now_ms:
            group = queue.groups.get(group_name) if group_name is not None else None
            hides = group is not None and not group.again and group.deadlines.next_ms <= now_ms
            queue = self.settle_some(queue, now_ms, SETTLE_MOST, must=hides)
        if queue is not None and queue.family is not family:
            raise WrongType.of_queue(name, queue.family.name)
        return queue

    def settle_some(
        self, queue: Feed, now_ms: int, most: int, *, must: bool = False
    ) -> Feed | None:
        """Carry out what time made due, as far as that is an operation's business; the feed, unless
        that ended it."""
        most = self._books.settle_most(queue, now_ms, most, must)
        if most:
            self.settle(queue, now_ms, most)
        return self.drop_if_empty(queue)

    def settle(self, queue: Feed, now_ms: int, most: int) -> None:
        """Carry out what time made due, `most` of each kind."""
        self._journal.steps += 1  # its reminder goes first
        for event in settle(queue, now_ms, decide.removals_most(queue, most)):
            if event.kind == EXPIRED:
                self.remove(queue, cast(Expired, event))
            else:
                self._books.try_append(event)
                apply_given_back(queue, cast(Any, event))
                self._books.ready.add(queue.name)
        self._books.settled(queue, now_ms)
        self.drop_if_empty(queue)

    def remove(self, queue: Feed, event: Removed | Expired) -> None:
        """The messages are gone."""
        if event.kind == EXPIRED:
            self._books.try_append(event)
        else:
            self._journal.append(event)
        self._bodies.went(apply_removed(queue, event))
        self.drop_if_empty(queue)

    def drop_if_empty(self, queue: Feed) -> Feed | None:
        """The feed, unless there is nothing left of it: then it is gone."""
        if queue.is_empty:
            self._books.drop_feed(queue)
            return None
        return queue
