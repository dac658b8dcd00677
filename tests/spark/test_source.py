"""A queue as a stream: every message once, acked when Spark has committed it, whatever fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quinque.model.claim_ops import FillClaim, OpenClaims
from quinque.model.families import JOBS
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until
from tests.spark.queries import (
    SUBSCRIPTION,
    TIMEOUT_S,
    Broke,
    Kept,
    Queue,
    Sink,
    on_redis_too,
    run,
    start,
    wait_for,
    writer,
)
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

BODIES = [b"%d" % n for n in range(25)]


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue)


def reports(query: StreamingQuery) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The offset that was reached and the newest one there is, as the query's progress has them."""
    return [
        (source["endOffset"], source["latestOffset"])
        for progress in query.recentProgress
        for source in json.loads(progress.json)["sources"]
        if source["latestOffset"]
    ]


def lags(query: StreamingQuery) -> list[int]:
    """The backlogs that its progress tells of."""
    return [latest["backlog"] for _, latest in reports(query) if "backlog" in latest]


def failing(*numbers: int) -> Sink:
    """A sink that breaks in batches of these numbers."""

    def sink(batch: DataFrame, number: int) -> None:
        batch.collect()
        if number in numbers:
            raise Broke(f"batch {number}")

    return sink


@on_redis_too
def test_all_that_is_there_is_read_once_and_acked(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()

    run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, kept)

    assert kept.bodies == BODIES
    assert kept.sizes == [10, 10, 5]
    assert (queue.ready(), queue.in_flight()) == (0, 0)
    assert queue.subscription().settled == 3


def test_a_second_run_goes_on_where_the_first_ended(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()
    run(queue.stream(spark), tmp_path, kept)
    queue.add([b"new"])

    run(queue.stream(spark), tmp_path, kept)

    assert kept.bodies == [*BODIES, b"new"]


def test_rows_tell_where_they_come_from(spark: SparkSession, queue: Queue, tmp_path: Path) -> None:
    queue.add([b"\xff\x00"])
    kept = Kept()

    run(queue.stream(spark), tmp_path, kept)

    [row] = kept.batches[0]
    assert (row.family, row.queue, row.attempt, row.shard) == ("jobs", queue.name, 1, 0)
    assert row.id.startswith("D-")
    assert bytes(row.body) == b"\xff\x00"
    assert row._claim.endswith("/0/tests/1")
    assert row.expires > row.enqueued


def test_what_comes_after_the_start_is_left_for_the_next_run(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()

    def sink(batch: DataFrame, number: int) -> None:
        kept(batch, number)
        queue.add([b"late"])

    run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, sink)

    assert kept.bodies == BODIES
    assert queue.bodies() == [b"late"] * 3


@on_redis_too
def test_a_batch_that_failed_comes_again_with_the_same_rows(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    first, kept = Kept(), Kept()

    def sink(batch: DataFrame, number: int) -> None:
        first(batch, number)
        failing(1)(batch, number)

    with pytest.raises(StreamingQueryException, match="batch 1"):
        run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, sink)
    assert queue.in_flight() == 10
    run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, kept)

    assert kept.batches[1] == first.batches[1]
    assert [bytes(row.body) for row in first.batches[0]] + kept.bodies == BODIES


@on_redis_too
def test_a_first_batch_that_failed_comes_again_before_what_came_since(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES[:5])
    kept = Kept()
    with pytest.raises(StreamingQueryException):
        run(queue.stream(spark), tmp_path, failing(0))
    queue.add(BODIES[5:])

    run(queue.stream(spark), tmp_path, kept)

    assert [bytes(row.body) for row in kept.batches[0]] == BODIES[:5]
    assert kept.bodies == BODIES


@on_redis_too
def test_a_deleted_checkpoint_loses_nothing(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()
    with pytest.raises(StreamingQueryException):
        run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path / "old", failing(1))

    run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path / "new", kept)

    assert kept.bodies == BODIES[10:]
    assert (queue.ready(), queue.in_flight()) == (0, 0)


@on_redis_too
def test_a_batch_may_be_read_many_times(spark: SparkSession, queue: Queue, tmp_path: Path) -> None:
    queue.add(BODIES)
    counts: list[int] = []
    both = queue.stream(spark)
    frame = both.union(both)

    def sink(batch: DataFrame, number: int) -> None:
        counts.append(batch.count())
        counts.append(batch.select("id").distinct().count())

    run(frame, tmp_path, sink)

    assert [n for n in counts if n] == [50, 25]
    assert (queue.ready(), queue.in_flight()) == (0, 0)


def test_a_batch_is_divided_among_tasks(spark: SparkSession, queue: Queue, tmp_path: Path) -> None:
    """Also one that is a single chunk of the claim."""
    queue.add(BODIES)
    parts: list[int] = []
    kept = Kept()

    def sink(batch: DataFrame, number: int) -> None:
        parts.append(batch.rdd.getNumPartitions())
        kept(batch, number)

    run(queue.stream(spark, minPartitions=3), tmp_path, sink)

    assert parts[0] == 3
    assert kept.bodies == BODIES


def test_a_running_query_reports_backlog_and_acks_at_once(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()
    query = start(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, kept)
    try:
        wait_for(query, lambda: len(kept.bodies) == 25, "everything is read")
        wait_for(query, lambda: queue.subscription().settled == 3, "the last batch is acked")
        queue.add([b"new"])
        wait_for(query, lambda: len(kept.bodies) == 26, "the new one is read")
        wait_for(query, lambda: bool(reports(query)), "there is progress")
        wait_for(query, lambda: bool(lags(query)), "it has told of the backlog")
    finally:
        query.stop()

    # Where nothing waits, the newest offset is the one that was reached: a program that compares
    # the two sees no lag. Else it is a later one, with the numbers beside it.
    for end, latest in reports(query):
        if latest == end:
            continue
        assert latest["claims"][queue.name]["0"] == end["claims"][queue.name]["0"] + 1
        assert latest["created"] == end["created"]
        assert latest.keys() - end.keys() == {"backlog", "inflight", "oldest_ms"}
    assert reports(query)[-1][0] == reports(query)[-1][1]
    assert lags(query)[0] == 15


@on_redis_too
def test_a_second_query_of_the_same_name_takes_over(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    kept, earlier = Kept(), Kept()
    queue.add([b"one"])
    first = start(queue.stream(spark), tmp_path / "one", earlier)
    wait_for(first, lambda: earlier.bodies == [b"one"], "the first one reads")
    second = start(queue.stream(spark), tmp_path / "two", kept)
    try:
        wait_for(second, lambda: not first.isActive, "the first one ends")
        queue.add([b"two"])
        wait_for(second, lambda: kept.bodies == [b"two"], "the second one reads")
        assert "Superseded: epoch" in str(first.exception())
    finally:
        second.stop()
        first.stop()


def test_several_queues_are_read_together(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path
) -> None:
    others = [Queue(broker, f"{queue.name}.{n}") for n in range(2)]
    for n, other in enumerate(others):
        other.add([f"{n}.{i}" for i in range(8)])
    kept = Kept()
    names = ",".join(other.name for other in others)

    run(queue.stream(spark, queue=names, maxMessagesPerTrigger=10), tmp_path, kept)

    assert sorted(kept.bodies) == sorted(f"{n}.{i}".encode() for n in range(2) for i in range(8))
    assert len({row.queue for row in kept.batches[0]}) == 2
    assert max(kept.sizes) <= 10


def test_a_queue_that_the_options_no_longer_name_is_not_read(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path
) -> None:
    other = Queue(broker, f"{queue.name}.other")
    queue.add([b"1"])
    other.add([b"2"])
    kept = Kept()
    run(queue.stream(spark, queue=f"{queue.name},{other.name}"), tmp_path, kept)
    queue.add([b"3"])
    other.add([b"4"])

    query = start(queue.stream(spark), tmp_path, kept)
    try:
        wait_for(query, lambda: queue.subscription().settled == 2, "the new one is read and acked")
    finally:
        query.stop()

    assert sorted(kept.bodies) == [b"1", b"2", b"3"]
    assert (queue.ready(), other.ready(), other.in_flight()) == (0, 1, 0)


def test_queues_of_a_pattern_join_when_they_come(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path
) -> None:
    Queue(broker, f"{queue.name}.a").add([b"a"])
    Queue(broker, "another").add([b"no"])
    kept = Kept()
    pattern = f"{queue.name}.*"

    run(queue.stream(spark, queuePattern=pattern), tmp_path, kept)
    Queue(broker, f"{queue.name}.b").add([b"b"])
    run(queue.stream(spark, queuePattern=pattern), tmp_path, kept)

    assert kept.bodies == [b"a", b"b"]


@on_redis_too
def test_a_claim_of_a_feed_whose_events_are_gone_is_read_without_the_checkpoint(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path
) -> None:
    feed = Queue(broker, f"{queue.name}.a", "events")
    feed.add([b"a", b"b"])
    kept = Kept()
    pattern = f"{queue.name}.*"
    with pytest.raises(StreamingQueryException):
        run(feed.stream(spark, queuePattern=pattern), tmp_path / "old", failing(0))
    feed.broker.call("QFLUSH", feed.name)  # as if all had expired: the queue is not listed

    run(feed.stream(spark, queuePattern=pattern), tmp_path / "new", kept)

    assert kept.bodies == [b"a", b"b"]
    assert feed.in_flight() == 0


@on_redis_too
def test_every_group_of_a_feed_sees_every_event(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path
) -> None:
    feed = Queue(broker, queue.name, "events")
    feed.add(BODIES)
    one, two = Kept(), Kept()

    run(feed.stream(spark, group="one", subscription="one"), tmp_path / "one", one)
    run(feed.stream(spark, subscription="two"), tmp_path / "two", two)

    assert one.bodies == two.bodies == BODIES
    assert {row.family for row in one.batches[0]} == {"events"}
    assert feed.broker.call("QGET", feed.name, "one", "EX", "9") is None
    assert feed.broker.call("QGET", feed.name, "two", "EX", "9") is None
    assert feed.broker.call("QGET", feed.name, "three", "EX", "9") is not None


def test_a_schema_chooses_columns(spark: SparkSession, queue: Queue, tmp_path: Path) -> None:
    queue.add([b"x"])
    kept = Kept()
    frame = (
        spark.readStream.format("quinque")
        .options(url=queue.url, queue=queue.name, subscription="tests")
        .schema("Body binary, attempt int")
        .load()
    )

    run(frame, tmp_path, kept)

    assert [row.asDict() for row in kept.batches[0]] == [{"Body": b"x", "attempt": 1}]


@on_redis_too
def test_a_dropped_subscription_is_a_loss_that_is_told(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept = Kept()
    with pytest.raises(StreamingQueryException):
        run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, failing(1))
    queue.broker.call("CLAIM.DROP", queue.name, "tests")

    with pytest.raises(StreamingQueryException, match=r"DataLoss: .*claim 2"):
        run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, kept)
    run(queue.stream(spark, maxMessagesPerTrigger=10, failOnDataLoss=False), tmp_path, kept)

    assert sorted(kept.bodies) == sorted(BODIES[10:])


@on_redis_too
def test_a_subscription_that_was_dropped_and_opened_again_is_not_that_of_the_checkpoint(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    """Its claims have the same numbers, and other messages."""
    queue.add(BODIES[:5])
    kept = Kept()
    run(queue.stream(spark), tmp_path, kept)
    queue.broker.call("CLAIM.DROP", queue.name, "tests")
    queue.add(BODIES[5:])

    with pytest.raises(StreamingQueryException, match=r"DataLoss: .*claim 1 .*another"):
        run(queue.stream(spark), tmp_path, kept)
    run(queue.stream(spark, failOnDataLoss=False), tmp_path, kept)

    assert kept.bodies == BODIES
    assert (queue.ready(), queue.in_flight()) == (0, 0)


@on_redis_too
def test_a_claim_of_a_query_that_is_gone_is_released_if_that_is_asked_for(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    options = {"lease": "1s", "releaseAfter": "1s"}
    with pytest.raises(StreamingQueryException):
        run(queue.stream(spark, **options), tmp_path / "one", failing(0))

    wait_until(lambda: queue.ready() == 25, "they are back")
    kept = Kept()
    with pytest.raises(StreamingQueryException, match="DataLoss"):
        run(queue.stream(spark), tmp_path / "one", kept)
    run(queue.stream(spark, failOnDataLoss=False), tmp_path / "one", kept)

    assert kept.bodies == BODIES


@on_redis_too
def test_a_batch_that_spark_committed_and_the_broker_released_is_told(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    """trigger(once=True) leaves the ack of its batch to the next run."""
    queue.add(BODIES[:5])
    kept = Kept()
    options = {"lease": "1s", "releaseAfter": "1s"}
    query = writer(queue.stream(spark, **options), tmp_path, kept).trigger(once=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    assert kept.bodies == BODIES[:5]
    wait_until(lambda: queue.ready() == 5, "they are back")

    with pytest.raises(StreamingQueryException, match=r"DataLoss: .*claim 1, .*releaseAfter"):
        run(queue.stream(spark, **options), tmp_path, kept)

    assert queue.ready() == 5


def test_a_released_claim_that_spark_has_not_committed_is_no_loss(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    """Not for a new checkpoint, nor for one whose driver was killed before it wrote the offset."""
    queue.add(BODIES[:5])
    with pytest.raises(StreamingQueryException):
        run(queue.stream(spark, lease="1s", releaseAfter="1s"), tmp_path / "old", failing(0))
    wait_until(lambda: queue.ready() == 5, "they are back")
    kept = Kept()

    run(queue.stream(spark), tmp_path / "new", kept)

    assert kept.bodies == BODIES[:5]
    queue.add(BODIES[5:])
    name, subscription = queue.name.encode(), SUBSCRIPTION.encode()
    view = queue.broker.run(OpenClaims(JOBS, name, subscription, b"", 1_000, 1_000))
    queue.broker.run(FillClaim(name, subscription, view.epoch, 3, len(BODIES), seals=True))
    wait_until(lambda: queue.ready() == len(BODIES) - 5, "these are back too")

    run(queue.stream(spark), tmp_path / "new", kept)

    assert kept.bodies == BODIES


@on_redis_too
def test_a_batch_that_the_sink_skips_unread_is_not_acked(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    """Spark's file sink skips the numbers of batches that its folder has from another checkpoint.
    Nothing reads such a batch, and Spark commits it."""
    queue.add(BODIES[:5])

    def write(checkpoint: str) -> None:
        files = queue.stream(spark).writeStream.format("json").option("path", str(tmp_path / "to"))
        files = files.option("checkpointLocation", str(tmp_path / checkpoint))
        assert files.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)

    write("one")
    queue.add(BODIES[5:])
    with pytest.raises(StreamingQueryException, match=r"DataLoss: .*claim 2 .*was not read"):
        write("two")

    assert queue.in_flight() == len(BODIES) - 5


def test_batches_are_kept_in_files_before_they_are_acked(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add(BODIES)
    kept, folder = Kept(), tmp_path / "kept"
    options = {"maxMessagesPerTrigger": 10, "keepDir": str(folder), "keepFor": "1h"}

    def spoiling(batch: DataFrame, number: int) -> None:
        kept(batch, number)
        folder.rmdir()
        folder.write_text("not a folder")

    with pytest.raises(StreamingQueryException, match="kept/"):
        run(queue.stream(spark, **options), tmp_path / "checkpoint", spoiling)
    assert queue.in_flight() == 10
    folder.unlink()
    folder.mkdir()
    for name in ("claim-old.parquet", "mine.parquet"):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))

    run(queue.stream(spark, **options), tmp_path / "checkpoint", kept)

    assert (kept.bodies, queue.ready(), queue.in_flight()) == (BODIES, 0, 0)
    assert not (folder / "claim-old.parquet").exists()
    (folder / "mine.parquet").unlink()
    rows = spark.read.parquet(str(folder)).orderBy("enqueued").collect()
    assert rows == [row for batch in kept.batches.values() for row in batch]
    assert len(list(folder.glob("claim-*.0.*.parquet"))) == 3
