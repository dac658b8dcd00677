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
    """All that is on record by now is in the lake, and in its tables; and the tables are in the
    folder `plain` as Parquet files alone, if it is given.

    Without a broker, what an exporter has put there is taken.
    """
    watch = Stopwatch()
    exported = 0 if broker is None else export_record(broker, lake)
    exported_s = watch.seconds
    built = build_tables(spark, lake, tell)
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
    """Each table is a folder of Parquet files, in the place of those that were there."""
    if lake.table("audit").opened() is None:
        raise BadSetting(f"no lifecycle log in {lake.url}: there is nothing to write to {target}")
    for name in TABLES:
        writer = read_table(spark, lake, name).write.mode("overwrite")
        if name == "lifecycle":
            writer = writer.partitionBy("dt")
        writer.parquet(f"{target.rstrip('/')}/{name}")


def export_record(broker: Broker, lake: Lake) -> int:
    """The rows that are on record by now are files of the lake; how many came. Raises BadSetting
    when the lake is not on this machine."""
    if "://" in lake.url:
        raise BadSetting(
            f"the lifecycle log can be exported only to a local directory, not to {lake.url}: "
            "remove --url to read the files of an exporter"
        )
    from quinque.spark.export import export_until

    return export_until(broker, Path(lake.url)).rows
