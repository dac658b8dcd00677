"""The lifecycle of all messages as a table and as a stream.

Called by   Spark: `read` on the executors, the rest next to the driver.
Calls       arrow.py, the broker.

Rows of a shard are numbered without a gap. So the offset has, for each shard, the number of the
next row, and a number that differs in the log of another store:

    {"v": 1, "rows": {"0": 1048577}, "logs": {"0": 81985529216486}}

Nothing is acked: the settings of the broker decide how long it keeps rows. For whole days, the
files of the exporter (export.py) are faster.

Not here: the meaning of a row (model/lifecycle.py), the tables (tables/).
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
    """Rows of one shard, from `start` to before `end`. With `may_begin_later`, rows before the
    first one that is kept are not reported as lost."""

    shard: int
    start: int
    end: int
    may_begin_later: bool


def log_schema_text() -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{field.name}` {_SQL_TYPES[str(field.type)]}" for field in JOURNAL_SCHEMA)


def log_columns(schema: StructType) -> list[str]:
    """Return the names of the columns of that schema. Raises BadOption for a column that the format
    does not have."""
    known = {field.name: _SQL_TYPES[str(field.type)] for field in JOURNAL_SCHEMA}
    for field in schema.fields:
        if known.get(field.name.lower()) != field.dataType.simpleString() or not field.nullable:
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
        self._initial: dict[str, Any] | None = None
        self._strange: set[int] = set()  # shards that the checkpoint has of another log

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self._bound = {shard: record.next for shard, record in self._records().items()}

    def initialOffset(self) -> dict[str, Any]:
        # Once: Spark asks twice, and what is latest may have moved on.
        if self._initial is None:
            records = self._records()
            rows = _positions(self._options.starting, records)
            self._initial = _offset(rows, {shard: it.log for shard, it in records.items()})
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
        begun, logs, records = _rows(start), _logs(start), self._records()
        reached = dict(begun)
        for place, shard in enumerate(sorted(records)):
            record = records[shard]
            end = record.next if self._bound is None else self._bound.get(shard, 0)
            at = self._place(record, begun.get(shard), logs.get(shard, 0))
            # At least one row while there are any: no shard waits without end.
            share = max(most // (len(records) - place), min(most, 1))
            if end > at:
                reached[shard] = min(end, at + share)
                logs[shard] = record.log
                most -= reached[shard] - at
        return _offset(reached, logs)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Rows]:
        begun, ended, records = _rows(start), _rows(end), self._records()
        logs, ended_logs = _logs(start), _logs(end)
        for shard, row in list(ended.items()):
            if shard in records:
                self._place(records[shard], row, ended_logs.get(shard, 0))
            if shard in self._strange:
                del ended[shard]
            elif not _is_same(logs.get(shard, 0), ended_logs.get(shard, 0)):
                begun.pop(shard, None)
        firsts = {shard: record.first for shard, record in records.items()}
        return _planned(begun, ended, self._options, firsts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        yield from _read(partition, self._options, self._columns)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the log."""
        records = self._records()
        logs = {shard: record.log for shard, record in records.items()}
        return _offset({shard: record.next for shard, record in records.items()}, logs)

    def _place(self, record: Record, row: int | None, log: int) -> int:
        """The row of the shard that the offset is at; the first one for an offset that has no row
        of this log."""
        if row is None:
            return record.first
        if _is_same(log, record.log) and row <= record.next:
            self._strange.discard(record.shard)
            return row
        if record.shard not in self._strange:
            _lose(
                f"row {row} of shard {record.shard} in the checkpoint is of the lifecycle log of "
                f"another store, or of newer rows that this one lost: it ends with row "
                f"{record.next - 1}",
                self._options,
            )
            self._strange.add(record.shard)
        return record.first

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
            chosen = table.select([name.lower() for name in columns]).rename_columns(columns)
            yield from chosen.combine_chunks().to_batches()


def _lost(shard: int, first: int, last: int, options: Options) -> None:
    """Raise DataLoss, unless the options allow the query to continue."""
    _lose(f"rows {first} to {last} of shard {shard} are no longer in the lifecycle log", options)


def _lose(told: str, options: Options) -> None:
    if options.fails_on_loss:
        raise DataLoss(f"{told}; to continue without them, set failOnDataLoss=false")
    _LOG.warning("%s; continuing without them", told)


def _offset(rows: dict[int, int], logs: dict[int, int]) -> dict[str, Any]:
    """Return an offset in one order, because Spark compares offsets as text."""
    offset = {"v": _VERSION, "rows": {str(shard): rows[shard] for shard in sorted(rows)}}
    known = {str(shard): logs[shard] for shard in sorted(rows) if logs.get(shard)}
    return offset | ({"logs": known} if known else {})


def _logs(offset: dict[str, Any]) -> dict[int, int]:
    return {int(shard): log for shard, log in offset.get("logs", {}).items()}


def _is_same(one: int, other: int) -> bool:
    """Return whether both belong to one log, as far as is known."""
    return not one or not other or one == other


def _rows(offset: dict[str, Any]) -> dict[int, int]:
    if offset.get("v") != _VERSION or "rows" not in offset:
        raise DataLoss(f"the checkpoint has an offset that is not from this source: {offset}")
    return {int(shard): row for shard, row in offset["rows"].items()}
