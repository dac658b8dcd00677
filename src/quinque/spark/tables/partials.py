"""What one batch of events tells about each message and each minute, so that batches can be merged.

Called by   spark/jobs/build.py, the declarative example.
Calls       columns.py.

    lifecycle partial   one row per message (and group, in a feed)
    flow partial        one row per queue, group, minute, kind and reason: how many, of how much

Not here: what the merged partials mean (lifecycle.py, hours.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.model.lifecycle import Kind, Reason
from quinque.spark.tables.columns import ENDS, MESSAGE, change, is_worklist

_FLOW: Final = ("family", "queue", "consumer_group", "minute", "kind", "reason")


def lifecycle_partials(events: DataFrame) -> DataFrame:
    """What the events say of each message.

    A worklist's message is one row, whoever was handed it; in a feed each group has its own.
    """
    group = F.when(is_worklist(), F.lit("")).otherwise(F.col("consumer_group"))
    kind = F.col("kind")
    numbered = events.withColumn("consumer_group", group)
    return numbered.groupBy(*MESSAGE).agg(
        F.max("shard").alias("shard"),
        F.min(_at(Kind.ADDED)).alias("added"),
        F.max("size").alias("size"),
        _count(kind == Kind.ADDED).alias("additions"),
        F.min(_at(Kind.DELIVERED)).alias("first_delivered"),
        F.max(_at(Kind.DELIVERED)).alias("last_delivered"),
        _count(kind == Kind.DELIVERED).alias("deliveries"),
        F.max(_at(*ENDS)).alias("ended"),
        _count(kind == Kind.ACKED).alias("acks"),
        _count(kind == Kind.EXPIRED).alias("expiries"),
        _count(kind == Kind.REMOVED).alias("removals"),
        F.max(_at(Kind.DEAD)).alias("died"),
        _count(kind == Kind.DEAD).alias("deaths"),
        _count(F.col("reason") == Reason.NACKED).alias("nacks"),
        _count(F.col("reason") == Reason.LAPSED).alias("lapses"),
        F.min(F.when(kind == Kind.ACKED, F.col("seq"))).alias("first_ack_seq"),
        F.max(F.when(kind == Kind.DELIVERED, F.col("seq"))).alias("last_delivered_seq"),
        F.max(F.when(kind == Kind.DEAD, change())).alias("last_death"),
        F.max(change()).alias("last_change"),
    )


def merge_lifecycle_partials(partials: DataFrame) -> DataFrame:
    """What all batches say of each message."""
    merges = (
        (F.min, ("added", "first_delivered", "first_ack_seq")),
        (F.max, ("shard", "size", "last_delivered", "ended", "died", "last_delivered_seq")),
        (F.max, ("last_death", "last_change")),
        (F.sum, ("additions", "deliveries", "acks", "expiries", "removals")),
        (F.sum, ("deaths", "nacks", "lapses")),
    )
    return partials.groupBy(*MESSAGE).agg(
        *[merge(name).alias(name) for merge, names in merges for name in names]
    )


def flow_partials(events: DataFrame) -> DataFrame:
    """How many events of each kind there were, by the minute."""
    minute = F.timestamp_seconds(F.floor(F.unix_seconds("ts") / 60) * 60).alias("minute")
    return events.groupBy("family", "queue", "consumer_group", minute, "kind", "reason").agg(
        F.count("*").alias("events"), F.coalesce(F.sum("size"), F.lit(0)).alias("bytes")
    )


def merge_flow_partials(partials: DataFrame) -> DataFrame:
    """The counts of all batches."""
    return partials.groupBy(*_FLOW).agg(
        F.sum("events").alias("events"), F.sum("bytes").alias("bytes")
    )


def _at(*kinds: Kind) -> Column:
    """When it was, if it is an event of one of these kinds."""
    return F.when(F.col("kind").isin(*[kind.value for kind in kinds]), F.col("ts"))


def _count(is_counted: Column) -> Column:
    return F.sum(is_counted.cast("int"))
