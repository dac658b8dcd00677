"""Metrics as text that Prometheus reads.

Called by   app.py, for each scrape; a worker's HTTP port (cli/work.py).
Calls       prometheus_client, which knows the format.

Text is made a hundred lines at a time, and other tasks run in between, because ten thousand lines
take a tenth of a second. A page is used again for a second, for all requests.

Not here: the lists of metrics (server/metrics.py, worker/metrics.py), HTTP (app.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from time import monotonic
from typing import Any, Final

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from quinque.stats.metric import Buckets, Metric, Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_FRESH_S: Final = 1.0
_LINES_AT_ONCE: Final = 100  # which take about a millisecond


class Page:
    """The page of all metrics. `measure` returns the values that the rows read."""

    def __init__(self, table: Sequence[Metric], measure: Callable[[], Awaitable[Any]]) -> None:
        self._table = table
        self._measure = measure
        self._text = b""
        self._made_s = -_FRESH_S
        self._making: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return a page that was made less than a second ago. It is made once for all requests
        meanwhile."""
        if self._making is None:
            if monotonic() - self._made_s < _FRESH_S:
                return self._text
            self._making = asyncio.get_running_loop().create_task(self._make())
        # A client that disconnects does not cancel the page for others.
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        try:
            found = await self._measure()
            parts: list[bytes] = []
            for metric in self._table:
                parts += [part async for part in _parts(metric, found)]
            self._text, self._made_s = b"".join(parts), monotonic()
            return self._text
        finally:
            self._making = None


def page_text(table: Sequence[Metric], found: Any) -> bytes:
    """Make the page of all metrics in one go, for callers in their own thread."""
    return b"".join(
        generate_latest(_Only(_family(metric, samples)))
        for metric in table
        if (samples := list(metric.read(found)))
    )


class _Only(Collector):
    """One family of samples, as generate_latest() takes it."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        return [self._family]


async def _parts(metric: Metric, found: Any) -> AsyncIterator[bytes]:
    """Yield the text of the metric, piece by piece."""
    samples: Iterator[Sample] = iter(metric.read(found))
    is_first = True
    while some := list(islice(samples, _LINES_AT_ONCE)):
        text = generate_latest(_Only(_family(metric, some)))
        # Only the first sample of a metric has its description before it.
        yield text if is_first else _without_head(text)
        is_first = False
        await asyncio.sleep(0)


def _family(metric: Metric, samples: Sequence[Sample]) -> Family:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in samples:
            assert isinstance(value, Buckets)
            bounds = [(f"{bound:.6g}", count) for bound, count in value.bounds]
            histogram.add_metric(labels, [*bounds, ("+Inf", value.size)], value.total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        assert not isinstance(value, Buckets)
        family.add_metric(labels, value)
    return family


def _without_head(text: bytes) -> bytes:
    return text.split(b"\n", 2)[2]
