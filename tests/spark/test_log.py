"""The lifecycle of messages through the connector: as a table, and as a stream with offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quinque.model.lifecycle import Kind
from tests.server.broker import RunningBroker, start_broker
from tests.spark.queries import Kept, Queue, run


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """Of a broker on which nobody else leaves rows."""
    with start_broker(tmp_path / "broker") as running:
        yield queue_of(running)


def queue_of(running: RunningBroker) -> Queue:
    return Queue(running, "orders")


def log(spark: SparkSession, queue: Queue, **options: object) -> DataFrame:
    given = {"url": queue.url, "mode": "log"} | {
        name: str(value) for name, value in options.items()
    }
    return spark.read.format("quinque").options(**given).load()


def test_every_change_is_a_row(spark: SparkSession, queue: Queue) -> None:
    queue.add([b"a", b"bcd"])
    [[_, job_id, _]] = queue.broker.call("GETJOB", "FROM", queue.name)
    queue.broker.call("ACKJOB", job_id)

    rows = log(spark, queue).orderBy("seq").collect()

    assert [(row.seq, row.kind, row.size) for row in rows] == [
        (1, Kind.ADDED, 1),
        (2, Kind.ADDED, 3),
        (3, Kind.DELIVERED, None),
        (4, Kind.ACKED, None),
    ]
    assert {(row.shard, row.queue) for row in rows} == {(0, "orders")}
    assert rows[3].message_id == job_id.decode()
    assert [r.seq for r in log(spark, queue, startingOffset='{"0": 3}').collect()] == [3, 4]
    assert log(spark, queue, endingOffset='{"0": 3}', minPartitions=2).count() == 2


def test_a_stream_of_rows_goes_on_where_it_was(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    frame = spark.readStream.format("quinque").options(
        url=queue.url, mode="log", maxMessagesPerTrigger=4
    )
    kept = Kept()
    queue.add([b"1"] * 6)
    run(frame.load(), tmp_path / "checkpoint", kept)
    assert kept.sizes == [4, 2]
    queue.add([b"2"] * 3)

    run(frame.load(), tmp_path / "checkpoint", kept)

    assert [row.seq for rows in kept.batches.values() for row in rows] == [*range(1, 10)]


def test_rows_that_are_not_there_are_a_loss_that_is_told(spark: SparkSession, queue: Queue) -> None:
    queue.add([b"1"])

    with pytest.raises(PySparkException, match="rows 2 to 4 of shard 0 of the lifecycle are not"):
        log(spark, queue, endingOffset='{"0": 5}').collect()

    assert log(spark, queue, endingOffset='{"0": 5}', failOnDataLoss="false").count() == 1
