"""Batches that are staged, or half published, and what is known of those that were published.

Called by   stages.py after journaling, replay.py for each record (apply), compact.py (reads).
Calls       msgpack.

    batch (queue, sink, run, number) ── chunks by part, attempt and number
                                     ── once it is decided: their order, and how many have moved

To the store a chunk is a message whose body is its rows.

Not here: what an operation does (stages.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import msgpack

from quinque.model.families import BY_CODE, Family
from quinque.model.limits import NEVER_MS, STAGE_GOES_ON_MS, STAGE_KEPT_MS
from quinque.model.message import Message
from quinque.model.stage_events import (
    STAGED,
    STAGED_BY,
    PublishedKept,
    Staged,
    StagedBy,
    StageDecided,
    StageDropped,
    StageEvent,
    StageKept,
    StageMoved,
)

Name = tuple[bytes, bytes, bytes, int]  # queue, sink, run, number
Run = tuple[bytes, bytes, bytes]
Place = tuple[int, int, int]  # part, attempt, number of the chunk

_REPLACED_MOST: Final = 16  # writers of a batch that are known to be replaced
_NO_CHUNK: Final = -1  # in the record of a writer that was replaced, instead of its chunk
_NO_ROWS: Final = b"\x90"  # an empty list, packed
_VAIN_MOST: Final = 1024  # reminders that come to nothing, and more as there are more batches


def staged_event(
    name: Name, family: Family, place: Place, at_ms: int, rows: bytes, writer: bytes
) -> Staged | StagedBy:
    """The record of a chunk. A writer may have no name."""
    queue, sink, run, number = name
    about = (queue, family.code, sink, run, number, *place, at_ms)
    if writer:
        return StagedBy(STAGED_BY, *about, writer, rows)
    return Staged(STAGED, *about, rows)


def replaced_event(batch: Batch, writer: bytes) -> Staged | StagedBy:
    """The record of a writer that was replaced, whose chunks are no longer in the journal."""
    at = (batch.name, batch.family, (0, 0, _NO_CHUNK), batch.began_ms)
    return staged_event(*at, _NO_ROWS, writer)


class StagedChunk(Message):
    """A chunk as it was staged: `messages`, with `body_bytes` of bodies."""

    __slots__ = ("body_bytes", "messages")

    def __init__(self, number: int, rows: bytes, home: int, messages: int, body_bytes: int) -> None:
        super().__init__(b"", number, 0, rows, home)
        self.messages = messages
        self.body_bytes = body_bytes


class Batch:
    __slots__ = (
        "began_ms",
        "chunks",
        "content",
        "done",
        "family",
        "goes_on_ms",
        "in_parts",
        "is_decided",
        "keep_ms",
        "messages",
        "name",
        "order",
        "parts",
        "replaced",
        "segment",
        "writer",
    )

    def __init__(self, name: Name, family: Family, began_ms: int) -> None:
        self.name = name
        self.family = family
        self.began_ms = began_ms
        self.chunks: dict[Place, StagedChunk] = {}
        self.messages = 0  # of all its chunks
        self.in_parts: dict[tuple[int, int], int] = {}  # messages by part and attempt, as staged
        self.writer: bytes | None = None  # of all its chunks; None if none was staged
        self.replaced: list[bytes] = []  # its writers before that, the last ones
        self.is_decided = False
        self.parts: Sequence[tuple[int, int, int]] = ()
        self.order: list[Place] = []
        self.done = 0
        self.content = b""  # stands for what is in it; empty if it was not given
        self.keep_ms = 0  # how long it is remembered that it was published, if the store does that
        self.goes_on_ms = NEVER_MS  # when the store publishes some more of it
        self.segment = 0  # the journal segment that last recorded what was decided

    def left(self) -> Iterator[StagedChunk]:
        """The chunks of a decided batch that have not moved yet, in order. A chunk that a repair
        set aside is empty."""
        for at in range(self.done, len(self.order)):
            place = self.order[at]
            yield self.chunks.get(place) or StagedChunk(place[2], b"", 0, 0, 0)

    def take_over(self, writer: bytes) -> list[StagedChunk]:
        """All chunks are from that writer from here on. Returns those of the writer before."""
        if self.writer is not None:
            self.replace(self.writer)
            self.began_ms = NEVER_MS
        self.writer = writer
        self.in_parts.clear()
        return self.take_out(list(self.chunks))

    def replace(self, writer: bytes) -> None:
        """The writer may not stage any more."""
        if writer not in self.replaced:
            self.replaced = [*self.replaced, writer][-_REPLACED_MOST:]

    def take_out(self, places: Iterable[Place]) -> list[StagedChunk]:
        """Take those of the chunks that are there out of the batch."""
        gone: list[StagedChunk] = []
        for place in places:
            chunk = self.chunks.pop(place, None)
            if chunk is not None:
                self.messages -= chunk.messages
                gone.append(chunk)
        return gone


class PublishedMark:
    __slots__ = ("content", "number", "segment", "until_ms")

    def __init__(self, number: int, until_ms: int, segment: int, content: bytes) -> None:
        self.number = number
        self.until_ms = until_ms
        self.content = content
        self.segment = segment  # the journal segment that has it on record


class Changed(NamedTuple):
    came: Sequence[StagedChunk]
    went: Sequence[StagedChunk]


NOTHING = Changed((), ())


class Stages:
    """All batches of a store. Nothing is due before `soonest_ms`."""

    __slots__ = ("_due", "batches", "published")

    def __init__(self) -> None:
        self.batches: dict[Name, Batch] = {}
        self.published: dict[Run, PublishedMark] = {}  # the newest of each run
        self._due: list[tuple[int, Run, int]] = []  # reminders: when, and of which batch

    @property
    def soonest_ms(self) -> int:
        return self._due[0][0] if self._due else NEVER_MS

    def is_published(self, name: Name, now_ms: int) -> bool:
        """Whether it, or one of a larger number of its run, was, as far as is remembered."""
        mark = self.published.get(name[:3])
        if mark is None or 0 < mark.until_ms <= now_ms:
            return False
        return name[3] <= mark.number

    def mark_after(
        self, name: Name, content: bytes, keep_ms: int, now_ms: int
    ) -> tuple[int, bytes, int]:
        """The mark of the run once the batch is published too: how long the store remembers it, the
        content of the newest batch, and its number. A half published batch may end after a newer
        one."""
        number, until_ms = name[3], now_ms + keep_ms if keep_ms else 0
        mark = self.published.get(name[:3])
        if mark is None or 0 < mark.until_ms <= now_ms:
            return until_ms, content, number
        if number < mark.number:
            number, content = mark.number, mark.content
        return max(until_ms, mark.until_ms) if until_ms and mark.until_ms else 0, content, number

    def count_chunks(self) -> int:
        return sum(len(batch.chunks) for batch in self.batches.values())

    def take_due(self, now_ms: int) -> tuple[Batch | None, Run | None]:
        """Return what is due: a batch that is too old and not decided, or a decided one that its
        writer has left, or the mark of a run. Remove its reminder."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, run, number = heappop(self._due)
            batch = self.batches.get((*run, number))
            if batch is not None and due_ms == _due_ms(batch):
                return batch, None
            mark = self.published.get(run)
            if mark is not None and mark.number == number and mark.until_ms == due_ms:
                return None, run
        return None, None

    def apply(self, event: StageEvent, home: int, segment: int) -> Changed:
        """Carry out the event; what came and what went. `home` is where the store keeps the chunk,
        if there is one."""
        if isinstance(event, PublishedKept):
            self._publish(event[1:4], event.number, event.until_ms, segment, event.content)
            return NOTHING
        name = (event.queue, event.sink, event.run, event.number)
        if isinstance(event, Staged | StagedBy):
            return self._staged(name, event, home)
        if isinstance(event, StageKept):
            return self._kept(name, event, segment)
        batch = self.batches.get(name)
        if isinstance(event, StageMoved):
            return self._moved(name, batch, event, segment)
        if isinstance(event, StageDropped):
            if batch is None:
                return NOTHING
            del self.batches[name]
            return Changed((), list(batch.chunks.values()))
        if batch is None:  # read back, its chunks may come later, or be missing
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], event.at_ms)
        changed = self._decided(batch, event, segment)
        self.put_off(batch, event.at_ms + STAGE_GOES_ON_MS)
        return changed

    def _staged(self, name: Name, event: Staged | StagedBy, home: int) -> Changed:
        batch = self.batches.get(name)
        if batch is None:
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], NEVER_MS)
        gone: list[StagedChunk] = []
        writer = event.writer if isinstance(event, StagedBy) else b""
        if event.chunk == _NO_CHUNK:
            batch.replace(writer)
            return NOTHING
        if batch.writer != writer:
            gone = batch.take_over(writer)
        if event.at_ms < batch.began_ms:
            # Read back, a chunk that compaction wrote again comes after those that followed it.
            batch.began_ms = event.at_ms
            self._remind(_due_ms(batch), name[:3], name[3])
        place = (event.part, event.attempt, event.chunk)
        old = batch.chunks.get(place)
        lots = [run[-1] for run in msgpack.unpackb(event.rows, raw=True)]
        messages = sum(map(len, lots))
        body_bytes = sum(len(body) for bodies in lots for body in bodies)
        chunk = StagedChunk(event.chunk, event.rows, home, messages, body_bytes)
        batch.chunks[place] = chunk
        more = messages - (0 if old is None else old.messages)
        batch.messages += more
        batch.in_parts[place[:2]] = batch.in_parts.get(place[:2], 0) + more
        return Changed([chunk], gone if old is None else [*gone, old])

    def put_off(self, batch: Batch, until_ms: int) -> None:
        """The store publishes some more of the decided batch then."""
        batch.goes_on_ms = until_ms
        self._remind(until_ms, batch.name[:3], batch.name[3])

    def _decided(self, batch: Batch, event: StageDecided | StageKept, segment: int) -> Changed:
        batch.is_decided = True
        batch.parts = event.parts
        batch.content = event.content
        batch.keep_ms = event.keep_ms
        batch.segment = segment
        batch.order = [
            (part, attempt, number)
            for part, attempt, chunks in event.parts
            for number in range(chunks)
        ]
        wanted = set(batch.order)
        return Changed((), batch.take_out([at for at in batch.chunks if at not in wanted]))

    def _moved(self, name: Name, batch: Batch | None, event: StageMoved, segment: int) -> Changed:
        went: list[StagedChunk] = []
        if batch is not None:
            went = batch.take_out(batch.order[batch.done : event.done])
            batch.done = event.done
        if event.is_last:
            newest, content = event.newest, event.content
            if newest < 0:
                newest, content = event.number, batch.content if batch is not None else b""
            self._publish(name[:3], newest, event.until_ms, segment, content)
            if batch is not None:
                went += batch.chunks.values()  # read back, what was decided may not be known
                del self.batches[name]
        return Changed((), went)

    def _kept(self, name: Name, event: StageKept, segment: int) -> Changed:
        batch = self.batches.get(name)
        if batch is None:
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], event.began_ms)
        went = list(self._decided(batch, event, segment).went)
        self.put_off(batch, event.began_ms + STAGE_GOES_ON_MS)
        batch.done = event.done
        went += batch.take_out(batch.order[: event.done])
        return Changed((), went)

    def _publish(self, run: Run, number: int, until_ms: int, segment: int, content: bytes) -> None:
        self.published[run] = PublishedMark(number, until_ms, segment, content)
        if until_ms:
            self._remind(until_ms, run, number)

    def _remind(self, due_ms: int, run: Run, number: int) -> None:
        heappush(self._due, (due_ms, run, number))
        # Those of batches that were published, and of marks that newer ones replaced, would pile up
        # until they are due.
        if len(self._due) > 2 * (len(self.batches) + len(self.published)) + _VAIN_MOST:
            marks = self.published.items()
            self._due = [(_due_ms(it), it.name[:3], it.name[3]) for it in self.batches.values()]
            self._due += [(it.until_ms, run, it.number) for run, it in marks if it.until_ms]
            heapify(self._due)


def _due_ms(batch: Batch) -> int:
    """When time does something to the batch: ends it, or goes on publishing it."""
    return batch.goes_on_ms if batch.is_decided else batch.began_ms + STAGE_KEPT_MS
