"""Fifty kills of a broker under load: nothing acknowledged is lost, nothing acked comes back."""

from __future__ import annotations

from pathlib import Path

from tests.faults.kill_loop import report, run

ROUNDS = 50
SEED = 5  # of what clients do and when kills come; the rest is up to the machine


def test_fifty_kills_lose_nothing_acknowledged_and_deliver_nothing_acked(tmp_path: Path) -> None:
    verdict, kills = run(tmp_path, ROUNDS, SEED)

    assert verdict.is_good, "\n".join(report(verdict, kills))
    assert kills.brokers == ROUNDS
    # The kills hit what they should: requests under way, compaction, brokers that read back.
    assert kills.clients > 0
    assert kills.starting_brokers > 0
    assert kills.compacted > 0
    assert verdict.counts["add indeterminate"] > 0
    assert verdict.counts["get delivered again"] > 0
