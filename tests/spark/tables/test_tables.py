"""The tables hold what a model of the queues says, however the record came in."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from quinque.model.families import JOBS
from tests.facts.repository import ROOT
from tests.spark.tables.history import History, Life

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_lifecycle_has_a_row_for_every_life(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    rows = {
        (row["queue"], row["message_id"], row["consumer_group"]): row
        for row in _rows(spark, lake, "lifecycle")
    }
    lives = {key: life for history in histories for key, life in history.lives.items()}

    assert rows.keys() == lives.keys()
    assert {
        key: replace(_as_life(row), is_single=lives[key].is_single) for key, row in rows.items()
    } == lives
    for key, life in lives.items():
        if life.added_ms and life.first_ms:
            assert rows[key]["wait_ms"] == life.first_ms - life.added_ms


def test_queue_hour_counts_every_event_once(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    counted: Counter[tuple[str, str]] = Counter()
    for row in _rows(spark, lake, "queue_hour"):
        for name in ("added", "added_bytes", "delivered", "acked", "expired", "dead", "removed"):
            counted[row["queue"], name] += row[name]
    happened: Counter[tuple[str, str]] = Counter()
    names = {1: "added", 2: "delivered", 3: "acked", 6: "expired", 7: "dead", 8: "removed"}
    for history in histories:
        for (queue, kind), number in history.flow.items():
            if kind in names:
                happened[queue, names[kind]] += number
    for queue, life in _message_lives(histories):
        happened[queue, "added_bytes"] += life.size or 0

    assert +counted == +happened


def test_an_hour_without_additions_added_0_bytes(spark: SparkSession) -> None:
    from quinque.spark.tables.hours import queue_hour
    from quinque.spark.tables.lifecycle import lifecycle
    from quinque.spark.tables.partials import flow_partials, lifecycle_partials

    history = History(1)
    history._add("sms", JOBS)
    history._now_ms += 3_600_000
    life = history.lives["sms", "m0-1", ""]
    history._deliver("sms", "m0-1", life)
    events = spark.createDataFrame(history.table())

    hours = queue_hour(flow_partials(events), lifecycle(lifecycle_partials(events)))

    rows = hours.orderBy("hour").collect()
    assert [row["added_bytes"] for row in rows] == [life.size, 0]


def test_depth_and_oldest_age_are_those_at_the_end_of_the_hour(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    lives = _message_lives(histories)
    for row in _rows(spark, lake, "queue_hour"):
        end_ms = _ms(row["hour"]) + 3_600_000
        there = [
            life.added_ms
            for queue, life in lives
            if queue == row["queue"] and life.added_ms is not None and life.is_live_at(end_ms)
        ]

        assert row["depth"] == len(there)
        assert row["oldest_ms"] == (end_ms - min(there) if there else None)
    assert any(life.state == "dead" for _, life in lives)


def test_hours_and_days_are_those_of_utc_in_any_session(spark: SparkSession, lake: Path) -> None:
    from quinque.spark.jobs.build import make_table, read_partials
    from quinque.spark.jobs.lake import Lake
    from quinque.spark.tables.lifecycle import lifecycle

    def read() -> list[Any]:
        kept = Lake(str(lake))
        days = lifecycle(read_partials(spark, kept, "lifecycle")).selectExpr(
            "min(date_format(dt, 'yyyy-MM-dd'))", "max(date_format(dt, 'yyyy-MM-dd'))"
        )
        hours = [
            make_table(spark, kept, name).selectExpr("unix_seconds(hour) as hour").distinct()
            for name in ("queue_hour", "consumer_hour", "dead_letters")
        ]
        rows = hours[0].union(hours[1]).union(hours[2]).distinct().orderBy("hour").collect()
        return [*days.collect(), *rows]

    before = spark.conf.get("spark.sql.session.timeZone")
    in_utc = read()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        in_kolkata = read()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))

    assert in_kolkata == in_utc


def test_cumulative_flow_ends_with_all_that_came_and_went(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    last = {row["queue"]: row for row in _rows(spark, lake, "cumulative_flow", "minute")}
    lives = _message_lives(histories)

    for queue, row in last.items():
        own = [life for name, life in lives if name == queue]
        assert row["arrived"] == len(own)
        assert row["departed"] == sum(life.ended_ms is not None for life in own)


def test_group_lag_counts_what_is_live_and_not_finished(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    rows = {(row["queue"], row["consumer_group"]): row for row in _rows(spark, lake, "group_lag")}
    every = {key: life for history in histories for key, life in history.lives.items()}

    for (queue, group), row in rows.items():
        behind = held = 0
        for (name, id, own), life in every.items():
            if name != queue or own or life.state != "open":
                continue
            mine = every.get((queue, id, group), Life(""))
            behind += mine.state != "acked"
            held += mine.is_held
        assert (row["lag"], row["held"]) == (behind, held), (queue, group)
        newest = max(history.newest_ms[queue] for history in histories)
        assert _ms(row["newest"]) == newest, (queue, group)
    assert {group for queue, group in rows if queue == "news"} == {"mailer", "indexer"}


def test_dead_letters_and_sizes_count_every_message(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    died = [life for _, life in _message_lives(histories) if life.deaths]
    dead = _rows(spark, lake, "dead_letters")
    sizes = _rows(spark, lake, "size_hist")

    assert sum(row["messages"] for row in dead) == len(died) > 0
    assert sum(row["still_dead"] for row in dead) == sum(life.state == "dead" for life in died)
    assert {row["reason"] for row in dead} == {"nacked"}
    assert sum(row["bytes"] for row in sizes) == sum(
        life.size or 0 for _, life in _message_lives(histories)
    )


def test_running_again_changes_nothing(spark: SparkSession, lake: Path) -> None:
    from quinque.spark.jobs.build import build_tables
    from quinque.spark.jobs.lake import Lake

    before = _files(lake)

    built = build_tables(spark, Lake(str(lake)))

    assert (built.batches, built.rows, built.tables) == (0, 0, [])
    assert _files(lake) == before


def test_merged_batches_say_the_same(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    from quinque.spark.jobs.build import merge_batches, read_partials
    from quinque.spark.jobs.lake import Lake
    from quinque.spark.tables.lifecycle import lifecycle
    from quinque.spark.tables.partials import merge_lifecycle_partials

    kept = Lake(str(shutil.copytree(lake, tmp_path / "lake")))
    before = sorted(map(tuple, _rows(spark, lake, "lifecycle")), key=str)

    merge_batches(spark, kept)

    merged = lifecycle(merge_lifecycle_partials(read_partials(spark, kept, "lifecycle")))
    assert len(kept.batches()) == 1
    assert kept.new_pieces() == []
    assert sorted(map(tuple, merged.collect()), key=str) == before


def test_tables_are_written_as_plain_parquet_on_request(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    from quinque.errors import BadSetting
    from quinque.spark.jobs.archive import archive, write_plain
    from quinque.spark.jobs.lake import Lake

    archive(spark, None, Lake(str(lake)), plain=str(tmp_path / "plain"))

    for name in ("lifecycle", "group_lag"):
        plain = pq.read_table(tmp_path / "plain" / name)
        assert plain.num_rows == len(_rows(spark, lake, name)) > 0
    with pytest.raises(BadSetting, match="nothing to write"):
        write_plain(spark, Lake(str(tmp_path / "empty")), str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_the_page_names_every_column_of_every_table(spark: SparkSession, lake: Path) -> None:
    from quinque.spark.jobs.build import TABLES, read_table
    from quinque.spark.jobs.lake import Lake

    named = _columns_on_the_page((ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8"))
    columns = {table: set(read_table(spark, Lake(str(lake)), table).columns) for table in TABLES}

    assert named == columns


def _columns_on_the_page(text: str) -> dict[str, set[str]]:
    """The names in the first cells of the tables under each heading that names tables."""
    named = {}
    for section in text.split("\n### ")[1:]:
        heading, _, rest = section.partition("\n")
        tables = re.split(r"^\| Column \|.*\n\|[-|]+\n", rest.split("\n## ")[0], flags=re.MULTILINE)
        names = re.findall(r"\w+_\w+|lifecycle|flow|audit", heading)
        for name, table in zip(names, tables[1:], strict=True):
            cells = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
            named[name] = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}
    return named


def _message_lives(histories: list[History]) -> list[tuple[str, Life]]:
    return [
        (queue, life)
        for history in histories
        for (queue, _, group), life in history.lives.items()
        if not group
    ]


def _rows(spark: SparkSession, lake: Path, table: str, *order: str) -> list[Any]:
    from quinque.spark.jobs.build import read_table
    from quinque.spark.jobs.lake import Lake

    frame = read_table(spark, Lake(str(lake)), table)
    return frame.orderBy(*order).collect() if order else frame.collect()


def _as_life(row: Any) -> Life:
    return Life(
        family=row["family"],
        state=row["state"],
        is_held=row["is_held"],
        added_ms=_ms(row["added"]),
        first_ms=_ms(row["first_delivered"]),
        ended_ms=_ms(row["ended"]),
        died_ms=_ms(row["died"]),
        revived_ms=_ms(row["revived"]),
        deliveries=row["deliveries"],
        lapses=row["lapses"],
        nacks=row["nacks"],
        deaths=row["deaths"],
        size=row["size"],
    )


def _ms(at: datetime | None) -> Any:
    # Spark hands out times of this machine's zone, without saying so.
    return None if at is None else round(at.timestamp() * 1000)


def _files(folder: Path) -> dict[str, int]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "_lock"]
    return {str(path): path.stat().st_mtime_ns for path in files}
