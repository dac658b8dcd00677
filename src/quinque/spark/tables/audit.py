"""Check that the lifecycle log adds up: no accepted message was lost, and none was done twice.

Called by   spark/jobs/audit.py, the declarative example.
Calls       lifecycle.py.

For every queue: added = acked + expired + removed + dead + open. The first three count events. The
last two count messages by their last change. So an event that exists twice, or without an added
message, is noticed.

    unbalanced       a message that did not end exactly once, or is there though it ended
    acked_twice      a message finished more often than it came (in a feed: by one group)
    after_ack        handed out after it was finished
    never_delivered  finished by an ack, and never handed out
    unknown          something happened to it, and it never came

In an events queue each group finishes messages for itself. A message ends there when it expires, is
removed, or is acked for all groups. If a producer used an id again, the log does not show which of
the messages was finished: such ids are checked only by their counts.

A client that knows the id of a message in another family can ack it without a delivery:
`never_delivered` is shown and is not a violation.

Not here: rows that are missing in the log (events.py:seq_gaps), the broker's own count
(spark/jobs/audit.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.tables.columns import is_named_worklist
from quinque.spark.tables.lifecycle import group_rows, message_rows

VIOLATIONS: Final = ("unbalanced", "acked_twice", "after_ack", "unknown")
NOTES: Final = ("never_delivered", "unknown_from_before")


def audit(lifecycle: DataFrame, gaps: DataFrame) -> DataFrame:
    """Return one row for each queue: both sides of the equation, and how many messages break a
    rule.

    Messages that were never added are `unknown_from_before`, not `unknown`, in shards whose first
    rows are missing.
    """
    late = gaps.where("is_start").select("shard", F.lit(True).alias("begins_late")).distinct()
    rows = message_rows(lifecycle).unionByName(group_rows(lifecycle))
    rows = rows.join(F.broadcast(late), "shard", "left")
    begins_late = F.coalesce("begins_late", F.lit(False))
    is_message = F.col("consumer_group") == ""
    is_open, is_dead = F.col("state") == "open", F.col("state") == "dead"
    never_came = F.col("additions") == 0
    came = F.when(never_came & begins_late, F.lit(1)).otherwise(F.col("additions"))
    ends = F.col("acks") + F.col("expiries") + F.col("removals")
    there = (is_open | is_dead).cast("int")
    of_message = {"added": "additions", "acked": "acks", "expired": "expiries"}
    return rows.groupBy("family", "queue").agg(
        *[
            _sum(F.when(is_message, F.col(counted))).alias(name)
            for name, counted in (of_message | {"removed": "removals"}).items()
        ],
        _count(is_message & is_dead).alias("dead"),
        _count(is_message & is_open).alias("open"),
        _count(is_message & F.col("is_held")).alias("held"),
        _sum(F.when(~is_message, F.col("acks"))).alias("acked_by_groups"),
        _count(is_message & (came != ends + there)).alias("unbalanced"),
        _sum(F.greatest(F.col("acks") - F.greatest("additions", F.lit(1)), F.lit(0))).alias(
            "acked_twice"
        ),
        _count(F.col("is_after_ack") & (F.col("additions") <= 1)).alias("after_ack"),
        _count(never_came & ~begins_late).alias("unknown"),
        _count(never_came & begins_late & is_message).alias("unknown_from_before"),
        _count((F.col("acks") > 0) & (F.col("deliveries") == 0) & ~_is_single()).alias(
            "never_delivered"
        ),
    )


def verdict(audit: DataFrame) -> DataFrame:
    """Return the difference of the two sides of the equation as `missing`, and `is_good`."""
    out = F.col("acked") + F.col("expired") + F.col("removed") + F.col("dead") + F.col("open")
    broken = F.lit(0)
    for name in VIOLATIONS:
        broken = broken + F.col(name)
    missing = F.col("added") + F.col("unknown_from_before") - out
    return audit.select(
        "*", missing.alias("missing"), ((missing == 0) & (broken == 0)).alias("is_good")
    )


def _is_single() -> Column:
    """Return whether one ack ended an event for all groups: it was delivered to groups, and acked
    without a group."""
    return ~is_named_worklist() & (F.col("consumer_group") == "")


def _sum(value: Column) -> Column:
    return F.coalesce(F.sum(value), F.lit(0)).cast("bigint")


def _count(is_counted: Column) -> Column:
    return _sum(F.coalesce(is_counted, F.lit(False)).cast("int"))
