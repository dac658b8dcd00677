"""The second half of the demo: every message that a file brought is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from demo.pipeline import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 600


def test_every_check_of_the_demo_holds(spark: SparkSession, tmp_path: Path) -> None:
    rows, page = run(spark, tmp_path, MESSAGES)

    assert [row for row in rows if not row.held] == []
    told = {row.what: row.count.replace(",", "") for row in rows}
    acked = int(told["acked by workers"])
    nacked = int(told["failed and returned with a reason"])
    dead = int(told["failed twice and dead"])
    drained = int(told["remaining messages drained to Parquet"])
    # Each message is added once. Each delivery is acked or returned.
    assert int(told["state changes in the lifecycle log"]) == MESSAGES + 2 * (
        acked + nacked + drained
    )
    assert told["added = acked + dead + open"] == f"{MESSAGES} = {acked + drained} + {dead} + 0"
    assert "broker compared to the log: the same" in told
    assert "<svg" in page.read_text() or "data:image/png" in page.read_text()
