"""The second half of the demo: every message that a file brought is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from demo.pipeline import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_check_of_the_demo_holds(spark: SparkSession, tmp_path: Path) -> None:
    rows, page = run(spark, tmp_path, messages=600)

    assert [row for row in rows if not row.held] == []
    assert "<svg" in page.read_text() or "data:image/png" in page.read_text()
