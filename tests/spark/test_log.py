"""The lifecycle of messages through the connector: as a table, and as a stream with offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from quinque.model.lifecycle import Kind
from quinque.model.look_ops import FindRecords
from quinque.spark.jobs.audit import count_messages
from tests.server.broker import RunningBroker, start_broker
from tests.spark.queries import Kept, Queue, on_redis_too, run
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue)


def ends(queue: Queue) -> dict[int, int]:
    """The next row of each shard; a store on Redis has one for each slot of a queue."""
    return {record.shard: record.next for record in queue.broker.run(FindRecords())}


def place_of(queue: Queue, before: dict[int, int]) -> tuple[int, int]:
    """The shard that has got rows since then, and the first of them."""
    [shard] = [shard for shard, end in ends(queue).items() if end != before.get(shard)]
    return shard, before.get(shard, 1)


def log(spark: SparkSession, queue: Queue, **options: object) -> DataFrame:
    given = {"url": queue.url, "mode": "log"} | {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
    }
    return spark.read.format("quinque").options(**given).load()


@on_redis_too
def test_the_audit_counts_tasks_of_a_temporary_tube_if_they_are_in_the_log(queue: Queue) -> None:
    queue.broker.call("TUBE.CREATE", queue.name, "fifo", "TEMPORARY")
    before = ends(queue)
    queue.broker.call("TUBE.PUT", queue.name, '"task"')
    is_logged = ends(queue) != before

    assert (("tubes", queue.name) in count_messages(queue.broker)) == is_logged


@on_redis_too
def test_every_change_is_a_row(spark: SparkSession, queue: Queue) -> None:
    before = ends(queue)
    queue.add([b"a", b"bcd"])
    [[_, job_id, _]] = queue.broker.call("GETJOB", "FROM", queue.name)
    queue.broker.call("ACKJOB", job_id)
    shard, first = place_of(queue, before)

    rows = log(spark, queue, startingOffset={shard: first}).where(f"shard = {shard}").collect()

    rows.sort(key=lambda row: int(row.seq))
    assert [(row.seq - first, row.kind, row.size) for row in rows] == [
        (0, Kind.ADDED, 1),
        (1, Kind.ADDED, 3),
        (2, Kind.DELIVERED, None),
        (3, Kind.ACKED, None),
    ]
    assert {row.queue for row in rows} == {queue.name}
    assert rows[3].message_id == job_id.decode()
    some = {"startingOffset": {shard: first + 1}, "endingOffset": {shard: first + 3}}
    assert [row.seq - first for row in log(spark, queue, **some, minPartitions=2).collect()] == [
        *(1, 2)
    ]


@on_redis_too
def test_a_stream_of_rows_goes_on_where_it_was(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    before = ends(queue)
    queue.add([b"1"] * 6)
    shard, first = place_of(queue, before)
    frame = spark.readStream.format("quinque").options(
        url=queue.url,
        mode="log",
        maxMessagesPerTrigger=4,
        startingOffset=json.dumps({**before, shard: first}),
    )
    kept = Kept()
    run(frame.load(), tmp_path / "checkpoint", kept)
    assert max(kept.sizes) <= 4
    assert sum(kept.sizes) == 6
    queue.add([b"2"] * 3)

    run(frame.load(), tmp_path / "checkpoint", kept)

    rows = [row for rows in kept.batches.values() for row in rows]
    assert [(row.shard, row.seq - first) for row in rows] == [(shard, n) for n in range(9)]


@on_redis_too
def test_rows_that_are_not_there_are_a_loss_that_is_told(spark: SparkSession, queue: Queue) -> None:
    before = ends(queue)
    queue.add([b"1"])
    shard, first = place_of(queue, before)
    part = {"startingOffset": {shard: first}, "endingOffset": {shard: first + 4}}

    with pytest.raises(PySparkException) as failure:
        log(spark, queue, **part).collect()

    lost = f"rows {first + 1} to {first + 3} of shard {shard} are no longer in the lifecycle log"
    assert lost in str(failure.value)
    assert log(spark, queue, **part, failOnDataLoss="false").count() == 1


def test_rows_of_another_store_are_not_taken_for_those_of_the_checkpoint(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    def stream(of: Queue, **options: str) -> DataFrame:
        return spark.readStream.format("quinque").options(url=of.url, mode="log", **options).load()

    queue.add([b"1"] * 6)
    run(stream(queue), tmp_path / "checkpoint", Kept())
    with start_broker(tmp_path / "data", "--fsync", "no") as another:
        other = Queue(another, queue.name)
        other.add([b"2"] * (ends(queue)[0] + 6))

        kept = Kept()
        with pytest.raises(StreamingQueryException, match=r"DataLoss: .*lifecycle log of another"):
            run(stream(other), tmp_path / "checkpoint", kept)
        run(stream(other, failOnDataLoss="false"), tmp_path / "checkpoint", kept)

        assert [row.seq for rows in kept.batches.values() for row in rows] == [
            *range(1, ends(other)[0])
        ]
