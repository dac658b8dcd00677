"""Asking a broker's HTTP port, as Prometheus and probes do.

Called by   the tests beside this file.
Calls       urllib, and the parser that prometheus_client has.

Not here: starting a broker (tests/server/broker.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from tests.server.broker import RunningBroker

HTTP = ("--http-listen", "127.0.0.1:0")
_TIMEOUT_S = 60
_AT = re.compile(r"serving metrics and probes on ([^,\"\s]+)")


def url_of(broker: RunningBroker) -> str:
    """Where its HTTP port is; it says so before it listens."""
    found = [match[1] for line in broker.log if (match := _AT.search(line))]
    return found[-1]


def probe(broker: RunningBroker, path: str) -> tuple[int, Any]:
    """The status, and the JSON that came with it."""
    try:
        with urlopen(url_of(broker) + path, timeout=_TIMEOUT_S) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def families(broker: RunningBroker) -> list[Family]:
    """All metrics of a page."""
    with urlopen(url_of(broker) + "/metrics", timeout=_TIMEOUT_S) as answer:
        return list(text_string_to_metric_families(answer.read().decode()))


class Scrape:
    """A page of metrics: values by name and labels."""

    def __init__(self, found: Iterable[Family]) -> None:
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in found
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self._values.get((name, frozenset(labels.items())))

    def of_queue(self, queue: str) -> dict[str, float]:
        """What is told of the queue and is not 0, by name and the labels beside its own."""
        told: dict[str, float] = {}
        for (name, labels), value in self._values.items():
            rest = dict(labels)
            if rest.pop("queue", None) == queue and value and not name.endswith("_seconds"):
                family = rest.pop("family")
                words = [family, name, *(rest[label] for label in sorted(rest))]
                told[" ".join(words)] = value
        return told


def scrape(broker: RunningBroker) -> Scrape:
    return Scrape(families(broker))
