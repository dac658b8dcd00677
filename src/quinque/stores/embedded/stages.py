"""Operations on staged batches: decide, append, apply.

Called by   store.py.
Calls       staged.py (state), stores/staged_rows.py (chunks), engine/ (what is put into queues).

Some chunks move into the queue at a time. One record says how far the batch then is, and the
records after it have the messages; they are written together, so a message is put once.

Not here: what a queue does with messages (engine/).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
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
    QueuePaused,
    WrongType,
    printable,
)
from quinque.model.events import EXPIRED, Added, Expired, Stored
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS, PUBLISH_MOST, TOGETHER_MOST, TOGETHER_MOST_BYTES
from quinque.model.ops import Put
from quinque.model.stage_events import (
    STAGE_DECIDED,
    STAGE_DROPPED,
    STAGE_MOVED,
    STAGED,
    StageDecided,
    StageDropped,
    StageEvent,
    StageMoved,
)
from quinque.model.stage_events import Staged as StagedEvent
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
from quinque.stores.embedded.staged import Batch, Name, Place, StagedChunk
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.no_tubes import refuse_tubes
from quinque.stores.staged_rows import Run, staged_runs

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
        _check_batch(op.family, batch)
        event = StagedEvent(
            STAGED,
            op.queue,
            op.family.code,
            op.sink,
            op.run,
            op.number,
            op.part,
            op.attempt,
            op.chunk,
            self._books.at_ms,
            op.rows,
        )
        self._carry(event, SPARE_BYTES)
        chunks = self._stages.batches[name].chunks
        return Staged(
            False,
            sum(
                chunk.messages
                for place, chunk in chunks.items()
                if place[0] == op.part and place[1] == op.attempt
            ),
        )

    def _publish(self, op: Publish) -> Published:
        refuse_tubes(op.family)
        now_ms = self._begin()
        name = (op.queue, op.sink, op.run, op.number)
        if self._stages.is_published(name, now_ms):
            return Published(0, 0)
        batch = self._stages.batches.get(name)
        _check_batch(op.family, batch)
        decided: StageDecided | None = None
        if batch is None or not batch.is_decided:
            left = self._whole(op, batch)
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
            )
        else:
            left = batch.left()
        self._check_room(op)
        batch = batch or Batch(name, op.family, now_ms)
        some = _first_chunks(left, min(op.count, PUBLISH_MOST))
        until_ms = now_ms + op.keep_ms if op.keep_ms else 0
        is_last = len(some) == len(left)
        put = self._move(batch, decided, some, is_last=is_last, until_ms=until_ms)
        if is_last:
            self._drop_older(name)
        return Published(put, sum(chunk.messages for chunk in left[len(some) :]))

    def _drop(self, op: DropStage) -> int:
        self._begin()
        batch = self._stages.batches.get((op.queue, op.sink, op.run, op.number))
        if batch is None or batch.is_decided:
            return 0
        count = len(batch.chunks)
        self._carry(StageDropped(STAGE_DROPPED, *batch.name))
        return count

    def _find(self, op: FindStages) -> list[StageView]:
        now_ms = self._begin()
        return [
            StageView(
                *batch.name,
                batch.is_decided,
                len(batch.chunks),
                sum(chunk.body_bytes for chunk in batch.chunks.values()),
                max(0, now_ms - batch.began_ms),
                batch.family,
            )
            for name, batch in sorted(self._stages.batches.items())
            if op.only in (None, name)
        ]

    # -- time ---------------------------------------------------------------------------------

    def settle_due(self, now_ms: int) -> None:
        """A batch that nobody published for long is gone, and so is what was remembered for long
        enough: the first of them. Without a record of it, recovery finds the same."""
        batch, run = self._stages.take_due(now_ms)
        self._books.at_ms = now_ms
        if batch is not None:
            event = StageDropped(STAGE_DROPPED, *batch.name)
            self._books.try_append(event)
            self._apply(event)
        elif run is not None:
            del self._stages.published[run]

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
        """The chunk is damaged. A batch that nobody decided is gone: its writer learns that when it
        publishes, and stages it again. Of one that is half published the chunk is empty, and the
        rest is published. Always True. Raises DiskFull."""
        chunk = batch.chunks[place]
        queue, sink, run, number = batch.name
        if batch.is_decided:
            self._carry(
                StagedEvent(
                    STAGED, queue, batch.family.code, sink, run, number, *place, NEVER_MS, _NO_ROWS
                )
            )
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
        """The runs of a chunk. A damaged chunk of a decided batch has none. Raises NoStage when the
        batch is not decided: it is gone then, and its writer stages it again."""
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
        *,
        is_last: bool,
        until_ms: int,
    ) -> int:
        """The batch is decided, and the chunks are in the queue; how many messages that put there.
        All of it is true or nothing: a chunk that cannot be read refuses it too."""
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
        moved = StageMoved(STAGE_MOVED, *batch.name, done, len(events), is_last, until_ms)
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
                self._books.queues[queue.name] = queue
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
        claimed = claimed_among(self._books.subscriptions, queue.name, named)
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
                    place = feed_rules.free_stamp(queue, op, place)
                    while any(b"%d" % (place + at) in ids for at in range(len(some))):
                        place = feed_rules.free_stamp(queue, op, place + 1)
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
        """What was staged for earlier batches of the run will never be published."""
        for other in list(self._stages.batches):
            if other[:3] == name[:3] and other[3] < name[3]:
                event = StageDropped(STAGE_DROPPED, *other)
                self._books.try_append(event)
                self._apply(event)

    def _check_family(self, family: Family, queue: bytes) -> None:
        """Raises WrongType when another family has the name."""
        if family.is_worklist:
            self._lists.check_family(family, queue)
        else:
            self._feeds.find(family, queue)

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


def _check_batch(family: Family, batch: Batch | None) -> None:
    """Raises WrongType when what is staged for the batch is of another family."""
    if batch is not None and batch.family is not family:
        raise WrongType


def _first_chunks(chunks: Sequence[StagedChunk], count: int) -> list[StagedChunk]:
    """The first ones, about `count` messages: one at least, if there is one."""
    some: list[StagedChunk] = []
    messages = 0
    for chunk in chunks:
        if some and messages + chunk.messages > count:
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
