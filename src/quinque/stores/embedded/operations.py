"""Operations on queues in memory and the journal: settle, decide, append, apply.

Called by   store.py, which is this and the folder around it.
Calls       engine/ (rules), journal.py (durability), bodies.py, alarms.py.

An operation: settle what time made due in its queue, decide, append the events to this turn's
batch, apply them. `append` is the last thing that can refuse, so a refused operation changes
nothing.

Not here: opening, committing, ticking, closing (store.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from quinque.engine import decide
from quinque.engine.apply import (
    apply_acked,
    apply_flushed,
    apply_given_back,
    apply_leased,
    apply_removed,
    apply_stored,
)
from quinque.engine.due import settle
from quinque.engine.queue import Queue
from quinque.errors import DiskFull, Duplicate, JournalDamaged, StoreUnavailable, WrongType
from quinque.model.events import ACKED, EXPIRED, REMOVED, Event, Expired, Leased, Removed
from quinque.model.families import Family
from quinque.model.limits import (
    RESERVE_MOST_BYTES,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
    SETTLE_MOST_FLOODED,
)
from quinque.model.message import Message
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    FindReady,
    Flush,
    Op,
    Peek,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.stores.clock import Clock
from quinque.stores.embedded.alarms import Alarms
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.journal import SPARE_BYTES, Journal


class Operations:
    def __init__(
        self,
        queues: dict[bytes, Queue],
        journal: Journal,
        bodies: Bodies,
        clock: Clock,
        stamp_us: int,
    ) -> None:
        self.queues = queues
        self.bodies = bodies
        self.ready: set[bytes] = set()
        self._journal = journal
        self._clock = clock
        self._stamp_us = stamp_us  # the newest place and id given out
        self._now_ms = clock.now_us() // 1000  # of the operation under way
        self._alarms = Alarms(queues)
        self._runners: dict[type, Callable[[Any], Any]] = {
            Put: self._put,
            Reserve: self._reserve,
            Ack: self._ack,
            Release: self._release,
            Flush: self._flush,
            Peek: self._peek,
            FindReady: self._find_ready,
            Count: self._count,
        }

    def run(self, op: Op) -> Any:
        """As stores/base.py says."""
        return self._runners[type(op)](op)

    # -- one method per operation -------------------------------------------------------------

    def _put(self, op: Put) -> list[bytes]:
        now_us = self._clock.now_us()
        stamp_us = now_us if now_us > self._stamp_us else self._stamp_us + 1
        self._now_ms = now_ms = now_us // 1000
        queue = self.queues.get(op.queue)
        if queue is not None and queue.soonest_ms <= now_ms:
            queue = self._settle(queue, now_ms, SETTLE_MOST)
        is_new = queue is None
        if queue is None:
            queue = Queue(op.queue, op.family)
        elif queue.has_chosen_ids:
            stamp_us = decide.free_stamp(queue, op, stamp_us)
        try:
            event = decide.put(queue, op, now_ms, stamp_us)
        except Duplicate as found:
            message = queue.messages[found.message_id]
            if not 0 < message.expires_ms <= now_ms:
                raise
            self._remove(queue, Expired(EXPIRED, queue.name, [message.id]))
            return self._put(op)
        self._journal.append(event, SPARE_BYTES)
        messages = apply_stored(queue, event, self._journal.body_home())
        self._stamp_us = stamp_us + len(messages) - 1
        if is_new:
            self.queues[op.queue] = queue
        self.bodies.came(messages, op.bodies)
        if queue.soonest_ms < queue.alarm_ms:
            self._alarms.set(queue)
        self.ready.add(op.queue)
        return [message.id for message in messages]

    def _reserve(self, op: Reserve) -> list[Delivery]:
        queue = self._find(op.family, op.queue, op.group)
        given: list[Delivery] = []
        if queue is None:
            return given
        room_bytes = RESERVE_MOST_BYTES
        while len(given) < op.count and room_bytes > 0:
            group = queue.groups.get(op.group)
            if group is not None and group.deadlines.next_ms <= self._now_ms and not group.again:
                # More lapsed than was settled at once, and they go before what is new.
                self._settle(queue, self._now_ms, SETTLE_MOST, must=True)
            event = decide.reserve(queue, op, self._now_ms, op.count - len(given))
            if event is None:
                break
            if isinstance(event, Expired):
                self._remove(queue, event)
                continue
            try:
                messages, bodies = self._read(queue, event.ids, room_bytes)
                if len(messages) < len(event.ids):
                    last = messages[-1].place
                    # What comes again moves nobody on: the record says how far the group is.
                    is_new = group is None or last > group.cursor
                    event = event._replace(
                        ids=[message.id for message in messages],
                        cursor=last if is_new else event.cursor,
                    )
                counts = self._lease(queue, op, event, messages)
            except (DiskFull, JournalDamaged):
                if given:  # they are leased, so they must be delivered
                    break
                raise
            room_bytes -= sum(map(len, bodies))
            given += [
                Delivery(queue.name, message.id, body, count)
                for message, body, count in zip(messages, bodies, counts, strict=True)
            ]
        if queue.soonest_ms < queue.alarm_ms:
            self._alarms.set(queue)
        return given

    def _read(
        self, queue: Queue, ids: Sequence[bytes], room_bytes: int
    ) -> tuple[list[Message], list[bytes]]:
        """The messages and their bodies: all, or the first ones when they are large, or when one
        after them is damaged. Raises JournalDamaged when that is the first."""
        messages: list[Message] = []
        bodies: list[bytes] = []
        for id in ids:
            message = queue.messages[id]
            try:
                body = self.bodies.of(message)
            except JournalDamaged:
                if messages:
                    break
                raise
            messages.append(message)
            bodies.append(body)
            room_bytes -= len(body)
            if room_bytes <= 0:
                break
        return messages, bodies

    def _lease(
        self, queue: Queue, op: Reserve, event: Leased, messages: list[Message]
    ) -> list[int]:
        """Hand the messages out; how often each was by now."""
        singles: list[bytes] = []
        if not op.lease_ms:
            singles = [message.id for message in messages if message.is_single]
        self._journal.append(event, _removal_bytes(queue, singles))
        counts = apply_leased(queue, event)
        queue.groups[op.group].segment = self._journal.segment
        if singles:
            self._remove(queue, Removed(REMOVED, queue.name, singles))
        return counts

    def _ack(self, op: Ack) -> list[bool]:
        queue = self._find(op.family, op.queue)
        if queue is None:
            return [False] * len(op.message_ids)
        events, results = decide.ack(queue, op, self._now_ms)
        for event in events:
            if event.kind == ACKED:
                gone = [id for other in events if isinstance(other, Removed) for id in other.ids]
                self._journal.append(event, _removal_bytes(queue, gone))
                apply_acked(queue, cast(Any, event))
                self._drop_if_empty(queue)
            else:
                self._remove(queue, cast(Removed, event))
        return results

    def _release(self, op: Release) -> list[bool]:
        queue = self._find(op.family, op.queue)
        if queue is None:
            return [False] * len(op.message_ids)
        events, results = decide.release(queue, op, self._now_ms)
        for event in events:
            self._journal.append(event)
            apply_given_back(queue, cast(Any, event))
            self.ready.add(queue.name)
        self._drop_if_empty(queue)
        return results

    def _flush(self, op: Flush) -> None:
        queue = self._find(op.family, op.queue)
        if queue is not None:
            event = decide.flush(queue, op)
            self._journal.append(event)
            self.bodies.went(apply_flushed(queue, event))
            self._drop_if_empty(queue)

    def _peek(self, op: Peek) -> Delivery | None:
        queue = self._find(op.family, op.queue, op.group)
        message = decide.peek(queue, op, self._now_ms) if queue is not None else None
        if queue is None or message is None:
            return None
        return Delivery(queue.name, message.id, self.bodies.of(message), 0)

    def _find_ready(self, op: FindReady) -> bytes | None:
        for name in op.queues:
            queue = self._find(op.family, name, op.group)
            if queue is not None and decide.has_work(queue, op.group, self._now_ms):
                return name
        return None

    def _count(self, op: Count) -> list[QueueCount]:
        self._now_ms = now_ms = self._clock.now_us() // 1000
        counts: list[QueueCount] = []
        for name in op.queues or sorted(self.queues):
            queue = self.queues.get(name)
            if queue is not None and queue.soonest_ms <= now_ms:
                queue = self._settle(queue, now_ms, SETTLE_MOST_COUNTING)
            if queue is not None and queue.family is not op.family:
                if op.queues:
                    raise WrongType
                continue
            # A flushed queue is there for the leases that still run, and is not to be seen.
            if queue is not None and (queue.messages or op.queues):
                counts.append(decide.count(queue))
            elif op.queues:
                counts.append(QueueCount(name, 0, []))
        return counts

    # -- shared steps -------------------------------------------------------------------------

    def _find(self, family: Family, name: bytes, group_name: bytes | None = None) -> Queue | None:
        """The queue as it is now; for that group, one at least of what has lapsed is to be had.

        Raises WrongType.
        """
        self._now_ms = now_ms = self._clock.now_us() // 1000
        queue = self.queues.get(name)
        if queue is not None and queue.soonest_ms <= now_ms:
            group = queue.groups.get(group_name) if group_name is not None else None
            hides = group is not None and not group.again and group.deadlines.next_ms <= now_ms
            queue = self._settle(queue, now_ms, SETTLE_MOST, must=hides)
        if queue is not None and queue.family is not family:
            raise WrongType
        return queue

    def _settle(self, queue: Queue, now_ms: int, most: int, *, must: bool = False) -> Queue | None:
        """Carry out what time made due; the queue, unless that ended it.

        Where more is due than fits in one operation, a few are settled in each millisecond, and
        when it must be; the ticker does the rest.
        """
        self._now_ms = now_ms
        if queue.flooded_ms:
            if queue.flooded_ms == now_ms and not must:
                return queue
            most = SETTLE_MOST_FLOODED
        for event in settle(queue, now_ms, most):
            if event.kind == EXPIRED:
                self._remove(queue, cast(Expired, event))
            else:
                self._try_append(event)
                apply_given_back(queue, cast(Any, event))
                self.ready.add(queue.name)
        queue.flooded_ms = now_ms if queue.soonest_ms <= now_ms else 0
        if queue.soonest_ms < queue.alarm_ms:
            self._alarms.set(queue)
        return self._drop_if_empty(queue)

    def _remove(self, queue: Queue, event: Removed | Expired) -> None:
        if event.kind == EXPIRED:
            self._try_append(event)
        else:
            self._journal.append(event)
        self.bodies.went(apply_removed(queue, event))
        self._drop_if_empty(queue)

    def _try_append(self, event: Event) -> None:
        """Journal what time made true if that can be: without the record, recovery finds the same
        by looking at the clock."""
        try:
            self._journal.append(event)
        except (DiskFull, StoreUnavailable):
            return

    def _drop_if_empty(self, queue: Queue) -> Queue | None:
        if queue.is_empty:
            self.queues.pop(queue.name, None)
            return None
        return queue


def _removal_bytes(queue: Queue, ids: Sequence[bytes]) -> int:
    """Room for a record that these are gone, taken together with the record before it: the two are
    one operation. 5 bytes say how long a name or an id is, and 32 are for the rest."""
    return 32 + len(queue.name) + 5 * len(ids) + sum(map(len, ids)) if ids else 0
