"""Worklists, kept: found by name or by id, settled, changed together, watched.

Called by   work_operations.py, work_taking.py, work_looks.py; store.py when time has come.
Calls       engine/work/ (rules), books.py (queues, journal, time); tubes.py, to settle a tube.

As with feeds, `append` is the last thing that can refuse, so a refused operation changes nothing.

Not here: what each operation does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from quinque.engine.queue import Queue
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.apply import APPLY, apply_added
from quinque.engine.work.decide import is_over, room_to_take
from quinque.engine.work.directory import Directory
from quinque.engine.work.due import come_back, is_due, is_idle, settle
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist, is_given_away
from quinque.model.events import (
    DIED,
    EXPIRED,
    FLUSHED,
    FORGOTTEN,
    REDRIVEN,
    REQUEUED,
    Added,
    Expired,
    Removed,
    WorkEvent,
)
from quinque.model.families import JOBS, Family
from quinque.model.limits import SETTLE_MOST, SETTLE_MOST_COUNTING, SETTLE_MOST_FLOODED
from quinque.model.own_events import MOVED_BACK
from quinque.stores.embedded.books import Books

_ALARMS_MOST: Final = 100  # worklists settled at once, most of them with little to do


class Worklists:
    def __init__(self, books: Books) -> None:
        self.books = books
        self.queues = books.queues
        self.journal = books.journal
        self.bodies = books.bodies
        self.directory = books.directory
        self.busy = books.busy
        self.settle_tube: Callable[[Tube, int, int], None] = _cannot_settle  # tubes.py has it

    # -- settling: what time made due is carried out -------------------------------------------

    def settle(self, queue: Worklist, now_ms: int, most: int) -> None:
        """Carry out what time made due, `most` of each kind."""
        self.journal.steps += 1  # its reminder goes first
        if isinstance(queue, Tube):
            self.settle_tube(queue, now_ms, most)
            return
        if queue.ends_ms <= now_ms:
            self.books.end(queue)
            return
        for event in settle(queue, now_ms, most, self.books.next_place()):
            self.books.try_append(event)
            self.apply(queue, event)
        if queue.rate is not None and queue.ready.size:
            self.has_work(queue)
        if is_idle(queue, now_ms):
            if queue.name not in self.books.watched:
                self.books.forget(queue)
                return
            queue.spared_ms = now_ms
        queue.set_soonest()
        self.books.settled(queue, now_ms)

    def settle_some(self, queue: Worklist, now_ms: int, most: int, *, must: bool = False) -> None:
        """Carry out what time made due, as far as that is an operation's business."""
        most = self.books.settle_most(queue, now_ms, most, must or queue.ends_ms <= now_ms)
        if most:
            self.settle(queue, now_ms, most)

    # -- finding -----------------------------------------------------------------------------

    def settled(
        self, family: Family, name: bytes, now_ms: int, most: int = SETTLE_MOST
    ) -> Worklist | None:
        """The worklist as it is now. Raises WrongType when another family has the name."""
        queue: Queue | None = self.queues.get(name)
        if queue is None:
            return None
        if not isinstance(queue, Worklist) or queue.family is not family:
            self.books.make_way(queue)
            return None
        if queue.soonest_ms <= now_ms:
            self.settle_some(queue, now_ms, most)
            left = self.queues.get(name)  # it may have gone, and claims may have left another
            return left if isinstance(left, Worklist) else None
        return queue

    def settled_message(
        self, id: bytes, now_ms: int, directory: Directory | None = None
    ) -> WorkMessage | None:
        """The message, if it lives; more may be due in its worklist than has been settled."""
        message = (directory or self.directory).get(id)
        if message is None:
            return None
        if is_due(message.queue, message, now_ms):
            for event in come_back(message.queue, [message], now_ms, self.books.next_place()):
                self.books.try_append(event)
                self.apply(message.queue, event)
        return None if is_over(message, now_ms) else message

    def find_all(self, ids: Sequence[bytes]) -> list[tuple[Worklist, list[WorkMessage]]]:
        """The living messages, each once, by worklist; what time made due there is settled."""
        self.books.at_ms = now_ms = self.books.clock.now_us() // 1000
        directory = self.directory
        found: dict[Worklist, list[WorkMessage]] = {}
        queue: Worklist | None = None
        messages: list[WorkMessage] = []
        for id in ids if len(ids) == 1 else dict.fromkeys(ids):
            message = directory.get(id)
            if message is not None and message.queue.soonest_ms <= now_ms:
                self.settle_some(message.queue, now_ms, SETTLE_MOST)
                message = self.settled_message(id, now_ms)
            if message is None:
                continue
            if message.queue is not queue:
                queue = message.queue
                messages = found.setdefault(queue, [])
            messages.append(message)
        return list(found.items())

    def check_family(self, family: Family, name: bytes) -> None:
        """Raises WrongType when another family has the name."""
        queue = self.queues.get(name)
        if queue is not None and queue.family is not family:
            self.books.make_way(queue)

    def settle_alarms(self) -> None:
        """Settle what is due in the worklists that have waited longest for it."""
        others: list[Queue] = []
        for _ in range(_ALARMS_MOST):
            queue = self.books.alarms.take(self.books.at_ms)
            if queue is None:
                break
            self.journal.steps += 1  # its alarm is gone
            if isinstance(queue, Worklist):
                self.settle(queue, self.books.at_ms, SETTLE_MOST)
            else:
                others.append(queue)
        for queue in others:
            self.books.set_alarm(queue)

    # -- changing ----------------------------------------------------------------------------

    def to_take(self, queue: Worklist, most: int, now_ms: int) -> list[WorkMessage]:
        """Return the ready messages that can be delivered now, in their order, at most `most`."""
        if queue.dues.next_ms <= now_ms:
            # More came back than was settled at once: as much as is taken now, in its order.
            some = max(SETTLE_MOST_FLOODED, min(most, SETTLE_MOST_COUNTING))
            self.settle(queue, now_ms, some)
        most = room_to_take(queue, most, now_ms)
        # Expired messages before them are skipped, and left to the ticker.
        messages = queue.ready.living(most, now_ms)
        rate = queue.rate
        if not most and rate is not None and queue.ready.size:
            rate.refused_until_ms = max(rate.next_ms(), now_ms + 1)
            queue.set_soonest()
        return messages

    def run_all(self, work: Iterable[tuple[Worklist, Sequence[WorkEvent]]]) -> int:
        """Journal and apply events of several worklists, all of them or none; how many messages
        lived in those that they emptied."""
        living = 0
        rows = [(queue, event) for queue, events in work for event in events]
        if self.books.watched:
            self.books.notice_end(
                [queue for queue, event in rows if event.kind == FLUSHED or event.kind == FORGOTTEN]
            )
        for number, (queue, event) in enumerate(rows):
            # The first takes the room of all, so that none of the others is refused.
            spare_bytes = 0
            if not number:
                spare_bytes = self.journal.bytes_of([it for _, it in rows[1:]])
            self.journal.append(event, spare_bytes)
            living += self.apply(queue, event)
        for queue, _ in rows:
            self.books.set_alarm(queue)
        return living

    def apply(self, queue: Worklist, event: WorkEvent) -> int:
        """Apply the event; if it emptied the worklist, return how many messages lived in it."""
        if event.kind == FLUSHED or event.kind == FORGOTTEN:
            living = self.books.empty(queue)
            if event.kind == FLUSHED:
                queue.set_soonest()
            return living
        gone = APPLY[event.kind](queue, event)
        if gone:
            if event.kind == EXPIRED:
                self._note_expired(queue, gone)
            self._went(queue, gone)
        elif event.kind == MOVED_BACK:
            self.books.stamp_us = cast(Any, event).place + len(cast(Any, event).ids) - 1
            self.has_work(queue)
        elif event.kind == REDRIVEN or (event.kind == REQUEUED and not cast(Any, event).due_ms):
            self.has_work(queue)
        elif event.kind == DIED and self.books.watched:
            self._notice(cast(Any, event).ids)
        return 0

    def put(self, queue: Worklist, event: Added) -> None:
        """The messages of the event, which was appended last, are in the worklist."""
        messages = apply_added(queue, event, self.journal.body_home())
        self.books.stamp_us = event.place + len(messages) - 1
        self.bodies.came(messages, event.bodies)

    def remove(self, queue: Worklist, event: Removed | Expired) -> None:
        """The messages are gone."""
        self.journal.append(event)
        self.apply(queue, event)
        self.books.set_alarm(queue)

    def keep(self, queue: Worklist) -> None:
        """The worklist, which is new, can be found."""
        self.books.keep(queue)

    def has_work(self, queue: Worklist) -> None:
        self.busy[queue.name] = queue
        self.books.ready.add(queue.name)

    def _went(self, queue: Worklist, gone: list[WorkMessage]) -> None:
        self.bodies.went(gone)
        if self.books.watched:
            self._notice([message.id for message in gone])
        if not queue.size:
            queue.set_soonest()

    def _note_expired(self, queue: Worklist, gone: list[WorkMessage]) -> None:
        count = sum(not is_given_away(message) for message in gone)
        if count and queue.family is JOBS:
            self.books.expired.add(queue.name, count)

    def _notice(self, ids: Iterable[bytes]) -> None:
        """Wake the clients that wait for the end of these messages."""
        self.books.ready.update(id for id in ids if id in self.books.watched)


def _cannot_settle(tube: Tube, now_ms: int, most: int) -> None:
    raise AssertionError("tubes are not kept here")
