"""LATENCY: slow operations, as numbers, as a graph and as text.

Called by   dispatch.py, through COMMANDS.
Calls       server/latency.py for the samples.

Not here: measuring (each module measures what it does).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.dialects.command import Command, no_queues
from quinque.errors import BadRequest, many, printable
from quinque.server.broker import Broker
from quinque.server.commands.subcommands import Run, first_word
from quinque.server.connection import Connection
from quinque.server.latency import Series
from quinque.wire.resp import Value, Verbatim

_ROWS: Final = 4  # of a drawing
_TOPS: Final = "_o#"  # how far a column reaches into its highest row
_WIDTH: Final = 80

_HOW_TO_WATCH: Final = (
    "Latency monitoring is off. CONFIG SET latency-monitor-threshold <milliseconds> stores "
    "events that take that long or longer."
)


def run_latest(connection: Connection, argv: list[bytes]) -> Value:
    """LATENCY LATEST

    Return each slow event: its name, the time of the last one, its duration and the longest
    duration, in milliseconds.
    """
    events = connection.broker.latency.events
    return [
        [name.encode(), series.samples[-1].at_s, series.samples[-1].spent_ms, series.worst_ms]
        for name, series in events.items()
    ]


def run_history(connection: Connection, argv: list[bytes]) -> Value:
    """LATENCY HISTORY event

    Return when the event was slow and its duration in milliseconds: the last 160 times, the
    slowest of each second.
    """
    series = connection.broker.latency.events.get(_name(argv[2]), Series())
    return [[sample.at_s, sample.spent_ms] for sample in series.samples]


def run_reset(connection: Connection, argv: list[bytes]) -> Value:
    """LATENCY RESET [event ...]

    Remove the history of these events, or of all. Returns how many of them had a history.
    """
    latency = connection.broker.latency
    return latency.forget(map(_name, argv[2:]) if len(argv) > 2 else list(latency.events))


def run_graph(connection: Connection, argv: list[bytes]) -> Value:
    """LATENCY GRAPH event

    Return the history of the event as a text graph, with the age of each sample.
    """
    latency, name = connection.broker.latency, _name(argv[2])
    series = latency.events.get(name)
    if series is None:
        raise BadRequest(f"No samples available for event '{printable(argv[2][:128])}'")
    spans_ms = [sample.spent_ms for sample in series.samples]
    ages_s = [max(0, latency.now_s() - sample.at_s) for sample in series.samples]
    high_ms, low_ms, worst_ms = max(spans_ms), min(spans_ms), series.worst_ms
    lines = [
        f"{name} - high {high_ms} ms, low {low_ms} ms (all time high {worst_ms} ms)",
        "-" * _WIDTH,
        *drawing(spans_ms),
        "",
        *_upright([_age(age_s) for age_s in ages_s]),
    ]
    return Verbatim("".join(line + "\n" for line in lines).encode())


def run_doctor(connection: Connection, argv: list[bytes]) -> Value:
    """LATENCY DOCTOR

    Return advice about slow events as text.
    """
    return Verbatim("\n".join(_diagnosis(connection.broker)).encode())


def drawing(spans_ms: Sequence[int]) -> list[str]:
    """Columns as high as the spans, the least at the bottom and the most at the top."""
    least, most = min(spans_ms), max(spans_ms)
    steps = _ROWS * len(_TOPS) - 1
    heights = [(span - least) * steps // max(1, most - least) for span in spans_ms]
    return [
        "".join(_piece(height - row * len(_TOPS)) for height in heights)
        for row in reversed(range(_ROWS))
    ]


def _piece(height: int) -> str:
    """A column where it ends, below that, and above it."""
    if height >= len(_TOPS):
        return "|"
    return _TOPS[height] if height >= 0 else " "


def _upright(words: Sequence[str]) -> list[str]:
    """Words that are read downwards, side by side."""
    longest = max(map(len, words))
    return ["".join(word.ljust(longest)[row] for word in words) for row in range(longest)]


def _age(age_s: int) -> str:
    for unit, span_s in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if age_s >= span_s:
            return f"{age_s // span_s}{unit}"
    return f"{age_s}s"


def _diagnosis(broker: Broker) -> list[str]:
    latency = broker.latency
    if not latency.is_on and not latency.events:
        return [_HOW_TO_WATCH]
    if not latency.events:
        threshold_ms = broker.config.latency_monitor_threshold
        return [f"No event has taken {threshold_ms} ms or longer since the monitoring started."]
    lines = [_account(name, series) for name, series in latency.events.items()]
    lines += ["", *(f"- {advice}" for advice in _advice(broker))]
    return lines


def _account(name: str, series: Series) -> str:
    spans_ms = [sample.spent_ms for sample in series.samples]
    count = len(spans_ms)
    mean = sum(spans_ms) / count
    deviation = sum(abs(span - mean) for span in spans_ms) / count
    period_s = (series.samples[-1].at_s - series.samples[0].at_s) / max(1, count - 1)
    return (
        f"{name}: in {many(count, 'second')}; {mean:.0f} ms on average, mean deviation "
        f"{deviation:.0f} ms, {period_s:.1f} s between events; at most {series.worst_ms} ms."
    )


def _advice(broker: Broker) -> list[str]:
    events, config = broker.latency.events, broker.config
    advice: list[str] = []
    if "command" in events or "fast-command" in events:
        threshold_us = config.latency_monitor_threshold * 1000
        slower_us = config.slowlog_log_slower_than
        if threshold_us and not 0 <= slower_us <= threshold_us:
            advice.append(
                "SLOWLOG does not show some of these requests: CONFIG SET "
                f"slowlog-log-slower-than {threshold_us} stores them."
            )
        advice.append("SLOWLOG GET shows the slow requests and their clients.")
    if "journal-commit" in events:
        advice.append(
            "The disk was slow to write. Check which other programs write to it. With fsync = "
            "everysec, replies do not wait for the disk, but a power failure can lose one second."
            if config.fsync == "always"
            else "The disk was slow to write. Check which other programs write to it."
        )
    if "tick" in events:
        advice.append(
            "Many timers were due at the same time: messages that expired, delays and leases "
            "that ended. Spread their times."
        )
    return advice


def _name(text: bytes) -> str:
    return text.decode("latin-1")


def _row(word: str, arity: int, run: Run) -> Command:
    return Command(f"LATENCY|{word}", "", "admin", arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "LATENCY",
        _row("LATEST", 2, run_latest),
        _row("HISTORY", 3, run_history),
        _row("RESET", -2, run_reset),
        _row("GRAPH", 3, run_graph),
        _row("DOCTOR", 2, run_doctor),
    ),
]
