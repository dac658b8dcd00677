"""Spark killed in the middle of a batch, and the broker likewise; all moments: spark_matrix.py.

The Spark that is killed has two executors in processes of their own; the one that goes on has none.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.faults.spark_crash import PER_BATCH, Job, bring_back
from tests.faults.spark_job import SUBSCRIPTION
from tests.server.broker import RunningBroker
from tests.spark.queries import Kept, Queue, copy, on_redis_too, run
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


def test_a_job_that_is_killed_while_it_publishes_loses_and_repeats_nothing(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    job = Job(broker, tmp_path, "publishing", "local-cluster[2,1,1024]")
    job.run()
    halfway = job.outcome()

    source, target = Queue(broker, job.source), Queue(broker, job.target)
    options = {"subscription": SUBSCRIPTION, "maxMessagesPerTrigger": PER_BATCH}
    copy(source.stream(spark, **options).select("body"), job.checkpoint, target)

    assert 0 < halfway.lost < 15
    assert job.outcome().is_good


@on_redis_too
def test_a_query_outlives_its_broker(
    spark: SparkSession, broker: RunningBroker, queue: str, tmp_path: Path
) -> None:
    kept = Kept()
    bodies = [b"%d" % n for n in range(25)]
    source = Queue(broker, queue)
    source.add(bodies)

    def sink(batch: DataFrame, number: int) -> None:
        if number == 1:
            back = threading.Thread(target=bring_back, args=(broker,))
            back.start()
            broker.signal(signal.SIGKILL)
            kept(batch, number)
            back.join()
        else:
            kept(batch, number)

    run(source.stream(spark, maxMessagesPerTrigger=10, retries=12), tmp_path, sink)

    assert kept.bodies == bodies
    assert (source.ready(), source.in_flight(), source.subscription().settled) == (0, 0, 3)


def test_every_failure_of_the_page_is_played_on_both_stores() -> None:
    rows = table_rows(text_of(ROOT / "docs" / "spark.md"), "| Failure")

    named = [row[2].strip("`").partition("::") for row in rows]

    assert named
    once = [
        test for file, _, test in named if f"@on_redis_too\ndef {test}(" not in text_of(ROOT / file)
    ]
    assert once == []
