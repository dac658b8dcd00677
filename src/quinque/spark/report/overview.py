"""The whole report in one picture, for a README or a chat.

Called by   spark/jobs/report.py.
Calls       plots.py.

Not here: the page (page.py).
"""

from __future__ import annotations

from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from quinque.spark.report.plots import GREEN, GREY, INK, PLOTS, RED, STYLE, plain, spoken_ms
from quinque.spark.report.series import Series


def overview(series: Series, verdict: dict[str, Any]) -> Figure:
    """All plots, the figures that matter most, and whether the audit is content."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12.0, 8.6))
        cells = figure.add_gridspec(
            4,
            1,
            height_ratios=[0.6, 1, 1, 1],
            left=0.055,
            right=0.96,
            top=0.975,
            bottom=0.065,
            hspace=0.46,
        )
        _draw_head(figure.add_subplot(cells[0]), series, verdict)
        rows = [cells[row].subgridspec(1, 2, wspace=0.16) for row in (1, 2)]
        last = cells[3].subgridspec(1, 3, wspace=0.34)
        places = [row[0, column] for row in rows for column in (0, 1)]
        places += [last[0, column] for column in (0, 1, 2)]
        for plot, place in zip(PLOTS, places, strict=True):
            axes = figure.add_subplot(place)
            plot.draw(axes, series)
            axes.set_title(plot.title, loc="left", fontsize=10, fontweight="bold", color=INK)
            plain(axes)
    return figure


def headline(series: Series) -> list[tuple[str, str]]:
    """The figures that matter most, as people read them: (what, how much)."""
    totals = series.totals
    deliveries, worked = totals["deliveries"], totals["worked"]
    again = (deliveries - worked) / deliveries if deliveries else 0.0
    waits, runs = totals["waits"], totals["runs"]
    return [
        ("messages", f"{totals['messages']:,}"),
        ("queues", f"{totals['queues']:,}"),
        ("open", f"{totals['open']:,}"),
        ("dead", f"{totals['dead']:,}"),
        ("redelivered", f"{again:.2%}"),
        ("wait, p50 / p99", " / ".join(map(spoken_ms, waits)) or "–"),
        ("run, p50 / p99", " / ".join(map(spoken_ms, runs)) or "–"),
    ]


def _draw_head(axes: Axes, series: Series, verdict: dict[str, Any]) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    first, last = series.times[0], series.times[-1]
    axes.text(0, 0.88, "Quinque", fontsize=19, fontweight="bold", color=INK, va="center")
    axes.text(
        0.14,
        0.85,
        f"{first:%Y-%m-%d %H:%M} – {last:%Y-%m-%d %H:%M} UTC",
        color=GREY,
        va="center",
    )
    starts = (0, 0.09, 0.155, 0.235, 0.3, 0.4, 0.545)
    for at, (name, value) in zip(starts, headline(series), strict=True):
        axes.text(at, 0.4, value, fontsize=12, fontweight="bold", color=INK, va="center")
        axes.text(at, 0.14, name, color=GREY, va="center")
    _draw_verdict(axes, verdict)


def _draw_verdict(axes: Axes, verdict: dict[str, Any]) -> None:
    is_good = verdict["verdict"] == "good"
    colour = GREEN if is_good else RED
    box = FancyBboxPatch(
        (0.7, 0.02),
        0.3,
        0.98,
        boxstyle="round,pad=0,rounding_size=0.01",
        mutation_aspect=9,
        facecolor=(*to_rgb(colour), 0.07),
        edgecolor=colour,
        linewidth=1.4,
        clip_on=False,
    )
    axes.add_patch(box)
    said = "Nothing lost, nothing twice" if is_good else "Audit failed"
    axes.text(0.715, 0.8, said, color=colour, fontsize=12, fontweight="bold", va="center")
    axes.text(0.987, 0.8, "audit", color=GREY, va="center", ha="right")
    lines = fill(equation(verdict), 46)
    axes.text(0.715, 0.34, lines, color=INK, fontsize=8, va="center", linespacing=1.5)


def equation(verdict: dict[str, Any]) -> str:
    """Both sides, in figures."""
    out = [
        # A break in the line may come before a term, not within it.
        f"{verdict[name]:,}\N{NO-BREAK SPACE}{name}"
        for name in ("acked", "expired", "removed", "dead", "open")
        if verdict[name] or name in ("acked", "open")
    ]
    return f"{verdict['added']:,}\N{NO-BREAK SPACE}added = " + " +\N{NO-BREAK SPACE}".join(out)
