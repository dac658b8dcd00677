"""Operations on staged batches: decide, append, apply.

Called by   store.py.
Calls       staged.py (state), stores/staged_rows.py (chunks), engine/ (what is put into queues).

Some chunks move into the queue at a time. One record says how far the batch then is, and the
records after it have the messages; they are written together, so a message is put once.

Not here: what a queue does with messages (engine/).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from quinque.engine.claims.rows import chunk_sizes, pack
from quinque.engine.claims.views import claimed_among
from quinque.engine.feed import decide as feed_rules
from quinque.engine.feed.apply import apply_stored
from quinque.engine.feed.feed import Feed
from quinque.engine.work import decide as work_rules
from quinque.engine.work import items as item_rules
from quinque.engine.work.apply import apply_added
from quinque.engine.work.worklist import Worklist
from quinque.errors import (
    JournalDamaged,
    NoReplicas,
    NoStage,
    OtherBatch,
    QueuePaused,
    QuinqueError,
    WrongType,
    printable,
)
from quinque.model.events import EXPIRED, Added, Expired, Stored
from quinque.model.families import Family
from quinque.model.limits import (
    NEVER_MS,
    PUBLISH_MOST,
    STAGE_GOES_ON_MS,
    TOGETHER_MOST,
    TOGETHER_MOST_BYTES,
)
from quinque.model.ops import Put
from quinque.model.stage_events import (
    STAGE_DECIDED,
    STAGE_DROPPED,
    STAGE_MOVED,
    StageDecided,
    StageDropped,
    StageEvent,
    StageMoved,
)
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Publish,
    Published,
    Stage,
    Staged,
    StageView,
)
from quinque.model.work_ops import Add, Terms
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.journal import SPARE_BYTES, segment_of
from quinque.stores.embedded.names import Names
from quinque.stores.embedded.staged import Batch, Name, Place, StagedChunk, staged_event
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.no_tubes import refuse_tubes
from quinque.stores.staged_rows import Run, staged_runs
from quinque.stores.stuck_batches import StuckBatches

GO_ON_MOST: Final = 1_000  # messages that one tick publishes
_NO_ROWS: Final = pack([])
_ID_BYTES: Final = 16  # drawn for an item without an id, as Redis Work Queue's clients do

log = logging.getLogger("quinque.journal")


class StageOperations:
    def __init__(self, lists: Worklists, feeds: FeedOperations, names: Names) -> None:
        self._books = lists.books
        self._lists = lists
        self._feeds = feeds
        self._names = names
        self._stages = lists.books.stages
        self._stuck = StuckBatches(log)
        self.runners: dict[type, Callable[[Any], Any]] = {
            Stage: self._stage,
            Publish: self._publish,
            DropStage: self._drop,
            FindStages: self._find,
        }

    # -- one method per operation -------------------------------------------------------------

    def _stage(self, op: Stage) -> Staged:
        refuse_tubes(op.family)
        now_ms = self._begin()
        staged_runs(op.family, op.rows)
        self._check_family(op.family, op.queue)
        name = (op.queue, op.sink, op.run, op.number)
        batch = self._stages.batches.get(name)
        if self._stages.is_published(name, now_ms) or (batch is not None and batch.is_decided):
            return Staged(True, 0)
        _check_batch(op.family, op.sink, batch)
        if batch is not None and op.writer in batch.replaced:
            raise OtherBatch.is_replaced(op.sink, op.run, op.number)
        place = (op.part, op.attempt, op.chunk)
        event = staged_event(name, op.family, place, self._books.at_ms, op.rows, op.writer)
        self._carry(event, SPARE_BYTES)
        return Staged(False, self._stages.batches[name].in_parts[op.part, op.attempt])

    def _publish(self, op: Publish) -> Published:
        refuse_tubes(op.family)
        now_ms = self._begin()
        name = (op.queue, op.sink, op.run, op.number)
        batch = self._stages.batches.get(name)
        is_decided = batch is not None and batch.is_decided
        if not is_decided and self._stages.is_published(name, now_ms):
            mark = self._stages.published[name[:3]]
            _check_content(op, mark.number, mark.content)
            return Published(0, 0)
        _check_batch(op.family, op.sink, batch)
        decided: StageDecided | None = None
        left: Iterable[StagedChunk]
        content = op.content
        if batch is None or not batch.is_decided:
            left = whole = self._whole(op, batch)
            left_chunks, left_messages = len(whole), sum(chunk.messages for chunk in whole)
            parts = [(part, attempt, chunks) for part, attempt, chunks in op.parts]
            decided = StageDecided(
                STAGE_DECIDED,
                op.queue,
                op.family.code,
                op.sink,
                op.run,
                op.number,
                now_ms,
                parts,
                op.content,
                op.keep_ms,
            )
        else:
            _check_content(op, op.number, batch.content)
            left = batch.left()
            left_chunks, left_messages = len(batch.order) - batch.done, batch.messages
            content = batch.content
        self._check_room(op)
        batch = batch or Batch(name, op.family, now_ms)
        some = _first_chunks(left, min(op.count, PUBLISH_MOST))
        is_last = len(some) == left_chunks
        after = self._stages.mark_after(name, content, op.keep_ms, now_ms) if is_last else None
        left_messages -= sum(chunk.messages for chunk in some)
        put = self._move(batch, decided, some, after)
        if is_last:
            self._drop_older(name)
        else:
            self._stages.put_off(self._stages.batches[name], now_ms + STAGE_GOES_ON_MS)
        return Published(put, left_messages)

    def _drop(self, op: DropStage) -> int:
        now_ms = self._begin()
        batch = self._stages.batches.get((op.queue, op.sink, op.run, op.number))
        if batch is None:
            return 0
        count = len(batch.chunks)
        if not batch.is_decided:
            self._carry(StageDropped(STAGE_DROPPED, *batch.name))
        elif self._is_stuck(batch):
            mark = self._stages.mark_after(batch.name, batch.content, batch.keep_ms, now_ms)
            done = len(batch.order)
            self._carry(StageMoved(STAGE_MOVED, *batch.name, done, 0, True, *mark))
        else:
            return 0
        return count

    def _find(self, op: FindStages) -> list[StageView]:
        now_ms = self._begin()
        batches = self._stages.batches
        if op.only is not None:
            names = [op.only] if op.only in batches else []
        else:
            seen = (name for name in batches if op.sees is None or op.sees(name[0]))
            names = sorted(islice(seen, op.most + 1) if op.most else seen)
        return [
            StageView(
                *name,
                batches[name].is_decided,
                len(batches[name].chunks),
                sum(chunk.body_bytes for chunk in batches[name].chunks.values()),
                max(0, now_ms - batches[name].began_ms),
                batches[name].family,
            )
            for name in names
        ]

    # -- time ---------------------------------------------------------------------------------

    def settle_due(self, now_ms: int) -> None:
        """Drop the first batch that was not published for too long, or the first mark that was kept
        long enough. Without a journaled event, recovery does the same. Or publish some more of the
        first batch that is decided, and that its writer has left."""
        batch, run = self._stages.take_due(now_ms)
        self._books.at_ms = now_ms
        if batch is not None and batch.is_decided:
            self._go_on(batch, now_ms)
        elif batch is not None:
            event = StageDropped(STAGE_DROPPED, *batch.name)
            self._books.try_append(event)
            self._apply(event)
        elif run is not None:
            del self._stages.published[run]

    def _go_on(self, batch: Batch, now_ms: int) -> None:
        """Put some more of a decided batch into its queue, or try again later if the queue takes
        nothing, or the disk is full."""
        op = Publish(batch.family, *batch.name, (), GO_ON_MOST, batch.keep_ms)
        self._stages.put_off(batch, now_ms + STAGE_GOES_ON_MS)
        try:
            left = self._publish(op).left
        except WrongType as exc:
            self._stuck.tell(batch.name, batch.messages, exc)
            return
        except QuinqueError as exc:
            log.debug("cannot publish the rest of a batch now: %s", exc)
            return
        self._stuck.ended(batch.name)
        if left:
            self._stages.put_off(batch, now_ms)

    # -- shared steps -------------------------------------------------------------------------

    def _whole(self, op: Publish, batch: Batch | None) -> list[StagedChunk]:
        """The chunks of the parts, in order. Raises NoStage when a part is not there as a whole."""
        chunks = batch.chunks if batch is not None else {}
        found: list[StagedChunk] = []
        for part, attempt, count in op.parts:
            for number in range(count):
                chunk = chunks.get((part, attempt, number))
                if chunk is None:
                    raise NoStage(op.sink, op.number, part, attempt)
                found.append(chunk)
        return found

    def lose_chunk(self, batch: Batch, place: Place, why: JournalDamaged) -> bool:
        """Give a damaged chunk up. If the batch is not decided, drop it: its writer learns that
        when it publishes, and stages it again. In a half published batch, empty the chunk: the rest
        is published. Always True. Raises DiskFull."""
        chunk = batch.chunks[place]
        queue, sink, run, number = batch.name
        if batch.is_decided:
            at = (batch.name, batch.family, place, NEVER_MS)
            self._carry(staged_event(*at, _NO_ROWS, batch.writer or b""))
        else:
            self._carry(StageDropped(STAGE_DROPPED, *batch.name))
        log.error(
            "set aside %d staged messages of queue %s (sink %s, run %s, batch %d, part %d): %s. %s",
            chunk.messages,
            printable(queue),
            printable(sink),
            printable(run),
            number,
            place[0],
            why,
            self._books.journal.copy_aside(chunk.home),
        )
        self._books.heal(segment_of(chunk.home))
        return True

    def _runs(self, batch: Batch, chunk: StagedChunk) -> list[Run]:
        """The runs of a chunk; no runs if it is damaged and its batch decided. Raises NoStage when
        the batch is not decided: the batch is dropped then, and its writer stages it again."""
        try:
            rows = self._books.bodies.of(chunk)
        except JournalDamaged as exc:
            place = next(place for place, each in batch.chunks.items() if each is chunk)
            self.lose_chunk(batch, place, exc)
            if not batch.is_decided:
                _, sink, _, number = batch.name
                raise NoStage(sink, number, place[0], place[1]) from exc
            return []
        return staged_runs(batch.family, rows) if chunk.messages else []

    def _check_room(self, op: Publish) -> None:
        """Raises WrongType, QueuePaused, NoReplicas when the queue takes nothing."""
        self._check_family(op.family, op.queue)
        if op.family.is_worklist:
            if self._names.known_node().is_leaving:
                raise NoReplicas(
                    "this node is leaving and accepts no new jobs; there is no other node"
                )
            queue = self._lists.settled(op.family, op.queue, self._books.at_ms)
            if queue is not None and queue.is_paused_in:
                raise QueuePaused(op.queue)

    def _move(
        self,
        batch: Batch,
        decided: StageDecided | None,
        chunks: Sequence[StagedChunk],
        mark: tuple[int, bytes, int] | None,
    ) -> int:
        """Decide the batch, and put the chunks into the queue; return how many messages that put
        there. `mark` is the mark of the run if these are the last ones. All of this
        happens or nothing: a chunk that cannot be read refuses it too."""
        runs = [run for chunk in chunks for run in self._runs(batch, chunk)]
        queue: Worklist | Feed
        events: Sequence[Added | Stored]
        if batch.family.is_worklist:
            queue = self._worklist(batch)
            events = self._added(queue, runs)
        else:
            queue = self._feed(batch)
            events = self._stored(queue, runs)
        is_new = batch.name[0] not in self._books.queues
        done = batch.done + len(chunks)
        moved = StageMoved(
            STAGE_MOVED, *batch.name, done, len(events), mark is not None, *(mark or (0,))
        )
        # The first takes the room of all, so that none of the others is refused.
        journal = self._books.journal
        spare_bytes = SPARE_BYTES + journal.bytes_of(events)
        if decided is not None:
            self._carry(decided, spare_bytes + journal.bytes_of([moved]))
            spare_bytes = 0
        self._carry(moved, spare_bytes)
        if events and is_new:
            if isinstance(queue, Worklist):
                self._lists.keep(queue)
            else:
                self._books.keep_feed(queue)
        for event in events:
            self._put(queue, event)
        return sum(len(event.bodies) for event in events)

    def _worklist(self, batch: Batch) -> Worklist:
        now_ms = self._books.at_ms
        queue = self._lists.settled(batch.family, batch.name[0], now_ms)
        return queue or Worklist(batch.name[0], batch.family, self._books.directory, now_ms)

    def _feed(self, batch: Batch) -> Feed:
        queue = self._feeds.find(batch.family, batch.name[0])
        return queue or Feed(batch.name[0], batch.family)

    def _added(self, queue: Worklist, runs: Sequence[Run]) -> list[Added]:
        """The runs as events; one whose key is there, or comes twice, is left out."""
        if queue.family.has_chosen_ids:
            return self._items(queue, runs)
        node = self._names.known_node()
        now_ms = self._books.at_ms
        place = self._new_place()
        keys: set[bytes] = set()
        events: list[Added] = []
        for ttl_ms, delay_ms, retry_ms, max_deliveries, key, bodies in runs:
            if key is not None:
                if key in keys or work_rules.holder_id(queue, key, now_ms) is not None:
                    continue
                keys.add(key)
            terms = Terms(ttl_ms, delay_ms, retry_ms, max_deliveries)
            for some in _lots(bodies):
                ids = self._names.new_ids(queue, len(some), terms, node.id)
                op = Add(queue.family, queue.name, some, terms, key)
                events.append(work_rules.add(queue, op, now_ms, place, ids))
                place += len(some)
        return events

    def _items(self, queue: Worklist, runs: Sequence[Run]) -> list[Added]:
        """The runs as events, where producers choose ids; one whose id is there, or comes twice, is
        left out."""
        named = [run.name for run in runs if run.name is not None]
        claimed = claimed_among(self._books.subscriptions, named, queue.name)
        new: dict[bytes, bytes] = {}
        for run in runs:
            for body in run.bodies:
                id = run.name or self._books.chance.take(_ID_BYTES).hex().encode()
                if id not in claimed and queue.find(id) is None:
                    new.setdefault(id, body)
        return item_rules.add(queue, new, self._books.at_ms, self._new_place())

    def _stored(self, queue: Feed, runs: Sequence[Run]) -> list[Stored]:
        """The runs as events; one whose id is there, or comes twice, is left out."""
        now_ms = self._books.at_ms
        place = self._new_place()
        ids: set[bytes] = set()
        events: list[Stored] = []
        self._make_way(queue, runs, now_ms)
        for ttl_ms, _, _, _, id, bodies in runs:
            if id is not None:
                if id in ids or id in queue.messages:
                    continue
                ids.add(id)
            for some in _lots(bodies):
                op = Put(queue.family, queue.name, some, ttl_ms, id)
                if id is None and (queue.has_chosen_ids or ids):
                    place = feed_rules.free_stamp(queue, op, place, ids)
                events.append(feed_rules.put(queue, op, now_ms, place))
                place += len(some)
        return events

    def _make_way(self, queue: Feed, runs: Sequence[Run], now_ms: int) -> None:
        """No message has an id of the runs that has expired: more may have than was settled."""
        expired = [
            id
            for id in dict.fromkeys(run.name for run in runs)
            if id is not None
            and (message := queue.messages.get(id)) is not None
            and 0 < message.expires_ms <= now_ms
        ]
        if expired:
            self._feeds.remove(queue, Expired(EXPIRED, queue.name, expired))

    def _put(self, queue: Worklist | Feed, event: Added | Stored) -> None:
        """The messages of the event, for which there is room, are in the queue."""
        books = self._books
        books.journal.append(event)
        home = books.journal.body_home()
        if isinstance(queue, Worklist):
            assert isinstance(event, Added)
            books.bodies.came(apply_added(queue, event, home), event.bodies)
            if not event.terms[1]:
                self._lists.has_work(queue)
        else:
            assert isinstance(event, Stored)
            books.bodies.came(apply_stored(queue, event, home), event.bodies)
            books.ready.add(queue.name)
        books.stamp_us = event.place + len(event.bodies) - 1
        books.set_alarm(queue)

    def _drop_older(self, name: Name) -> None:
        """Drop the staged chunks of earlier batches of the run, which will not be published, except
        batches that are decided."""
        for other, batch in list(self._stages.batches.items()):
            if other[:3] == name[:3] and other[3] < name[3] and not batch.is_decided:
                event = StageDropped(STAGE_DROPPED, *other)
                self._books.try_append(event)
                self._apply(event)

    def _check_family(self, family: Family, queue: bytes) -> None:
        """Raises WrongType when another family has the name."""
        if family.is_worklist:
            self._lists.check_family(family, queue)
        else:
            self._feeds.find(family, queue)

    def _is_stuck(self, batch: Batch) -> bool:
        """Whether another family has the name of the batch's queue."""
        try:
            self._check_family(batch.family, batch.name[0])
        except WrongType:
            return True
        return False

    def _new_place(self) -> int:
        return max(self._books.clock.now_us(), self._books.stamp_us + 1)

    def _carry(self, event: StageEvent, spare_bytes: int = 0) -> None:
        self._books.journal.append(event, spare_bytes)
        self._apply(event)

    def _apply(self, event: StageEvent) -> None:
        journal, bodies = self._books.journal, self._books.bodies
        changed = self._stages.apply(event, journal.body_home(), journal.segment)
        bodies.came(changed.came, [it.body for it in changed.came if it.body is not None])
        bodies.went(changed.went)

    def _begin(self) -> int:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        return now_ms


def _check_batch(family: Family, sink: bytes, batch: Batch | None) -> None:
    """Raises WrongType when what is staged for the batch is of another family."""
    if batch is not None and batch.family is not family:
        raise WrongType.of_batch(sink, batch.family.name)


def _check_content(op: Publish, number: int, content: bytes) -> None:
    """Raises OtherBatch when the operation means another batch than that of the number and the
    content, which is published or decided."""
    if op.content and op.number < number:
        raise OtherBatch.is_late(op.sink, op.run, op.number, number)
    if op.content and content and op.content != content:
        raise OtherBatch.differs(op.sink, op.run, op.number)


def _first_chunks(chunks: Iterable[StagedChunk], count: int) -> list[StagedChunk]:
    """The first ones, about `count` messages: one at least, if there is one."""
    some: list[StagedChunk] = []
    messages = 0
    for chunk in chunks:
        # Empty ones go along, so that the last call is the one after which no message is left.
        if some and chunk.messages and messages + chunk.messages > count:
            break
        some.append(chunk)
        messages += chunk.messages
    return some


def _lots(bodies: Sequence[bytes]) -> list[Sequence[bytes]]:
    """The bodies, some to a record, so that one can be read back alone."""
    lots: list[Sequence[bytes]] = []
    at = 0
    for size in chunk_sizes(bodies, TOGETHER_MOST, TOGETHER_MOST_BYTES):
        lots.append(bodies[at : at + size])
        at += size
    return lots
