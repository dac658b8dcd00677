"""Kills of a broker under load: nothing acknowledged is lost, nothing acked comes back.

Jobs moreover are after each restart what they were, but for what was asked and for time: states,
counters, delays, leases, reasons, keys, order, pauses and what is set for queues.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.kill_loop import report, run
from tests.model.effort import EFFORT

ROUNDS = 50 * EFFORT or 20
SEED = 5  # of what clients do and when kills come; the rest is up to the machine


def test_kills_lose_nothing_acknowledged_and_deliver_nothing_acked(tmp_path: Path) -> None:
    outcome = run(tmp_path, ROUNDS, SEED)

    assert outcome.is_good, "\n".join(report(outcome))
    kills, events, jobs = outcome.kills, outcome.events.counts, outcome.jobs.counts
    assert kills.brokers == ROUNDS
    # The kills hit what they should: requests under way, compaction, brokers that read back.
    assert kills.clients > 0
    assert kills.starting_brokers > 0
    assert kills.compacted > 0
    for counts in (events, jobs):
        assert counts["add indeterminate"] > 0
        assert counts["get indeterminate"] > 0
        assert counts["get delivered again"] > 0
    for state in ("queued", "delayed", "active", "dead", "paused"):
        assert jobs[f"seen {state} in a snapshot"] > 0
