"""The numbers of the report: as many as a page can show, however long the record is.

Called by   spark/jobs/report.py.
Calls       spark/tables/.

Time is cut into slots, from a second to a day, so that there are some two hundred of them at most.

Not here: how they are drawn (plots.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.spark.tables.lifecycle import group_rows, live_spans, message_rows

PERCENTS: Final = (50, 95, 99)
_SLOTS_MOST: Final = 200
_SLOTS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
_DELIVERIES_MOST: Final = 6  # messages with more deliveries are in the same bar
_QUEUES_MOST: Final = 12

_NEEDED: Final = (
    *("family", "queue", "state", "size", "added", "first_delivered", "last_delivered", "ended"),
    *("died", "revived", "changed", "deliveries", "deaths", "nacks", "lapses", "death_reason"),
    *("wait_ms", "run_ms"),
)

Percentiles = tuple[float | None, ...]


@dataclass
class Series:
    """The data of the plots. Lists with one number for each slot are as long as `times`."""

    slot_s: int
    times: list[datetime]
    added: list[int] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    waits_ms: list[Percentiles] = field(default_factory=list)
    runs_ms: list[Percentiles] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    oldest_s: list[float] = field(default_factory=list)
    deliveries: dict[int, int] = field(default_factory=dict)  # messages by deliveries
    lapses: int = 0
    nacks: int = 0
    dead: dict[str, dict[str, int]] = field(default_factory=dict)  # by queue, then by reason
    queues: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, Any] = field(default_factory=dict)


def gather(lifecycle: DataFrame) -> Series | None:
    """The numbers of the report, or None when there is no message in the table."""
    # Both are used a dozen times: read and join them once.
    messages = message_rows(lifecycle).select(*_NEEDED).persist()
    worked = (
        message_rows(lifecycle)
        .unionByName(group_rows(lifecycle))
        .where("deliveries > 0")
        .select(*_NEEDED)
        .persist()
    )
    try:
        return _gathered(messages, worked)
    finally:
        messages.unpersist()
        worked.unpersist()


def _gathered(messages: DataFrame, worked: DataFrame) -> Series | None:
    # Messages that were added before the log have no `added`.
    oldest = F.min(F.least("added", "first_delivered", "changed"))
    newest = F.max("changed")
    span = (
        messages.unionByName(worked)
        .agg(F.unix_seconds(oldest).alias("first"), F.unix_seconds(newest).alias("last"))
        .first()
    )
    if span is None or span["first"] is None:
        return None
    slot_s = slot_of(span["last"] - span["first"])
    first, last = (span[name] // slot_s for name in ("first", "last"))
    series = Series(slot_s, [_at(number * slot_s) for number in range(first, last + 1)])
    series.added = _counts(messages, "added", slot_s, first, last)
    series.started = _counts(worked, "first_delivered", slot_s, first, last)
    acked = worked.where("state = 'acked'")
    series.finished = _counts(acked, "ended", slot_s, first, last)
    series.ended = _counts(messages, "ended", slot_s, first, last)
    series.waits_ms = _percentiles(worked, "wait_ms", "first_delivered", slot_s, first, last)
    series.runs_ms = _percentiles(acked, "run_ms", "ended", slot_s, first, last)
    series.depth, series.oldest_s = _left_over(messages, slot_s, first, last)
    _count_deliveries(series, worked)
    _describe_queues(series, messages, worked)
    return series


def slot_of(span_s: int) -> int:
    """Return the length of a slot in seconds for a log of that length."""
    return next((slot for slot in _SLOTS_S if span_s / slot <= _SLOTS_MOST), _SLOTS_S[-1])


def _slot(when: str, slot_s: int) -> Column:
    return F.floor(F.unix_seconds(when) / slot_s).alias("slot")


def _counts(rows: DataFrame, when: str, slot_s: int, first: int, last: int) -> list[int]:
    counted = rows.where(F.col(when).isNotNull()).groupBy(_slot(when, slot_s)).count().collect()
    found = {row["slot"]: row["count"] for row in counted}
    return [found.get(number, 0) for number in range(first, last + 1)]


def _percentiles(
    rows: DataFrame, span: str, when: str, slot_s: int, first: int, last: int
) -> list[Percentiles]:
    shares = ", ".join(str(percent / 100) for percent in PERCENTS)
    counted = (
        rows.where(F.col(span).isNotNull())
        .groupBy(_slot(when, slot_s))
        .agg(F.expr(f"percentile_approx({span}, array({shares}))").alias("values"))
        .collect()
    )
    found = {row["slot"]: tuple(map(float, row["values"])) for row in counted}
    nothing = (None,) * len(PERCENTS)
    return [found.get(number, nothing) for number in range(first, last + 1)]


def _left_over(
    messages: DataFrame, slot_s: int, first: int, last: int
) -> tuple[list[int], list[float]]:
    """Return how many messages were live at the end of each slot, and the age of the oldest of
    them."""
    spans = (
        live_spans(messages)
        .groupBy(_slot("came", slot_s).alias("came"), _slot("went", slot_s).alias("went"))
        .agg(F.count("*").alias("messages"), F.unix_millis(F.min("added")).alias("oldest_ms"))
        .collect()
    )
    # Messages added in a slot and removed in another, as (time of the oldest, slot of the removal).
    coming: dict[int, list[tuple[int, int]]] = {}
    change = [0] * (last - first + 2)
    for row in spans:
        gone = last + 1 if row["went"] is None else row["went"]
        change[row["came"] - first] += row["messages"]
        change[min(gone, last + 1) - first] -= row["messages"]
        coming.setdefault(row["came"], []).append((row["oldest_ms"], gone))
    depth: list[int] = []
    oldest_s: list[float] = []
    there: list[tuple[int, int]] = []
    for number in range(first, last + 1):
        depth.append((depth[-1] if depth else 0) + change[number - first])
        for one in coming.get(number, ()):
            heapq.heappush(there, one)
        while there and there[0][1] <= number:
            heapq.heappop(there)
        end_ms = (number + 1) * slot_s * 1000
        oldest_s.append((end_ms - there[0][0]) / 1000 if there else 0.0)
    return depth, oldest_s


def _count_deliveries(series: Series, worked: DataFrame) -> None:
    often = F.least(F.col("deliveries"), F.lit(_DELIVERIES_MOST)).alias("often")
    for row in worked.groupBy(often).count().collect():
        series.deliveries[row["often"]] = row["count"]
    sums = worked.agg(F.sum("lapses").alias("lapses"), F.sum("nacks").alias("nacks")).first()
    series.lapses = (sums and sums["lapses"]) or 0
    series.nacks = (sums and sums["nacks"]) or 0


def _describe_queues(series: Series, messages: DataFrame, worked: DataFrame) -> None:
    for row in messages.where("deaths > 0").groupBy("queue", "death_reason").count().collect():
        reasons = series.dead.setdefault(row["queue"], {})
        reasons[row["death_reason"] or "none"] = row["count"]
    share = "percentile_approx({0}, array(0.5, 0.99))"
    spans = worked.groupBy("family", "queue").agg(
        F.sum("deliveries").alias("deliveries"),
        F.count("*").alias("worked"),
        F.expr(share.format("wait_ms")).alias("waits"),
        F.expr(share.format("run_ms")).alias("runs"),
    )
    states = messages.groupBy("family", "queue").agg(
        F.count("*").alias("messages"),
        F.sum(F.coalesce("size", F.lit(0))).alias("bytes"),
        *[
            F.sum((F.col("state") == state).cast("int")).alias(state)
            for state in ("acked", "expired", "removed", "dead", "open")
        ],
    )
    rows = states.join(spans, ["family", "queue"], "left").orderBy(F.desc("messages"), "queue")
    every = [row.asDict() for row in rows.collect()]
    series.queues = every[:_QUEUES_MOST]
    series.totals = {
        "queues": len(every),
        **{
            name: sum(row[name] or 0 for row in every)
            for name in ("messages", "acked", "expired", "removed", "dead", "open", "bytes")
        },
        "deliveries": sum(row["deliveries"] or 0 for row in every),
        "worked": sum(row["worked"] or 0 for row in every),
        "waits": _whole(worked, "wait_ms"),
        "runs": _whole(worked, "run_ms"),
    }


def _whole(worked: DataFrame, span: str) -> Sequence[int]:
    found = worked.agg(F.expr(f"percentile_approx({span}, array(0.5, 0.99))").alias("all")).first()
    return (found and found["all"]) or ()


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
