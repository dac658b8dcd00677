"""Bring the tables of a lake up to date with the record that lies in it.

Called by   archive.py, report.py, audit.py, the bench.
Calls       lake.py, compaction.py, aggregation.py, spark/tables/.

Only files that no batch has taken are read. The results of a batch are kept as partials, and the
tables are made of all partials. Run twice, nothing changes; files that come late, or twice, do no
harm. A table is replaced in one commit, and the versions before it can be read for some time.

Not here: how the record gets into the lake (archive.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StringType, StructField, StructType

from quinque.spark.jobs.aggregation import PARTIAL_FILES, of_events, of_partials, shuffled
from quinque.spark.jobs.compaction import compact
from quinque.spark.jobs.lake import PARTIALS, Lake, Piece, covers, overlap
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

# The rows of a batch, about: some seconds of work, which a run that is killed loses at most.
BATCH_ROWS: Final = 10_000_000
# This number of batches becomes one, so that tables are made of few.
_BATCHES_MOST: Final = 24
_TABLES_AT_ONCE: Final = 4
# The number of versions of a table that can be read: each has all its rows once.
VERSIONS: Final = 10

Tell = Callable[[str, int, int], None]  # the kind of work, how much is done, and the total

_MERGES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "lifecycle": merge_lifecycle_partials,
    "flow": merge_flow_partials,
    "ranges": merge_ranges,
}


@dataclass
class Built:
    """The numbers of a run."""

    batches: int = 0
    rows: int = 0
    tables: list[str] = field(default_factory=list)


def build_tables(
    spark: SparkSession, lake: Lake, tell: Tell | None = None, batch_rows: int = BATCH_ROWS
) -> Built:
    """Make partials of all files of the log, and all tables from them.

    Raises FolderLocked if another job writes to the lake for too long.
    """
    with waiting(lake, tell):
        built = build_batches(spark, lake, tell, batch_rows)
        if lake.batches() and not _tables_are_new(lake):
            built.tables = write_tables(spark, lake, tell)
            compact(lake)
        return built


def build_batches(
    spark: SparkSession, lake: Lake, tell: Tell | None = None, batch_rows: int = BATCH_ROWS
) -> Built:
    """Make partials of all files of the log, and leave the tables unchanged."""
    built = Built()
    groups = list(_batches(lake.new_pieces(), batch_rows))
    number = lake.begin() if groups else 0
    for done, pieces in enumerate(groups):
        _told(tell, "batches", done, len(groups))
        number = build_batch(spark, lake, pieces, number)
        built.batches += 1
        built.rows += sum(piece.rows for piece in pieces)
    if groups:  # else the progress of an earlier run stays: a report builds the tables twice
        _told(tell, "batches", len(groups), len(groups))
    if len(lake.batches()) > _BATCHES_MOST:
        merge_batches(spark, lake)
    return built


def build_batch(spark: SparkSession, lake: Lake, pieces: Sequence[Piece], number: int) -> int:
    """The batch of these files is done, since lake.begin() gave `number`; the next number."""
    taken = lake.taken()
    if not all(piece.is_whole and covers(taken, piece.span) for piece in pieces):
        paths = [lake.at("journal_raw", piece.file) for piece in pieces]
        rows = spark.read.schema(JOURNAL_RAW).parquet(*paths)
        if overlap(pieces, taken):
            rows = events(rows)
            if taken:
                rows = _not_in(rows, read_partials(spark, lake, "ranges"))
        with shuffled(spark, sum(piece.rows for piece in pieces)):
            written = _write_partials(
                lake,
                {
                    "lifecycle": lifecycle_partials(rows),
                    "flow": flow_partials(rows),
                    "ranges": ranges(rows),
                },
                of_events(spark),
            )
        number = lake.finish(number, written)
    lake.archive(pieces)
    return number


def merge_batches(spark: SparkSession, lake: Lake) -> None:
    """All batches are one."""
    number = lake.begin()
    merged = {table: _MERGES[table](read_partials(spark, lake, table)) for table in PARTIALS}
    with shuffled(spark, merged["lifecycle"].count()):
        written = _write_partials(lake, merged, of_partials(spark))
    lake.finish(number, written, replaces=True)
    lake.forget_unfinished()


def write_tables(spark: SparkSession, lake: Lake, tell: Tell | None = None) -> list[str]:
    """All tables are as the partials say; their names."""
    number = lake.number()
    partials = read_partials(spark, lake, "lifecycle")

    def replace(name: str, made: DataFrame) -> None:
        table = lake.table(name)
        table.commit(made.schema, table.write(made), replaces=True, number=number)
        table.sweep(VERSIONS)

    with shuffled(spark, partials.count()):
        _told(tell, "tables", 0, len(TABLES))
        messages = lifecycle(merge_lifecycle_partials(partials))
        with of_partials(spark):
            replace("lifecycle", messages)

        def write(name: str) -> None:
            replace(name, make_table(spark, lake, name).repartition(1))

        # Each is many short steps, in which Spark mostly waits for itself.
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as threads:
            for done, _ in enumerate(threads.map(write, TABLES[1:]), 1):
                _told(tell, "tables", done, len(TABLES))
    _told(tell, "tables", len(TABLES), len(TABLES))
    return list(TABLES)


def make_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """Make one of the TABLES from lifecycle and the partials."""
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
    """Return the newest version of a table. Raises BadSetting if there is none."""
    return lake.table(name).read(spark)


def read_partials(spark: SparkSession, lake: Lake, table: str) -> DataFrame:
    """The partials of all batches that are done."""
    return lake.partials[table].read(spark, only=lake.batches())


def _write_partials(
    lake: Lake, partials: dict[str, DataFrame], as_messages: AbstractContextManager[None]
) -> list[AddAction]:
    """Write the partials. Those of messages were aggregated within `as_messages`. The files of the
    ranges are given. When these are in their table, the batch is done."""
    batch = {"batch": uuid.uuid4().hex}
    for name in ("lifecycle", "flow"):
        table, made = lake.partials[name], partials[name]
        if name == "lifecycle":
            with as_messages:
                files = table.write(made, dict(batch), PARTIAL_FILES)
        else:
            files = table.write(made.repartition(1), dict(batch))
        table.commit(StructType([*made.schema, StructField("batch", StringType())]), files)
    return lake.partials["ranges"].write(partials["ranges"].repartition(1), dict(batch))


def _tables_are_new(lake: Lake) -> bool:
    """Return whether the tables are made from the present partials."""
    number = lake.number()
    return all(lake.table(name).number() == number for name in TABLES)


def _batches(pieces: Sequence[Piece], most_rows: int) -> Iterator[list[Piece]]:
    """The files in groups of about `most_rows` rows."""
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


def waiting(lake: Lake, tell: Tell | None) -> AbstractContextManager[None]:
    """Within this block, no other job writes to the lake. Raises FolderLocked."""
    return lake.alone(lambda: _told(tell, "waiting for another job", 0, 1))


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
