"""A Spark job from one queue to another, which is struck down once at a chosen moment.

Called by   spark_crash.py, as a process: python -m tests.faults.spark_job '{"url": …}'
Calls       the connector, with readers and writers that strike.

Its sink is exactly-once, so what the second queue holds when all is over tells whether anything was
lost or came twice.

Not here: which moments there are to be tried, and the verdict (spark_crash.py).
"""

# ruff: noqa: N802, N803 - Spark's names
from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from quinque.client.sync.broker import Broker
from quinque.model.claim_ops import ClaimView
from quinque.model.ops import Op
from quinque.model.stage_ops import Publish
from quinque.spark import sink
from quinque.spark.options import CLAIM, WRITE, read_options
from quinque.spark.schema import chosen_columns
from quinque.spark.session import build_session, prepare_environment
from quinque.spark.sink import QuinqueStreamWriter, StagedRows
from quinque.spark.source import QuinqueDataSource
from quinque.spark.stream import ClaimPart, ClaimStreamReader
from quinque.spark.subscriptions import Shard, Subscriptions
from tests.spark import quick

if TYPE_CHECKING:
    import pyarrow as pa

STRUCK_CLAIM: Final = 2  # the claim, and so the batch, in which the blow falls
STRUCK_BATCH: Final = 1
SUBSCRIPTION: Final = "struck"
_PARTS: Final = 3
_PUBLISHED_AT_ONCE: Final = 1
_SETTINGS: Final = quick.CHECKPOINTS | {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": quick.JAVA_WORDS,
    "spark.executor.extraJavaOptions": quick.JAVA_WORDS,
}

# The call that a blow of each name interrupts.
MOMENTS: Final = {
    "none": "no call",
    "filling": "`latestOffset`, when the claim is filled and not sealed",
    "claimed": "`latestOffset`, when the claim is sealed and Spark has not written its offset",
    "late-commit": "`commit` of the previous batch",
    "planned": "`partitions`, when the read attempt is counted",
    "reading": "`read`, when some rows are returned",
    "writing": "`write`, when the rows are staged",
    "committing": "`commit` of the sink, before it does anything",
    "publishing": "`commit` of the sink, when a part of the batch is in the queue",
    "committed": "`commit` of the sink, when the batch is in the queue, before Spark's commit",
    "settled": "`latestOffset` of the next batch, when this one is committed",
    "failing": "`write`, by an exception. Spark aborts the batch.",
    "broker": "`write`, by SIGKILL of the broker, which restarts. The query continues.",
}


class Struck(Exception):
    """What `failing` raises."""


class Blow:
    """Falls once: a file remembers it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._moment = options["moment"]
        self._marker = Path(options["marker"])
        self._victim = int(options["victim"])

    def fall(self, moment: str) -> None:
        """If this is the moment, the victim is dead: Spark's JVM, or the broker."""
        if moment != self._moment:
            return
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return
        if moment == "failing":
            raise Struck("as it was told to")
        if moment == "broker":
            os.kill(self._victim, signal.SIGKILL)
        else:
            _kill_and_await(self._victim)
            os._exit(1)  # whatever this process would do now, it does in a world without Spark


class StruckReader(ClaimStreamReader):
    blow: Blow

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "blow": self.blow}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.blow = state["blow"]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        seal, blow = Subscriptions.seal, self.blow

        def struck(self: Subscriptions, shard: Shard, number: int) -> ClaimView:
            if number == STRUCK_CLAIM:
                blow.fall("filling")
            return seal(self, shard, number)

        Subscriptions.seal = struck  # type: ignore[method-assign]
        try:
            end = super().latestOffset(start, limit)
        finally:
            Subscriptions.seal = seal  # type: ignore[method-assign]
        if _last(start) == STRUCK_CLAIM:
            blow.fall("settled")
        if _last(end) == STRUCK_CLAIM:
            blow.fall("claimed")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ClaimPart]:
        planned = list(super().partitions(start, end))
        if _last(end) == STRUCK_CLAIM:
            self.blow.fall("planned")
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClaimPart)
        for batch in super().read(partition):
            yield batch
            if partition.claim == STRUCK_CLAIM:
                self.blow.fall("reading")

    def commit(self, end: dict[str, Any]) -> None:
        if _last(end) == STRUCK_CLAIM - 1:
            self.blow.fall("late-commit")
        super().commit(end)


class StruckWriter(QuinqueStreamWriter):
    blow: Blow

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        staged = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.getLocalProperty("streaming.sql.batchId") == str(STRUCK_BATCH):
            self.blow.fall("writing")
            self.blow.fall("failing")
            self.blow.fall("broker")
        return staged

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId == STRUCK_BATCH:
            self.blow.fall("committing")
            _strike_after_a_part(self.blow)
        super().commit(messages, batchId)
        if batchId == STRUCK_BATCH:
            self.blow.fall("committed")


class StruckSource(QuinqueDataSource):
    @classmethod
    def name(cls) -> str:
        return "struck"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = StruckReader(read_options(self.options, CLAIM), chosen_columns(schema))
        reader.blow = Blow(self.options)
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = StruckWriter(read_options(self.options, WRITE))
        writer.blow = Blow(self.options)
        return writer


def main(told: dict[str, Any]) -> None:
    """What is in the first queue is in the second one, unless a blow falls."""
    session, spark_pid = _session(told["master"])
    session.dataSource.register(StruckSource)
    victim = told["broker"] or spark_pid
    common = {"url": told["url"], "retries": 12, "victim": victim}
    common |= {name: told[name] for name in ("moment", "marker")}
    source = {"queue": told["source"], "subscription": SUBSCRIPTION}
    source["maxMessagesPerTrigger"] = told["per_batch"]
    target = {"queue": told["target"], "checkpointLocation": told["checkpoint"]}
    frame = session.readStream.format("struck").options(**common, **source).load().select("body")
    # In several parts, so that it takes several requests to publish them.
    stream = frame.repartition(_PARTS).writeStream.format("struck").options(**common, **target)
    stream.trigger(availableNow=True).start().awaitTermination()
    session.stop()


def _session(master: str) -> tuple[SparkSession, int]:
    """A session, and its JVM; `connect` is a Spark Connect server of its own, which has none to
    strike. Its Pythons are those that Spark starts, as users have it."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.pop(name, None)
    if master == "connect":
        prepare_environment()
        os.environ["SPARK_TESTING"] = "1"  # a port that is free, instead of one and the same
        return SparkSession.builder.remote("local[2]").getOrCreate(), 0
    session = build_session("struck", master, _SETTINGS, log_level="OFF")
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return session, jvm.java.lang.ProcessHandle.current().pid()


def _strike_after_a_part(blow: Blow) -> None:
    """In this process, which lives for one commit, publishing goes in small steps."""
    vars(sink)["PUBLISH_MOST"] = _PUBLISHED_AT_ONCE
    carry_out = Broker._carry_out

    def struck(self: Broker, op: Op, wait_ms: int) -> Any:
        done = carry_out(self, op, wait_ms)
        if isinstance(op, Publish) and done.left:
            blow.fall("publishing")
        return done

    Broker._carry_out = struck  # type: ignore[method-assign]


def _last(offset: dict[str, Any]) -> int:
    return max((n for shards in offset["claims"].values() for n in shards.values()), default=0)


def _kill_and_await(process_id: int) -> None:
    """It is dead, if not yet buried by its parent."""
    process = os.pidfd_open(process_id)
    os.kill(process_id, signal.SIGKILL)
    select.select([process], [], [])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
