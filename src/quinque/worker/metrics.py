"""The metrics of a worker: one table, from which all other lists of them are made or checked.

Called by   cli/work.py (the metrics page); docs/metrics.md, the dashboard and the alerts
            are checked against it.
Calls       nothing; it reads what totals.py measured.

Not here: how events are counted (figures.py), the format (console/exposition.py), a broker's
metrics (server/metrics.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from quinque.stats.metric import Buckets, Metric, Sample
from quinque.worker.board import Hand
from quinque.worker.figures import BOUNDS_S, RAN, WAITED, Count, Who
from quinque.worker.totals import Measured

Read = Callable[[Measured], Iterator[Sample]]

_HANDLER: Final = ("family", "queue", "group", "handler")
_STATES: Final = {Hand.HELD: "waiting", Hand.RUNNING: "running", Hand.DONE: "done"}


def _counted(count: Count) -> Read:
    def read(measured: Measured) -> Iterator[Sample]:
        for who, numbers in measured.counted.items():
            yield _labels(who), numbers[count]

    return read


def _spread(first: int) -> Read:
    """Make a function that reads a histogram of each handler that has values in it."""

    def read(measured: Measured) -> Iterator[Sample]:
        for who, numbers in measured.counted.items():
            *counts, longer, total = numbers[first : first + len(BOUNDS_S) + 2]
            up_to = [round(count) for count in accumulate(counts)]
            size = up_to[-1] + round(longer)
            if size:
                yield _labels(who), Buckets(list(zip(BOUNDS_S, up_to, strict=True)), size, total)

    return read


def _in_hand(measured: Measured) -> Iterator[Sample]:
    for who in measured.counted:
        for hand, state in _STATES.items():
            yield (*_labels(who), state), measured.in_hand.get((who, hand), 0)


def _one(value: Callable[[Measured], float]) -> Read:
    def read(measured: Measured) -> Iterator[Sample]:
        yield (), value(measured)

    return read


def _labels(who: Who) -> tuple[str, ...]:
    return who.family, who.queue, who.group, who.handler


METRICS: Final = (
    Metric(
        "quinque_worker_messages_finished_total",
        "counter",
        _HANDLER,
        "Handler calls that succeeded.",
        _counted(Count.FINISHED),
    ),
    Metric(
        "quinque_worker_messages_failed_total",
        "counter",
        _HANDLER,
        "Handler calls that raised an error, took too long, or whose process died.",
        _counted(Count.FAILED),
    ),
    Metric(
        "quinque_worker_messages_retried_total",
        "counter",
        _HANDLER,
        "Messages to be delivered again after a failure.",
        _counted(Count.RETRIED),
    ),
    Metric(
        "quinque_worker_messages_dead_total",
        "counter",
        _HANDLER,
        "Messages that failed too often and are now dead. For jobs, the limit is that of the "
        "queue.",
        _counted(Count.DEAD),
    ),
    Metric(
        "quinque_worker_messages",
        "gauge",
        (*_HANDLER, "state"),
        "Messages in progress now, by state: waiting (taken, not started), running, done (not "
        "yet acked).",
        _in_hand,
    ),
    Metric(
        "quinque_worker_handler_seconds",
        "histogram",
        _HANDLER,
        "Duration of handler calls with their hooks, including failed calls.",
        _spread(RAN),
    ),
    Metric(
        "quinque_worker_wait_seconds",
        "histogram",
        _HANDLER,
        "Time from the addition of a message to its first handler call, where the id contains "
        "the time of the addition: for reliable queues, and for events unless producers choose "
        "the ids.",
        _spread(WAITED),
    ),
    Metric(
        "quinque_worker_processes",
        "gauge",
        (),
        "Worker processes that run now.",
        _one(lambda it: it.processes),
    ),
    Metric(
        "quinque_worker_process_deaths_total",
        "counter",
        (),
        "Worker processes that ended unexpectedly. The worker replaces them.",
        _one(lambda it: it.deaths),
    ),
    Metric(
        "quinque_worker_healthy",
        "gauge",
        (),
        "1 if /healthz reports healthy, else 0.",
        _one(lambda it: 1 if it.is_healthy else 0),
    ),
    Metric(
        "quinque_worker_start_time_seconds",
        "gauge",
        (),
        "Start time of the worker, in seconds since 1970.",
        _one(lambda it: it.started_s),
    ),
)
