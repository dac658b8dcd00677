"""Facts about docs/metrics.md: its table is that of the code, and so are its numbers."""

from __future__ import annotations

import re

import pytest

from quinque.console.port import CONNECTIONS_MOST, REQUEST_S
from quinque.model.lifecycle import Reason
from quinque.server.measuring import GROUPS_MOST, QUEUES_MOST
from quinque.server.metric_reads import NO_CAUSE
from quinque.server.metrics import METRICS
from quinque.stats.metric import Metric
from quinque.worker.metrics import METRICS as OF_WORKERS
from tests.facts.pages import text_of
from tests.facts.repository import ROOT

PAGE = text_of(ROOT / "docs" / "metrics.md")


# When this fails, put the right side between the two markers.


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    assert between("metrics") == metrics_table()


def test_the_table_of_a_workers_metrics_is_that_of_the_code() -> None:
    assert between("worker metrics") == worker_metrics_table()


@pytest.mark.parametrize(
    "metric", [it for it in METRICS if "cause" in it.labels], ids=lambda it: it.name
)
def test_the_causes_in_a_help_text_are_values_of_the_label(metric: Metric) -> None:
    causes = re.sub(r" \([^)]*\)", "", metric.help.partition("by cause: ")[2].rstrip("."))
    values = {reason.name.lower() for reason in Reason if reason not in NO_CAUSE}

    assert set(causes.split(", ")) <= values


def test_how_many_are_told_of_is_as_the_code_has_it() -> None:
    assert f"the {QUEUES_MOST:,} queues" in PAGE
    assert f"{GROUPS_MOST} groups" in PAGE


def test_how_many_connections_there_may_be_is_as_the_code_has_it() -> None:
    assert f"at most {CONNECTIONS_MOST} connections" in PAGE
    assert f"within {REQUEST_S} seconds" in PAGE


def between(marker: str) -> str:
    begin = f"<!-- {marker} -->\n"
    return PAGE[PAGE.index(begin) + len(begin) : PAGE.index(f"<!-- /{marker} -->")]


def metrics_table() -> str:
    """All metrics of a broker as a Markdown table."""
    rows = ["| Metric | Kind | Labels | Stores | Meaning |", "|---|---|---|---|---|"]
    for metric in METRICS:
        cells = [f"`{metric.name}`", metric.kind, _labels(metric), metric.where, metric.help]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def worker_metrics_table() -> str:
    """All metrics of a worker, which has no store."""
    rows = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    for metric in OF_WORKERS:
        cells = [f"`{metric.name}`", metric.kind, _labels(metric), metric.help]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)
