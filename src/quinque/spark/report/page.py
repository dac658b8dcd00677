"""The report as one HTML file: no script, no request, light and dark.

Called by   spark/jobs/report.py.
Calls       plots.py.

Not here: the numbers (series.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from quinque.spark.report.overview import equation, headline
from quinque.spark.report.plots import (
    FAINT,
    INK,
    PAPER,
    PLOTS,
    as_svg,
    figure_of,
    spoken_ms,
)
from quinque.spark.report.series import Series

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #24292e; --quiet: #69737d; --faint: #d5dae0;
        --paper: #ffffff; --card: #f7f9fb; --good: #1f8a63; --bad: #c0384b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe5ea; --quiet: #93a0ac; --faint: #3a434c; --paper: #14181c; --card: #1c2228;
          --good: #4cc596; --bad: #f0717f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 2rem 1.25rem 4rem; background: var(--paper);
       color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.05rem; margin: 0; }
p, figcaption { color: var(--quiet); margin: 0; }
.figures { display: flex; flex-wrap: wrap; gap: .5rem 2.2rem; margin: 1.4rem 0; }
.figures b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.figures span { color: var(--quiet); font-size: .85rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
         gap: 1rem; margin: 1rem 0 2rem; }
figure { margin: 0; padding: 1rem 1rem .4rem; background: var(--card); border-radius: 10px; }
figure svg { width: 100%; height: auto; display: block; }
.verdict { border: 2px solid var(--good); border-radius: 10px; padding: 1rem 1.2rem; }
.verdict.bad { border-color: var(--bad); }
.verdict strong { color: var(--good); font-size: 1.15rem; } .bad strong { color: var(--bad); }
.scroll { overflow-x: auto; margin: .8rem 0 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .7rem; border-bottom: 1px solid var(--faint);
         white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
"""
_STAND_INS: Final = ((INK, "var(--ink)"), (FAINT, "var(--faint)"), (PAPER, "var(--paper)"))


def page(series: Series, verdict: dict[str, Any], title: str = "Quinque") -> str:
    """The report of these numbers and of that audit."""
    first, last = series.times[0], series.times[-1]
    figures = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>"
        for name, value in headline(series)
    )
    plots = "".join(
        f'<figure id="{plot.name}"><h2>{plot.title}</h2><figcaption>{plot.says}</figcaption>'
        f"{_themed(as_svg(figure_of(plot, series)))}</figure>"
        for plot in PLOTS
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f"<p>{first:%Y-%m-%d %H:%M:%S} – {last:%Y-%m-%d %H:%M:%S} UTC, "
        f"in slots of {escape(spoken_ms(series.slot_s * 1000))}</p>"
        f'<div class="figures">{figures}</div>'
        f"{_verdict_box(verdict)}"
        f'<div class="plots">{plots}</div>'
        f"<h2>Queues</h2>{_queues(series)}"
        "</body></html>\n"
    )


def _verdict_box(verdict: dict[str, Any]) -> str:
    is_good = verdict["verdict"] == "good"
    said = "Nothing lost, nothing twice" if is_good else "Audit failed"
    broken = {
        "missing": "messages in no valid state",
        "unbalanced": "messages that did not end exactly once",
        "acked_twice": "extra acks",
        "after_ack": "messages delivered after their ack",
        "unknown": "messages without an ADDED row",
        "rows_missing": "rows missing in the lifecycle log",
        "files_missing": "archived files that were deleted",
    }
    found = [f"{verdict[name]:,} {words}" for name, words in broken.items() if verdict[name]]
    notes = [f"Broker: {verdict['broker']}."]
    if verdict["begins_late"]:
        notes.append(
            "The lifecycle log begins after its first row. Earlier changes are not audited."
        )
    lines = "".join(f"<p>{escape(line)}</p>" for line in (*found, " ".join(notes)))
    return (
        f'<div class="verdict {"good" if is_good else "bad"}" id="audit"><strong>{said}</strong>'
        f"<p>{escape(equation(verdict))}</p>{lines}</div>"
    )


def _queues(series: Series) -> str:
    columns = (
        *("queue", "family", "messages", "acked", "expired", "removed", "dead", "open"),
        *("deliveries", "wait p50", "wait p99", "run p50", "run p99"),
    )
    rows = [
        (
            row["queue"],
            row["family"],
            *[
                f"{row[name] or 0:,}"
                for name in (
                    *("messages", "acked", "expired", "removed", "dead", "open", "deliveries"),
                )
            ],
            *_pair(row["waits"]),
            *_pair(row["runs"]),
        )
        for row in series.queues
    ]
    return f'<div class="scroll">{_table(columns, rows)}</div>'


def _pair(spans: Sequence[int] | None) -> Iterable[str]:
    return map(spoken_ms, spans) if spans else ("–", "–")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _themed(svg: str) -> str:
    for colour, stand_in in _STAND_INS:
        svg = svg.replace(colour, stand_in)
    return svg
