"""Operations on worklists whose producers choose the ids: adding, extending, cleaning.

Called by   store.py.
Calls       worklists.py (finds, settles, changes), engine/work/ (rules), feed_operations.py (leases
            of a feed).

Not here: completing (own_operations.py), handing out (work_taking.py), leases that end
(worklists.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quinque.engine.claims.views import claimed_among
from quinque.engine.work import items
from quinque.engine.work.apply import apply_replaced
from quinque.engine.work.worklist import Worklist
from quinque.model.events import Added, WorkKept
from quinque.model.own_events import REPLACED
from quinque.model.own_ops import AddItems, Cleaned, CleanItems, ExtendLeases
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.kept import kept_in_worklist
from quinque.stores.embedded.worklists import Worklists


class ItemOperations:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self._books = lists.books
        self._lists = lists
        self._feeds = feeds
        self.runners: dict[type, Callable[[Any], Any]] = {
            AddItems: self._add,
            ExtendLeases: self._extend,
            CleanItems: self._clean,
        }

    def _add(self, op: AddItems) -> list[bool]:
        books = self._books
        books.at_ms = now_ms = books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        is_new = queue is None
        if queue is None:
            queue = Worklist(op.queue, op.family, self._lists.directory, now_ms)
        claimed: set[bytes] = set()
        if queue.claimed or is_new:
            claimed = claimed_among(books.subscriptions, op.message_ids, op.queue)
        found = items.sort_items(queue, op, claimed)
        events: list[Added | WorkKept] = [
            *self._replaced(queue, found.other),
            *items.add(queue, found.new, now_ms, books.next_place()),
        ]
        self._put_all(queue, events)
        if found.new:
            if is_new:
                self._lists.keep(queue)
            self._lists.has_work(queue)
        books.set_alarm(queue)
        return found.are_new

    def _replaced(self, queue: Worklist, bodies: dict[bytes, bytes]) -> list[WorkKept]:
        by_id = queue.directory.by_id
        return [
            kept_in_worklist(queue, by_id[id], body)._replace(kind=REPLACED)
            for id, body in bodies.items()
        ]

    def _put_all(self, queue: Worklist, events: Sequence[Added | WorkKept]) -> None:
        """Journal and apply the events, all of them or none."""
        books = self._books
        for number, event in enumerate(events):
            # The first takes the room of all, so that none of the others is refused.
            spare_bytes = 0
            if not number:
                spare_bytes = SPARE_BYTES + books.journal.bytes_of(events[1:])
            books.journal.append(event, spare_bytes)
            if isinstance(event, Added):
                self._lists.put(queue, event)
            else:
                old, message = apply_replaced(queue, event, books.journal.body_home())
                books.bodies.went(old)
                books.bodies.came([message], [event.body])

    def _extend(self, op: ExtendLeases) -> list[bool]:
        if not op.family.is_worklist:
            return self._feeds.extend(op)
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        event = None
        if queue is not None:
            event = items.extend(queue, op, now_ms)
        if queue is None or event is None:
            return [False] * len(op.message_ids)
        self._lists.run_all([(queue, [event])])
        extended = set(event.ids)
        return [id in extended for id in op.message_ids]

    def _clean(self, op: CleanItems) -> Cleaned:
        """There is nothing to clean: only this broker writes here."""
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        self._lists.settled(op.family, op.queue, now_ms)
        return Cleaned(0, 0, 0, 0, 0)
