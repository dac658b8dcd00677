"""What took long: which samples are kept, and how they are drawn."""

from __future__ import annotations

from quinque.server.commands.latency import drawing
from quinque.server.latency import SAMPLES_MOST, LatencyMonitor

MS = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_off_nothing_is_kept() -> None:
    monitor = LatencyMonitor()

    monitor.note("command", 10_000 * MS)

    assert not monitor.is_on
    assert monitor.events == {}


def test_what_takes_as_long_as_the_threshold_is_kept() -> None:
    monitor = LatencyMonitor(Clock())
    monitor.watch_from(5)

    monitor.note("command", 5 * MS - 1)
    monitor.note("tick", 5 * MS)

    assert monitor.is_on
    assert list(monitor.events) == ["tick"]


def test_of_a_second_the_worst_is_kept() -> None:
    clock = Clock()
    monitor = LatencyMonitor(clock)
    monitor.watch_from(1)
    for now_s, spent_ms in ((100.1, 5), (100.5, 9), (100.9, 7), (101.0, 2)):
        clock.now_s = now_s
        monitor.note("command", spent_ms * MS)

    series = monitor.events["command"]

    assert [(sample.at_s, sample.spent_ms) for sample in series.samples] == [(100, 9), (101, 2)]
    assert series.worst_ms == 9


def test_the_oldest_samples_go_and_the_worst_is_remembered() -> None:
    clock = Clock()
    monitor = LatencyMonitor(clock)
    monitor.watch_from(1)
    monitor.note("command", 50 * MS)
    for _ in range(SAMPLES_MOST):
        clock.now_s += 1
        monitor.note("command", 2 * MS)

    series = monitor.events["command"]

    assert len(series.samples) == SAMPLES_MOST
    assert max(sample.spent_ms for sample in series.samples) == 2
    assert series.worst_ms == 50


def test_samples_stay_when_watching_ends_and_go_when_forgotten() -> None:
    monitor = LatencyMonitor(Clock())
    monitor.watch_from(1)
    monitor.note("command", 2 * MS)
    monitor.watch_from(0)
    monitor.note("tick", 2 * MS)

    assert list(monitor.events) == ["command"]
    assert monitor.forget(["command", "tick", "nosuch"]) == 1
    assert monitor.events == {}


def test_a_drawing_has_the_most_at_the_top_and_the_least_at_the_bottom() -> None:
    assert drawing([20, 5, 50, 10, 100, 30]) == [
        "    # ",
        "    | ",
        "  # | ",
        "o_|_|#",
    ]


def test_a_drawing_of_samples_that_are_all_alike_is_flat() -> None:
    assert drawing([7]) == [" ", " ", " ", "_"]
    assert drawing([7, 7]) == ["  ", "  ", "  ", "__"]
