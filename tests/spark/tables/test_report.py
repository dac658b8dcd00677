"""The report holds what the tables hold, in one page that asks for nothing."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.spark.tables.history import History, Life

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def drawn(
    spark: SparkSession,
    lake: Path,
    histories: list[History],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    from quinque.spark.jobs.lake import Lake
    from quinque.spark.jobs.report import report

    folder = tmp_path_factory.mktemp("report")

    told = report(spark, Lake(str(lake)), folder, title="Orders & <more>")

    assert (told["messages"], told["verdict"]) == (len(_message_lives(histories)), "good")
    return folder


def test_the_page_needs_nothing_but_itself(drawn: Path) -> None:
    page = (drawn / "report.html").read_text(encoding="utf-8")
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)

    assert [link for link in links if not link.startswith("#")] == []
    assert "<script" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_names_its_title_and_queues_safely(drawn: Path) -> None:
    page = (drawn / "report.html").read_text(encoding="utf-8")

    assert "Orders &amp; &lt;more&gt;" in page
    assert all(f"<td>{queue}</td>" in page for queue in ("orders", "sms", "news"))
    assert "Nothing lost, nothing twice" in page


def test_each_plot_is_drawn_in_the_colours_of_the_page(drawn: Path) -> None:
    from quinque.spark.report.plots import FAINT, INK, PLOTS

    page = (drawn / "report.html").read_text(encoding="utf-8")
    figures = re.findall(r'<figure id="(\w+)">.*?(<svg.*?</svg>)', page, re.DOTALL)

    assert [name for name, _ in figures] == [plot.name for plot in PLOTS]
    for _, svg in figures:
        ElementTree.fromstring(svg)
        assert INK not in svg
        assert FAINT not in svg
        assert "var(--ink)" in svg


def test_the_pictures_are_pictures_and_not_too_large(drawn: Path) -> None:
    from quinque.spark.report.plots import PLOTS

    pictures = {path.stem: path.read_bytes() for path in drawn.glob("*.png")}

    assert set(pictures) == {"overview", *(plot.name for plot in PLOTS)}
    for picture in pictures.values():
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 300_000
    width, height = struct.unpack(">II", pictures["overview"][16:24])
    assert width > height > 600


def test_the_series_count_every_message_once(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    from quinque.spark.jobs.build import read_table
    from quinque.spark.jobs.lake import Lake
    from quinque.spark.report.series import gather

    series = gather(read_table(spark, Lake(str(lake)), "lifecycle"))

    lives = _message_lives(histories)
    assert series is not None
    assert sum(series.added) == len(lives)
    assert sum(series.ended) == sum(life.ended_ms is not None for life in lives)
    assert series.depth[-1] == sum(life.state == "open" for life in lives)
    assert sum(sum(reasons.values()) for reasons in series.dead.values()) == sum(
        life.deaths > 0 for life in lives
    )
    open_since = min(life.added_ms or 0 for life in lives if life.state == "open")
    end_s = series.times[-1].timestamp() + series.slot_s
    assert series.oldest_s[-1] == pytest.approx(end_s - open_since / 1000)


def test_messages_that_were_added_before_the_log_are_in_the_series(
    spark: SparkSession, lake: Path, histories: list[History]
) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    from quinque.spark.jobs.build import read_table
    from quinque.spark.jobs.lake import Lake
    from quinque.spark.report.series import gather

    rows = read_table(spark, Lake(str(lake)), "lifecycle")

    series = gather(rows.withColumn("added", F.lit(None).cast("timestamp")))

    lives = _message_lives(histories)
    assert series is not None
    assert sum(series.added) == sum(series.depth) == 0
    assert sum(series.ended) == sum(life.ended_ms is not None for life in lives)


def test_slots_are_as_long_as_the_record_wants() -> None:
    from quinque.spark.report.series import slot_of

    assert slot_of(0) == 1
    assert slot_of(100) == 1
    assert slot_of(3600) == 30
    assert slot_of(400 * 86_400) == 86_400


def test_a_queue_of_any_name_can_be_drawn() -> None:
    from quinque.spark.report.plots import PLOTS, as_png, as_svg, figure_of
    from quinque.spark.report.series import Series

    names = ("$x_{$", "a$b$", "\\$", "two\nlines", "{}", "_u^2")
    series = Series(1, [], dead={name: {"nacked": 1} for name in names})
    plot = next(plot for plot in PLOTS if plot.name == "dead")

    picture, page = as_png(figure_of(plot, series)), as_svg(figure_of(plot, series))

    assert picture.startswith(b"\x89PNG")
    assert all(f">{name}<" in page for name in names if "\n" not in name)


def test_spans_are_said_as_people_do() -> None:
    from quinque.spark.report.plots import spoken_ms

    spans = {0: "0", 12: "12 ms", 3400: "3.4 s", 300_000: "5 min", 7_560_000: "2.1 h"}
    assert {ms: spoken_ms(ms) for ms in spans} == spans


def _message_lives(histories: list[History]) -> list[Life]:
    return [
        life for history in histories for (_, _, group), life in history.lives.items() if not group
    ]
