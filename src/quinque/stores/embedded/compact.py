"""Give back disk: write the live messages of the oldest segment again, then drop it.

Called by   store.py, one small step after each commit.
Calls       records.py (reads), kept.py (what is written again), journal.py (writes, drops).

A step goes through about STEP_BYTES of the segment and writes few messages again, so clients do
not wait for it, and it needs no second process. When the steps have gone through the whole segment,
and the new copies are on the disk, the file is deleted. A crash in between leaves both copies;
recovery takes the later one.

It begins when the journal is more than twice what the live messages take, and past a few segments;
or when it is asked for.

Not here: what Kept and GroupKept do when read back (engine/feed/apply.py).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from quinque.engine.claims.subscription import Claim, Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.engine.queue import Queue
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, JournalDamaged, NotDone
from quinque.model.claim_events import (
    CHUNK_KEPT,
    CLAIM_MARKED,
    CLAIM_RETURNED,
    CLAIM_SHRUNK,
    CLAIMED,
    UNSUBSCRIBED,
    ClaimMarked,
    Unsubscribed,
)
from quinque.model.events import ADDED, KEPT, NAMED, STORED, WORK_KEPT, Event, Named
from quinque.model.message import FeedMessage, Message
from quinque.model.own_events import REPLACED
from quinque.model.stage_events import AS_STAGE_EVENT, STAGED, STAGED_BY, Staged, StagedBy
from quinque.model.tube_events import TASK_KEPT, TASK_REPLACED, TASKS_PUT
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.books import SetAside
from quinque.stores.embedded.claims import Claims
from quinque.stores.embedded.journal import (
    ACK_BYTES,
    NO_FILES,
    Journal,
    pack_home,
    read_at,
    segment_of,
    where,
)
from quinque.stores.embedded.kept import (
    chunk_kept,
    group_kept,
    kept_in_feed,
    list_kept,
    message_kept,
    published_kept,
    stage_kept,
    subscription_kept,
)
from quinque.stores.embedded.manifest import segment_path
from quinque.stores.embedded.records import (
    Batch as WrittenBatch,
)
from quinque.stores.embedded.records import (
    Damage,
    batch_bytes,
    read_records,
    read_whole_batches,
)
from quinque.stores.embedded.replay import Recovered
from quinque.stores.embedded.staged import (
    Batch,
    Place,
    PublishedMark,
    Run,
    replaced_event,
    staged_event,
)
from quinque.stores.embedded.stages import StageOperations

_WITH_BODY: Final = frozenset(
    {STORED, KEPT, ADDED, WORK_KEPT, REPLACED, CLAIM_RETURNED, TASKS_PUT, TASK_KEPT, TASK_REPLACED}
)
_WITH_ONE: Final = frozenset({KEPT, WORK_KEPT, REPLACED, TASK_KEPT, TASK_REPLACED})
_WITH_CHUNK: Final = frozenset({CLAIMED, CHUNK_KEPT, CLAIM_SHRUNK, STAGED, STAGED_BY})
_LOOKS: Final = 10_000  # messages that one step looks at, about a millisecond
_WRITE_LOOKS: Final = 20  # a record that is written takes as long as this many looks, or longer
STEP_BYTES = 64 << 10  # not Final: compiled, a test could not make it small
_STEPS_MOST: Final = 8  # in one turn, and one more for each _BEHIND steps that it is behind
_BEHIND: Final = 64
READ_BYTES = 256 << 10  # of a segment at a time; not Final either
MARKS_MOST = 500  # in one record; not Final either
READS_MOST: Final = 10  # a body that the disk cannot read this often is damaged
RECORD_BYTES: Final = 64  # what a record takes beside its body: names, id, place, frame
SEGMENTS_LEFT: Final = 2  # the one being written and the one before it are not worth the work

# Something that knows which segment last recorded it, and a function that gives its record. None
# for a record that goes with the one before it.
Position = tuple[Any, Callable[[], Event | None]]

log = logging.getLogger("quinque.journal")


class Compactor:
    def __init__(
        self,
        journal: Journal,
        bodies: Bodies,
        done: Recovered,
        set_aside: SetAside,
        claims: Claims,
        staging: StageOperations,
        may_drop: Callable[[], bool],
    ) -> None:
        self._may_drop = may_drop
        self._set_aside = set_aside
        self._claims = claims
        self._staging = staging
        self._journal = journal
        self._bodies = bodies
        self._queues = done.queues
        self._former_names = done.former_names
        self._subscriptions = done.subscriptions
        self._stages = done.stages
        self._node = done.node
        self._numbers = done.numbers
        self._work: Iterator[None] | None = None
        self._asked = -1  # segments up to this one are gone through, whatever there is to gain
        self.is_stuck = False  # there is no room to write the next message again
        self._failed_reads = 0  # of one body, in a row
        self._unmarked: list[Claim] = []  # of the subscription written last, those without marks
        self.dropped = 0
        self._passed_bytes = 0  # of the segment, in this step
        self._looks = 0  # in this step, at messages and groups; what is written counts as looks
        self._behind_bytes = 0  # of segments that are to be gone through because others grow
        self._own_bytes = 0  # of the batch that is pending, what was written again
        # A round goes through all segments up to `_round_end`.
        self._round_end = journal.segment
        self._round_bytes = 0  # that were written in it more than messages are thought to take
        self._round_count = 0  # messages that were written again in it
        self._beside_bytes = 0  # as many as these bytes were in the last round
        self._were = 1  # how much there was then that has a name

    @property
    def is_working(self) -> bool:
        return self._work is not None or (self._is_asked and not self.needs_segment)

    @property
    def _is_asked(self) -> bool:
        return min(self._journal.sizes) <= self._asked

    @property
    def needs_segment(self) -> bool:
        """Whether the segment that is being written is to be gone through as well."""
        return self._journal.segment <= self._asked

    def ask(self) -> bool:
        """All segments that are there are gone through. False if that is being done already."""
        if self._is_asked:
            return False
        self._asked = self._journal.segment
        return True

    def heal(self, segment: int) -> None:
        """The segment, which is damaged, is gone through, and with it all that are older: a broker
        does not start on it."""
        self._asked = max(self._asked, segment)

    def step(self) -> None:
        """Go a little further, if there is enough to gain."""
        asked_bytes = max(0, self._journal.batch_bytes - self._own_bytes)
        self._own_bytes = 0
        if self._work is None:
            if not self._is_worth_it():
                self._behind_bytes = 0
                return
            self._work = self._compact(min(self._journal.sizes))
        # Faster than the journal grows, or it would never be done: half of what it goes through
        # may have to be written again. Not all in this turn: after a large message other clients
        # would wait. But the further it is behind, the more it does.
        self._behind_bytes += 3 * asked_bytes
        behind = self._behind_bytes // STEP_BYTES
        for _ in range(1 + min(behind, _STEPS_MOST) + behind // _BEHIND):
            if next(self._work, self) is self:
                self._work = None
                break
            if self.is_stuck:
                break

    def _is_worth_it(self) -> bool:
        journal = self._journal
        if journal.failed:
            return False
        if self._is_asked:
            return not self.needs_segment
        if len(journal.sizes) <= SEGMENTS_LEFT:
            return False
        live_bytes = self._count_bytes() + self._beside_bytes * min(1.0, self._things / self._were)
        return journal.total_bytes > 2 * live_bytes + SEGMENTS_LEFT * journal.segment_bytes

    def _count_bytes(self) -> int:
        """About what the live messages take."""
        return self._bodies.total_bytes + self._bodies.count * RECORD_BYTES

    @property
    def _things(self) -> int:
        """Roughly, how much there is that has a name."""
        return 1 + self._bodies.count + len(self._queues)

    def _measure(self, segment: int) -> None:
        """When every segment that there was has been gone through, it is known how many bytes the
        names, groups and settings take that live: without them, compaction would never end where
        names are long and bodies short."""
        if segment < self._round_end:
            return
        if self._round_end:
            self._beside_bytes = max(0, self._round_bytes)
            # Messages that were written again may be gone by now, and their names with them.
            self._were = max(self._things, self._round_count)
        self._round_end = self._journal.segment
        self._round_bytes = self._round_count = 0

    def _compact(self, segment: int) -> Iterator[None]:
        """Write again what lives in the segment, pausing often; then drop it."""
        size_bytes = self._journal.sizes[segment]
        yield from self._former_names.begin(segment)
        passed = 0  # bytes of the segment
        is_damaged = False
        for batch in self._batches(segment, size_bytes):
            if batch is None:
                yield
                continue
            if isinstance(batch, Damage):
                log.error(
                    "corrupted journal file %s at byte %d: %s; writing the segment again from"
                    " memory",
                    segment_path(self._journal.folder, segment),
                    batch.at,
                    batch.why,
                )
                is_damaged = True
                break
            for start, end, record in read_records(batch):
                if record[0] in _WITH_BODY:
                    home = pack_home(segment, start, end - start)
                    yield from self._keep(home, record)
                elif record[0] in _WITH_CHUNK:
                    home = pack_home(segment, start, end - start)
                    yield from self._keep_chunk(home, record)
                self._passed_bytes += end - passed
                self._behind_bytes = max(0, self._behind_bytes - (end - passed))
                passed = end
                if self._is_step():
                    yield
        if is_damaged:
            yield from self._keep_from_memory(segment)
        for position in self._positions(segment):
            if position is not None:
                yield from self._append(position)
            if self._is_step():
                yield
        while self._journal.has_pending or not self._may_drop():
            yield
        self._journal.sync()
        self._journal.drop(segment)
        self._former_names.drop(segment + 1, self._queues)
        self.dropped += 1
        self._measure(segment)

    def _batches(self, segment: int, size_bytes: int) -> Iterator[WrittenBatch | Damage | None]:
        """The batches of the segment, last a Damage if not all can be read; None while the process
        may not open another file."""
        # Not mapped: where the disk cannot read, or the file was cut off, that is SIGBUS.
        at, most, seal = 0, READ_BYTES, self._journal.seals[segment]
        while at < size_bytes:
            try:
                data = read_at(self._journal.file_of(segment), at, min(most, size_bytes - at))
            except OSError as exc:
                if exc.errno not in NO_FILES:
                    yield Damage(at, False, f"it cannot be read ({exc.strerror})")
                    return
                self.is_stuck = True
                yield None
                continue
            self.is_stuck = False
            start = at
            for found in read_whole_batches(data, at, seal):
                yield found
                if isinstance(found, Damage):
                    return
                at = found.end
            most = READ_BYTES
            if at == start:  # not one batch as a whole
                most = batch_bytes(data, at, seal)
                if most <= len(data) or at + most > size_bytes or len(data) < READ_BYTES:
                    yield Damage(at, False, "the file ends inside a batch")
                    return

    def _keep_from_memory(self, segment: int) -> Iterator[None]:
        """Write again all that lives in the segment, of which not every record can be read."""
        while self._journal.has_pending:  # until then, what was written again has its old place
            yield
        for queue in list(self._queues.values()):
            feed = queue if isinstance(queue, Feed) else None
            work = queue if isinstance(queue, Worklist) else None
            messages: list[Message] = []
            if feed is not None:
                messages += feed.messages.values()
            elif work is not None:
                messages += work.all()
            for message in messages:
                self._looks += 1
                while segment_of(message.home) == segment and self._queues.get(queue.name) is queue:
                    known: Message | None = None
                    if feed is not None:
                        known = feed.messages.get(message.id)
                    elif work is not None:
                        known = work.find(message.id)
                    if known is not message or self._has_kept(queue, message):
                        break
                    yield
                if self._is_step():
                    yield
        for found in self._subscriptions.all():
            for claim in list(found.claims.values()):
                for chunk in claim.in_order():
                    event: Callable[[bytes], Event] = partial(
                        chunk_kept, found, claim.number, chunk
                    )
                    while (
                        segment_of(chunk.home) == segment
                        and self._subscriptions.find(found.queue, found.name) is found
                        and found.claims.get(claim.number) is claim
                        and claim.chunks.get(chunk.place) is chunk
                        and not self._has_kept_chunk(
                            chunk, event, partial(self._claims.lose_chunk, found, claim, chunk)
                        )
                    ):
                        yield
                    if self._is_step():
                        yield
        for name, batch in list(self._stages.batches.items()):
            for place, staged in list(batch.chunks.items()):
                event = partial(_staged, batch, place)
                while (
                    segment_of(staged.home) == segment
                    and self._stages.batches.get(name) is batch
                    and batch.chunks.get(place) is staged
                    and not self._has_kept_chunk(
                        staged, event, partial(self._staging.lose_chunk, batch, place)
                    )
                ):
                    yield
                if self._is_step():
                    yield

    def _is_step(self) -> bool:
        """Whether this is enough for one step. If so, the next one begins."""
        if self._passed_bytes <= STEP_BYTES and self._looks < _LOOKS:
            return False
        self._passed_bytes = self._looks = 0
        return True

    def _has_kept(self, queue: Queue, message: Message) -> bool:
        """Whether the message was written again, or set aside because it cannot be."""
        try:
            body = self._bodies.of(message)
        except JournalDamaged as exc:
            return self._has_set_aside(queue, message, exc)
        except NotDone as exc:
            self.is_stuck = True
            if not self._is_lost(exc):
                return False
            return self._has_set_aside(queue, message, JournalDamaged(str(exc)))
        event: Event
        if isinstance(queue, Feed):
            assert isinstance(message, FeedMessage)
            self._looks += len(queue.groups)
            event = kept_in_feed(queue, message, body)
        else:
            assert isinstance(queue, Worklist)
            assert isinstance(message, WorkMessage)
            event = message_kept(queue, message, body)
        if not self._has_appended(event):
            return False
        self._moved(message, body)
        return True

    def _has_set_aside(self, queue: Queue, message: Message, why: JournalDamaged) -> bool:
        """Whether there was room to set the message aside."""
        self.is_stuck = False
        try:
            self._set_aside(queue, message, why)
        except DiskFull:
            self.is_stuck = True
        return not self.is_stuck

    def _is_lost(self, failure: NotDone) -> bool:
        """Whether a body is damaged because the disk failed to read it too often."""
        # Compiled, an exception has no cause: mypyc drops the `from` of a raise.
        cause = failure.__cause__ or failure.__context__
        if not isinstance(cause, OSError) or cause.errno != errno.EIO:
            return False
        self._failed_reads += 1
        if self._failed_reads < READS_MOST:
            return False
        self._failed_reads = 0
        return True

    def _has_kept_chunk(
        self,
        chunk: Message,
        event_of: Callable[[bytes], Event],
        lose: Callable[[JournalDamaged], bool],
    ) -> bool:
        """Whether the chunk was written again, or set aside because it cannot be."""
        try:
            body = self._bodies.of(chunk)
        except JournalDamaged as exc:
            return self._has_lost(lose, exc)
        except NotDone as exc:
            self.is_stuck = True
            return self._is_lost(exc) and self._has_lost(lose, JournalDamaged(str(exc)))
        if not self._has_appended(event_of(body)):
            return False
        self._moved(chunk, body)
        return True

    def _has_lost(self, lose: Callable[[JournalDamaged], bool], why: JournalDamaged) -> bool:
        """Whether the chunk was set aside: there was room, and its claim is done with it."""
        try:
            self.is_stuck = not lose(why)
        except DiskFull:
            self.is_stuck = True
        return not self.is_stuck

    def _keep(self, home: int, record: tuple[Any, ...]) -> Iterator[None]:
        """Write the messages of this record again that live, and live here."""
        name = record[1]
        for id, body in _messages_of(record):
            self._looks += 1
            # Looked up again after each wait for room: acked messages must not come back.
            while (found := self._kept(name, id, home, body)) is not None:
                message, event = found
                if self._has_appended(event):
                    self._moved(message, body)
                    break
                yield
            home += 1
            if self._is_step():
                yield

    def _keep_chunk(self, home: int, record: tuple[Any, ...]) -> Iterator[None]:
        """Write the chunk of this record again, if it lives, and lives here."""
        while (found := self._chunk(home, record)) is not None:
            chunk, event = found
            if self._has_appended(event):
                self._moved(chunk, record[-1])
                return
            yield

    def _chunk(self, home: int, record: tuple[Any, ...]) -> tuple[Message, Event] | None:
        if record[0] in (STAGED, STAGED_BY):
            event = AS_STAGE_EVENT[record[0]](record)
            assert isinstance(event, Staged | StagedBy)
            batch = self._stages.batches.get((event.queue, event.sink, event.run, event.number))
            place = (event.part, event.attempt, event.chunk)
            staged = batch.chunks.get(place) if batch is not None else None
            if staged is not None and where(staged.home) == home:
                return staged, event
            return None
        # queue, family, subscription, [group,] number, chunk, …
        number, at = record[5:7] if record[0] == CLAIMED else record[4:6]
        found = self._subscriptions.find(record[1], record[3])
        claim = found.claims.get(number) if found is not None else None
        chunk = claim.chunks.get(at) if claim is not None else None
        if found is None or chunk is None or where(chunk.home) != home:
            return None
        return chunk, chunk_kept(found, number, chunk, record[-1])

    def _kept(self, name: bytes, id: bytes, home: int, body: bytes) -> tuple[Message, Event] | None:
        """The message, and as it is now, if it lives, and lives at `home`."""
        queue = self._queues.get(name)
        if isinstance(queue, Feed):
            message = queue.messages.get(id)
            if message is not None and where(message.home) == home:
                self._looks += len(queue.groups)
                return message, kept_in_feed(queue, message, body)
        work = queue.find(id) if isinstance(queue, Worklist) else None
        if work is None or where(work.home) != home:
            # A queue that was renamed may have it, whichever queue has the name now.
            work = self._former_names.find(home)
        return None if work is None else (work, message_kept(work.queue, work, body))

    def _positions(self, segment: int) -> Iterator[Position | None]:
        """Yield the groups, work queues and other state that no later segment records, each with
        the function that makes its record; None where many in a row need none."""
        for queue in list(self._queues.values()):
            self._looks += 1
            if self._looks >= _LOOKS:
                yield None
            if isinstance(queue, Feed):
                self._looks += len(queue.groups)
                for group in list(queue.groups.values()):
                    if group.segment <= segment:
                        yield group, partial(self._group_kept, queue, group)
            elif isinstance(queue, Worklist) and queue.segment <= segment:
                yield queue, partial(self._list_kept, queue)
        for found in self._subscriptions.all():
            if found.segment <= segment:
                yield found, partial(self._subscription_kept, found)
                yield from self._marks(found)
        if self._subscriptions.last_epoch and self._subscriptions.segment <= segment:
            yield self._subscriptions, self._epoch_kept
        for batch in list(self._stages.batches.values()):
            if batch.is_decided and batch.segment <= segment:
                yield batch, partial(self._stage_kept, batch)
            # Every time: these are few, and which segments have them is not known.
            for writer in [] if batch.is_decided else batch.replaced:
                yield None, partial(self._replaced_kept, batch, writer)
        for run, mark in list(self._stages.published.items()):
            if mark.segment <= segment:
                yield mark, partial(self._published_kept, run, mark)
        if self._node.id and self._node.segment <= segment:
            yield self._node, self._node_kept
        if self._numbers.at_ms and self._numbers.segment <= segment:
            yield self._numbers, self._numbers.kept

    # The current state of each, or None if it has ended. Another may have its name by then.

    def _group_kept(self, queue: Feed, group: Group) -> Event | None:
        if self._queues.get(queue.name) is not queue or queue.groups.get(group.name) is not group:
            return None
        return group_kept(queue, group)

    def _list_kept(self, queue: Worklist) -> Event | None:
        return list_kept(queue) if self._queues.get(queue.name) is queue else None

    def _subscription_kept(self, found: Subscription) -> Event | None:
        if self._subscriptions.find(found.queue, found.name) is not found:
            return None
        self._unmarked = [it for it in found.claims.values() if len(it.marks) > MARKS_MOST]
        return subscription_kept(found, MARKS_MOST)

    def _marks(self, found: Subscription) -> Iterator[Position]:
        """The marks that the record of the subscription does not have."""
        for claim in self._unmarked:
            ids = list(claim.marks)
            for first in range(0, len(ids), MARKS_MOST):
                alike: dict[tuple[int, int, bytes], list[bytes]] = {}
                for id in ids[first : first + MARKS_MOST]:
                    it = claim.marks.get(id)
                    if it is not None:
                        alike.setdefault((it.outcome, it.delay_ms, it.reason), []).append(id)
                for mark, some in alike.items():
                    yield None, partial(self._marks_kept, found, claim, mark, some)

    def _marks_kept(
        self, found: Subscription, claim: Claim, mark: tuple[int, int, bytes], ids: list[bytes]
    ) -> Event | None:
        """The ids that still have this mark: records of other marks follow the subscription's."""
        if self._subscriptions.find(found.queue, found.name) is not found:
            return None
        if found.claims.get(claim.number) is not claim:
            return None
        self._looks += len(ids)
        some = [
            id
            for id in ids
            if (it := claim.marks.get(id)) is not None
            and (it.outcome, it.delay_ms, it.reason) == mark
        ]
        if not some:
            return None
        return ClaimMarked(CLAIM_MARKED, found.queue, found.name, claim.number, *mark, some)

    def _epoch_kept(self) -> Event:
        return Unsubscribed(UNSUBSCRIBED, b"", b"", self._subscriptions.last_epoch)

    def _stage_kept(self, batch: Batch) -> Event | None:
        return stage_kept(batch) if self._stages.batches.get(batch.name) is batch else None

    def _replaced_kept(self, batch: Batch, writer: bytes) -> Event | None:
        if self._stages.batches.get(batch.name) is not batch or batch.is_decided:
            return None
        return replaced_event(batch, writer)

    def _published_kept(self, run: Run, mark: PublishedMark) -> Event | None:
        return published_kept(run, mark) if self._stages.published.get(run) is mark else None

    def _node_kept(self) -> Event:
        return Named(NAMED, self._node.id, self._node.is_leaving)

    def _append(self, position: Position) -> Iterator[None]:
        """The journal has what is known now, unless that has ended; waits while there is no room
        for it."""
        owner, kept = position
        # Asked again after each wait: what changed meanwhile is in records that stand before it.
        # So is what is owed, if it has room by now: or a restart would count it once more.
        while (event := kept()) is not None:
            with suppress(DiskFull):
                self._journal.append_owed()
            # A few, and then the segment goes: they may use half of what acks have.
            if self._has_appended(event, ACK_BYTES // 2):
                if owner is not None:
                    owner.segment = self._journal.segment
                return
            yield

    def _moved(self, message: Message, body: bytes) -> None:
        """The message was written again, in the record appended last."""
        self._bodies.moved(message, self._journal.body_home(), body)
        self._round_bytes -= len(body) + RECORD_BYTES
        self._round_count += 1

    def _has_appended(self, event: Event, spare_bytes: int = ACK_BYTES) -> bool:
        """Whether there was room for the event that leaves `spare_bytes`."""
        try:
            self._journal.append(event, spare_bytes, is_upkeep=True)
        except DiskFull:
            self.is_stuck = True
        else:
            self.is_stuck = False
            self._looks += _WRITE_LOOKS + _LOOKS * self._journal.last_bytes // STEP_BYTES
            self._own_bytes += self._journal.last_bytes
            self._round_bytes += self._journal.last_bytes
        return not self.is_stuck


def _staged(batch: Batch, place: Place, rows: bytes) -> Staged | StagedBy:
    at = (batch.name, batch.family, place, batch.began_ms)
    return staged_event(*at, rows, batch.writer or b"")


def _messages_of(record: tuple[Any, ...]) -> list[tuple[bytes, bytes]]:
    """Id and body of each message in a record that holds some."""
    if record[0] in _WITH_ONE:
        return [(record[3], record[-1])]
    if record[0] == CLAIM_RETURNED:
        return [(row[0], row[1]) for row in record[-1]]
    ids, bodies = record[-2:]
    if ids is None or record[0] == TASKS_PUT:
        ids = [b"%d" % (record[3] + number) for number in range(len(bodies))]
    return list(zip(ids, bodies, strict=True))
