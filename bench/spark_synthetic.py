"""A source and a sink for Spark without a broker, to measure the cost of Spark itself.

Called by   Spark, for spark.py of this folder.
Calls       pyarrow.

The source gives rows of the connector's own schema, made once per process. The sink takes Arrow
batches and drops them.

Not here: the connector (quinque.spark).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from quinque.spark.schema import COLUMNS, schema_text

CHUNK = 1000
PARTITIONS = 2


class Rows(InputPartition):
    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@cache
def _batch(count: int) -> pa.RecordBatch:
    now = datetime.now(UTC)
    texts = [f"D-{number:08d}-synthetic-rows-of-a-bench" for number in range(count)]
    made: dict[str, list[Any]] = {
        "family": ["jobs"] * count,
        "queue": ["bench"] * count,
        "id": texts,
        "body": [b"x" * 100] * count,
        "attempt": [1] * count,
        "enqueued": [now] * count,
    }
    arrays = [pa.array(made.get(it.name, [None] * count), it.arrow_type) for it in COLUMNS]
    schema = pa.schema([(it.name, it.arrow_type) for it in COLUMNS])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _rows(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Rows)
    for start in range(0, partition.count, CHUNK):
        yield _batch(min(CHUNK, partition.count - start))


class _Reader(DataSourceReader):
    def __init__(self, count: int) -> None:
        self._count = count

    def partitions(self) -> list[InputPartition]:
        return [Rows(self._count // PARTITIONS) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(partition)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, per_batch: int, count: int) -> None:
        self._per_batch, self._count = per_batch, count

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"rows": min(self._count, start["rows"] + self._per_batch)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: the rows have an end anyway."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Rows((end["rows"] - start["rows"]) // PARTITIONS) for _ in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: no broker waits for the commit."""


class _Dropping(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for batch in iterator:
            assert batch.num_rows
        return WriterCommitMessage()


class SyntheticDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "synthetic"

    def schema(self) -> str:
        return schema_text()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(int(self.options["rows"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(int(self.options["perBatch"]), int(self.options["rows"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Dropping()
