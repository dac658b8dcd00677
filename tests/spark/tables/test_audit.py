"""The audit accepts a record that adds up, and names what is wrong with one that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from quinque.model.lifecycle import Kind
from tests.spark.tables.history import SCHEMA, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quinque.spark.jobs.audit import Verdict

Rows = list[dict[str, Any]]

STEPS = 600


def test_a_record_that_adds_up_is_good(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    from quinque.spark.jobs.audit import audit
    from quinque.spark.jobs.lake import Lake

    verdict, summary = audit(spark, Lake(str(lake)))

    lives = [
        life for history in histories for (_, _, group), life in history.lives.items() if not group
    ]
    assert verdict.is_good
    assert set(verdict.violations().values()) == {0}
    assert (summary["verdict"], summary["broker"]) == ("good", "not compared")
    assert verdict.total("added") == len(lives)
    assert verdict.total("open") == sum(life.state == "open" for life in lives)
    assert verdict.total("dead") == sum(life.state == "dead" for life in lives)


def lose_some_rows(rows: Rows) -> None:
    del rows[200:230]


def ack_twice(rows: Rows) -> None:
    _append(rows, _first(rows, Kind.ACKED, "orders"), Kind.ACKED)


def ack_twice_in_a_group(rows: Rows) -> None:
    _append(rows, _first(rows, Kind.ACKED, "news"), Kind.ACKED)


def deliver_after_the_ack(rows: Rows) -> None:
    _append(rows, _first(rows, Kind.ACKED, "orders"), Kind.DELIVERED)


def ack_what_never_came(rows: Rows) -> None:
    stranger = dict(_first(rows, Kind.ACKED, "orders"), message_id="stranger")
    _append(rows, stranger, Kind.ACKED)


def expire_what_was_acked(rows: Rows) -> None:
    _append(rows, _first(rows, Kind.ACKED, "sms"), Kind.EXPIRED)


def test_what_was_planted_is_found(spark: SparkSession) -> None:
    # Each in a shard of its own queues, so that one record has all of them and Spark runs once.
    planted: dict[Callable[[Rows], None], set[str]] = {
        lose_some_rows: {"rows_missing"},
        ack_twice: {"acked_twice"},
        ack_twice_in_a_group: {"acked_twice"},
        deliver_after_the_ack: {"after_ack"},
        ack_what_never_came: {"unknown"},
        expire_what_was_acked: {"unbalanced"},
    }
    record: Rows = []
    for shard, plant in enumerate(planted):
        rows = [
            dict(row, queue=f"{row['queue']}-{shard}")
            for row in History(shard, shard).run(300).rows
        ]
        if plant is lose_some_rows:
            # What happened to the messages is whole: only the numbers of other rows are missing.
            rows = [dict(row, seq=row["seq"] + 50 * (row["seq"] > 100)) for row in rows]
        else:
            plant(rows)
        record += rows

    verdict = _verdict(spark, record)

    assert not verdict.is_good
    assert [(gap["shard"], gap["from"], gap["to"]) for gap in verdict.gaps] == [(0, 101, 150)]
    for shard, (plant, signs) in enumerate(planted.items()):
        queues = [row for row in verdict.queues if row["queue"].endswith(f"-{shard}")]
        for sign in signs - {"rows_missing"}:
            assert sum(row[sign] for row in queues) == 1, plant.__name__
        assert all(row["is_good"] for row in queues) == (signs == {"rows_missing"})


def test_rows_that_were_lost_show_as_a_gap_and_as_messages_that_never_came(
    spark: SparkSession,
) -> None:
    rows = History(5).run(STEPS).rows
    lose_some_rows(rows)

    verdict = _verdict(spark, rows)

    assert not verdict.is_good
    assert verdict.gaps == [{"shard": 0, "from": 201, "to": 230, "is_start": False}]
    assert verdict.total("unknown") > 0


def test_a_record_that_begins_late_is_good_and_says_so(spark: SparkSession) -> None:
    rows = History(5).run(STEPS).rows[150:]

    verdict = _verdict(spark, rows)

    assert verdict.is_good
    assert verdict.begins_late == [{"shard": 0, "from": 1, "to": 150, "is_start": True}]
    assert verdict.total("unknown_from_before") > 0


def test_unknown_messages_are_allowed_when_recording_was_off(spark: SparkSession) -> None:
    from quinque.spark.jobs.audit import verdict_of

    rows = History(7).run(200).rows
    ack_what_never_came(rows)

    with _tables(spark, rows) as (found, gaps):
        strict = verdict_of(found, gaps)
        lenient = verdict_of(found, gaps, allows_unknown=True)

    assert not strict.is_good
    assert lenient.is_good


def test_an_empty_lake_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from quinque.errors import BadSetting
    from quinque.spark.jobs.archive import archive
    from quinque.spark.jobs.audit import audit
    from quinque.spark.jobs.lake import Lake

    with pytest.raises(BadSetting, match="name a broker that has one with --url"):
        audit(spark, Lake(str(tmp_path)))
    with pytest.raises(BadSetting, match="name a broker that has one with --url"):
        archive(spark, None, Lake(str(tmp_path)))


def _verdict(spark: SparkSession, rows: Rows) -> Verdict:
    """That of the tables made of these rows, without a lake."""
    from quinque.spark.jobs.audit import verdict_of

    with _tables(spark, rows) as (found, gaps):
        return verdict_of(found, gaps)


@contextmanager
def _tables(spark: SparkSession, rows: Rows) -> Iterator[tuple[DataFrame, DataFrame]]:
    """What the audit says of these rows and the gaps between them, worked out once."""
    from quinque.spark.tables.audit import audit, verdict
    from quinque.spark.tables.events import events, ranges, seq_gaps
    from quinque.spark.tables.lifecycle import lifecycle
    from quinque.spark.tables.partials import lifecycle_partials

    once = events(spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))).cache()
    gaps = seq_gaps(ranges(once)).cache()
    found = verdict(audit(lifecycle(lifecycle_partials(once)), gaps)).cache()
    yield found, gaps
    for frame in (found, gaps, once):
        frame.unpersist()


def _first(rows: Rows, kind: Kind, queue: str) -> dict[str, Any]:
    """The first such row, of a message that is not a single one of a feed."""
    single = {row["message_id"] for row in rows if _ends_single(row)}
    return next(
        row
        for row in rows
        if row["kind"] == kind
        and row["queue"].startswith(queue)
        and row["message_id"] not in single
    )


def _ends_single(row: dict[str, Any]) -> bool:
    is_news = bool(row["queue"].startswith("news"))
    return is_news and row["kind"] == Kind.ACKED and not row["consumer_group"]


def _append(rows: Rows, like: dict[str, Any], kind: Kind) -> None:
    rows.append(dict(like, kind=kind.value, seq=rows[-1]["seq"] + 1, ts=rows[-1]["ts"], size=None))
