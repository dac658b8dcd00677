"""The declared pipeline, run as new files come, has the tables that `pipeline archive` makes.

It starts two pipelines of Spark, a minute's work, so `make test` leaves it out:

    python -m pytest tests/spark/tables/declared_pipeline.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.facts.repository import ROOT
from tests.spark import quick
from tests.spark.tables.history import History, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN = ROOT / "examples" / "declarative" / "run.sh"
STEPS = 600
MISSING = 5  # rows between the two files, so that there is a gap to show
RUN_TIMEOUT_S = 600  # half a minute on two cores, if nobody else wants them
TABLES = (
    *("lifecycle", "flow", "seq_gaps", "queue_hour", "group_lag", "dead_letters"),
    *("cumulative_flow", "audit"),
)


def test_a_second_run_reads_what_is_new_and_has_the_tables_of_the_command_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    from quinque.spark.jobs.archive import archive
    from quinque.spark.jobs.build import read_table
    from quinque.spark.jobs.lake import Lake

    folder, work = tmp_path / "lake", tmp_path / "work"
    record = History(seed=11, shard=0).run(STEPS).table()
    half = len(record) // 2

    write_rows(folder, record.slice(0, half))
    _run_declared(folder, work)
    assert _read(spark, work / "warehouse" / "journal_raw").count() == half

    write_rows(folder, record.slice(half + MISSING))
    _run_declared(folder, work)
    archive(spark, None, Lake(str(folder)))

    # A file that was read again would be there twice: this table is as it was read.
    assert _read(spark, work / "warehouse" / "journal_raw").count() == len(record) - MISSING
    for table in TABLES:
        declared = _rows(_read(spark, work / "warehouse" / table))
        assert declared, table
        assert declared == _rows(read_table(spark, Lake(str(folder)), table)), table


def _run_declared(lake: Path, work: Path) -> None:
    # No settings of Spark's beyond those of run.sh: pyspark.sql.connect.session takes many of them
    # in several portions and keeps the last, and the tables would lie elsewhere.
    given = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "JAVA_TOOL_OPTIONS": quick.JAVA_WORDS,
    }
    done = subprocess.run(
        [str(RUN), str(lake), str(work)],
        env=os.environ | given,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def _read(spark: SparkSession, path: Path) -> Any:
    return spark.read.parquet(str(path))


def _rows(frame: DataFrame) -> list[str]:
    """The rows in an order of their own: one way keeps a column as the name of a folder."""
    return sorted(str(sorted(row.asDict().items())) for row in frame.collect())
