"""Rows that are written, as chunks of messages to stage.

Called by   sink.py, on the executors; check_columns on the driver.
Calls       only pyarrow.

    RecordBatch ──► runs of rows that are alike ──► chunks of at most 1,000 rows or 1 MiB, and at a
                                                      limited rate no more than go in a second

Most writes have one kind of row, and then a batch is cut into chunks without looking at a row.

Not here: sending them (sink.py), what becomes of claimed messages (outcomes.py).
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise, repeat
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import msgpack
import pyarrow as pa
import pyarrow.compute as pc

from quinque.errors import printable
from quinque.model.limits import NAME_MOST_BYTES, SPAN_MOST_MS
from quinque.model.rows import CHUNK_BYTES_MOST, CHUNK_ROWS_MOST
from quinque.spark.options import BadOption, Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_RETRY_DEFAULT: Final = -1  # as the family does it: 0 would be a delivery at most
_SPANS: Final = ("ttl_ms", "delay_ms", "retry_ms", "max_deliveries")
_TEXT_OR_BINARY: Final = ("string", "binary")
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")

# The columns of a row, with their types.
COLUMNS: Final = {
    "body": _TEXT_OR_BINARY,
    "queue": ("string",),
    "id": _TEXT_OR_BINARY,
    "key": _TEXT_OR_BINARY,
    "ttl_ms": _WHOLE,
    "delay_ms": _WHOLE,
    "retry_ms": _WHOLE,
    "max_deliveries": _WHOLE,
    "headers": ("map<string,string>",),
    "lane": ("string",),
    "priority": _WHOLE,
    "_action": ("string",),
    "_claim": ("string",),
    "_id": ("string",),
    "_reason": ("string",),
    "_delay_ms": _WHOLE,
}
# Columns of the reader that are ignored when rows are written.
LEFT_ALONE: Final = ("family", "attempt", "enqueued", "expires", "state", "reason", "shard")
_NOWHERE_YET: Final = ("headers", "lane", "priority")


class BadRow(ValueError):
    """A row that cannot be put; the text names its column, and the row where that is known."""


class Chunk(NamedTuple):
    """Packed runs for one queue (model/stage_ops.py)."""

    queue: bytes
    rows: bytes
    messages: int


class Content(NamedTuple):
    """Stands for the messages of one queue in a batch, whichever task has which of them: their
    number, and the sum of a checksum of each."""

    messages: int = 0
    checksums: int = 0

    def plus(self, other: Content) -> Content:
        return Content(self.messages + other.messages, self.checksums + other.checksums)

    def __str__(self) -> str:
        return f"{self.messages}-{self.checksums:x}"


def check_columns(schema: StructType, options: Options) -> None:
    """Raise BadOption if rows of that schema cannot be written."""
    names: dict[str, str] = {}
    for field in schema.fields:
        name = field.name.lower()
        if name in names:
            raise BadOption(f"columns {names[name]} and {field.name} are the same")
        names[name] = field.name
        if name in LEFT_ALONE:
            continue
        allowed = COLUMNS.get(name)
        if allowed is None:
            raise BadOption(
                f"column {field.name} cannot be written; the possible columns are "
                f"{', '.join(COLUMNS)}"
            )
        found = field.dataType.simpleString()
        if found not in (*allowed, "void"):
            raise BadOption(f"column {field.name} is {found} and must be {' or '.join(allowed)}")
    if "body" not in names and "_action" not in names:
        raise BadOption("a column body (binary or string) is required")
    if "body" in names and "queue" not in names and options.queues is None:
        raise BadOption("set the option queue, or add a column queue")
    if "_action" in names and not {"_claim", "_id"} <= names.keys():
        raise BadOption("a column _action requires the columns _claim and _id")


def with_plain_names(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the names of COLUMNS: to Spark, `Body` is the same."""
    return batch.rename_columns([name.lower() for name in batch.schema.names])


class Stager:
    """Cuts batches into chunks, for each queue what belongs there, in the order of the rows."""

    def __init__(self, options: Options) -> None:
        self._family = options.family
        self._has_keys = options.family.is_worklist and not options.family.owns_ids
        self._queue = options.queues[0].encode() if options.queues else None
        self._defaults = (
            options.ttl_ms,
            options.delay_ms,
            options.retry_ms,
            options.max_deliveries,
        )
        # The broker publishes whole chunks.
        self._rows_most = min(options.rate or CHUNK_ROWS_MOST, CHUNK_ROWS_MOST)
        self._open: dict[bytes, _OpenChunk] = {}
        self._rows = 0  # in earlier batches
        self.contents: dict[bytes, Content] = {}  # by queue

    def chunks(self, batch: pa.RecordBatch) -> Iterator[Chunk]:
        """Return the chunks that the batch fills. The remaining rows wait. Raises BadRow."""
        if not batch.num_rows:
            return
        for queue, terms, name, bodies in self._runs(batch):
            yield from self._add(queue, terms, name, bodies)
        self._rows += batch.num_rows

    def rest(self) -> Iterator[Chunk]:
        """Return the chunks of the remaining rows."""
        for queue, chunk in self._open.items():
            if chunk.messages:
                yield chunk.closed(queue)

    def _add(
        self, queue: bytes, terms: _Terms, name: bytes | None, bodies: Sequence[bytes]
    ) -> Iterator[Chunk]:
        chunk = self._open.setdefault(queue, _OpenChunk(self._rows_most))
        seed = crc32(msgpack.packb([terms, name]))
        more = Content(len(bodies), sum(map(crc32, bodies, repeat(seed))))
        self.contents[queue] = self.contents.get(queue, Content()).plus(more)
        at = 0
        while at < len(bodies):
            at += chunk.take(terms, name, bodies, at)
            if chunk.is_full:
                yield chunk.closed(queue)

    def _runs(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[bytes, _Terms, bytes | None, Sequence[bytes]]]:
        self._refuse_what_has_no_place(batch)
        self._refuse_first(batch, batch.column("body").is_null(), "column body is null")
        bodies = _bytes_of(batch.column("body"))
        queues = self._queues(batch)
        spans = [self._numbers(batch, name) for name in _SPANS]
        name_column = "key" if self._has_keys else "id"
        naming = _as_bytes_or_none(batch, name_column)
        if naming is not None:
            self._refuse_wrong_names(batch, name_column)
        if queues is None and naming is None and not any(spans):
            assert self._queue is not None
            yield self._queue, self._terms((None, None, None, None)), None, bodies
            return
        count = batch.num_rows
        rows = zip(
            [self._queue or b""] * count if queues is None else queues,
            zip(*(span or [None] * count for span in spans), strict=True),
            naming or [None] * count,
            range(count),
            strict=True,
        )
        for (queue, given, name), alike in groupby(rows, key=lambda row: row[:3]):
            places = [row[3] for row in alike]
            run = bodies[places[0] : places[-1] + 1]
            terms = self._terms(given)
            if name is None:
                yield queue, terms, None, run
            else:
                for body in run:
                    yield queue, terms, name, [body]

    def _terms(self, given: Sequence[int | None]) -> _Terms:
        ttl_ms, delay_ms, retry_ms, max_deliveries = (
            default if value is None else value
            for value, default in zip(given, self._defaults, strict=True)
        )
        if not self._has_keys:
            without = [("delay_ms", delay_ms), ("max_deliveries", max_deliveries)]
            without.append(("retry_ms", retry_ms))
            if self._family.owns_ids:
                without.append(("ttl_ms", ttl_ms))
            for name, value in without:
                if value:
                    raise BadRow(
                        f"column {name}: the family {self._family.name} does not support it"
                    )
            return (ttl_ms or 0, 0, 0, 0)
        return (
            ttl_ms or 0,
            delay_ms or 0,
            _RETRY_DEFAULT if retry_ms is None else retry_ms,
            max_deliveries or 0,
        )

    def _queues(self, batch: pa.RecordBatch) -> list[bytes] | None:
        """The queue of each row; None when all have that of the options."""
        if self._queue is not None:
            self._refuse_other_queues(batch, self._queue)
            return None
        queues = batch.column("queue")
        told = "column queue is null, and the option queue is not set,"
        self._refuse_first(batch, queues.is_null(), told)
        self._refuse_wrong_names(batch, "queue")
        return _bytes_of(queues)

    def _numbers(self, batch: pa.RecordBatch, name: str) -> list[int | None] | None:
        if not _has_values(batch, name):
            return None
        column = batch.column(name).cast(pa.int64())
        self._refuse_first(batch, pc.less(column, 0), f"column {name} is negative")
        if name.endswith("_ms"):
            is_over = pc.greater(column, SPAN_MOST_MS)
            self._refuse_first(batch, is_over, f"column {name} is over {SPAN_MOST_MS}")
        found: list[int | None] = column.to_pylist()
        return found

    def _refuse_wrong_names(self, batch: pa.RecordBatch, name: str) -> None:
        sizes = pc.binary_length(batch.column(name).cast(pa.binary()))
        self._refuse_first(batch, pc.equal(sizes, 0), f"column {name} is empty")
        told = f"column {name} has more than {NAME_MOST_BYTES} bytes"
        self._refuse_first(batch, pc.greater(sizes, NAME_MOST_BYTES), told)

    def _refuse_first(self, batch: pa.RecordBatch, is_wrong: pa.Array, told: str) -> None:
        """Raise BadRow for the first of these rows, with its number and its other columns."""
        at = pc.index(is_wrong, value=True).as_py()
        if at < 0:
            return
        row = {name: batch.column(name)[at].as_py() for name in batch.schema.names}
        shown = [
            f"{name} {reprlib.repr(value)}"
            for name, value in row.items()
            if name != "body" and value is not None
        ]
        others = f" ({', '.join(shown)})" if shown else ""
        raise BadRow(f"{told} in row {self._rows + at + 1} of the task{others}")

    def _refuse_other_queues(self, batch: pa.RecordBatch, queue: bytes) -> None:
        """Raise BadRow if a row names another queue than the options: the rows of a source have its
        name, and would return to it."""
        if not _has_values(batch, "queue"):
            return
        for other in pc.unique(batch.column("queue").cast(pa.binary())).to_pylist():
            if other is not None and other != queue:
                raise BadRow(
                    f"column queue is '{printable(other)}', and the option queue is "
                    f"'{printable(queue)}'; drop the column, or remove the option"
                )

    def _refuse_what_has_no_place(self, batch: pa.RecordBatch) -> None:
        for name in _NOWHERE_YET:
            if _has_values(batch, name):
                raise BadRow(
                    f"column {name}: the family {self._family.name} does not support {name}"
                )
        family = self._family
        if family.is_worklist and not family.has_chosen_ids and _has_values(batch, "id"):
            see = "; see key" if self._has_keys else ""
            raise BadRow(f"column id: the family {family.name} creates the ids itself{see}")
        if not self._has_keys and _has_values(batch, "key"):
            see = "; see id" if not family.is_worklist or family.has_chosen_ids else ""
            raise BadRow(f"column key: the family {family.name} does not support unique keys{see}")


_Terms = tuple[int, int, int, int]


class _OpenChunk:
    """Runs that wait for more."""

    __slots__ = ("_rows_most", "_runs", "_size_bytes", "messages")

    def __init__(self, rows_most: int) -> None:
        self._rows_most = rows_most
        self._runs: list[tuple[_Terms, bytes | None, list[bytes]]] = []
        self._size_bytes = 0
        self.messages = 0

    @property
    def is_full(self) -> bool:
        return self.messages >= self._rows_most or self._size_bytes >= CHUNK_BYTES_MOST

    def take(self, terms: _Terms, name: bytes | None, bodies: Sequence[bytes], at: int) -> int:
        """Add bodies from `at` on, at least one and as many as fit. Returns how many."""
        taken: list[bytes] = []
        for body in islice(bodies, at, at + self._rows_most - self.messages):
            if self._size_bytes and self._size_bytes + len(body) > CHUNK_BYTES_MOST:
                # Full, although there would be room for a smaller one: order goes first.
                self._size_bytes = CHUNK_BYTES_MOST
                break
            taken.append(body)
            self._size_bytes += len(body)
        if taken:
            self.messages += len(taken)
            last = self._runs[-1] if self._runs else None
            if name is None and last is not None and last[0] == terms and last[1] is None:
                last[2].extend(taken)
            else:
                self._runs.append((terms, name, taken))
        return len(taken)

    def closed(self, queue: bytes) -> Chunk:
        """Return its rows, packed, and empty it."""
        runs = [[*terms, name, bodies] for terms, name, bodies in self._runs]
        chunk = Chunk(queue, msgpack.packb(runs), self.messages)
        self._runs, self._size_bytes, self.messages = [], 0, 0
        return chunk


def _as_bytes_or_none(batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
    """Return the bytes of each value that is not null, or None if all are null or the column does
    not exist."""
    if not _has_values(batch, name):
        return None
    column = batch.column(name)
    if not column.null_count:
        return list(_bytes_of(column))
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _bytes_of(column: pa.Array) -> list[bytes]:
    """Do the same as to_pylist, several times faster."""
    column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    if data is None:
        return [b""] * len(column)
    bounds = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    held = data.slice(bounds[0], bounds[-1] - bounds[0]).to_pybytes()
    first = bounds[0]
    return [held[a - first : b - first] for a, b in pairwise(bounds)]


def _has_values(batch: pa.RecordBatch, name: str) -> bool:
    return name in batch.schema.names and batch.column(name).null_count < batch.num_rows
