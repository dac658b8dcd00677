"""A message that makes every batch fail, and what the options do about it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.server.broker import RunningBroker
from tests.spark.queries import Broke, Kept, Queue, on_redis_too, run
from tests.spark.queries import on_its_stores as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


class Picky(Kept):
    """A sink that breaks when the poison is in a batch."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        if any(bytes(row.body) == b"poison" for row in rows):
            raise Broke("it is poison")
        self.batches[number] = rows


@pytest.fixture
def queue(broker: RunningBroker, queue: str) -> Queue:
    return Queue(broker, queue)


@on_redis_too
def test_poison_goes_to_the_dead_and_the_rest_goes_on(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add([b"a", b"poison", b"c"])
    sink = Picky()
    failures = 0

    while not (dead := queue.peek(spark, states="dead").collect()):
        frame = queue.stream(spark, onPoison="deadletter", maxReplays=1)
        try:
            run(frame, tmp_path, sink)
        except StreamingQueryException as error:
            assert "it is poison" in str(error)  # noqa: PT017
            failures += 1
            assert failures < 12, "the poison is never given up"
    run(queue.stream(spark), tmp_path, sink)

    assert sorted(sink.bodies) == [b"a", b"c"]
    assert [(bytes(row.body), row.reason) for row in dead] == [(b"poison", "replayed 2 times")]
    assert (queue.ready(), queue.in_flight()) == (0, 0)


@pytest.mark.parametrize("poisoned", ["a", "b"])
def test_a_good_message_of_another_queue_does_not_die_with_the_poison(
    spark: SparkSession, broker: RunningBroker, queue: Queue, tmp_path: Path, poisoned: str
) -> None:
    queues = {name: Queue(broker, f"{queue.name}.{name}") for name in "ab"}
    for name, it in queues.items():
        it.add([b"poison"] if name == poisoned else [b"good", b"too"])
    names = ",".join(it.name for it in queues.values())
    sink = Picky()

    for _ in range(12):
        frame = queue.stream(spark, queue=names, onPoison="deadletter", maxReplays=1)
        with suppress(StreamingQueryException):
            run(frame, tmp_path, sink)

    assert sorted(sink.bodies) == [b"good", b"too"]
    [dead] = queue.peek(spark, queue=names, states="dead").collect()
    assert bytes(dead.body) == b"poison"
    assert [(it.ready(), it.in_flight()) for it in queues.values()] == [(0, 0), (0, 0)]


def test_a_batch_that_is_begun_too_often_is_named(
    spark: SparkSession, queue: Queue, tmp_path: Path
) -> None:
    queue.add([b"poison"])
    options = {"onPoison": "fail", "maxReplays": 1}
    with pytest.raises(StreamingQueryException, match="it is poison"):
        run(queue.stream(spark, **options), tmp_path, Picky())

    with pytest.raises(StreamingQueryException) as failure:
        run(queue.stream(spark, **options), tmp_path, Picky())

    assert f"claim 1 of subscription 'tests' on queue '{queue.name}'" in str(failure.value)
    assert "was started 1 time without finishing " in str(failure.value)
    assert queue.in_flight() == 1
