"""One row for each message: its addition, its deliveries and its end.

Called by   spark/jobs/build.py, the declarative example.
Calls       columns.py.

    acked      a consumer finished it (in a feed: that group did)
    expired    its time to live ended before
    removed    it was deleted, or its queue emptied
    dead       it reached its maximum number of deliveries; it is kept
    open       none of these: it waits, or a consumer has it

`changed` is the time of its last change. `revived` is when it was redriven after its last death.

The row of a group in an events queue has the changes by that group. The row of the message has its
addition, its size and its end. group_rows() joins the two.

Not here: the partials of batches (partials.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.model.lifecycle import Kind
from quinque.spark.tables.columns import (
    family_name,
    is_named_worklist,
    kind_of,
    millis_between,
    reason_name,
    reason_of,
    utc_day,
)

# Named, because a function that asks a DataFrame for its columns cannot be declared in a pipeline.
COLUMNS: Final = (
    *("family", "queue", "message_id", "consumer_group", "shard", "state", "is_held", "size"),
    *("added", "first_delivered", "last_delivered", "ended", "died", "revived", "changed"),
    *("additions", "deliveries", "acks", "expiries", "removals", "deaths", "nacks", "lapses"),
    "death_reason",
    *("wait_ms", "run_ms", "total_ms", "is_after_ack", "dt"),
)


def lifecycle(merged: DataFrame) -> DataFrame:
    """The rows of all messages, and of groups in feeds, with what follows from them."""
    last = kind_of(F.col("last_change"))
    is_acked = last == Kind.ACKED
    is_over = last.isin(Kind.ACKED.value, Kind.EXPIRED.value, Kind.REMOVED.value)
    return merged.select(
        family_name().alias("family"),
        "queue",
        "message_id",
        "consumer_group",
        "shard",
        _state(last).alias("state"),
        last.isin(Kind.DELIVERED.value, Kind.HELD.value).alias("is_held"),
        "size",
        "added",
        "first_delivered",
        "last_delivered",
        F.when(is_over, F.col("ended")).alias("ended"),
        "died",
        F.when(F.col("last_revival") > F.col("last_death"), F.col("revived")).alias("revived"),
        "changed",
        "additions",
        "deliveries",
        "acks",
        "expiries",
        "removals",
        "deaths",
        "nacks",
        "lapses",
        reason_name(reason_of(F.col("last_death"))).alias("death_reason"),
        millis_between(F.col("added"), F.col("first_delivered")).alias("wait_ms"),
        F.when(is_acked, millis_between(F.col("last_delivered"), F.col("ended"))).alias("run_ms"),
        F.when(is_acked, millis_between(F.col("added"), F.col("ended"))).alias("total_ms"),
        F.coalesce(F.col("last_delivered_seq") > F.col("first_ack_seq"), F.lit(False)).alias(
            "is_after_ack"
        ),
        utc_day(F.col("added")).alias("dt"),
    )


def message_rows(lifecycle: DataFrame) -> DataFrame:
    """The rows of messages themselves, without those of groups."""
    return lifecycle.where("consumer_group = ''")


def live_spans(messages: DataFrame) -> DataFrame:
    """Return the spans in which each message whose addition is logged was live, with its other
    columns: `came`, and `went`, which is null while the message is live.

    A dead message is not live. If it was redriven, it has two rows, with its last death between
    them. A row of `lifecycle` does not have the times of earlier deaths.
    """
    known = messages.where(F.col("added").isNotNull())
    first = known.select(
        "*", F.col("added").alias("came"), F.coalesce("died", "ended").alias("went")
    )
    again = known.where(F.col("revived").isNotNull()).select(
        "*", F.col("revived").alias("came"), F.col("ended").alias("went")
    )
    return first.unionByName(again)


def group_rows(lifecycle: DataFrame) -> DataFrame:
    """Return the rows of groups with the columns of the row of their message: when it was added,
    how often, its size, and its end unless the group finished it."""
    key = ["family", "queue", "message_id"]
    told = ("added", "size", "additions", "ended", "state", "dt")
    message = message_rows(lifecycle).where(~is_named_worklist())
    both = lifecycle.where("consumer_group <> ''").join(
        message.select(*key, *[F.col(name).alias(f"message_{name}") for name in told]), key, "left"
    )
    is_done = F.col("state") == "acked"
    added = F.col("message_added")
    theirs = {
        "added": added,
        "dt": F.col("message_dt"),
        "size": F.col("message_size"),
        "additions": F.coalesce("message_additions", F.lit(0)),
        "ended": F.when(is_done, F.col("ended")).otherwise(F.col("message_ended")),
        "state": F.when(is_done, F.lit("acked")).otherwise(F.coalesce("message_state", "state")),
        "wait_ms": millis_between(added, F.col("first_delivered")),
        "total_ms": F.when(is_done, millis_between(added, F.col("ended"))),
    }
    return both.select(*[theirs.get(name, F.col(name)).alias(name) for name in COLUMNS])


def _state(last: Column) -> Column:
    return (
        F.when(last == Kind.ACKED, F.lit("acked"))
        .when(last == Kind.EXPIRED, F.lit("expired"))
        .when(last == Kind.REMOVED, F.lit("removed"))
        .when(last == Kind.DEAD, F.lit("dead"))
        .otherwise(F.lit("open"))
    )
