"""Spark killed in the middle of a batch, and the broker likewise; all moments: spark_matrix.py."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.faults.spark_crash import PER_BATCH, Job, bring_back
from tests.faults.spark_job import SUBSCRIPTION
from tests.server.broker import RunningBroker, start_broker
from tests.spark.queries import Kept, Queue, copy, run


def test_a_job_that_is_killed_while_it_publishes_loses_and_repeats_nothing(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    job = Job(broker, tmp_path, "publishing", "local[2]")
    job.run()
    halfway = job.outcome()

    source, target = Queue(broker, job.source), Queue(broker, job.target)
    options = {"subscription": SUBSCRIPTION, "maxMessagesPerTrigger": PER_BATCH}
    copy(source.stream(spark, **options).select("body"), job.checkpoint, target)

    assert 0 < halfway.lost < 15
    assert job.outcome().is_good


def test_a_query_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept()
    bodies = [b"%d" % n for n in range(25)]
    with start_broker(tmp_path) as running:
        queue = Queue(running, "q")
        queue.add(bodies)

        def sink(batch: DataFrame, number: int) -> None:
            if number == 1:
                back = threading.Thread(target=bring_back, args=(running,))
                back.start()
                running.signal(signal.SIGKILL)
                kept(batch, number)
                back.join()
            else:
                kept(batch, number)

        run(queue.stream(spark, maxMessagesPerTrigger=10, retries=12), tmp_path / "c", sink)

        assert kept.bodies == bodies
        assert (queue.ready(), queue.in_flight(), queue.subscription().settled) == (0, 0, 3)
