"""A queue as a table: what is in it, in parallel, changing nothing."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.server.broker import RunningBroker
from tests.spark.queries import Queue, on_redis_too
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue)


@on_redis_too
def test_a_look_shows_everything_and_changes_nothing(spark: SparkSession, queue: Queue) -> None:
    bodies = [b"%d" % n for n in range(2_500)]
    queue.add(bodies)

    frame = queue.peek(spark, minPartitions=3)

    assert frame.rdd.getNumPartitions() == 3
    rows = frame.collect()
    assert [bytes(row.body) for row in rows] == bodies
    assert len({row.id for row in rows}) == 2_500
    assert {(row.state, row.attempt, row._claim) for row in rows} == {("ready", 0, None)}
    assert queue.ready() == 2_500


@on_redis_too
def test_states_are_chosen(spark: SparkSession, queue: Queue) -> None:
    queue.add([b"ready", b"leased"])
    queue.broker.call("ADDJOB", queue.name, "delayed", 0, "DELAY", 600)
    queue.broker.call("GETJOB", "FROM", queue.name)

    def seen(**options: str) -> dict[bytes, str]:
        return {bytes(row.body): row.state for row in queue.peek(spark, **options).collect()}

    assert seen() == {b"leased": "ready", b"delayed": "delayed"}
    assert seen(states="leased,delayed") == {b"ready": "leased", b"delayed": "delayed"}


@on_redis_too
def test_a_queue_that_is_not_there_is_empty(spark: SparkSession, queue: Queue) -> None:
    assert queue.peek(spark).count() == 0


@on_redis_too
def test_queues_of_a_pattern_are_one_table(
    spark: SparkSession, broker: RunningBroker, queue: Queue
) -> None:
    for name in ("a", "b"):
        Queue(broker, f"{queue.name}.{name}").add([name])
    given = {"url": queue.url, "queuePattern": f"{queue.name}.*"}

    rows = spark.read.format("quinque").options(**given).load().collect()

    assert sorted((row.queue[-1], bytes(row.body)) for row in rows) == [("a", b"a"), ("b", b"b")]


def test_a_broker_that_is_not_there_is_named_without_its_password(spark: SparkSession) -> None:
    given = {"url": "redis://me:hunter2@127.0.0.1:1", "queue": "q", "retries": "0"}
    frame = spark.read.format("quinque").options(**given).load()

    with pytest.raises(PySparkException, match=r"no broker answers at 127\.0\.0\.1:1") as refusal:
        frame.collect()

    assert "hunter2" not in str(refusal.value)
    assert "hunter2" not in frame._jdf.queryExecution().toString()


def test_a_wrong_option_is_refused_when_it_is_loaded(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="option retries: 'often' is not a number"):
        spark.read.format("quinque").options(queue="q", retries="often").load()


def test_a_table_of_the_catalog_has_no_options_and_is_refused(
    spark: SparkSession, queue: Queue
) -> None:
    """Spark drops the options of CREATE TABLE: a write would go to the broker of the default."""
    queue.add([b"x"])
    options = f"USING quinque OPTIONS (url '{queue.url}', queue '{queue.name}')"
    spark.sql(f"CREATE TABLE refused {options}")
    spark.sql(f"CREATE TEMPORARY VIEW looked {options}")

    for statement in (
        "SELECT count(*) FROM refused",
        "INSERT INTO refused (queue, body) SELECT 'q', cast('y' AS binary)",
    ):
        with pytest.raises(PySparkException, match=r"CREATE TABLE .* CREATE TEMPORARY VIEW"):
            spark.sql(statement).collect()
    spark.sql("DROP TABLE refused")

    assert [row.n for row in spark.sql("SELECT count(*) AS n FROM looked").collect()] == [1]
