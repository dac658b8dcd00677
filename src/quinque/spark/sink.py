"""Rows into a queue, each once.

Called by   Spark: `write` on the executors, `commit` and `abort` on the driver.
Calls       staging.py, outcomes.py, the broker.

    write    each task stages its rows with the broker, as a part of (sink, run, number)
    commit   the broker publishes the parts of the tasks that Spark counts, once; at a limited rate,
             as many each second

In a stream the run is the query and the number is the batch: a batch that Spark repeats after a
crash is staged again and not published again. The query and not only the number, because with a new
checkpoint Spark counts from 0 again. A batch write is a run of its own.

Every task attempt stages under a number of its own, drawn by chance: one that Spark has given up
may still be writing, and must not write into that of another. A query that is started again after
a failure stages the batch again: it is another writer, and with its first chunk the broker removes
all that was staged before.

Not here: reading (stream.py, batch.py), what columns mean (staging.py).
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from quinque.client.sync.broker import Broker
from quinque.errors import NoClaim, OtherBatch
from quinque.model.limits import PUBLISH_MOST
from quinque.model.stage_ops import DropStage, Part, Publish, Stage
from quinque.spark.options import Options
from quinque.spark.outcomes import Marks, add_marks, epochs_of, mark_operations, merged, parted
from quinque.spark.staging import Chunk, Content, Stager, with_plain_names

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger(__name__)
_ATTEMPT_BITS: Final = 52  # an exact number in every client and script
_CHUNKS_TOGETHER: Final = 4  # in one turn of the broker, which syncs its disk once for them
# How long the broker remembers a batch write: Spark repeats none after a day.
_BATCH_WRITE_KEPT_MS: Final = 86_400_000


_RUN_RULE: Final = (
    "the option runId must be a new one for each checkpoint and for each write of a batch to the "
    "same queue"
)


class LostRows(Exception):
    """Rows of a named run and batch are not those that were published under these names."""


class LostOutcome(Exception):
    """A row settles a message whose claim is settled already, or does not have it."""


@dataclass
class StagedRows(WriterCommitMessage):
    """The result of one task: for each queue its part and the number of staged messages, and the
    outcomes of claimed messages."""

    run: str
    parts: dict[bytes, Part] = field(default_factory=dict)
    contents: dict[bytes, Content] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)  # of the claims in `marks`
    messages: int = 0


@dataclass
class Batch:
    """The batch under which rows are staged and published. Its run has the name that the user gave,
    or else that of Spark. All tasks of one execution of the batch have one `writer`."""

    options: Options
    run: str
    number: int
    keep_ms: int
    writer: str
    is_named: bool = False

    def sink(self, queue: bytes) -> bytes:
        return self.options.sink.encode() if self.options.sink else queue

    def stage(self, broker: Broker, batches: Iterable[pa.RecordBatch], part: int) -> StagedRows:
        """Stage the rows at the broker. Returns what the driver needs to publish them."""
        staged = StagedRows(self.run)
        attempt = secrets.randbits(_ATTEMPT_BITS)
        stager = Stager(self.options)
        decided: set[bytes] = set()
        waiting: list[Stage] = []
        for chunk in self._chunks(batches, stager, staged.marks):
            known = staged.parts.get(chunk.queue, Part(part, attempt, 0))
            staged.parts[chunk.queue] = known._replace(chunks=known.chunks + 1)
            staged.messages += chunk.messages
            if chunk.queue not in decided:
                waiting.append(self._stage(chunk, known))
            if len(waiting) == _CHUNKS_TOGETHER:
                decided |= _send(broker, waiting)
                waiting = []
        _send(broker, waiting)
        staged.contents = stager.contents
        staged.epochs = epochs_of(staged.marks, broker)
        return staged

    def publish(self, broker: Broker, all_staged: Sequence[StagedRows]) -> None:
        """Move the staged messages to their queues, and set the outcomes of claimed messages."""
        epochs: dict[str, int] = {}
        for staged in all_staged:
            for claim, epoch in staged.epochs.items():
                epochs[claim] = min(epoch, epochs.get(claim, epoch))
        self._mark(broker, merged(staged.marks for staged in all_staged), epochs)
        for queue, parts in _parts_by_queue(all_staged).items():
            try:
                self._publish(broker, queue, parts, _content(all_staged, queue))
            except OtherBatch as error:
                self._refuse(error)

    def _publish(
        self, broker: Broker, queue: bytes, parts: Sequence[Part], content: Content
    ) -> None:
        publish = Publish(
            self.options.family,
            queue,
            self.sink(queue),
            self.run.encode(),
            self.number,
            parts,
            min(self.options.rate or PUBLISH_MOST, PUBLISH_MOST),
            self.keep_ms,
            str(content).encode(),
        )
        left = 1
        while left:
            begun_s = monotonic()
            done = broker.run(publish)
            left = done.left
            if self.options.rate:
                sleep(max(0.0, begun_s + done.messages / self.options.rate - monotonic()))

    def _refuse(self, error: OtherBatch) -> None:
        """Raise LostRows if another batch of a named run was published under this number, because
        the rows of this one would be lost. A query that Spark repeats may make different rows of
        the same messages, which were published before."""
        if not self.is_named:
            _LOG.warning("%s; the repeated rows are not added", error)
        elif self.options.fails_on_loss:
            raise LostRows(f"{error}; {_RUN_RULE}") from error
        else:
            _LOG.warning("%s; %s; its rows are not added", error, _RUN_RULE)

    def drop(self, broker: Broker, all_staged: Sequence[StagedRows]) -> None:
        """Remove the staged messages that are known here. The broker removes the rest in time."""
        queues = {name.encode() for name in self.options.queues or ()}
        queues.update(queue for staged in all_staged for queue in staged.parts)
        for queue in sorted(queues):
            broker.run(DropStage(queue, self.sink(queue), self.run.encode(), self.number))

    def _chunks(
        self, batches: Iterable[pa.RecordBatch], stager: Stager, marks: Marks
    ) -> Iterator[Chunk]:
        for batch in batches:
            to_put, to_settle = parted(with_plain_names(batch))
            if to_settle is not None:
                add_marks(marks, to_settle)
            yield from stager.chunks(to_put)
        yield from stager.rest()

    def _stage(self, chunk: Chunk, part: Part) -> Stage:
        return Stage(
            self.options.family,
            chunk.queue,
            self.sink(chunk.queue),
            self.run.encode(),
            self.number,
            part.part,
            part.attempt,
            part.chunks,
            chunk.rows,
            self.writer.encode(),
        )

    def _mark(self, broker: Broker, marks: Marks, epochs: dict[str, int]) -> None:
        """Set the outcomes. Raises Superseded if a newer query reads the claims by now."""
        for operation in mark_operations(marks, epochs):
            asked = len(operation.message_ids)
            try:
                found = broker.run(operation)
                lost = f"claim {operation.number} has only {found} of {asked} messages"
            except NoClaim as error:
                found, lost = 0, str(error)
            if found < asked:
                told = (
                    f"column _action: {lost}; the outcome of the missing messages was decided"
                    " without _action"
                )
                if self.options.fails_on_loss:
                    raise LostOutcome(told)
                _LOG.warning("%s", told)


class QuinqueStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # Spark makes one for each execution of a batch, and its tasks have copies of that.
        self._writer = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        context = _context()
        run = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        assert run is not None
        assert number is not None
        batch = self._batch(run, int(number))
        with self.options.broker() as broker:
            return batch.stage(broker, iterator, context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        all_staged = _staged(messages)
        if all_staged:
            batch = self._batch(all_staged[0].run, batchId)
            with self.options.broker() as broker:
                batch.publish(broker, all_staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        all_staged = _staged(messages)
        if all_staged:
            batch = self._batch(all_staged[0].run, batchId)
            with self.options.broker() as broker:
                batch.drop(broker, all_staged)

    def _batch(self, run: str, number: int) -> Batch:
        return Batch(self.options, run, number, keep_ms=0, writer=self._writer)


class QuinqueWriter(DataSourceArrowWriter):
    """A batch write: a run of its own, unless the options name one."""

    def __init__(self, options: Options) -> None:
        run = options.run or uuid.uuid4().hex
        keep_ms = 0 if options.run else _BATCH_WRITE_KEPT_MS
        is_named = options.run is not None
        writer = uuid.uuid4().hex
        self.batch = Batch(options, run, options.batch or 0, keep_ms, writer, is_named)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        with self.batch.options.broker() as broker:
            return self.batch.stage(broker, iterator, _context().partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with self.batch.options.broker() as broker:
            self.batch.publish(broker, _staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with self.batch.options.broker() as broker:
            self.batch.drop(broker, _staged(messages))


def _send(broker: Broker, stages: Sequence[Stage]) -> set[bytes]:
    """Stage the chunks. Return the queues whose chunks were not needed, because the batch is
    decided."""
    done = broker.run_all(stages) if stages else []
    return {stage.queue for stage, it in zip(stages, done, strict=True) if it.is_decided}


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    """Return the results of the tasks that finished."""
    return [message for message in messages if isinstance(message, StagedRows)]


def _content(all_staged: Iterable[StagedRows], queue: bytes) -> Content:
    whole = Content()
    for staged in all_staged:
        whole = whole.plus(staged.contents.get(queue, Content()))
    return whole


def _parts_by_queue(all_staged: Iterable[StagedRows]) -> dict[bytes, list[Part]]:
    parts: dict[bytes, list[Part]] = {}
    for staged in all_staged:
        for queue, part in staged.parts.items():
            parts.setdefault(queue, []).append(part)
    return parts
