"""Compare a family to the jobs family: adding, taking and acking, in turns, on the same broker.

Called by   reliable.py, tubes.py.
Calls       harness.py.

Every write is synced before its reply, or is on a Redis whose append-only file is synced once a
second. Also: the speed of every command with much stored data, compared to an empty broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.harness import (
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    scratch,
    start_quinque,
    start_redis,
    times,
)

DEPTHS = (1, 16)
ROUNDS = 7

Rates = dict[str, float]
Measure = Callable[[Server, int, bool], Rates]  # on a broker, with a depth, quick or not


@dataclass(frozen=True)
class Beside:
    """Verbs of a family, the matching verbs of jobs, and how both are measured."""

    family: str
    pairs: Sequence[tuple[str, str]]
    measure: Measure
    measure_jobs: Measure

    def run(self, result: Result, quick: bool) -> None:
        """Add a table, and a figure for each verb and way, to the result."""
        table = Table(
            f"{self.family}: requests per second, compared to jobs",
            [
                "",
                *(verb for pair in self.pairs for verb in pair),
                *(f"{ours} / {theirs}" for ours, theirs in self.pairs),
            ],
        )
        with scratch() as folder:
            with start_quinque(folder / "ours", "--fsync", "always") as server:
                for depth in DEPTHS:
                    ratios = self._row(table, f"{depth} deep", server, depth, quick)
                    result.figures |= {
                        f"{verb.lower()} depth {depth}": ratio for verb, ratio in ratios.items()
                    }
            ratios = self._on_redis(table, folder, quick)
            result.figures |= {f"redis {verb.lower()}": ratio for verb, ratio in ratios.items()}
        result.tables.append(table)

    def _on_redis(self, table: Table, folder: Path, quick: bool) -> Rates:
        flags = ("--appendonly", "yes", "--appendfsync", "everysec")
        with start_redis(folder / "redis", *flags) as store:
            url = f"redis://127.0.0.1:{store.port}"
            with start_quinque(folder / "served", "--store", url) as server:
                return self._row(table, "on Redis, 16 deep", server, DEPTHS[-1], quick)

    def _row(self, table: Table, name: str, server: Server, depth: int, quick: bool) -> Rates:
        """Add a row, and return the speeds of the family divided by those of jobs, by verb."""
        found: dict[str, list[float]] = {verb: [] for pair in self.pairs for verb in pair}

        def live(measure: Measure) -> float:
            for verb, rate in measure(server, depth, quick).items():
                found[verb].append(rate)
            return 0.0

        in_turns(
            {"ours": partial(live, self.measure), "jobs": partial(live, self.measure_jobs)},
            1 if quick else ROUNDS,
            both_ways=True,
        )
        ratios = {ours: median_ratio(found[ours], found[theirs]) for ours, theirs in self.pairs}
        speeds = [per_second(median(rates)) for rates in found.values()]
        table.rows.append([name, *speeds, *map(times, ratios.values())])
        return ratios


def best_over(having: Sequence[Mapping[str, float]], without: Sequence[Rates]) -> Rates:
    """Return the speeds of one divided by those of the other. Other programs only ever slow one
    down, so the best pass is the truest."""
    return {
        what: max(rates[what] for rates in having) / max(rates[what] for rates in without)
        for what in without[0]
    }
