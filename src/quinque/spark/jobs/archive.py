"""The lifecycle record of a broker into a lake, and the tables brought up to date.

Called by   cli/pipeline.py.
Calls       spark/export.py, build.py.

Not here: an exporter that runs all the time (the broker's setting lifecycle-export).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.spark.jobs.build import TABLES, Tell, build_tables, read_table
from quinque.spark.jobs.lake import Lake
from quinque.spark.jobs.progress import Stopwatch


def archive(
    spark: SparkSession,
    broker: Broker | None,
    lake: Lake,
    tell: Tell | None = None,
    *,
    plain: str | None = None,
) -> dict[str, Any]:
    """Copy all of the lifecycle log to the lake and update its tables. With `plain`, also write the
    tables to that directory as plain Parquet files.

    Without a broker, use the files that an exporter wrote there. Raises BadSetting if there are
    none.
    """
    watch = Stopwatch()
    exported = 0 if broker is None else export_record(broker, lake)
    exported_s = watch.seconds
    built = build_tables(spark, lake, tell)
    if broker is None and not lake.batches():
        raise BadSetting(f"no lifecycle log in {lake.url}: name a broker that has one with --url")
    if plain is not None:
        write_plain(spark, lake, plain)
    return {
        "job": "archive",
        "lake": lake.url,
        "exported_rows": exported,
        "export_seconds": exported_s,
        "rows": built.rows,
        "batches": built.batches,
        "tables": len(built.tables),
        "seconds": watch.seconds,
        "rows_per_second": watch.rate(built.rows),
    }


def write_plain(spark: SparkSession, lake: Lake, target: str) -> None:
    """Write each table to a directory of Parquet files, and replace those in it."""
    if lake.table("audit").opened() is None:
        raise BadSetting(f"no lifecycle log in {lake.url}: there is nothing to write to {target}")
    for name in TABLES:
        writer = read_table(spark, lake, name).write.mode("overwrite")
        if name == "lifecycle":
            writer = writer.partitionBy("dt")
        writer.parquet(f"{target.rstrip('/')}/{name}")


def export_record(broker: Broker, lake: Lake) -> int:
    """Export the rows of the log up to now to the lake. Return how many. Raises BadSetting if the
    lake is not on this machine."""
    if "://" in lake.url:
        raise BadSetting(
            f"the lifecycle log can be exported only to a local directory, not to {lake.url}: "
            "remove --url to read the files of an exporter"
        )
    from quinque.spark.export import export_until

    return export_until(broker, Path(lake.url)).rows
