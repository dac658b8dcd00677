"""Bring the tables of a lake up to date with the record that lies in it.

Called by   archive.py, report.py, audit.py, the bench.
Calls       lake.py, aggregation.py, spark/tables/.

Only files that no batch has taken are read. What a batch tells is kept as partials, and the tables
are made of all partials. Run twice, nothing changes; files that come late, or twice, do no harm.

Not here: how the record gets into the lake (archive.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.jobs.aggregation import PARTIAL_FILES, of_events, of_partials, shuffled
from quinque.spark.jobs.lake import PARTIALS, Lake, Piece, batch_files, batch_name, overlap
from quinque.spark.tables.audit import audit, verdict
from quinque.spark.tables.columns import JOURNAL_RAW
from quinque.spark.tables.events import events, merge_ranges, ranges, seq_gaps
from quinque.spark.tables.flow import cumulative_flow, size_hist
from quinque.spark.tables.hours import consumer_hour, queue_hour
from quinque.spark.tables.lag import dead_letters, group_lag
from quinque.spark.tables.lifecycle import lifecycle
from quinque.spark.tables.partials import (
    flow_partials,
    lifecycle_partials,
    merge_flow_partials,
    merge_lifecycle_partials,
)

# A batch is about so many rows: some seconds of work, which a run that is killed loses at most.
BATCH_ROWS: Final = 10_000_000
# When there are so many batches they become one, so that tables are made of few.
_BATCHES_MOST: Final = 24
_TABLES_AT_ONCE: Final = 4

Tell = Callable[[str, int, int], None]  # what is done, how much of it, and of how much

_MERGES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "lifecycle": merge_lifecycle_partials,
    "flow": merge_flow_partials,
    "ranges": merge_ranges,
}


@dataclass
class Built:
    """What a run did."""

    batches: int = 0
    rows: int = 0
    tables: list[str] = field(default_factory=list)


def build_tables(
    spark: SparkSession, lake: Lake, tell: Tell | None = None, batch_rows: int = BATCH_ROWS
) -> Built:
    """Partials are there for all files of the record, and all tables are made of them."""
    built = build_batches(spark, lake, tell, batch_rows)
    if lake.batches() and not lake.tables_are_new():
        built.tables = write_tables(spark, lake, tell)
    return built


def build_batches(
    spark: SparkSession, lake: Lake, tell: Tell | None = None, batch_rows: int = BATCH_ROWS
) -> Built:
    """Partials are there for all files of the record; the tables are as before."""
    built = Built()
    lake.forget_unfinished()
    groups = list(_batches(lake.new_pieces(), batch_rows))
    for number, pieces in enumerate(groups):
        _told(tell, "batches", number, len(groups))
        build_batch(spark, lake, pieces)
        built.batches += 1
        built.rows += sum(piece.rows for piece in pieces)
    _told(tell, "batches", len(groups), len(groups))
    if len(lake.batches()) > _BATCHES_MOST:
        merge_batches(spark, lake)
    return built


def build_batch(spark: SparkSession, lake: Lake, pieces: Sequence[Piece]) -> str:
    """The batch of these files is done; its name."""
    files = batch_files(pieces)
    name = batch_name(files)
    taken = [
        (row["shard"], row["first"], row["last"])
        for batch in lake.batches().values()
        for row in batch.to_pylist()
    ]
    paths = [lake.at("journal_raw", piece.file) for piece in pieces]
    rows = spark.read.schema(JOURNAL_RAW).parquet(*paths)
    if overlap(pieces, taken):
        rows = events(rows)
        if taken:
            rows = _not_in(rows, read_partials(spark, lake, "ranges"))
    with shuffled(spark, sum(piece.rows for piece in pieces)):
        _write_partials(
            lake,
            name,
            {
                "lifecycle": lifecycle_partials(rows),
                "flow": flow_partials(rows),
                "ranges": ranges(rows),
            },
            of_events(spark),
        )
    lake.finish_batch(name, files)
    return name


def merge_batches(spark: SparkSession, lake: Lake) -> str:
    """All batches are one; its name."""
    files = pa.concat_tables(lake.batches().values())
    name = batch_name(files)
    merged = {table: _MERGES[table](read_partials(spark, lake, table)) for table in PARTIALS}
    with shuffled(spark, merged["lifecycle"].count()):
        _write_partials(lake, name, merged, of_partials(spark))
    lake.finish_batch(name, files)
    lake.forget_unfinished()
    return name


def write_tables(spark: SparkSession, lake: Lake, tell: Tell | None = None) -> list[str]:
    """All tables are as the partials say; their names."""
    partials = read_partials(spark, lake, "lifecycle")
    with shuffled(spark, partials.count()):
        _told(tell, "tables", 0, len(TABLES))
        messages = lifecycle(merge_lifecycle_partials(partials))
        with of_partials(spark):
            messages.write.mode("overwrite").partitionBy("dt").parquet(
                lake.at("tables", "lifecycle")
            )

        def write(name: str) -> None:
            made = make_table(spark, lake, name)
            made.repartition(1).write.mode("overwrite").parquet(lake.at("tables", name))

        # Each is many short steps, in which Spark mostly waits for itself.
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as threads:
            for number, _ in enumerate(threads.map(write, TABLES[1:]), 1):
                _told(tell, "tables", number, len(TABLES))
    _told(tell, "tables", len(TABLES), len(TABLES))
    lake.finish_tables()
    return list(TABLES)


def make_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """One of the TABLES that are made of lifecycle and of the partials."""
    messages = read_table(spark, lake, "lifecycle")
    flow = merge_flow_partials(read_partials(spark, lake, "flow"))
    gaps = seq_gaps(read_partials(spark, lake, "ranges"))
    made: dict[str, Callable[[], DataFrame]] = {
        "seq_gaps": lambda: gaps,
        "flow": lambda: flow,
        "queue_hour": lambda: queue_hour(flow, messages),
        "consumer_hour": lambda: consumer_hour(flow),
        "group_lag": lambda: group_lag(messages),
        "dead_letters": lambda: dead_letters(messages),
        "cumulative_flow": lambda: cumulative_flow(messages),
        "size_hist": lambda: size_hist(messages),
        "audit": lambda: verdict(audit(messages, gaps)),
    }
    return made[name]()


def read_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """A table as it was written last."""
    return spark.read.parquet(lake.at("tables", name))


def read_partials(spark: SparkSession, lake: Lake, table: str) -> DataFrame:
    """The partials of all batches that are done."""
    paths = [lake.at("partials", table, f"batch={name}") for name in sorted(lake.batches())]
    return spark.read.parquet(*paths)


def _write_partials(
    lake: Lake,
    name: str,
    partials: dict[str, DataFrame],
    as_messages: AbstractContextManager[None],
) -> None:
    """The partials are there; those of messages were aggregated within `as_messages`."""
    for table, made in partials.items():
        target = lake.at("partials", table, f"batch={name}")
        if table == "lifecycle":
            with as_messages:
                made.write.mode("overwrite").options(**PARTIAL_FILES).parquet(target)
        else:
            made.repartition(1).write.mode("overwrite").parquet(target)


def _batches(pieces: Sequence[Piece], most_rows: int) -> Iterator[list[Piece]]:
    """The files in groups of about so many rows."""
    group: list[Piece] = []
    for piece in pieces:
        if group and sum(one.rows for one in group) + piece.rows > most_rows:
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _not_in(rows: DataFrame, taken: DataFrame) -> DataFrame:
    """The rows whose numbers are in none of the ranges."""
    spans = F.broadcast(
        merge_ranges(taken).select(F.col("shard").alias("in_shard"), "first", "last")
    )
    is_taken = (F.col("shard") == F.col("in_shard")) & F.col("seq").between(
        F.col("first"), F.col("last")
    )
    return rows.join(spans, is_taken, "left_anti")


def _told(tell: Tell | None, what: str, done: int, total: int) -> None:
    if tell is not None:
        tell(what, done, total)


TABLES: Final = (
    "lifecycle",
    "seq_gaps",
    "flow",
    "queue_hour",
    "consumer_hour",
    "group_lag",
    "dead_letters",
    "cumulative_flow",
    "size_hist",
    "audit",
)
