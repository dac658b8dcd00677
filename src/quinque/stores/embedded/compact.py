"""Give back disk: write the live messages of the oldest segment again, then drop it.

Called by   store.py, one small step after each commit.
Calls       records.py (reads), journal.py (writes, drops).

A step goes through about STEP_BYTES of the segment, so nobody waits for it, and it needs no second
process. When the whole segment has been gone through, and all that was written again is on the
disk, the file goes. A crash in between leaves both copies; recovery takes the later one.

It begins when the journal is more than twice what the live messages take, and past a few segments.

Not here: what Kept and GroupKept do when read back (engine/apply.py).
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterator
from typing import Any, Final

from quinque.engine.queue import Queue
from quinque.errors import DiskFull
from quinque.model.events import GROUP_KEPT, KEPT, STORED, Event, GroupKept, Kept, Stored
from quinque.model.message import Message
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.journal import Journal, pack_home, where
from quinque.stores.embedded.records import Damage, read_batches, read_records

STEP_BYTES: Final = 64 << 10
RECORD_BYTES: Final = 64  # what a record takes beside its body: names, id, place, frame
SEGMENTS_LEFT: Final = 2  # the one being written and the one before it are not worth the work

log = logging.getLogger("quinque.journal")


class Compactor:
    def __init__(self, journal: Journal, bodies: Bodies, queues: dict[bytes, Queue]) -> None:
        self._journal = journal
        self._bodies = bodies
        self._queues = queues
        self._work: Iterator[None] | None = None
        self.is_stuck = False  # there is no room to write the next message again
        self.dropped = 0
        self._own_bytes = 0  # of the batch that is pending, what was written again

    @property
    def is_working(self) -> bool:
        return self._work is not None

    def step(self) -> None:
        """Go a little further, if there is enough to gain."""
        asked_bytes = max(0, self._journal.batch_bytes - self._own_bytes)
        self._own_bytes = 0
        if self._work is None:
            if not self._is_worth_it():
                return
            self._work = self._compact(min(self._journal.sizes))
        # Faster than the journal grows, or it would never be done: half of what it goes through
        # may have to be written again.
        for _ in range(1 + 3 * asked_bytes // STEP_BYTES):
            if next(self._work, self) is self:
                self._work = None
                break

    def _is_worth_it(self) -> bool:
        journal = self._journal
        if len(journal.sizes) <= SEGMENTS_LEFT or journal.failed:
            return False
        live_bytes = self._bodies.total_bytes + self._bodies.count * RECORD_BYTES
        return journal.total_bytes > 2 * live_bytes + SEGMENTS_LEFT * journal.segment_bytes

    def _compact(self, segment: int) -> Iterator[None]:
        """Write again what lives in the segment, pausing often; then drop it."""
        size_bytes = self._journal.sizes[segment]
        passed = 0
        with mmap.mmap(self._journal.files[segment], size_bytes, prot=mmap.PROT_READ) as data:
            for batch in read_batches(data):
                if isinstance(batch, Damage):
                    log.error("segment %d cannot be compacted: %s", segment, batch.why)
                    return
                for start, end, record in read_records(batch):
                    if record[0] == STORED or record[0] == KEPT:
                        home = pack_home(segment, start, end - start)
                        yield from self._keep(home, record)
                    if end - passed > STEP_BYTES:
                        passed = end
                        yield
        for written, event in enumerate(self._group_positions(segment)):
            yield from self._append(event)
            if written % 500 == 499:
                yield
        while self._journal.has_pending:
            yield
        self._journal.sync()
        self._journal.drop(segment)
        self.dropped += 1

    def _keep(self, home: int, record: tuple[Any, ...]) -> Iterator[None]:
        """Write the messages of this record again that live, and live here."""
        name, family = record[1], record[2]
        for id, body in _messages_of(record):
            # Looked up anew after each wait for room: what was acked meanwhile must not come back.
            while (queue := self._queues.get(name)) is not None:
                message = queue.messages.get(id)
                if message is None or where(message.home) != home:
                    break
                event = Kept(
                    KEPT,
                    name,
                    family,
                    id,
                    message.place,
                    message.expires_ms,
                    message.is_single,
                    _past(queue, message),
                    _holds(queue, message),
                    body,
                )
                if self._has_appended(event):
                    self._bodies.moved(message, self._journal.body_home(), body)
                    break
                yield
            home += 1

    def _group_positions(self, segment: int) -> Iterator[Event]:
        """The positions of groups that no later segment has on record."""
        for queue in list(self._queues.values()):
            for group in list(queue.groups.values()):
                # Looked up anew after each pause: one that ended is no longer as far as it was.
                if group.segment <= segment and queue.groups.get(group.name) is group:
                    group.segment = self._journal.segment
                    code = queue.family.code
                    yield GroupKept(GROUP_KEPT, queue.name, code, group.name, group.cursor)

    def _append(self, event: Event) -> Iterator[None]:
        """The event is in the journal; waits while there is no room for it."""
        while not self._has_appended(event):
            yield

    def _has_appended(self, event: Event) -> bool:
        """Whether there was room for the event."""
        try:
            self._journal.append(event)
        except DiskFull:
            self.is_stuck = True
        else:
            self.is_stuck = False
            self._own_bytes += self._journal.last_bytes
        return not self.is_stuck


def _messages_of(record: tuple[Any, ...]) -> list[tuple[bytes, bytes]]:
    """Id and body of each message in a Stored or Kept record."""
    if record[0] == KEPT:
        return [(record[3], record[-1])]
    stored = Stored._make(record)
    ids = stored.ids or [b"%d" % (stored.place + number) for number in range(len(stored.bodies))]
    return list(zip(ids, stored.bodies, strict=True))


def _past(queue: Queue, message: Message) -> list[bytes] | None:
    """The groups that have come as far as the message, where their cursors do not tell."""
    if not queue.has_front:
        return None
    return [group.name for group in queue.groups.values() if message.place <= group.cursor]


def _holds(queue: Queue, message: Message) -> list[tuple[bytes, int, int]]:
    """What each group holds of the message, as Kept records it."""
    rows: list[tuple[bytes, int, int]] = []
    for group in queue.groups.values():
        # Both: what is held may be a flushed message that had the same id.
        rows += [
            (group.name, lease.deadline_ms, lease.deliveries)
            for lease in (group.held.get(message.id), group.again.get(message.id))
            if lease is not None and lease.message is message
        ]
    return rows
