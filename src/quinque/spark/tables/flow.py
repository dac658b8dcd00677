"""Messages that were added, started and removed in each minute, and their sizes.

Called by   spark/jobs/build.py, spark/report/, the declarative example.
Calls       lifecycle.py.

Not here: hours (hours.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.tables.columns import MINUTE_S, is_named_worklist, utc_floor
from quinque.spark.tables.lifecycle import message_rows

_QUEUE: Final = ("family", "queue")


def cumulative_flow(lifecycle: DataFrame) -> DataFrame:
    """Return one row for each queue and minute in which a message was added, started or removed.

    `arrived`, `started` and `departed` count messages up to the end of the minute. The differences
    are the backlog and the work in progress. An event is started when its first group gets it.
    """
    steps = (
        ("arrived", _minutes(message_rows(lifecycle), "added")),
        ("started", _first_starts(lifecycle)),
        ("departed", _minutes(message_rows(lifecycle), "ended")),
    )
    counts = [
        minutes.select(
            *_QUEUE,
            "minute",
            *[(F.col("n") if name == word else F.lit(0)).alias(word) for word, _ in steps],
        )
        for name, minutes in steps
    ]
    every = counts[0].unionByName(counts[1]).unionByName(counts[2])
    so_far = Window.partitionBy(*_QUEUE).orderBy("minute")
    return (
        every.groupBy(*_QUEUE, "minute")
        .agg(*[F.sum(word).alias(word) for word, _ in steps])
        .select(*_QUEUE, "minute", *[F.sum(word).over(so_far).alias(word) for word, _ in steps])
    )


def size_hist(lifecycle: DataFrame) -> DataFrame:
    """Return how many messages of each queue have at most `upto_bytes`, a power of two, and more
    than half of that."""
    upto = F.when(F.col("size") <= 1, F.lit(1)).otherwise(
        F.pow(F.lit(2), F.ceil(F.log2(F.col("size"))))
    )
    return (
        message_rows(lifecycle)
        .where(F.col("size").isNotNull())
        .groupBy(*_QUEUE, upto.cast("bigint").alias("upto_bytes"))
        .agg(F.count("*").alias("messages"), F.sum("size").alias("bytes"))
    )


def _first_starts(lifecycle: DataFrame) -> DataFrame:
    worklists = lifecycle.where(is_named_worklist())
    feeds = (
        lifecycle.where(~is_named_worklist())
        .groupBy(*_QUEUE, "message_id")
        .agg(F.min("first_delivered").alias("first_delivered"))
    )
    return _minutes(
        worklists.select(*_QUEUE, "first_delivered").unionByName(
            feeds.select(*_QUEUE, "first_delivered")
        ),
        "first_delivered",
    )


def _minutes(rows: DataFrame, when: str) -> DataFrame:
    return (
        rows.where(F.col(when).isNotNull())
        .groupBy(*_QUEUE, utc_floor(F.col(when), MINUTE_S).alias("minute"))
        .agg(F.count("*").alias("n"))
    )
