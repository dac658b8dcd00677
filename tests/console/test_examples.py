"""The dashboard, the alerts and the unit name what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from configparser import RawConfigParser
from typing import Any

import yaml

from quinque.server.metrics import METRICS as OF_BROKERS
from quinque.worker.metrics import METRICS as OF_WORKERS
from tests.facts.repository import ROOT

EXAMPLES = ROOT / "examples"
DASHBOARD = json.loads((EXAMPLES / "grafana" / "quinque.json").read_text())
ALERTS = yaml.safe_load((EXAMPLES / "prometheus" / "alerts.yml").read_text())
NAMED = re.compile(r"quinque_\w+")
LABELED = re.compile(r"(quinque_\w+)\{([^}]*)\}")
METRICS = (*OF_BROKERS, *OF_WORKERS)
TABLE = {metric.name: metric for metric in METRICS}


def series() -> dict[str, set[str]]:
    """What Prometheus has of each metric, and the labels of each, with the one it adds."""
    found = {metric.name: {*metric.labels, "job"} for metric in METRICS}
    for metric in METRICS:
        if metric.kind == "histogram":
            found.pop(metric.name)
            found[metric.name + "_bucket"] = {*metric.labels, "job", "le"}
            for part in ("_sum", "_count"):
                found[metric.name + part] = {*metric.labels, "job"}
    return found


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def test_every_metric_that_is_named_is_there() -> None:
    named = {name for text in expressions() for name in NAMED.findall(text)}

    assert named - series().keys() == set()


def test_every_label_that_is_asked_for_is_there() -> None:
    there = series()
    for text in expressions():
        for name, chosen in LABELED.findall(text):
            assert set(re.findall(r"(\w+)=", chosen)) <= there[name], text


def test_the_alerts_watch_what_users_ask_for() -> None:
    rules: list[Any] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    watched = " ".join(rule["expr"] for rule in rules)

    assert "quinque_queue_oldest_ready_seconds" in watched
    assert 'quinque_messages{state="dead"}) > 0' in watched
    assert "unless on (job, family, queue)" in watched
    assert all(rule["annotations"]["summary"] for rule in rules)


def test_the_panels_of_the_dashboard_do_not_cover_each_other() -> None:
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        taken = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & places, panel["title"]
        assert at["x"] + at["w"] <= 24
        places |= taken


def test_the_unit_is_one_that_is_told_of() -> None:
    unit = RawConfigParser(strict=False)
    unit.read_string((EXAMPLES / "systemd" / "quinque.service").read_text())
    service = unit["Service"]

    assert service["type"] == "notify"
    assert service["statedirectory"] == "quinque"
    assert int(service["watchdogsec"]) > 0
    assert service["execstart"].split()[:2] == ["/opt/quinque/bin/quinque", "serve"]


def test_every_metric_is_named_as_prometheus_wants_it() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"quinque_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert len(TABLE) == len(METRICS)
