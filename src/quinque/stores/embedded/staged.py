"""Batches that are staged, or half published, and what is known of those that were published.

Called by   stages.py after journaling, replay.py for each record (apply), compact.py (reads).
Calls       msgpack.

    batch (queue, sink, run, number) ── chunks by part, attempt and number
                                     ── once it is decided: their order, and how many have moved

To the store a chunk is a message whose body is its rows.

Not here: what an operation does (stages.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import msgpack

from quinque.model.families import BY_CODE, Family
from quinque.model.limits import NEVER_MS, STAGE_KEPT_MS
from quinque.model.message import Message
from quinque.model.stage_events import (
    PublishedKept,
    Staged,
    StageDropped,
    StageEvent,
    StageKept,
    StageMoved,
)

Name = tuple[bytes, bytes, bytes, int]  # queue, sink, run, number
Run = tuple[bytes, bytes, bytes]
Place = tuple[int, int, int]  # part, attempt, number of the chunk


class StagedChunk(Message):
    """A chunk as it was staged, so many messages with so many bytes of bodies."""

    __slots__ = ("body_bytes", "messages")

    def __init__(self, number: int, rows: bytes, home: int, messages: int, body_bytes: int) -> None:
        super().__init__(b"", number, 0, rows, home)
        self.messages = messages
        self.body_bytes = body_bytes


class Batch:
    __slots__ = (
        "began_ms",
        "chunks",
        "done",
        "family",
        "is_decided",
        "name",
        "order",
        "parts",
        "segment",
    )

    def __init__(self, name: Name, family: Family, began_ms: int) -> None:
        self.name = name
        self.family = family
        self.began_ms = began_ms
        self.chunks: dict[Place, StagedChunk] = {}
        self.is_decided = False
        self.parts: Sequence[tuple[int, int, int]] = ()
        self.order: list[Place] = []
        self.done = 0
        self.segment = 0  # the journal segment that last recorded what was decided

    def left(self) -> list[StagedChunk]:
        """The chunks of a decided batch that have not moved yet, in order. One that a repair set
        aside is empty."""
        return [
            self.chunks.get(place) or StagedChunk(place[2], b"", 0, 0, 0)
            for place in self.order[self.done :]
        ]


class PublishedMark:
    __slots__ = ("number", "segment", "until_ms")

    def __init__(self, number: int, until_ms: int, segment: int) -> None:
        self.number = number
        self.until_ms = until_ms
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

    def count_chunks(self) -> int:
        return sum(len(batch.chunks) for batch in self.batches.values())

    def take_due(self, now_ms: int) -> tuple[Batch | None, Run | None]:
        """What has been there for too long: a batch that nobody decided, or the mark of a run. Its
        reminder is gone."""
        while self._due and self._due[0][0] <= now_ms:
            due_ms, run, number = heappop(self._due)
            batch = self.batches.get((*run, number))
            if batch is not None and not batch.is_decided and due_ms == _end_ms(batch):
                return batch, None
            mark = self.published.get(run)
            if mark is not None and mark.number == number and mark.until_ms == due_ms:
                return None, run
        return None, None

    def apply(self, event: StageEvent, home: int, segment: int) -> Changed:
        """Carry out the event; what came and what went. `home` is where the store keeps the chunk,
        if there is one."""
        if isinstance(event, PublishedKept):
            self._publish(event[1:4], event.number, event.until_ms, segment)
            return NOTHING
        name = (event.queue, event.sink, event.run, event.number)
        if isinstance(event, Staged):
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
        if batch is None:  # read back, its chunks may come later; or it has none
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], event.at_ms)
        return self._decided(batch, event.parts, segment)

    def _staged(self, name: Name, event: Staged, home: int) -> Changed:
        batch = self.batches.get(name)
        if batch is None:
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], NEVER_MS)
        if event.at_ms < batch.began_ms:
            # Read back, a chunk that compaction wrote again comes after those that followed it.
            batch.began_ms = event.at_ms
            heappush(self._due, (_end_ms(batch), name[:3], name[3]))
        place = (event.part, event.attempt, event.chunk)
        old = batch.chunks.get(place)
        lots = [run[-1] for run in msgpack.unpackb(event.rows, raw=True)]
        messages = sum(map(len, lots))
        body_bytes = sum(len(body) for bodies in lots for body in bodies)
        chunk = StagedChunk(event.chunk, event.rows, home, messages, body_bytes)
        batch.chunks[place] = chunk
        return Changed([chunk], [] if old is None else [old])

    def _decided(
        self, batch: Batch, parts: Sequence[tuple[int, int, int]], segment: int
    ) -> Changed:
        batch.is_decided = True
        batch.parts = parts
        batch.segment = segment
        batch.order = [
            (part, attempt, number) for part, attempt, chunks in parts for number in range(chunks)
        ]
        wanted = set(batch.order)
        went = [chunk for place, chunk in batch.chunks.items() if place not in wanted]
        batch.chunks = {at: chunk for at, chunk in batch.chunks.items() if at in wanted}
        return Changed((), went)

    def _moved(self, name: Name, batch: Batch | None, event: StageMoved, segment: int) -> Changed:
        went: list[StagedChunk] = []
        if batch is not None:
            for place in batch.order[batch.done : event.done]:
                chunk = batch.chunks.pop(place, None)
                if chunk is not None:
                    went.append(chunk)
            batch.done = event.done
        if event.is_last:
            self._publish(name[:3], event.number, event.until_ms, segment)
            if batch is not None:
                went += batch.chunks.values()  # read back, what was decided may not be known
                del self.batches[name]
        return Changed((), went)

    def _kept(self, name: Name, event: StageKept, segment: int) -> Changed:
        batch = self.batches.get(name)
        if batch is None:
            batch = self.batches[name] = Batch(name, BY_CODE[event.family], event.began_ms)
        went = list(self._decided(batch, event.parts, segment).went)
        batch.done = event.done
        for place in batch.order[: event.done]:
            chunk = batch.chunks.pop(place, None)
            if chunk is not None:
                went.append(chunk)
        return Changed((), went)

    def _publish(self, run: Run, number: int, until_ms: int, segment: int) -> None:
        self.published[run] = PublishedMark(number, until_ms, segment)
        if until_ms:
            heappush(self._due, (until_ms, run, number))


def _end_ms(batch: Batch) -> int:
    return batch.began_ms + STAGE_KEPT_MS
