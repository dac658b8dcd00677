"""The Spark connector, compared to the same query on synthetic rows.

    write   a batch of rows into a queue of jobs: staged by tasks, published once
    peek    a read of all of them, which changes nothing
    drain   a stream that claims, writes to Parquet and commits, 100,000 messages in each batch; the
            first batch, in which Spark compiles, is not counted

The figures are rows per second from end to end, local[2], bodies of 100 bytes, fsync always. Each
is compared to spark_synthetic.py in the same place, so that a loss can be located.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.harness import (
    ROOT,
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    python_path,
    scratch,
    start_quinque,
    times,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1_000_000
PER_BATCH = 100_000
DRAINED = 600_000
ROUNDS = 3


def run(quick: bool) -> Result:
    from bench.spark_synthetic import SyntheticDataSource
    from quinque.spark.session import build_session

    result = Result()
    table = Table("Spark: rows per second", ["", "quinque", "synthetic", "quinque / synthetic"])
    result.tables.append(table)
    os.environ |= python_path(ROOT)  # where Spark's own Python processes find this folder
    session = build_session(
        "quinque-bench", "local[2]", settings={"spark.ui.enabled": "false"}, log_level="ERROR"
    )
    session.dataSource.register(SyntheticDataSource)
    rounds = 1 if quick else ROUNDS
    try:
        with scratch() as folder, start_quinque(folder / "data") as server:
            bench = _Bench(session, server, folder, quick)
            for name, ours, theirs in (
                ("write", bench.write, bench.write_synthetic),
                ("peek", bench.peek, bench.peek_synthetic),
                ("drain", bench.drain, bench.drain_synthetic),
            ):
                rates = in_turns({"ours": ours, "theirs": theirs}, rounds)
                ratio = median_ratio(rates["ours"], rates["theirs"])
                numbers = [per_second(median(rates[who])) for who in ("ours", "theirs")]
                table.rows.append([name, *numbers, times(ratio)])
                result.figures[f"spark {name}"] = median(rates["ours"])
                result.figures[f"spark {name}, beside synthetic"] = ratio
    finally:
        session.stop()
    return result


class _Bench:
    def __init__(self, spark: SparkSession, server: Server, folder: Path, quick: bool) -> None:
        self._spark, self._folder = spark, folder
        self._url = f"redis://127.0.0.1:{server.port}"
        self._rows = 20_000 if quick else ROWS
        self._drained = 20_000 if quick else DRAINED
        self._per_batch = 5_000 if quick else PER_BATCH
        self._made = 0

    def write(self) -> float:
        self._made += 1
        return self._timed(self._rows, self._writing(f"written-{self._made}", self._rows))

    def write_synthetic(self) -> float:
        return self._timed(
            self._rows,
            lambda: self._bodies(self._rows).write.format("synthetic").mode("append").save(),
        )

    def peek(self) -> float:
        queue = f"written-{self._made}"
        rows = self._spark.read.format("quinque").option("url", self._url).option("queue", queue)
        return self._timed(self._rows, lambda: _drop(rows.load()))

    def peek_synthetic(self) -> float:
        rows = self._spark.read.format("synthetic").option("rows", self._rows)
        return self._timed(self._rows, lambda: _drop(rows.load()))

    def drain(self) -> float:
        self._made += 1
        queue = f"drained-{self._made}"
        self._writing(queue, self._drained)()
        rows = (
            self._spark.readStream.format("quinque")
            .option("url", self._url)
            .option("queue", queue)
            .option("subscription", "bench")
            .option("maxMessagesPerTrigger", self._per_batch)
        )
        return self._stream(rows.load())

    def drain_synthetic(self) -> float:
        rows = (
            self._spark.readStream.format("synthetic")
            .option("rows", self._drained)
            .option("perBatch", self._per_batch)
        )
        return self._stream(rows.load())

    def _writing(self, queue: str, count: int) -> Callable[[], None]:
        def write() -> None:
            rows = self._bodies(count).write.format("quinque").mode("append")
            rows.option("url", self._url).option("queue", queue).save()

        return write

    def _bodies(self, count: int) -> DataFrame:
        return self._spark.range(0, count, 1, 4).selectExpr("rpad(id, 100, 'x') as body")

    def _stream(self, rows: DataFrame) -> float:
        lake, log = self._folder / "lake", self._folder / "checkpoint"
        writing = rows.writeStream.format("parquet").option("checkpointLocation", str(log))
        query = writing.option("path", str(lake)).trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [it for it in query.recentProgress if it["numInputRows"]]
        batches = batches[1:] or batches
        count: int = sum(it["numInputRows"] for it in batches)
        spent_s: float = sum(it["durationMs"]["triggerExecution"] for it in batches) / 1000
        shutil.rmtree(lake)
        shutil.rmtree(log)
        return count / spent_s

    def _timed(self, count: int, work: Callable[[], None]) -> float:
        start_s = time.perf_counter()
        work()
        return count / (time.perf_counter() - start_s)


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
