"""The lifecycle of all messages as a table and as a stream.

Called by   Spark: `read` on the executors, the rest beside the driver.
Calls       arrow.py, the broker.

Rows of a shard are numbered without a gap, so the offset is, for each shard, the number of the row
that is read next:

    {"v": 1, "rows": {"0": 1048577}}

Nothing is acked: the broker keeps rows for as long as its settings say, whoever has read them. For
whole days the files that the exporter writes (export.py) are the quicker way.

Not here: what a row means (model/lifecycle.py), what is made of them (tables/).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.spark.arrow import JOURNAL_SCHEMA, journal_table
from quinque.spark.options import BadOption, Options
from quinque.spark.subscriptions import DataLoss

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = 1
_ROWS_AT_ONCE: Final = 10_000
_SQL_TYPES: Final = {
    "int8": "tinyint",
    "int32": "int",
    "int64": "bigint",
    "string": "string",
    "timestamp[us, tz=UTC]": "timestamp",
}


@dataclass
class Rows(InputPartition):
    """Rows of one shard from `start` up to before `end`. With `may_begin_later`, those before the
    first that is kept are not missed."""

    shard: int
    start: int
    end: int
    may_begin_later: bool


def log_schema_text() -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{field.name}` {_SQL_TYPES[str(field.type)]}" for field in JOURNAL_SCHEMA)


def log_columns(schema: StructType) -> list[str]:
    """The names of the columns of that schema. Raises BadOption when one is not as ours."""
    known = {field.name: _SQL_TYPES[str(field.type)] for field in JOURNAL_SCHEMA}
    for field in schema.fields:
        if known.get(field.name) != field.dataType.simpleString() or not field.nullable:
            raise BadOption(
                f"column {field.name}: the columns of mode=log are {log_schema_text()}, and can "
                "be null"
            )
    return list(schema.fieldNames())


class LogReader(DataSourceReader):
    """A batch read: what is on record when it is planned."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with self._options.broker() as broker:
            records = {record.shard: record for record in broker.run(FindRecords())}
        start = _positions(self._options.starting, records)
        end = _positions(self._options.ending, records)
        return [*_planned(start, end, self._options, {})]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Rows):
            yield from _read(partition, self._options, self._columns)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of rows as they are written."""

    def __init__(self, options: Options, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._bound: dict[int, int] | None = None
        self._initial: dict[int, int] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self._bound = {shard: record.next for shard, record in self._records().items()}

    def initialOffset(self) -> dict[str, Any]:
        # Once: Spark asks twice, and what is latest may have moved on.
        if self._initial is None:
            self._initial = _positions(self._options.starting, self._records())
        return _offset(self._initial)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
        begun, records = _rows(start), self._records()
        reached = dict(begun)
        for place, shard in enumerate(sorted(records)):
            record = records[shard]
            end = record.next if self._bound is None else self._bound.get(shard, 0)
            at = begun.get(shard, record.first)
            # At least one while there are any: no shard waits for ever.
            share = max(most // (len(records) - place), min(most, 1))
            if end > at:
                reached[shard] = min(end, at + share)
                most -= reached[shard] - at
        return _offset(reached)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Rows]:
        begun, ended = _rows(start), _rows(end)
        new = ended.keys() - begun.keys()
        records = self._records() if new else {}
        firsts = {shard: records[shard].first for shard in new if shard in records}
        return _planned(begun, ended, self._options, firsts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        yield from _read(partition, self._options, self._columns)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the record ends."""
        return _offset({shard: record.next for shard, record in self._records().items()})

    def _records(self) -> dict[int, Record]:
        with self._options.broker() as broker:
            return {record.shard: record for record in broker.run(FindRecords())}


def _positions(asked: str | dict[int, int], records: dict[int, Record]) -> dict[int, int]:
    if isinstance(asked, dict):
        return asked
    return {
        shard: record.first if asked == "earliest" else record.next
        for shard, record in records.items()
    }


def _planned(
    start: dict[int, int], end: dict[int, int], options: Options, firsts: dict[int, int]
) -> list[Rows]:
    """Parts of about the same size. A shard that has no start is read from its first row."""
    begun = {shard: start.get(shard, firsts.get(shard, 1)) for shard in end}
    total = sum(max(0, end[shard] - begun[shard]) for shard in end)
    size = min(options.max_records, max(1, ceil(total / options.min_partitions)))
    return [
        Rows(shard, at, min(at + size, until), may_begin_later=shard not in start)
        for shard, until in sorted(end.items())
        for at in range(begun[shard], until, size)
    ]


def _read(part: Rows, options: Options, columns: list[str]) -> Iterator[pa.RecordBatch]:
    at = part.start
    with options.broker() as broker:
        while at < part.end:
            count = min(part.end - at, _ROWS_AT_ONCE)
            table = journal_table(part.shard, broker.run(ReadRecord(part.shard, at, count)), at)
            first = table["seq"][0].as_py() if table.num_rows else part.end
            if first > at and not part.may_begin_later:
                _lost(part.shard, at, min(first, part.end) - 1, options)
            if first >= part.end:
                return
            table = table.slice(0, part.end - first)
            at = first + table.num_rows
            yield from table.select(columns).combine_chunks().to_batches()


def _lost(shard: int, first: int, last: int, options: Options) -> None:
    """Raises DataLoss, unless the options say that the query goes on."""
    told = f"rows {first} to {last} of shard {shard} are no longer in the lifecycle log"
    if options.fails_on_loss:
        raise DataLoss(f"{told}; to continue without them, set failOnDataLoss=false")
    _LOG.warning("%s; continuing without them", told)


def _offset(rows: dict[int, int]) -> dict[str, Any]:
    """In one order: Spark compares offsets as text."""
    return {"v": _VERSION, "rows": {str(shard): rows[shard] for shard in sorted(rows)}}


def _rows(offset: dict[str, Any]) -> dict[int, int]:
    if offset.get("v") != _VERSION or "rows" not in offset:
        raise DataLoss(f"the checkpoint has an offset that is not from this source: {offset}")
    return {int(shard): row for shard, row in offset["rows"].items()}
