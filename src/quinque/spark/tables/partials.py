"""Aggregate a batch of events by message and by minute, so that batches can be merged.

Called by   spark/jobs/build.py, the declarative example.
Calls       columns.py.

    lifecycle partial   one row per message (and group, in a feed)
    flow partial        one row per queue, group, minute, kind and reason: how many, of how much

Not here: the meaning of merged partials (lifecycle.py, hours.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.model.lifecycle import Kind, Reason
from quinque.spark.tables.columns import (
    ENDS,
    JOURNAL_RAW,
    MESSAGE,
    MINUTE_S,
    change,
    is_worklist,
    utc_floor,
)

_FLOW: Final = ("family", "queue", "consumer_group", "minute", "kind", "reason")


def lifecycle_partials(events: DataFrame) -> DataFrame:
    """Return the partials of messages.

    In an events queue each group has its own row. In other families a message has one row for all
    its consumers.
    """
    group = F.when(is_worklist(), F.lit("")).otherwise(F.col("consumer_group"))
    numbered = events.select(
        *[name for name in JOURNAL_RAW.names if name != "consumer_group"],
        group.alias("consumer_group"),
        change().alias("change"),
    )
    return numbered.groupBy(*MESSAGE).agg(
        F.max("shard").alias("shard"),
        _of("min(ts)", Kind.ADDED).alias("added"),
        F.max("size").alias("size"),
        _of("count(*)", Kind.ADDED).alias("additions"),
        _of("min(ts)", Kind.DELIVERED).alias("first_delivered"),
        _of("max(ts)", Kind.DELIVERED).alias("last_delivered"),
        _of("count(*)", Kind.DELIVERED).alias("deliveries"),
        _of("max(ts)", *ENDS).alias("ended"),
        _of("count(*)", Kind.ACKED).alias("acks"),
        _of("count(*)", Kind.EXPIRED).alias("expiries"),
        _of("count(*)", Kind.REMOVED).alias("removals"),
        _of("max(ts)", Kind.DEAD).alias("died"),
        _of("count(*)", Kind.DEAD).alias("deaths"),
        _because("count(*)", Reason.NACKED).alias("nacks"),
        _because("count(*)", Reason.LAPSED).alias("lapses"),
        _because("max(ts)", Reason.REDRIVEN).alias("revived"),
        _of("min(seq)", Kind.ACKED).alias("first_ack_seq"),
        _of("max(seq)", Kind.DELIVERED).alias("last_delivered_seq"),
        _of("max(change)", Kind.DEAD).alias("last_death"),
        _because("max(change)", Reason.REDRIVEN).alias("last_revival"),
        F.max("change").alias("last_change"),
        F.max("ts").alias("changed"),
    )


def merge_lifecycle_partials(partials: DataFrame) -> DataFrame:
    """Merge the partials of all batches."""
    merges = (
        (F.min, ("added", "first_delivered", "first_ack_seq")),
        (F.max, ("shard", "size", "last_delivered", "ended", "died", "last_delivered_seq")),
        (F.max, ("last_death", "last_revival", "last_change", "revived", "changed")),
        (F.sum, ("additions", "deliveries", "acks", "expiries", "removals")),
        (F.sum, ("deaths", "nacks", "lapses")),
    )
    return partials.groupBy(*MESSAGE).agg(
        *[merge(name).alias(name) for merge, names in merges for name in names]
    )


def flow_partials(events: DataFrame) -> DataFrame:
    """Count events of each type, by the minute."""
    minute = utc_floor(F.col("ts"), MINUTE_S).alias("minute")
    return events.groupBy("family", "queue", "consumer_group", minute, "kind", "reason").agg(
        F.count("*").alias("events"), F.coalesce(F.sum("size"), F.lit(0)).alias("bytes")
    )


def merge_flow_partials(partials: DataFrame) -> DataFrame:
    """The counts of all batches."""
    return partials.groupBy(*_FLOW).agg(
        F.sum("events").alias("events"), F.sum("bytes").alias("bytes")
    )


def _of(aggregate: str, *kinds: Kind) -> Column:
    """The aggregate of the events of these kinds alone.

    As a filter, since Spark then passes over what an event does not touch; with a CASE in the
    aggregate it would write every one of the twenty-two for every event.
    """
    numbers = ", ".join(str(kind.value) for kind in kinds)
    return F.expr(f"{aggregate} FILTER (WHERE kind IN ({numbers}))")


def _because(aggregate: str, reason: Reason) -> Column:
    return F.expr(f"{aggregate} FILTER (WHERE reason = {reason.value})")
