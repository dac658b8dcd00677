"""The events of each queue and each consumer by the hour.

Called by   spark/jobs/build.py, the declarative example.
Calls       columns.py, lifecycle.py.

    queue_hour      what came in and went out, how long it waited and was worked on, what was left
    consumer_hour   what each consumer was handed and what it made of that

A consumer is a group of an events queue or a subscription, because the log does not have single
clients. All clients that take messages of other families without a claim are one consumer, "".

Not here: minutes (flow.py), the backlog of groups (lag.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.model.lifecycle import Kind, Reason
from quinque.spark.tables.columns import (
    HOUR_S,
    family_name,
    is_worklist,
    millis_between,
    utc_floor,
)
from quinque.spark.tables.lifecycle import group_rows, live_spans, message_rows

_QUEUE: Final = ("family", "queue")
_QUEUE_HOUR: Final = ("family", "queue", "hour")
_SPANS: Final = ("wait", "run", "total")
_PERCENTS: Final = (50, 95, 99)


def queue_hour(flow: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return one row for each queue and hour in which anything happened.

    Percentiles are those of messages that were first delivered (wait) or finished (run, total) in
    the hour. `depth` and `oldest_ms` are those of live messages at its end, independent of groups
    and without dead messages.
    """
    counts = (
        flow.select("*", _by_consumer().alias("is_by_consumer"))
        .groupBy(family_name().alias("family"), "queue", _hour("minute"))
        .agg(
            _events(Kind.ADDED).alias("added"),
            _sum_of(F.col("kind") == Kind.ADDED, "bytes").alias("added_bytes"),
            _events(Kind.DELIVERED).alias("delivered"),
            _events(Kind.ACKED, by_consumers=True).alias("acked"),
            _because(Reason.NACKED).alias("nacked"),
            _because(Reason.LAPSED).alias("lapsed"),
            _events(Kind.EXPIRED).alias("expired"),
            _events(Kind.DEAD).alias("dead"),
            _events(Kind.REMOVED).alias("removed"),
        )
    )
    worked = message_rows(lifecycle).unionByName(group_rows(lifecycle))
    waits = _percentiles(worked, "first_delivered", ["wait_ms"])
    works = _percentiles(worked.where("state = 'acked'"), "ended", ["run_ms", "total_ms"])
    redelivered = F.greatest(
        F.col("delivered") - F.coalesce("first_deliveries", F.lit(0)), F.lit(0)
    ) / F.col("delivered")
    return (
        counts.join(waits, list(_QUEUE_HOUR), "left")
        .join(works, list(_QUEUE_HOUR), "left")
        .join(_left_over(counts.select(*_QUEUE_HOUR), lifecycle), list(_QUEUE_HOUR), "left")
        .select(
            *_QUEUE_HOUR,
            *("added", "added_bytes", "delivered", "acked", "nacked", "lapsed"),
            *("expired", "dead", "removed"),
            *[f"{span}_p{percent}_ms" for span in _SPANS for percent in _PERCENTS],
            F.when(F.col("delivered") > 0, redelivered).alias("redelivery_rate"),
            *("depth", "oldest_ms"),
        )
    )


def consumer_hour(flow: DataFrame) -> DataFrame:
    """Return one row for each queue, consumer and hour in which the consumer got or finished a
    message."""
    counts = (
        flow.where((F.col("kind") != Kind.ADDED) & _by_consumer())
        .groupBy(
            family_name().alias("family"),
            "queue",
            F.col("consumer_group").alias("consumer"),
            _hour("minute"),
        )
        .agg(
            _events(Kind.DELIVERED).alias("delivered"),
            _events(Kind.ACKED).alias("acked"),
            _because(Reason.NACKED).alias("nacked"),
            _because(Reason.LAPSED).alias("lapsed"),
        )
    )
    is_busy = (F.col("delivered") + F.col("acked") + F.col("nacked") + F.col("lapsed")) > 0
    ended = F.col("acked") + F.col("nacked") + F.col("lapsed")
    return counts.where(is_busy).select(
        "*",
        F.when(ended > 0, F.col("acked") / ended).alias("ack_rate"),
        F.when(ended > 0, F.col("nacked") / ended).alias("nack_rate"),
    )


def _hour(when: str) -> Column:
    return utc_floor(F.col(when), HOUR_S).alias("hour")


def _by_consumer() -> Column:
    """Not the end of a feed's single message for everyone, which its group's ack brought about."""
    return is_worklist() | (F.col("consumer_group") != "")


def _events(kind: Kind, by_consumers: bool = False) -> Column:
    is_one = F.col("kind") == kind
    if by_consumers:
        is_one &= F.col("is_by_consumer")
    return _sum_of(is_one, "events")


def _because(reason: Reason) -> Column:
    return _sum_of(F.col("reason") == reason, "events")


def _sum_of(is_one: Column, name: str) -> Column:
    """Return a sum that is 0, not null, in an hour without such an event."""
    return F.coalesce(F.sum(F.when(is_one, F.col(name))), F.lit(0))


def _percentiles(lifecycle: DataFrame, when: str, spans: list[str]) -> DataFrame:
    """Percentiles of these spans, by the hour of `when`."""
    counted = "first_deliveries" if when == "first_delivered" else "finished"
    values = [
        F.expr(f"percentile_approx({span}, array({', '.join(str(p / 100) for p in _PERCENTS)}))")
        for span in spans
    ]
    rows = (
        lifecycle.where(F.col(when).isNotNull())
        .groupBy("family", "queue", _hour(when))
        .agg(
            F.count("*").alias(counted),
            *[value.alias(f"{span}s") for value, span in zip(values, spans, strict=True)],
        )
    )
    parts = [
        F.col(f"{span}s")[place].alias(f"{span.removesuffix('_ms')}_p{percent}_ms")
        for span in spans
        for place, percent in enumerate(_PERCENTS)
    ]
    return rows.select(*_QUEUE_HOUR, counted, *parts)


def _left_over(hours: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return how many messages were live at the end of each of the hours, and the age of the
    oldest.

    Messages are first grouped by the hours in which they were added and removed: the size of that
    table depends on the hours, not on the messages.
    """
    spans = (
        live_spans(message_rows(lifecycle))
        .groupBy(
            *_QUEUE,
            utc_floor(F.col("came"), HOUR_S).alias("came"),
            utc_floor(F.col("went"), HOUR_S).alias("went"),
        )
        .agg(F.count("*").alias("messages"), F.min("added").alias("oldest"))
    )
    is_there = (F.col("came") <= F.col("hour")) & (
        F.col("went").isNull() | (F.col("went") > F.col("hour"))
    )
    end = F.col("hour") + F.expr("interval 1 hour")
    return (
        hours.join(spans, list(_QUEUE), "left")
        .groupBy(*_QUEUE_HOUR)
        .agg(
            F.coalesce(F.sum(F.when(is_there, F.col("messages"))), F.lit(0)).alias("depth"),
            F.min(F.when(is_there, F.col("oldest"))).alias("oldest"),
        )
        .select(*_QUEUE_HOUR, "depth", millis_between(F.col("oldest"), end).alias("oldest_ms"))
    )
