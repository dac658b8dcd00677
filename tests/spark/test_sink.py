"""Rows into a queue: each once, as its columns say, and what rows say of claimed messages."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from quinque.model.stage_ops import FindStages
from quinque.spark import sink
from quinque.spark.options import WRITE, read_options
from quinque.spark.sink import QuinqueWriter
from quinque.spark.source import QuinqueDataSource
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until
from tests.spark.queries import Queue, copy, on_redis_too
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

ROWS_TOGETHER = "spark.sql.execution.arrow.maxRecordsPerBatch"
BODIES = [b"%d" % n for n in range(25)]


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue)


@pytest.fixture
def out(queue: Queue, broker: RunningBroker) -> Queue:
    """Another queue, to write into."""
    return Queue(broker, f"{queue.name}.out")


def write(frame: DataFrame, queue: Queue, **options: Any) -> None:
    given = {"url": queue.url, "queue": queue.name, **options}
    frame.write.format("quinque").options(**given).mode("append").save()


@on_redis_too
def test_a_table_becomes_messages(spark: SparkSession, queue: Queue) -> None:
    frame = spark.range(2_500).select(sf.col("id").cast("string").alias("body"))

    write(frame, queue)

    assert queue.ready() == 2_500
    assert sorted(queue.bodies(), key=int) == [b"%d" % n for n in range(2_500)]
    assert queue.broker.run(FindStages()) == []


@on_redis_too
def test_columns_say_how_a_message_is_treated(spark: SparkSession, queue: Queue) -> None:
    frame = spark.createDataFrame(
        [(b"a", 60_000, 0, 7_000, 4), (b"b", None, 500_000, 0, None)],
        # Names of columns have no case in Spark.
        "Body binary, TTL_MS long, delay_ms long, retry_ms int, max_deliveries int",
    )

    write(frame, queue)

    shown = queue.peek(spark).orderBy("body").collect()
    assert [bytes(row.body) for row in shown] == [b"a", b"b"]
    assert [row.state for row in shown] == ["ready", "delayed"]
    jobs = [dict(zip(j[::2], j[1::2], strict=True)) for j in map(queue.show, (r.id for r in shown))]
    assert [job[b"retry"] for job in jobs] == [7, 0]
    lives_s = [round((row.expires - row.enqueued).total_seconds()) for row in shown]
    assert lives_s == [60, 86_400]


@on_redis_too
def test_rows_name_their_queue(spark: SparkSession, queue: Queue, out: Queue) -> None:
    frame = spark.createDataFrame(
        [("1", queue.name), ("2", out.name), ("3", queue.name)], "body string, queue string"
    )

    frame.write.format("quinque").option("url", queue.url).mode("append").save()

    assert sorted(queue.bodies()) == [b"1", b"3"]
    assert out.bodies() == [b"2"]


def test_a_stream_is_not_written_back_to_the_queue_it_came_from(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    """The rows of the source have a column with the name of their queue."""
    queue.add([b"1", b"2"])

    with pytest.raises(
        StreamingQueryException, match=f"column queue is '{queue.name}', and .*drop"
    ):
        copy(queue.stream(spark).select("body", "queue"), tmp_path, out)

    assert (queue.in_flight(), queue.ready(), out.ready()) == (2, 0, 0)
    assert out.broker.run(FindStages()) == []


@on_redis_too
def test_a_key_is_put_once_while_it_lives(spark: SparkSession, queue: Queue) -> None:
    frame = spark.createDataFrame([("1", "k"), ("2", "k"), ("3", "l")], "body string, key string")

    write(frame.coalesce(1), queue)

    assert queue.bodies() == [b"1", b"3"]


@on_redis_too
def test_events_have_ids_of_their_own(
    spark: SparkSession, broker: RunningBroker, queue: Queue
) -> None:
    feed = Queue(broker, queue.name, "events")
    frame = spark.createDataFrame([("x", "10-0"), ("y", "11-0")], "body string, id string")

    write(frame.coalesce(1), feed, family="events", ttl="1m")

    rows = feed.peek(spark).collect()
    assert [(row.id, bytes(row.body), row.family) for row in rows] == [
        ("10-0", b"x", "events"),
        ("11-0", b"y", "events"),
    ]


@on_redis_too
def test_a_write_of_the_same_run_and_batch_happens_once(spark: SparkSession, queue: Queue) -> None:
    frame = spark.createDataFrame([("1",), ("2",)], "body string")

    for _ in range(2):
        write(frame, queue, runId="nightly", batchId=7)
    write(frame, queue, runId="nightly", batchId=8)

    assert queue.ready() == 4


@on_redis_too
def test_another_batch_under_the_number_of_a_published_one_is_told(
    spark: SparkSession, queue: Queue
) -> None:
    one = spark.createDataFrame([("1",), ("2",)], "body string").coalesce(1)
    two = spark.createDataFrame([("3",), ("4",)], "body string").coalesce(1)
    write(one, queue, runId="nightly", batchId=7)

    for number, said in ((7, "other contents"), (6, "batch 7 was")):
        with pytest.raises(PySparkException, match=f"LostRows: batch {number} .*{said}.*runId"):
            write(two, queue, runId="nightly", batchId=number)
    write(two, queue, runId="nightly", batchId=7, failOnDataLoss=False)
    write(one.repartition(2), queue, runId="nightly", batchId=7)

    assert sorted(queue.bodies()) == [b"1", b"2"]


def test_a_batch_write_that_is_killed_while_it_publishes_is_finished_by_the_broker(
    spark: SparkSession, queue: Queue
) -> None:
    class KilledWriter(QuinqueWriter):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            # At a limited rate, the driver sleeps when it has published a part.
            vars(sink)["sleep"] = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            super().commit(messages)

    class KilledSource(QuinqueDataSource):
        @classmethod
        def name(cls) -> str:
            return "killed"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return KilledWriter(read_options(self.options, WRITE))

    spark.dataSource.register(KilledSource)
    frame = spark.range(25).select(sf.col("id").cast("string").alias("body"))
    given = {"url": queue.url, "queue": queue.name, "maxMessagesPerSecond": "10"}

    with pytest.raises(Exception, match="crashed"):
        frame.write.format("killed").options(**given).mode("append").save()

    wait_until(lambda: queue.ready() == 25, "the rest is published")
    assert sorted(queue.bodies(), key=int) == BODIES
    assert queue.broker.run(FindStages()) == []


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("select 'a' as text", {}, "column text cannot be written"),
        ("select cast(null as string) as body", {}, "column body is null"),
        ("select 'a' as body, 'x' as id", {}, "column id: the family jobs creates the ids itself"),
        ("select 'a' as body", {"subscription": "s"}, "option subscription has no effect here"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    spark: SparkSession, queue: Queue, sql: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as refusal:
        write(spark.sql(sql), queue, **options)

    assert said in str(refusal.value)
    assert queue.ready() == 0
    assert queue.broker.run(FindStages()) == []


def test_a_queue_is_not_overwritten(spark: SparkSession, queue: Queue) -> None:
    writer = spark.sql("select 'a' as body").write.format("quinque")

    with pytest.raises(PySparkException, match="a queue cannot be overwritten"):
        writer.options(url=queue.url, queue=queue.name).mode("overwrite").save()


def test_a_stream_goes_from_queue_to_queue_once(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)

    query = copy(queue.stream(spark, maxMessagesPerTrigger=10).select("body"), tmp_path, out)

    assert sorted(out.bodies()) == sorted(BODIES)
    assert (queue.ready(), queue.in_flight()) == (0, 0)
    assert out.broker.run(FindStages()) == []
    [source] = json.loads(query.recentProgress[0].json)["sources"]
    created_us = queue.subscription().created_us
    assert source["endOffset"] == {
        "v": 1,
        "claims": {queue.name: {"0": 1}},
        "created": {queue.name: {"0": created_us}},
    }


@on_redis_too
def test_a_batch_that_spark_repeats_is_not_published_again(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    copy(queue.stream(spark, maxMessagesPerTrigger=10).select("body"), tmp_path, out)
    # As after a crash between the publication and Spark's own note of it.
    for name in ("commits/2", "commits/.2.crc"):
        (tmp_path / name).unlink(missing_ok=True)

    query = copy(queue.stream(spark, maxMessagesPerTrigger=10).select("body"), tmp_path, out)

    assert [progress.numInputRows for progress in query.recentProgress][:1] == [5]
    assert sorted(out.bodies()) == sorted(BODIES)


@on_redis_too
def test_a_stream_that_fails_again_and_again_stages_its_rows_once(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add([b"%d" % n for n in range(7)])
    text = sf.col("body").cast("string")
    broken = queue.stream(spark).select(sf.when(text != "6", text).alias("body"))
    chunks: list[int] = []

    # Two rows at a time reach the sink, and each of them is a chunk.
    spark.conf.set(ROWS_TOGETHER, 2)
    try:
        for _ in range(3):
            with pytest.raises(StreamingQueryException, match="column body is null"):
                copy(broken, tmp_path, out, maxMessagesPerSecond=1)
            chunks += [view.chunks for view in out.broker.run(FindStages())]
    finally:
        spark.conf.unset(ROWS_TOGETHER)

    # Spark tries the task twice in each run.
    assert chunks == [8, 8, 8]
    copy(queue.stream(spark).select("body").repartition(3), tmp_path, out)
    assert len(out.bodies()) == 7
    assert out.broker.run(FindStages()) == []


@on_redis_too
def test_a_new_checkpoint_is_another_run(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        queue.add(BODIES)
        copy(queue.stream(spark).select("body"), tmp_path / folder, out)

    assert out.ready() == 50


@on_redis_too
def test_rows_settle_the_messages_they_come_from(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add([b"good", b"bad", b"again", b"later"])
    text = sf.col("body").cast("string")
    action = (
        sf.when(text == "bad", "dead").when(text == "again", "nack").when(text == "later", "delay")
    )
    frame = queue.stream(spark).select(
        "body",
        action.alias("_action"),
        "_claim",
        sf.col("id").alias("_id"),
        sf.lit("no good").alias("_reason"),
        sf.when(text == "later", 3_600_000).alias("_delay_ms"),
    )

    copy(frame, tmp_path, out)

    assert out.bodies() == [b"good"]
    left = {bytes(row.body): (row.state, row.reason) for row in queue.peek(spark).collect()}
    assert left == {
        b"bad": ("dead", "no good"),
        b"again": ("ready", "no good"),
        b"later": ("delayed", "no good"),
    }


def test_an_outcome_that_is_told_twice_is_one(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add([b"bad"])
    rows = queue.stream(spark).withColumn("twice", sf.explode(sf.array(sf.lit(1), sf.lit(2))))

    copy(
        rows.select(sf.lit("dead").alias("_action"), "_claim", sf.col("id").alias("_id")),
        tmp_path,
        out,
    )

    assert [row.state for row in queue.peek(spark).collect()] == ["dead"]


def test_an_outcome_of_a_failed_attempt_does_not_hold_for_the_next_one(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add([b"1", b"2"])
    action = sf.when(sf.col("body").cast("string") == "2", "dead").alias("_action")
    settling = queue.stream(spark).select("body", action, "_claim", sf.col("id").alias("_id"))
    out.broker.call("PAUSE", out.name, "in")
    with pytest.raises(StreamingQueryException, match="QueuePaused"):
        copy(settling, tmp_path, out, retries=0)
    out.broker.call("PAUSE", out.name, "none")

    copy(queue.stream(spark).select("body"), tmp_path, out)

    assert sorted(out.bodies()) == [b"1", b"2"]
    assert queue.peek(spark).count() == 0


@on_redis_too
def test_an_outcome_for_a_message_that_is_not_there_is_told(
    spark: SparkSession, queue: Queue, out: Queue, tmp_path: Path
) -> None:
    queue.add([b"a"])
    stream = queue.stream(spark).select(
        sf.lit("dead").alias("_action"), "_claim", sf.lit("D-nobody").alias("_id")
    )

    with pytest.raises(StreamingQueryException, match="claim 1 has only 0 of 1 messages"):
        copy(stream, tmp_path, out)
    copy(stream, tmp_path, out, failOnDataLoss=False)

    assert (queue.ready(), queue.in_flight()) == (0, 0)
