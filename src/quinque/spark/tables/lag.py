"""The lag of each group, and the dead messages.

Called by   spark/jobs/build.py, the declarative example.
Calls       lifecycle.py.

Not here: hour by hour (hours.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.tables.columns import HOUR_S, is_named_worklist, millis_between, utc_floor
from quinque.spark.tables.lifecycle import message_rows

SAMPLES: Final = 5
_GROUP: Final = ("family", "queue", "consumer_group")


def group_lag(lifecycle: DataFrame) -> DataFrame:
    """Return one row for each group of an events queue, and one with the group "" for each other
    queue.

    `lag` is the number of live messages that the group has not finished, `held` the number of those
    that are leased, and `oldest_ms` the age of the first of them when the newest event of the queue
    was recorded.
    """
    worklists = message_rows(lifecycle).where(is_named_worklist())
    groups = lifecycle.where("consumer_group <> ''")
    known = worklists.select(*_GROUP).unionByName(groups.select(*_GROUP)).distinct()
    newest = lifecycle.groupBy("family", "queue").agg(F.max("changed").alias("newest"))
    behind = (
        worklists.where("state = 'open'")
        .select(*_GROUP, "added", "is_held")
        .unionByName(_unfinished(lifecycle, groups))
        .groupBy(*_GROUP)
        .agg(
            F.count("*").alias("lag"),
            F.sum(F.col("is_held").cast("int")).alias("held"),
            F.min("added").alias("oldest"),
        )
    )
    return (
        known.join(behind, list(_GROUP), "left")
        .join(newest, ["family", "queue"], "left")
        .select(
            *_GROUP,
            F.coalesce("lag", F.lit(0)).alias("lag"),
            F.coalesce("held", F.lit(0)).alias("held"),
            millis_between(F.col("oldest"), F.col("newest")).alias("oldest_ms"),
            "newest",
        )
    )


def _unfinished(lifecycle: DataFrame, groups: DataFrame) -> DataFrame:
    """The live messages of feeds, once for each group of the feed that has not finished them."""
    key = [*_GROUP, "message_id"]
    done = groups.where("state = 'acked'").select(*key)
    held = groups.where("is_held").select(*key, F.lit(True).alias("is_held"))
    return (
        message_rows(lifecycle)
        .where(~is_named_worklist() & (F.col("state") == "open"))
        .select("family", "queue", "message_id", "added")
        .join(groups.select(*_GROUP).distinct(), ["family", "queue"])
        .join(done, key, "left_anti")
        .join(held, key, "left")
        .select(*_GROUP, "added", F.coalesce("is_held", F.lit(False)).alias("is_held"))
    )


def dead_letters(lifecycle: DataFrame) -> DataFrame:
    """Return one row for each queue, reason and hour of the last death: how many died, how many of
    them are still dead, and some of their ids."""
    key = ("family", "queue", "reason", "hour")
    died = (
        message_rows(lifecycle)
        .where("deaths > 0")
        .select(
            *("family", "queue", "message_id", "state", "died"),
            F.col("death_reason").alias("reason"),
            utc_floor(F.col("died"), HOUR_S).alias("hour"),
        )
    )
    place = F.row_number().over(Window.partitionBy(*key).orderBy("died", "message_id"))
    return (
        died.select("*", place.alias("place"))
        .groupBy(*key)
        .agg(
            F.count("*").alias("messages"),
            F.sum((F.col("state") == "dead").cast("int")).alias("still_dead"),
            F.min("died").alias("first"),
            F.max("died").alias("last"),
            F.sort_array(
                F.collect_list(F.when(F.col("place") <= SAMPLES, F.col("message_id")))
            ).alias("sample_ids"),
        )
    )
