"""The lake as a page with plots, and the plots as pictures.

Called by   cli/pipeline.py.
Calls       build.py, audit.py, spark/report/.

    <target>/report.html      the page, which needs no other file
    <target>/overview.png     all plots in one picture
    <target>/<plot>.png       each plot

Not here: how they look (spark/report/).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from quinque.errors import BadSetting
from quinque.spark.jobs.audit import Verdict, audit, summary_of
from quinque.spark.jobs.build import Tell, build_tables, read_table, waiting
from quinque.spark.jobs.lake import Lake
from quinque.spark.jobs.progress import Stopwatch
from quinque.spark.report.series import Series, gather


@dataclass
class Report:
    """The options of a report."""

    series: Series
    verdict: dict[str, Any]


def report(
    spark: SparkSession,
    lake: Lake,
    target: Path,
    tell: Tell | None = None,
    *,
    title: str = "Quinque",
    verdict: Verdict | None = None,
) -> dict[str, Any]:
    """Write the page and the pictures. Raises BadSetting if there is no lifecycle log."""
    watch = Stopwatch()
    found = verdict or audit(spark, lake, tell=tell)[0]
    with waiting(lake, tell):
        build_tables(spark, lake, tell)
        series = gather(read_table(spark, lake, "lifecycle"))
    if series is None:
        raise BadSetting(f"no messages in the lifecycle log in {lake.url}")
    drawn = Report(series, summary_of(found, lake, 0.0))
    files = write_report(drawn, target, title)
    return {
        "job": "report",
        "lake": lake.url,
        "page": str(files[0]),
        "pictures": len(files) - 1,
        "messages": series.totals["messages"],
        "queues": series.totals["queues"],
        "verdict": drawn.verdict["verdict"],
        "seconds": watch.seconds,
    }


def write_report(drawn: Report, target: Path, title: str) -> list[Path]:
    """The files of the report, the page first."""
    from quinque.spark.report.overview import overview
    from quinque.spark.report.page import page
    from quinque.spark.report.plots import PLOTS, as_png, figure_of

    target.mkdir(parents=True, exist_ok=True)
    files = [target / "report.html"]
    files[0].write_text(page(drawn.series, drawn.verdict, title), encoding="utf-8")
    pictures = {"overview": as_png(overview(drawn.series, drawn.verdict), 110)}
    pictures |= {plot.name: as_png(figure_of(plot, drawn.series)) for plot in PLOTS}
    for name, picture in pictures.items():
        files.append(target / f"{name}.png")
        files[-1].write_bytes(picture)
    return files
