"""A plot for each question that people ask of a queue.

Called by   page.py, overview.py.
Calls       matplotlib, without a display.

Each function draws into the axes it is given. Colours that must differ on a dark page are drawn in
stand-ins (INK, FAINT, PAPER), for which page.py puts the page's own.

Not here: the numbers (series.py).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import (
    EngFormatter,
    FixedLocator,
    FuncFormatter,
    MaxNLocator,
    MultipleLocator,
    NullLocator,
)

from quinque.spark.report.series import PERCENTS, Series

INK: Final = "#24292e"
FAINT: Final = "#d5dae0"
PAPER: Final = "#fefefd"
# Told apart by lightness too, and readable on white and on black.
BLUE, ORANGE, GREEN, RED, VIOLET, GREY = (
    "#3b82c4",
    "#e08a2e",
    "#3aa981",
    "#d1495b",
    "#8a6fc9",
    "#8b95a1",
)
# Durations that have a name.
_ROUND_S: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 21600, 43200, 86400, 172800, 604800),
)
_ROUND_MS: Final = (
    1,
    3,
    10,
    30,
    100,
    300,
    1e3,
    3e3,
    1e4,
    3e4,
    6e4,
    3e5,
    1.8e6,
    7.2e6,
    8.64e7,
    8.64e8,
)
_SIZE_INCHES: Final = (6.4, 3.1)
_MINUTE_S: Final = 60


class Plot(NamedTuple):
    name: str
    title: str
    says: str
    draw: Callable[[Axes, Series], None]


def draw_throughput(axes: Axes, series: Series) -> None:
    scale = _MINUTE_S / series.slot_s if series.slot_s >= _MINUTE_S else 1 / series.slot_s
    for counts, name, colour in (
        (series.added, "added", BLUE),
        (series.started, "first delivered", ORANGE),
        (series.finished, "acked", GREEN),
    ):
        axes.plot(_times(series), [count * scale for count in counts], color=colour, label=name)
    axes.fill_between(
        _times(series), [n * scale for n in series.added], color=BLUE, alpha=0.12, linewidth=0
    )
    axes.set_ylabel("messages / min" if series.slot_s >= _MINUTE_S else "messages / s")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    _over_time(axes)


def draw_waits(axes: Axes, series: Series) -> None:
    _draw_percentiles(axes, series, series.waits_ms, BLUE)


def draw_runs(axes: Axes, series: Series) -> None:
    _draw_percentiles(axes, series, series.runs_ms, GREEN)


def draw_redeliveries(axes: Axes, series: Series) -> None:
    often = sorted(series.deliveries)
    most = max(often, default=1)
    counts = [series.deliveries[number] for number in often]
    colours = [GREEN if number == 1 else ORANGE if number < most else RED for number in often]
    bars = axes.bar([str(number) for number in often], counts, color=colours, width=0.7)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], color=INK, fontsize=8)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, max(counts, default=1) * 4)
    axes.set_xlabel("times delivered")
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.text(
        0.98,
        0.94,
        f"leases ended {series.lapses:,}\nreturned {series.nacks:,}",
        transform=axes.transAxes,
        ha="right",
        va="top",
        color=INK,
        fontsize=8,
    )


def draw_cumulative_flow(axes: Axes, series: Series) -> None:
    arrived, departed = _summed(series.added), _summed(series.ended)
    times = _times(series)
    axes.fill_between(times, departed, color=GREEN, alpha=0.35, linewidth=0, label="gone")
    axes.fill_between(
        times, departed, arrived, color=ORANGE, alpha=0.45, linewidth=0, label="in the queue"
    )
    axes.plot(times, arrived, color=BLUE, label="arrived")
    axes.plot(times, departed, color=GREEN)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylabel("messages")
    _over_time(axes)


def draw_depth(axes: Axes, series: Series) -> None:
    times = _times(series)
    axes.fill_between(times, series.depth, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(times, series.depth, color=BLUE, label="depth")
    axes.set_ylabel("messages", color=BLUE)
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(bottom=0)
    ages = axes.twinx()
    ages.plot(times, series.oldest_s, color=VIOLET, label="age of the oldest")
    ages.set_ylabel("age of the oldest", color=VIOLET)
    step_s = _round_step_s(max(series.oldest_s, default=0.0))
    ages.yaxis.set_major_locator(MultipleLocator(step_s))
    ages.yaxis.set_major_formatter(FuncFormatter(lambda value, _: spoken_ms(value * 1000)))
    ages.set_ylim(bottom=0)
    ages.grid(visible=False)
    plain(ages)
    _over_time(axes, has_legend=False)


def draw_dead(axes: Axes, series: Series) -> None:
    if not series.dead:
        axes.text(
            0.5,
            0.5,
            "no dead messages",
            transform=axes.transAxes,
            ha="center",
            va="center",
            color=GREY,
        )
        axes.set_xticks([])
        axes.set_yticks([])
        return
    queues = sorted(series.dead, key=lambda queue: -sum(series.dead[queue].values()))[:8]
    reasons = sorted({reason for counts in series.dead.values() for reason in counts})
    left = [0] * len(queues)
    for reason, colour in zip(reasons, (RED, ORANGE, VIOLET, GREY, BLUE, GREEN) * 3, strict=False):
        counts = [series.dead[queue].get(reason, 0) for queue in queues]
        axes.barh(queues, counts, left=left, color=colour, label=reason, height=0.6)
        left = [before + count for before, count in zip(left, counts, strict=True)]
    # A bar is as thick as one of four, however few there are.
    axes.set_ylim(max(len(queues), 4) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.set_xlabel("messages that became dead")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower right")


def figure_of(plot: Plot, series: Series) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        plot.draw(axes, series)
        plain(axes)
        return figure


def as_svg(figure: Figure) -> str:
    """The figure as an element of a page, with its text as text."""
    kept = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(kept, format="svg", transparent=True, metadata={"Date": None})
    text = kept.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: Figure, dots_per_inch: int = 144) -> bytes:
    kept = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(kept, format="png", dpi=dots_per_inch, facecolor=PAPER)
    return kept.getvalue()


def spoken_ms(ms: float | None) -> str:
    """A span as people say it: 12 ms, 3.4 s, 5 min, 2.1 h, 3 d."""
    if ms is None:
        return "–"
    if ms == 0:
        return "0"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms:.3g} ms"


def _draw_percentiles(
    axes: Axes, series: Series, values: Sequence[Sequence[float | None]], colour: str
) -> None:
    times = _times(series)
    for place, percent in enumerate(PERCENTS):
        # A slot without messages has no value; matplotlib leaves it out. Times are 1 ms or more.
        shown: list[float] = [
            float("nan") if one[place] is None else max(one[place] or 0, 0.5) for one in values
        ]
        width, alpha = ((2.0, 1.0), (1.4, 0.75), (1.1, 0.5))[place]
        axes.plot(times, shown, color=colour, linewidth=width, alpha=alpha, label=f"p{percent}")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(_ROUND_MS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: spoken_ms(value)))
    _over_time(axes)


def _over_time(axes: Axes, has_legend: bool = True) -> None:
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.margins(x=0.01)
    if has_legend:
        # Above the axes, where no line is.
        axes.legend(
            frameon=False,
            fontsize=8,
            labelcolor=INK,
            ncols=3,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.2,
        )


def plain(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, which="both")


def _round_step_s(most_s: float) -> float:
    """Return the distance between marks for about four marks."""
    return next((step for step in _ROUND_S if most_s / step <= 5), _ROUND_S[-1])


def _times(series: Series) -> Any:
    return series.times


def _summed(counts: Sequence[int]) -> list[int]:
    total, sums = 0, []
    for count in counts:
        total += count
        sums.append(total)
    return sums


STYLE: Final[Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "quinque",
    "text.color": INK,
    "text.parse_math": False,  # a $ in the name of a queue is a $
    "timezone": "UTC",
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}

PLOTS: Final = (
    Plot("throughput", "Throughput", "messages added and messages finished", draw_throughput),
    Plot(
        "flow", "Cumulative flow", "the band shows the messages in the queue", draw_cumulative_flow
    ),
    Plot("waiting", "Waiting time", "from added to first delivered", draw_waits),
    Plot("running", "Running time", "from the last delivery to the ack", draw_runs),
    Plot("depth", "Depth and age", "remaining messages and their age", draw_depth),
    Plot("redeliveries", "Redeliveries", "number of deliveries of each message", draw_redeliveries),
    Plot("dead", "Dead letters", "messages that reached their delivery limit", draw_dead),
)
