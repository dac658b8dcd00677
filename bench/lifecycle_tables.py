"""The speed of building one row for each message from the lifecycle log, in Spark and in DuckDB.

Called by   bench/__main__.py.
Calls       bench/journal_rows.py for a log, the tables of src/quinque/spark/, DuckDB.

Ten million state changes in Parquet files of a million, on two threads. In Spark: cold (the first
query of a session), warm, warm into Parquet, and incrementally: five batches of two million into
partials, as the archive job does and with its settings, then merged. That writes a row for every
message of a batch, so it is compared to the way that writes rows too. DuckDB does the same
aggregation in SQL, and the figures are the ratios.

Not here: the cost of the log in a broker (bench/lifecycle_cost.py).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import Result, Table, scratch
from bench.journal_rows import write_journal
from quinque.model.families import JOBS
from quinque.model.lifecycle import Kind, Reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 10_000_000
QUICK_EVENTS = 100_000
BATCHES = 5
TURNS = 3
THREADS = 2


def run(quick: bool) -> Result:
    with scratch() as folder:
        events = write_journal(folder, QUICK_EVENTS if quick else EVENTS)
        spent = _in_spark(folder, 1 if quick else TURNS, events)
        spent |= _in_duckdb(folder, 1 if quick else TURNS)
    table = Table(
        f"Lifecycle log of {events:,} state changes to one row per message, {THREADS} threads",
        ["", "seconds", "changes/s", "times DuckDB"],
    )
    for name, seconds in spent.items():
        other = spent["DuckDB, to Parquet" if "Parquet" in name else "DuckDB, in memory"]
        table.rows.append(
            [name, f"{seconds:.1f}", f"{events / seconds:,.0f}", f"{seconds / other:.1f}"]
        )
    warm, written = spent["Spark, warm, to nowhere"], spent["Spark, warm, to Parquet"]
    return Result(
        [table],
        {
            "tables lifecycle": events / warm,
            "tables incremental": spent["Spark, incremental"] / written,
        },
    )


def _in_spark(folder: Path, turns: int, events: int) -> dict[str, float]:
    from quinque.spark.session import build_session

    spark = build_session(
        "quinque bench",
        f"local[{THREADS}]",
        {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "4g",
            "spark.sql.shuffle.partitions": str(max(2, events // 500_000)),
        },
        log_level="ERROR",
    )
    try:
        return _spark_turns(spark, folder, turns)
    finally:
        spark.stop()


def _spark_turns(spark: SparkSession, folder: Path, turns: int) -> dict[str, float]:
    from quinque.spark.jobs.aggregation import of_events
    from quinque.spark.tables.columns import JOURNAL_RAW
    from quinque.spark.tables.lifecycle import lifecycle
    from quinque.spark.tables.partials import lifecycle_partials

    def rows() -> DataFrame:
        raw = spark.read.schema(JOURNAL_RAW).parquet(str(folder / "journal_raw"))
        return lifecycle(lifecycle_partials(raw))

    def to_nowhere() -> None:
        with of_events(spark):
            rows().write.format("noop").mode("overwrite").save()

    def to_parquet() -> None:
        with of_events(spark):
            rows().write.mode("overwrite").parquet(str(folder / "lifecycle"))

    return {
        "Spark, cold, to nowhere": _best(to_nowhere, 1),
        "Spark, warm, to nowhere": _best(to_nowhere, turns),
        "Spark, warm, to Parquet": _best(to_parquet, turns),
        "Spark, incremental": _best(lambda: _incrementally(spark, folder), turns),
    }


def _incrementally(spark: SparkSession, folder: Path) -> None:
    """Write the partials of each batch to Parquet, then merge all of them."""
    from quinque.spark.jobs.aggregation import PARTIAL_FILES, of_events, of_partials
    from quinque.spark.tables.columns import JOURNAL_RAW
    from quinque.spark.tables.lifecycle import lifecycle
    from quinque.spark.tables.partials import lifecycle_partials, merge_lifecycle_partials

    files = sorted(map(str, (folder / "journal_raw").rglob("*.parquet")))
    shutil.rmtree(folder / "partials", ignore_errors=True)
    each = -(-len(files) // BATCHES)
    for number, start in enumerate(range(0, len(files), each)):
        batch = spark.read.schema(JOURNAL_RAW).parquet(*files[start : start + each])
        written = lifecycle_partials(batch).write.options(**PARTIAL_FILES)
        with of_events(spark):
            written.parquet(str(folder / "partials" / f"batch={number}"))
    partials = spark.read.parquet(str(folder / "partials"))
    merged = lifecycle(merge_lifecycle_partials(partials))
    with of_partials(spark):
        merged.write.format("noop").mode("overwrite").save()


def _in_duckdb(folder: Path, turns: int) -> dict[str, float]:
    import duckdb

    with duckdb.connect() as base:
        base.execute(f"SET threads = {THREADS}")
        base.execute("SET TimeZone = 'UTC'")
        base.execute("SET enable_progress_bar = false")
        rows = _sql(f"{folder}/journal_raw/**/*.parquet")

        def in_memory() -> None:
            base.execute(f"CREATE OR REPLACE TEMP TABLE lifecycle AS {rows}")

        def to_parquet() -> None:
            target = folder / "duckdb.parquet"
            base.execute(f"COPY ({rows}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")

        return {
            "DuckDB, in memory": _best(in_memory, turns),
            "DuckDB, to Parquet": _best(to_parquet, turns),
        }


def _sql(files: str) -> str:
    """Return the SQL of DuckDB for the rows of tables/partials.py and tables/lifecycle.py."""
    count = "count(*) FILTER (kind = {})".format
    at = "{}(ts) FILTER (kind = {})".format
    ends = ", ".join(str(kind.value) for kind in (Kind.ACKED, Kind.EXPIRED, Kind.REMOVED))
    change = "seq * 512 + kind::BIGINT * 32 + reason"
    return f"""
      SELECT *, date_diff('millisecond', added, first_delivered) AS wait_ms,
             date_diff('millisecond', last_delivered, ended) AS run_ms,
             date_diff('millisecond', added, ended) AS total_ms
      FROM (
        SELECT family, queue, message_id,
               CASE WHEN family = {JOBS.code} THEN '' ELSE consumer_group END AS consumer_group,
               max(shard) AS shard, {at("min", Kind.ADDED.value)} AS added, max(size) AS size,
               {count(Kind.ADDED.value)} AS additions,
               {at("min", Kind.DELIVERED.value)} AS first_delivered,
               {at("max", Kind.DELIVERED.value)} AS last_delivered,
               {count(Kind.DELIVERED.value)} AS deliveries,
               max(ts) FILTER (kind IN ({ends})) AS ended,
               {count(Kind.ACKED.value)} AS acks, {count(Kind.EXPIRED.value)} AS expiries,
               {count(Kind.REMOVED.value)} AS removals,
               {at("max", Kind.DEAD.value)} AS died, {count(Kind.DEAD.value)} AS deaths,
               count(*) FILTER (reason = {Reason.NACKED.value}) AS nacks,
               count(*) FILTER (reason = {Reason.LAPSED.value}) AS lapses,
               min(seq) FILTER (kind = {Kind.ACKED.value}) AS first_ack_seq,
               max(seq) FILTER (kind = {Kind.DELIVERED.value}) AS last_delivered_seq,
               max({change}) FILTER (kind = {Kind.DEAD.value}) AS last_death,
               max({change}) AS last_change
        FROM read_parquet('{files}', hive_partitioning = false) GROUP BY ALL)"""


def _best(work: Callable[[], Any], turns: int) -> float:
    spent = []
    for _ in range(turns):
        start_s = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start_s)
    return min(spent)
