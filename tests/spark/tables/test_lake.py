"""The lake under jobs that run at the same time, and with files that were deleted."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from quinque.client.sync.broker import Broker
from quinque.errors import FolderLocked
from quinque.spark.journal_files import JournalFolder
from tests.server.broker import start_broker
from tests.servers.patience import wait_until
from tests.spark.tables.history import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def export(folder: Path, rows: pa.Table, files: int) -> list[Path]:
    """The rows are exported in so many steps; the files in the order of their rows."""
    shard = rows["shard"][0].as_py()
    with JournalFolder(folder) as exported:
        step = -(-len(rows) // files)
        for start in range(0, len(rows), step):
            with exported.writing():
                exported.write(shard, rows.slice(start, step))
    found = (folder / "journal_raw").glob(f"dt=*/hour=*/{shard}-*.parquet")
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def test_jobs_at_the_same_time_wait_and_files_that_are_gone_fail_the_audit(
    spark: SparkSession, tmp_path: Path
) -> None:
    from quinque.spark.jobs.audit import audit
    from quinque.spark.jobs.build import build_tables
    from quinque.spark.jobs.lake import Lake

    whole = export(tmp_path, History(5, 0).run(80).table(), 3)
    cut = History(6, 1).run(80).table()
    pieces = export(tmp_path, cut, 4)
    for path in (pieces[0], pieces[-1]):
        path.unlink()
    export(tmp_path, History(7, 2).run(10).table(), 1)[0].unlink()

    with ThreadPoolExecutor(2) as threads:
        built = list(threads.map(lambda _: build_tables(spark, Lake(str(tmp_path))), range(2)))
    first, _ = audit(spark, Lake(str(tmp_path)))
    whole[1].unlink()
    second, summary = audit(spark, Lake(str(tmp_path)))

    assert sorted(one.batches for one in built) == [0, 1], "the second found nothing to do"
    spans = [(lost["shard"], lost["from"]) for lost in first.lost]
    assert spans == [(1, 1), (1, int(pieces[-1].name.split("-")[1])), (2, 1)]
    assert (first.missing_files, first.is_good) == ([], False)
    assert [name.rsplit("/", 1)[-1] for name in second.missing_files] == [whole[1].name]
    assert (summary["files_missing"], summary["verdict"]) == (1, "bad")


def test_a_job_that_another_one_has_overtaken_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on two machines, which have no lock in common."""
    from quinque.spark.jobs import build
    from quinque.spark.jobs.lake import Lake

    record = History(8).run(60).table()
    export(tmp_path, record, 2)
    slow, quick = Lake(str(tmp_path)), Lake(str(tmp_path))
    really = slow.finish

    def finish_late(*given: Any, **options: Any) -> int:
        build.build_batches(spark, quick)
        return really(*given, **options)

    monkeypatch.setattr(slow, "finish", finish_late)
    with pytest.raises(FolderLocked, match=r"another job has written to .*: run this job again"):
        build.build_batches(spark, slow)

    assert len(slow.batches()) == 1
    assert sum(last - first + 1 for _, first, last in slow.taken()) == len(record)
    counted = build.read_partials(spark, slow, "flow").selectExpr("sum(events) as n").first()
    assert counted is not None
    assert counted["n"] == len(record)
    again = build.build_batches(spark, Lake(str(tmp_path)))
    assert (again.batches, slow.new_pieces()) == (0, [])


def test_a_run_without_new_files_leaves_the_progress_of_the_run_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A report builds the tables twice: for its audit, and for its plots."""
    from quinque.spark.jobs import build
    from quinque.spark.jobs.lake import Lake

    export(tmp_path, History(10).run(20).table(), 1)
    told: list[tuple[str, int, int]] = []

    for _ in range(2):
        build.build_batches(spark, Lake(str(tmp_path)), lambda *step: told.append(step))

    assert told == [("batches", 0, 1), ("batches", 1, 1)]


def test_a_run_that_ended_before_its_files_were_in_the_log_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quinque.spark.jobs import build
    from quinque.spark.jobs.lake import Lake

    record = History(9).run(60).table()
    files = export(tmp_path, record, 2)
    lake = Lake(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(lake, "archive", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            build.build_batches(spark, lake)
    written = set((tmp_path / "partials").rglob("*.parquet"))

    build.build_batches(spark, lake)

    assert set((tmp_path / "partials").rglob("*.parquet")) == written, "no row is counted twice"
    assert len(lake.archived()) == len(files)
    assert lake.new_pieces() == []


def test_small_files_of_past_hours_become_one_and_are_deleted_later(tmp_path: Path) -> None:
    from quinque.spark.jobs.compaction import FILES_LEAST, compact
    from quinque.spark.jobs.lake import RANGES, Lake

    record = History(4).run(1_500).table()
    export(tmp_path, record, 60)
    lake = Lake(str(tmp_path))
    lake.partials["ranges"].commit(RANGES, [])
    lake.archive(lake.new_pieces())
    before = sorted(lake.archived())

    done = compact(lake)

    after = lake.archived()
    assert FILES_LEAST <= done == len(set(before) - set(after))
    assert (compact(lake), lake.new_pieces(), lake.missing_files()) == (0, [], [])
    with JournalFolder(tmp_path) as folder:
        assert folder.ends() == {0: len(record) + 1}
    table = lake.journal.opened()
    assert table is not None
    rows = table.to_pyarrow_table()
    assert sorted(rows["seq"].to_pylist()) == record["seq"].to_pylist()
    assert {str(day) for day in rows["dt"].to_pylist()} == {"2026-09-21"}
    old = DeltaTable(lake.journal.url, version=table.version() - 1).to_pyarrow_table()
    assert old.num_rows == rows.num_rows, "a version before can be read"

    compact(lake, left_s=-1)

    there = {str(path.relative_to(tmp_path / "journal_raw")) for path in
             (tmp_path / "journal_raw").rglob("0-*.parquet")}  # fmt: skip
    assert there == set(after)

    one = min(after)
    (tmp_path / "journal_raw" / one).unlink()
    shutil.rmtree(tmp_path / "partials")

    assert {piece.file for piece in lake.new_pieces()} == set(after) - {one}, "it is built again"
    assert lake.missing_files() == [one]


def test_tables_are_read_by_others_and_earlier_versions_for_a_while(
    spark: SparkSession, tmp_path: Path
) -> None:
    from quinque.spark.jobs.lake import Lake

    table = Lake(str(tmp_path)).table("queue_hour")
    for number in range(4):
        made = spark.range(number + 1).selectExpr("id", "timestamp_seconds(id) as hour")
        table.commit(made.schema, table.write(made.repartition(1)), replaces=True, number=number)
        table.sweep(kept=3)

    with duckdb.connect() as other:
        other.register("hours", DeltaTable(table.url).to_pyarrow_dataset())
        found = other.execute("select count(*), max(epoch(hour)) from hours").fetchall()
    assert found == [(4, 3.0)]
    assert table.read(spark).count() == 4
    assert table.number() == 3
    assert DeltaTable(table.url, version=1).to_pyarrow_table().num_rows == 2
    with pytest.raises(Exception, match=r"(?i)not found|no such"):
        DeltaTable(table.url, version=0).to_pyarrow_table()


def test_a_job_that_waits_too_long_says_so(tmp_path: Path) -> None:
    from quinque.spark.jobs.lake import Lake

    told: list[str] = []
    lake = Lake(str(tmp_path / "lake"))
    with lake.alone(), lake.alone():  # a job within a job
        other = Lake(str(tmp_path / "lake"))
        with (
            pytest.raises(FolderLocked, match="another process is writing to"),
            other.alone(lambda: told.append("waits"), patience_s=0),
        ):
            pass

    assert told == ["waits"]
    with other.alone(patience_s=0):
        pass


def test_rows_that_were_exported_and_are_not_archived_are_lost() -> None:
    from quinque.spark.jobs.audit import lost_rows

    archived = {0: (1, 11), 1: (3, 8)}

    assert lost_rows({}, archived) == []
    assert lost_rows({0: (1, 11), 1: (3, 8)}, archived) == []
    assert lost_rows({0: (2, 9), 1: (1, 10), 2: (4, 6)}, archived) == [
        {"shard": 1, "from": 1, "to": 2},
        {"shard": 1, "from": 8, "to": 9},
        {"shard": 2, "from": 4, "to": 5},
    ]


def test_the_audit_compares_a_broker_whose_exporter_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    from quinque.spark.jobs.audit import THE_SAME, audit
    from quinque.spark.jobs.lake import Lake

    lake = tmp_path / "lake"
    with start_broker(tmp_path / "data", "--fsync", "no", "--lifecycle-export", str(lake)) as it:
        wait_until(lambda: (lake / "journal_raw" / "_lock").exists(), "the exporter")
        with Broker(f"redis://127.0.0.1:{it.port}") as broker:
            broker.call("ADDJOB", "orders", "one book", 0)
            verdict, _ = audit(spark, Lake(str(lake)), broker)

    assert (verdict.broker, verdict.is_good) == (THE_SAME, True)
