"""What is to be reached, what was measured, and the README's table made of both.

Called by   __main__.py; tests/facts/test_readme_table.py holds the README to results.json.
Calls       nothing.

results.json keeps the figures of the last full run, by build: "compiled" (make compiled) and
"python" (the sources as they are).

Not here: measuring (the other files of this folder).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.harness import ROOT, Table, program

RESULTS = ROOT / "bench" / "results.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench -->\n", "<!-- /bench -->"
BUILDS = {"compiled": "compiled", "python": "pure Python"}


@dataclass(frozen=True)
class Target:
    """A figure, and what it has to be at least, or at most."""

    what: str
    figure: str
    bound: Literal["≥", "≤"]
    value: float
    unit: Literal["×", "/s", "bytes", "ms"]

    def shown(self, value: float) -> str:
        digits = 2 if self.unit in ("×", "ms") else 0
        return f"{value:,.{digits}f} {self.unit}"

    def is_met_by(self, value: float) -> bool:
        """By the value as it is shown."""
        shown = round(value, 2)
        return shown >= self.value if self.bound == "≥" else shown <= self.value


_ALWAYS = "`QADD`, every one synced before its reply, beside `LPUSH` with `appendfsync always`"
_EVERYSEC = "`QADD`, synced once a second, beside `LPUSH` with `appendfsync everysec`"

# How each was measured: redis_store.py and redis_cluster.py say it.
_REDIS = (
    *(
        Target(what, f"redis {step}, beside {peer}", "≥", least, "×")
        for step, words in (
            ("events add", "`QADD`"),
            ("events get and ack", "`QGET` and `QACK`"),
            ("jobs add", "`ADDJOB`"),
            ("jobs get and ack", "`GETJOB` and `ACKJOB`"),
        )
        for what, peer, least in (
            (f"{words} on Redis, beside embedded, pipelined 16 deep", "embedded", 0.5),
            ("… beside one script call a message", "one by one", 3.0),
        )
    ),
    Target(
        "CPU time a job of two brokers on a Cluster, beside one",
        "cluster cost, broker",
        "≤",
        1.2,
        "×",
    ),
    Target("… of the three servers", "cluster cost, Redis", "≤", 1.2, "×"),
)

# How each was measured: reliable.py says it.
_RELIABLE = (
    *(
        Target(what, figure, "≥", 1.0, "×")
        for ours, theirs in (("RQ.PUSH", "ADDJOB"), ("RQ.POP", "GETJOB"), ("RQ.ACK", "ACKJOB"))
        for what, figure in (
            (f"`{ours}` beside `{theirs}`", f"{ours.lower()} depth 1"),
            ("… pipelined 16 deep", f"{ours.lower()} depth 16"),
            ("… on Redis", f"redis {ours.lower()}"),
        )
    ),
    *(
        Target(what, f"{verb.lower()} of {size}", "≥", 5.0, "×")
        for verb in ("RQ.PUSH", "RQ.POP", "RQ.ACK")
        for what, size in (
            (f"Elements a second by `{verb}` of 10, beside one", 10),
            ("… of 100", 100),
        )
    ),
    Target("The slowest `RQ` command with 1,000,000 delivered", "rq delivered", "≥", 0.8, "×"),
)

# How each was measured: tubes.py and tarantool.py say it.
TARANTOOLS = "tarantool "  # how the figures begin that need a Tarantool
_TUBES = (
    *(
        Target(what, figure, "≥", 0.8, "×")
        for ours, theirs in (
            ("TUBE.PUT", "ADDJOB"),
            ("TUBE.TAKE", "GETJOB"),
            ("TUBE.ACK", "ACKJOB"),
        )
        for what, figure in (
            (f"`{ours}` beside `{theirs}`", f"{ours.lower()} depth 1"),
            ("… pipelined 16 deep", f"{ours.lower()} depth 16"),
            ("… on Redis", f"redis {ours.lower()}"),
        )
    ),
    Target(
        "`TUBE.TAKE` while a busy lane holds up 100,000 tasks, beside an empty tube",
        "lane held up, take",
        "≥",
        0.9,
        "×",
    ),
    Target("… the slowest command in its free lanes", "lane held up, others", "≥", 0.8, "×"),
    Target(
        "Put, take and ack by 50 asynctnt tasks on a connection, beside a real Tarantool",
        f"{TARANTOOLS}50 tasks",
        "≥",
        1.0,
        "×",
    ),
)

# How each was measured: work_queue.py says it.
_ITEMS = (
    Target(
        "The work-queue library: a lease and its completion, beside the published package",
        "items lease and complete",
        "≥",
        2.0,
        "×",
    ),
    Target("… adding an item", "items add", "≥", 1.0, "×"),
    Target("… deep cleaning of 1,000,000 items", "items deep clean", "≥", 5.0, "×"),
    Target("… the longest call of that", "items deep clean, longest call ms", "≤", 5.0, "ms"),
)

# How each was measured: client.py and workers.py say it.
PEERS = "peers "  # how the figures begin that need the packages of bench/peers
_PYTHON = (
    Target(
        "The client's CPU time for adding a job, beside redis-py's `LPUSH`",
        "client add",
        "≤",
        1.2,
        "×",
    ),
    Target("… with asyncio", "client add, asyncio", "≤", 1.2, "×"),
    Target("… by 100 tasks at a time", "client add, tasks", "≤", 1.2, "×"),
    Target(
        "Jobs a second in calls of 100, beside one by one", "client add, 100 a call", "≥", 10.0, "×"
    ),
    Target(
        "Jobs a second of one worker, synced, beside the best of dramatiq, saq and celery",
        f"{PEERS}drain",
        "≥",
        2.0,
        "×",
    ),
    Target("… its CPU time for a job", f"{PEERS}cpu", "≤", 0.5, "×"),
    Target(
        "From adding a job to the call for it, at half load", "worker to start ms", "≤", 5.0, "ms"
    ),
)

SPARKS = ("spark ", "tables ")  # how the figures begin that need a Spark
_SPARK = (
    Target("Spark: rows written in a batch, 100 bytes each", "spark write", "≥", 60_000, "/s"),
    Target("… looked at", "spark peek", "≥", 150_000, "/s"),
    Target("… drained to Parquet by a stream and settled", "spark drain", "≥", 50_000, "/s"),
    *(
        Target(what, f"spark {job}, beside synthetic", "≥", 0.0, "×")
        for job, what in (
            ("write", "Writing, beside a sink that drops the rows"),
            ("peek", "Looking, beside a source that makes them up"),
            ("drain", "Draining, beside such a source"),
        )
    ),
    Target(
        "Lifecycle events to rows of messages, in Spark", "tables lifecycle", "≥", 1_000_000, "/s"
    ),
    Target(
        "… time in five batches, beside at once, both written", "tables incremental", "≤", 2.0, "×"
    ),
)

TARGETS = (
    Target(_ALWAYS, "qadd always depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "qadd always depth 16", "≥", 1.0, "×"),
    Target(_EVERYSEC, "qadd everysec depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qadd everysec depth 16", "≥", 0.5, "×"),
    Target("`QGET` beside `QADD`", "qget depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qget depth 16", "≥", 0.5, "×"),
    Target("`QACK` beside `QADD`", "qack depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qack depth 16", "≥", 0.5, "×"),
    Target("`ADDJOB` beside `QADD`", "addjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "addjob depth 16", "≥", 1.0, "×"),
    Target("`GETJOB` beside `QADD`", "getjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "getjob depth 16", "≥", 1.0, "×"),
    Target("`ACKJOB` beside `QADD`", "ackjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "ackjob depth 16", "≥", 1.0, "×"),
    Target("A blocked `GETJOB`, from the `ADDJOB` on", "getjob wake ms", "≤", 1.0, "ms"),
    Target("The slowest job command while 1,000 wait elsewhere", "jobs waiting", "≥", 0.9, "×"),
    Target("The slowest job command with 1,000,000 delayed", "jobs delayed", "≥", 0.8, "×"),
    *_RELIABLE,
    *_TUBES,
    *_REDIS,
    *_ITEMS,
    *_PYTHON,
    *_SPARK,
    *(
        Target(what, f"lifecycle {family} depth {depth}", "≥", 0.9, "×")
        for family, words in (
            ("events", "`QADD`, `QGET` and `QACK`"),
            ("jobs", "`ADDJOB`, `GETJOB` and `ACKJOB`"),
        )
        for what, depth in (
            (f"{words} with every change on record, beside without", 1),
            ("… pipelined 16 deep", 16),
        )
    ),
    Target("The slowest command with 1,000,000 waiting", "backlog waiting, 1 deep", "≥", 0.8, "×"),
    Target("… pipelined 16 deep", "backlog waiting, 16 deep", "≥", 0.8, "×"),
    Target("The slowest command with 1,000,000 leased", "backlog leased, 1 deep", "≥", 0.8, "×"),
    Target("… pipelined 16 deep", "backlog leased, 16 deep", "≥", 0.8, "×"),
    Target("The slowest command while 1,000,000 leases lapse", "backlog lapsed", "≥", 0.8, "×"),
    Target("The slowest command while 1,000,000 events expire", "backlog expired", "≥", 0.8, "×"),
    Target("Reading back 1,000,000 messages", "recovery, bodies in memory", "≥", 150_000, "/s"),
    Target("… with bodies on disk", "recovery, bodies on disk", "≥", 150_000, "/s"),
    Target("Memory of a 64-byte message", "bytes a message, bodies in memory", "≤", 700, "bytes"),
    Target("… with bodies on disk", "bytes a message, bodies on disk", "≤", 350, "bytes"),
)


def compare(figures: Mapping[str, float]) -> Table:
    """Targets and figures of one run."""
    table = Table("Targets", ["", "target", "measured", "met"])
    for target in TARGETS:
        if target.figure in figures:
            value = figures[target.figure]
            met = "yes" if target.is_met_by(value) else "NO"
            wanted = f"{target.bound} {target.shown(target.value)}"
            table.rows.append([target.what, wanted, target.shown(value), met])
    return table


def save(path: Path, build: str, figures: Mapping[str, float]) -> None:
    """The figures are in the file, beside those of the other build."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
    kept[build] = {"machine": _machine(), "figures": {**_figures(kept, build), **rounded}}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def readme_block(results: Mapping[str, Any]) -> str:
    """The table of the README, from what results.json holds."""
    builds = [build for build in BUILDS if build in results]
    lines = [
        "| | target | " + " | ".join(BUILDS[build] for build in builds) + " |",
        "|---|---:|" + "---:|" * len(builds),
    ]
    for target in TARGETS:
        cells = [target.what, f"{target.bound} {target.shown(target.value)}"]
        for build in builds:
            value = _figures(results, build).get(target.figure)
            shown = "–" if value is None else target.shown(value)
            missed = value is not None and not target.is_met_by(value)
            cells.append(f"{shown} (missed)" if missed else shown)
        lines.append("| " + " | ".join(cells) + " |")
    machines = dict.fromkeys(results[build]["machine"] for build in builds)
    lines += ["", f"Medians of `make bench` on {'; '.join(machines)}. × is a ratio within one run."]
    return "\n".join(lines) + "\n"


def write_readme() -> None:
    """The README's table is that of results.json."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise RuntimeError(f"{README.name} has no {BEGIN.strip()} … {END}")
    block = readme_block(json.loads(RESULTS.read_text(encoding="utf-8")))
    README.write_text(before + BEGIN + block + END + after, encoding="utf-8")


def _figures(results: Mapping[str, Any], build: str) -> dict[str, float]:
    figures: dict[str, float] = results.get(build, {}).get("figures", {})
    return figures


def _machine() -> str:
    """What it was measured on, in a few words."""
    said = subprocess.run(
        [program("redis-server"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    redis = next(word[2:] for word in said.split() if word.startswith("v="))
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, redis-server {redis}"
    )
