"""Operations that look at worklists, and change only what is due.

Called by   store.py.
Calls       worklists.py (finds, settles), engine/work/views.py.

Not here: operations that change something (work_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quinque.engine.claims.views import claimed_among
from quinque.engine.feed.feed import Feed
from quinque.engine.work.decide import holder_id
from quinque.engine.work.directory import Directory
from quinque.engine.work.due import is_quiet
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.views import browse, message_view, queue_view
from quinque.engine.work.worklist import DEAD
from quinque.errors import BadRequest
from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
    SCAN_MOST,
    SETTLE_MOST_COUNTING,
    SETTLE_MOST_FLOODED,
)
from quinque.model.work_ops import (
    AwaitEnd,
    Browse,
    FindKey,
    FindQueues,
    LookAt,
    QueueView,
    ScanMessages,
    ScanQueues,
    Show,
    WorkView,
)
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.worklists import Worklists


class WorkLooks:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self._books = lists.books
        self._lists = lists
        self._feeds = feeds
        self.runners: dict[type, Callable[[Any], Any]] = {
            Show: self._show,
            Browse: self._browse,
            LookAt: self._look_at,
            ScanQueues: self._scan_queues,
            ScanMessages: self._scan_messages,
            FindKey: self._find_key,
            FindQueues: self._find_queues,
            AwaitEnd: self._await_end,
        }

    def _show(self, op: Show) -> WorkView | None:
        directory = self._books.directory
        if op.family.owns_ids:
            owner = self._lists.settled(op.family, op.queue, self._begin(), SETTLE_MOST_COUNTING)
            if owner is None:
                return None
            directory = owner.directory
        (found,) = self._living([op.message_id], directory)
        if found is None:
            return None
        queue = found.queue
        return message_view(queue, found, self._books.bodies.of(found), self._books.at_ms)

    def _browse(self, op: Browse) -> list[WorkView]:
        now_ms = self._begin()
        queue = self._lists.settled(op.family, op.queue, now_ms, SETTLE_MOST_COUNTING)
        if queue is None or not op.count:
            return []
        count = max(-RESERVE_MOST, min(op.count, RESERVE_MOST))
        found = browse(queue, op.state, count, now_ms)
        bodies = self._books.read(found, RESERVE_MOST_BYTES)
        return [
            message_view(queue, message, body, now_ms)
            for message, body in zip(found, bodies, strict=False)
        ]

    def _look_at(self, op: LookAt) -> QueueView | None:
        now_ms = self._begin()
        queue = self._lists.settled(op.family, op.queue, now_ms, SETTLE_MOST_COUNTING)
        return None if queue is None else queue_view(queue, now_ms)

    def _scan_queues(self, op: ScanQueues) -> tuple[int, list[bytes]]:
        now_ms = self._begin()
        if not op.family.is_worklist:
            return self._scan_feeds(op, now_ms)
        watched = self._books.watched
        cursor, found = self._books.worklists.scan(op.cursor, min(op.count, SCAN_MOST))
        most = max(SETTLE_MOST_FLOODED, SETTLE_MOST_COUNTING // max(1, len(found)))
        names: list[bytes] = []
        for each in found:
            if each.family is not op.family:
                continue
            queue = self._lists.settled(op.family, each.name, now_ms, most)
            if queue is None or not op.least <= queue.ready.size <= op.most:
                continue
            if not op.skips_idle or queue.name in watched or not is_quiet(queue, now_ms):
                names.append(queue.name)
        return cursor, names

    def _scan_feeds(self, op: ScanQueues, now_ms: int) -> tuple[int, list[bytes]]:
        cursor, found = self._books.feeds.scan(op.cursor, min(op.count, SCAN_MOST))
        most = max(SETTLE_MOST_FLOODED, SETTLE_MOST_COUNTING // max(1, len(found)))
        names: list[bytes] = []
        for each in found:
            feed: Feed | None = each
            if each.soonest_ms <= now_ms:
                feed = self._feeds.settle_some(each, now_ms, most)
            # A flushed feed is there for the leases that still run, and is not to be seen.
            if feed is not None and feed.messages and op.least <= len(feed.messages) <= op.most:
                names.append(feed.name)
        return cursor, names

    def _scan_messages(self, op: ScanMessages) -> tuple[int, list[WorkView]]:
        now_ms = self._begin()
        directory = self._directory_to_scan(op)
        cursor, found = directory.scan(op.cursor, min(op.count, SCAN_MOST))
        numbers = [each.number for each in found]
        states = set(map(int, op.states))
        views: list[WorkView] = []
        room_bytes = RESERVE_MOST_BYTES
        for at, message in enumerate(self._living([each.id for each in found], directory)):
            if room_bytes <= 0:
                return numbers[at], views
            if message is None or (states and message.state not in states):
                continue
            if op.queue is not None and message.queue.name != op.queue:
                continue
            queue = message.queue
            if queue.family is op.family:
                body = self._books.bodies.of(message) if op.with_bodies else None
                room_bytes -= len(body or b"")
                views.append(message_view(queue, message, body, now_ms))
        return cursor, views

    def _directory_to_scan(self, op: ScanMessages) -> Directory:
        """Where the messages are; of a worklist that has its own there must be the name."""
        if not op.family.owns_ids:
            return self._books.directory
        if op.queue is None:
            raise BadRequest(
                f"ids of the family {op.family.name} are unique only in their queue: name the queue"
            )
        queue = self._lists.settled(op.family, op.queue, self._books.at_ms, SETTLE_MOST_COUNTING)
        return queue.directory if queue is not None else Directory()

    def _find_key(self, op: FindKey) -> bytes | None:
        now_ms = self._begin()
        queue = self._lists.settled(op.family, op.queue, now_ms, SETTLE_MOST_COUNTING)
        return holder_id(queue, op.key, now_ms) if queue is not None else None

    def _find_queues(self, op: FindQueues) -> list[bytes | None]:
        return [
            None if found is None else found.queue.name for found in self._living(op.message_ids)
        ]

    def _await_end(self, op: AwaitEnd) -> int | None:
        left = op.left
        most = 1
        while left:
            some = left[-most:]
            worked, _ = self._worked_among(some)
            while some and some[-1] not in worked:
                some.pop()
                left.pop()
            if some:
                return None
            most *= 2  # each look goes through all claims
        # All have ended, or this is the first time. A dead message may have been queued again.
        worked, gone = self._worked_among(op.message_ids)
        left += [id for id in op.message_ids if id in worked]
        return None if left else gone

    def _worked_among(self, ids: Sequence[bytes]) -> tuple[set[bytes], int]:
        """Those of the messages that have not ended, in a worklist or in a claim; and how many are
        gone."""
        worked: set[bytes] = set()
        missing: list[bytes] = []
        for id, message in zip(ids, self._living(ids), strict=True):
            if message is None:
                missing.append(id)
            elif message.state != DEAD:
                worked.add(id)
        claimed = claimed_among(self._books.subscriptions, missing) if missing else set()
        return worked | claimed, sum(id not in claimed for id in missing)

    def _begin(self) -> int:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        return now_ms

    def _living(
        self, ids: Sequence[bytes], directory: Directory | None = None
    ) -> list[WorkMessage | None]:
        """The messages as they are now, None for those that are not there."""
        now_ms = self._begin()
        directory = directory or self._books.directory
        found: list[WorkMessage | None] = []
        for id in ids:
            message = directory.get(id)
            if message is not None:
                queue = message.queue
                if queue.soonest_ms <= now_ms:
                    self._lists.settle_some(queue, now_ms, SETTLE_MOST_COUNTING)
                    message = self._lists.settled_message(id, now_ms, directory)
            found.append(message)
        return found
