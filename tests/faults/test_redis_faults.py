"""Faults under a Redis store: nothing acknowledged is lost, nothing acked comes back, no surprise.

The same runs as `python -m tests.faults.redis_faults`, each for a few strikes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.redis_faults import FAULTS
from tests.faults.redis_run import Outcome, report, run
from tests.model.effort import EFFORT

SECONDS = float(EFFORT) or 0.5
SEED = 4  # of what clients do and when faults come; the rest is up to the machine

# Where every promise holds. What the other faults lose is measured, by hand.
KEPT = [
    "kill-broker",
    "orphans",
    "script-flush",
    "restart",
    "pause",
    "pause-long",
    "network",
    "kill-primary-safe",
    "failover",
    "reshard",
    "pause-primary-safe",
]


@pytest.mark.parametrize("name", KEPT)
def test_a_fault_under_load_loses_nothing_and_brings_nothing_back(
    name: str, tmp_path: Path
) -> None:
    outcome = run_fault(name, tmp_path)

    assert not outcome.gone["events"]
    assert not outcome.gone["jobs"]


def test_jobs_that_asked_for_a_replica_outlive_their_primary(tmp_path: Path) -> None:
    outcome = run_fault("kill-primary", tmp_path)

    assert not outcome.gone["jobs"]


def run_fault(name: str, folder: Path) -> Outcome:
    """What came of it, which is good, and not because nothing was done."""
    outcome = run(FAULTS[name], folder, SEED, seconds=SECONDS, rounds=1000)
    assert outcome.is_good, "\n".join(report(outcome))
    assert outcome.done["strikes"] > 0
    for family, verdict in (("events", outcome.events), ("jobs", outcome.jobs)):
        assert outcome.answers[family]["add acknowledged"] > 0
        assert verdict.counts["ack done"] > 0
    return outcome
