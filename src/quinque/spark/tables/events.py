"""Turn exported rows into events without repetitions, and find the missing ones.

Called by   spark/jobs/build.py, the declarative example.
Calls       columns.py.

    ranges      shard, first, last, rows      numbers that follow each other without a gap
    seq_gaps    shard, from, to               numbers that are missing

Not here: the files (spark/jobs/lake.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.tables.columns import JOURNAL_RAW

# Rows are first counted in blocks of 2 to this power: rows of a full block are not read singly.
_BLOCK_BITS: Final = 14


def events(raw: DataFrame) -> DataFrame:
    """Each row of the record once, however often it was exported."""
    return raw.select(JOURNAL_RAW.names).dropDuplicates(["shard", "seq"])


def ranges(events: DataFrame) -> DataFrame:
    """Return the existing numbers as ranges without a gap. Each number counts once."""
    block = F.shiftright(F.col("seq"), _BLOCK_BITS)
    numbers = events.select("shard", "seq", block.alias("block"))
    blocks = numbers.groupBy("shard", "block").agg(
        F.min("seq").alias("first"), F.max("seq").alias("last"), F.count("*").alias("rows")
    )
    is_whole = F.col("rows") == F.col("last") - F.col("first") + 1
    whole = blocks.where(is_whole).select("shard", "first", "last", "rows")
    broken = numbers.join(F.broadcast(blocks.where(~is_whole)), ["shard", "block"], "left_semi")
    single = broken.distinct().select(
        "shard", F.col("seq").alias("first"), F.col("seq").alias("last"), F.lit(1).alias("rows")
    )
    return merge_ranges(whole.unionByName(single))


def merge_ranges(ranges: DataFrame) -> DataFrame:
    """Ranges that touch or overlap are one."""
    before = Window.partitionBy("shard").orderBy("first", "last")
    begins = F.col("first") > F.coalesce(
        F.max("last").over(before.rowsBetween(Window.unboundedPreceding, -1)), F.lit(-1)
    ) + F.lit(1)
    return (
        ranges.select("*", F.sum(begins.cast("int")).over(before).alias("island"))
        .groupBy("shard", "island")
        .agg(F.min("first").alias("first"), F.max("last").alias("last"))
        .select("shard", "first", "last", (F.col("last") - F.col("first") + 1).alias("rows"))
    )


def seq_gaps(ranges: DataFrame) -> DataFrame:
    """Return the missing numbers before and between the ranges of each shard. Numbers start at 1.

    Rows before the first one were not exported, or were already removed: `is_start`.
    """
    in_order = Window.partitionBy("shard").orderBy("first")
    previous = F.coalesce(F.lag("last").over(in_order), F.lit(0))
    return (
        merge_ranges(ranges)
        .select(
            "shard",
            (previous + 1).alias("from"),
            (F.col("first") - 1).alias("to"),
            (previous == 0).alias("is_start"),
        )
        .where(F.col("from") <= F.col("to"))
    )
