"""Queues of the reliable family in Spark: written, looked at, read in claims, and audited."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from quinque.spark.jobs.audit import count_messages
from tests.server.broker import RunningBroker
from tests.spark.queries import Kept, Queue, on_redis_too, run
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

COUNT = 25
BODIES = [b"%d" % number for number in range(COUNT)]


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue, "reliable")


@on_redis_too
def test_elements_are_written_looked_at_and_read_once(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    frame = spark.range(COUNT).coalesce(1).select(sf.col("id").cast("string").alias("body"))
    given = {"url": queue.url, "queue": queue.name, "family": "reliable"}
    frame.write.format("quinque").options(**given).mode("append").save()
    [[_, id, body]] = queue.broker.call("RQ.POP", queue.name)

    options = {"states": "ready,leased", "queuePattern": f"{queue.name}*"}
    source = {"url": queue.url, "family": "reliable", **options}
    seen = spark.read.format("quinque").options(**source).load().collect()
    kept = Kept()
    run(queue.stream(spark, maxMessagesPerTrigger=10), tmp_path, kept)

    assert [(row.state, bytes(row.body)) for row in seen] == [
        ("leased", b"0"),
        *(("ready", body) for body in BODIES[1:]),
    ]
    assert {(row.family, row.queue, row.expires) for row in seen} == {
        ("reliable", queue.name, None)
    }
    assert (seen[0].id.encode(), body) == (id, b"0")
    assert kept.bodies == BODIES[1:]
    assert kept.sizes == [10, 10, 4]
    assert queue.broker.call("RQ.INFO", queue.name) == [b"undelivered", 0, b"delivered", 1]
    assert count_messages(queue.broker)["reliable", queue.name] == (1, 0)
