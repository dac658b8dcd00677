"""Operations on a queue as a whole: what it is, that it goes, now or later, and its name.

Called by   store.py.
Calls       worklists.py and feed_operations.py (find, settle), engine/work/apply.py (rules).

Messages that are in claims are not in the queue. They stay with its name: a queue that is deleted
meanwhile is there, and empty, as long as it has some.

Not here: operations on messages (work_operations.py, own_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quinque.engine.feed.feed import Feed
from quinque.engine.work.apply import APPLY
from quinque.engine.work.worklist import Worklist
from quinque.errors import LimitReached, NoQueue, printable
from quinque.model.events import FORGOTTEN, Forgotten
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS, RENAME_MOST
from quinque.model.own_events import EXPIRY_SET, RENAMED, ExpirySet, Renamed
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.stores.embedded.changes import renamed
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.worklists import Worklists


class QueueOperations:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self._books = lists.books
        self._lists = lists
        self._feeds = feeds
        self.runners: dict[type, Callable[[Any], Any]] = {
            FindFamilies: self._find_families,
            DeleteQueues: self._delete,
            RenameQueue: self._rename,
            SetExpiry: self._set_expiry,
            LookAtExpiry: self._look_at_expiry,
        }

    def _find_families(self, op: FindFamilies) -> list[Family | None]:
        now_ms = self._begin()
        return [self._family_of(name, now_ms) for name in op.queues]

    def _family_of(self, name: bytes, now_ms: int) -> Family | None:
        queue = self._books.queues.get(name)
        if isinstance(queue, Worklist):
            queue = self._lists.settled(queue.family, name, now_ms)
        elif isinstance(queue, Feed):
            queue = self._feeds.find(queue.family, name)
        return queue.family if queue is not None else None

    def _delete(self, op: DeleteQueues) -> int:
        now_ms = self._begin()
        found = [self._lists.settled(op.family, name, now_ms) for name in dict.fromkeys(op.queues)]
        queues = [queue for queue in found if queue is not None]
        self._lists.run_all([(queue, [Forgotten(FORGOTTEN, queue.name)]) for queue in queues])
        for queue in queues:
            self._books.drop(queue)
            self._books.keep_claimed(queue)
        return len(queues)

    def _rename(self, op: RenameQueue) -> bool:
        now_ms = self._begin()
        queue = self._lists.settled(op.family, op.queue, now_ms)
        if queue is None:
            raise NoQueue
        other = self._lists.settled(op.family, op.new_name, now_ms)
        if other is not None and op.only_free:
            return False
        if other is queue:
            return True
        if queue.claimed:
            raise LimitReached(
                f"queue '{printable(op.queue)}' has open claims: settle or release them before "
                "renaming it"
            )
        if queue.size > RENAME_MOST:
            raise LimitReached(
                f"cannot rename queue '{printable(op.queue)}' of {queue.size} messages: the limit "
                f"is {RENAME_MOST}"
            )
        event = Renamed(RENAMED, op.queue, op.new_name, now_ms)
        self._lists.journal.append(event)
        if other is not None:
            self._books.empty(other)
            self._books.drop(other)
        self._move(queue, event)
        return True

    def _move(self, queue: Worklist, event: Renamed) -> None:
        """The worklist is found under its new name, which no other has."""
        books = self._books
        books.drop(queue)
        APPLY[RENAMED](queue, event)
        books.keep(queue)
        books.former_names.add(queue, books.journal.segment)
        if books.journal.notes is not None:
            for change in renamed(queue, event.queue, books.bodies.size_of):
                books.journal.note(change)
        queue.set_soonest()
        queue.alarm_ms = NEVER_MS
        books.set_alarm(queue)
        if queue.ready.size:
            self._lists.has_work(queue)

    def _set_expiry(self, op: SetExpiry) -> bool:
        now_ms = self._begin()
        queue = self._lists.settled(op.family, op.queue, now_ms)
        if queue is None:
            return False
        if not op.expires_ms and queue.ends_ms == NEVER_MS:
            return False
        if 0 < op.expires_ms <= now_ms or op.expires_ms < 0:
            return self._delete(DeleteQueues(op.family, [op.queue])) == 1
        self._lists.run_all([(queue, [ExpirySet(EXPIRY_SET, op.queue, op.expires_ms or None)])])
        return True

    def _look_at_expiry(self, op: LookAtExpiry) -> int | None:
        queue = self._lists.settled(op.family, op.queue, self._begin())
        if queue is None:
            return None
        return queue.ends_ms if queue.ends_ms < NEVER_MS else 0

    def _begin(self) -> int:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        return now_ms
