"""The targets, the measured figures, and the tables of docs/performance.md and the README.

results.json keeps the figures of the last full run, by build: "compiled" (make compiled) and
"python" (the sources). tests/facts/test_performance_tables.py compares the tables with it.

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
PAGE = ROOT / "docs" / "performance.md"
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

    @property
    def wanted(self) -> str:
        return f"{self.bound} {self.shown(self.value)}"

    def is_met_by(self, value: float) -> bool:
        """By the value as it is shown."""
        shown = round(value, 2)
        return shown >= self.value if self.bound == "≥" else shown <= self.value


_ALWAYS = "`QADD`, synced before each reply, compared to `LPUSH` with `appendfsync always`"
_EVERYSEC = "`QADD`, synced every second, compared to `LPUSH` with `appendfsync everysec`"

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
            (f"{words} on Redis, compared to embedded, pipelined 16 deep", "embedded", 0.5),
            ("… compared to one script call for each message", "one by one", 3.0),
        )
    ),
    Target(
        "CPU time for a job of two brokers on a Cluster, compared to one broker",
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
            (f"`{ours}` compared to `{theirs}`", f"{ours.lower()} depth 1"),
            ("… pipelined 16 deep", f"{ours.lower()} depth 16"),
            ("… on Redis", f"redis {ours.lower()}"),
        )
    ),
    *(
        Target(what, f"{verb.lower()} of {size}", "≥", 5.0, "×")
        for verb in ("RQ.PUSH", "RQ.POP", "RQ.ACK")
        for what, size in (
            (f"Elements per second with 10 in each `{verb}`, compared to 1", 10),
            ("… with 100", 100),
        )
    ),
    Target(
        "Requests per second of the slowest `RQ` command "
        "with 1,000,000 delivered elements, compared to none",
        "rq delivered",
        "≥",
        0.8,
        "×",
    ),
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
            (f"`{ours}` compared to `{theirs}`", f"{ours.lower()} depth 1"),
            ("… pipelined 16 deep", f"{ours.lower()} depth 16"),
            ("… on Redis", f"redis {ours.lower()}"),
        )
    ),
    Target(
        "`TUBE.TAKE` while a busy lane blocks 100,000 tasks, compared to an empty tube",
        "lane held up, take",
        "≥",
        0.9,
        "×",
    ),
    Target("… slowest command in the free lanes", "lane held up, others", "≥", 0.8, "×"),
    Target(
        "Put, take and ack by 50 asynctnt tasks on one connection, compared to Tarantool",
        f"{TARANTOOLS}50 tasks",
        "≥",
        1.0,
        "×",
    ),
)

# How each was measured: work_queue.py says it.
_ITEMS = (
    Target(
        "Work-queue library: lease and complete, compared to the published package",
        "items lease and complete",
        "≥",
        2.0,
        "×",
    ),
    Target("… add an item", "items add", "≥", 1.0, "×"),
    Target("… deep cleaning of 1,000,000 items", "items deep clean", "≥", 5.0, "×"),
    Target(
        "… the longest call of the deep cleaning",
        "items deep clean, longest call ms",
        "≤",
        5.0,
        "ms",
    ),
)

# How each was measured: client.py and workers.py say it.
PEERS = "peers "  # how the figures begin that need the packages of bench/peers
_PYTHON = (
    Target(
        "CPU time of the Python client to add a job, compared to `LPUSH` with redis-py",
        "client add",
        "≤",
        1.2,
        "×",
    ),
    Target("… with asyncio", "client add, asyncio", "≤", 1.2, "×"),
    Target("… with 100 tasks at a time", "client add, tasks", "≤", 1.2, "×"),
    Target(
        "Jobs added per second in calls of 100, compared to one at a time",
        "client add, 100 a call",
        "≥",
        10.0,
        "×",
    ),
    Target(
        "Jobs per second of one worker, compared to the best of dramatiq, saq and celery",
        f"{PEERS}drain",
        "≥",
        2.0,
        "×",
    ),
    Target("… CPU time of the worker for a job", f"{PEERS}cpu", "≤", 0.5, "×"),
    Target(
        "Time from adding a job to the call of its handler, at half load",
        "worker to start ms",
        "≤",
        5.0,
        "ms",
    ),
)

SPARKS = ("spark ", "tables ")  # how the figures begin that need a Spark
_SPARK = (
    Target("Spark: rows of 100 bytes written by a batch query", "spark write", "≥", 60_000, "/s"),
    Target("… read with `mode=peek`", "spark peek", "≥", 150_000, "/s"),
    Target("… written to Parquet by a stream, then acked", "spark drain", "≥", 50_000, "/s"),
    *(
        Target(what, f"spark {job}, beside synthetic", "≥", 0.0, "×")
        for job, what in (
            ("write", "Spark write, compared to a sink that discards the rows"),
            ("peek", "Spark read with `mode=peek`, compared to a source that generates rows"),
            ("drain", "Spark stream to Parquet, compared to a source that generates rows"),
        )
    ),
    Target(
        "Spark: state changes turned into one row for each message",
        "tables lifecycle",
        "≥",
        1_000_000,
        "/s",
    ),
    Target("… time in five batches, compared to one batch", "tables incremental", "≤", 2.0, "×"),
)

TARGETS = (
    Target(_ALWAYS, "qadd always depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "qadd always depth 16", "≥", 1.0, "×"),
    Target(_EVERYSEC, "qadd everysec depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qadd everysec depth 16", "≥", 0.5, "×"),
    Target("`QGET` compared to `QADD`", "qget depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qget depth 16", "≥", 0.5, "×"),
    Target("`QACK` compared to `QADD`", "qack depth 1", "≥", 0.5, "×"),
    Target("… pipelined 16 deep", "qack depth 16", "≥", 0.5, "×"),
    Target("`ADDJOB` compared to `QADD`", "addjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "addjob depth 16", "≥", 1.0, "×"),
    Target("`GETJOB` compared to `QADD`", "getjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "getjob depth 16", "≥", 1.0, "×"),
    Target("`ACKJOB` compared to `QADD`", "ackjob depth 1", "≥", 1.0, "×"),
    Target("… pipelined 16 deep", "ackjob depth 16", "≥", 1.0, "×"),
    Target(
        "Time from `ADDJOB` to the reply of a blocked `GETJOB`", "getjob wake ms", "≤", 1.0, "ms"
    ),
    Target(
        "Slowest job command with 1,000 blocked clients, compared to none",
        "jobs waiting",
        "≥",
        0.9,
        "×",
    ),
    Target(
        "Slowest job command with 1,000,000 delayed jobs, compared to none",
        "jobs delayed",
        "≥",
        0.8,
        "×",
    ),
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
            (f"{words} with the lifecycle log, compared to without", 1),
            ("… pipelined 16 deep", 16),
        )
    ),
    Target(
        "Requests per second of the slowest command "
        "with 1,000,000 waiting events, compared to none",
        "backlog waiting, 1 deep",
        "≥",
        0.8,
        "×",
    ),
    Target("… pipelined 16 deep", "backlog waiting, 16 deep", "≥", 0.8, "×"),
    Target(
        "Requests per second of the slowest command with 1,000,000 leased events, compared to none",
        "backlog leased, 1 deep",
        "≥",
        0.8,
        "×",
    ),
    Target("… pipelined 16 deep", "backlog leased, 16 deep", "≥", 0.8, "×"),
    Target(
        "Requests per second of the slowest command "
        "while 1,000,000 leases end, compared to an empty queue",
        "backlog lapsed",
        "≥",
        0.8,
        "×",
    ),
    Target(
        "Requests per second of the slowest command "
        "while 1,000,000 events expire, compared to an empty queue",
        "backlog expired",
        "≥",
        0.8,
        "×",
    ),
    Target(
        "Messages per second read back at startup", "recovery, bodies in memory", "≥", 150_000, "/s"
    ),
    Target("… with bodies on disk", "recovery, bodies on disk", "≥", 150_000, "/s"),
    Target("Memory for a 64-byte message", "bytes a message, bodies in memory", "≤", 700, "bytes"),
    Target("… with bodies on disk", "bytes a message, bodies on disk", "≤", 350, "bytes"),
)

# The rows of the README's table.
IN_README = (
    "qadd always depth 1",
    "qadd everysec depth 1",
    "getjob wake ms",
    f"{PEERS}drain",
    "backlog lapsed",
    "recovery, bodies in memory",
)


def compare(figures: Mapping[str, float]) -> Table:
    """Targets and figures of one run."""
    table = Table("Targets", ["", "target", "measured", "met"])
    for target in TARGETS:
        if target.figure in figures:
            value = figures[target.figure]
            met = "yes" if target.is_met_by(value) else "NO"
            table.rows.append([target.what, target.wanted, target.shown(value), met])
    return table


def save(path: Path, build: str, figures: Mapping[str, float]) -> None:
    """The figures are in the file, beside those of the other build."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
    kept[build] = {"machine": _machine(), "figures": {**_figures(kept, build), **rounded}}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def page_block(results: Mapping[str, Any]) -> str:
    """The table of docs/performance.md: every target, with the result of each build."""
    builds = [build for build in BUILDS if build in results]
    lines = [
        "| Measured | Target | " + " | ".join(BUILDS[build] for build in builds) + " |",
        "|---|---:|" + "---:|" * len(builds),
    ]
    for target in TARGETS:
        cells = [_cell(target, _figures(results, build)) for build in builds]
        lines.append("| " + " | ".join([target.what, target.wanted, *cells]) + " |")
    machines = dict.fromkeys(results[build]["machine"] for build in builds)
    lines += ["", f"Medians of `make bench` on {'; '.join(machines)}. × is a ratio within one run."]
    return "\n".join(lines) + "\n"


def readme_block(results: Mapping[str, Any]) -> str:
    """The table of the README: a few targets, with the result of the compiled build."""
    figures = _figures(results, "compiled")
    rows = [
        f"| {target.what} | {target.wanted} | {_cell(target, figures)} |"
        for target in TARGETS
        if target.figure in IN_README
    ]
    head = ["| Compiled build, 2 cores | Target | Result |", "|---|---:|---:|"]
    return "\n".join([*head, *rows]) + "\n"


def write_tables() -> None:
    """Write the tables of results.json into the README and docs/performance.md."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for path, block in ((README, readme_block(results)), (PAGE, page_block(results))):
        text = path.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            raise RuntimeError(f"{path.name} has no {BEGIN.strip()} … {END}")
        path.write_text(before + BEGIN + block + END + after, encoding="utf-8")


def _cell(target: Target, figures: Mapping[str, float]) -> str:
    value = figures.get(target.figure)
    if value is None:
        return "–"
    return target.shown(value) + ("" if target.is_met_by(value) else " (missed)")


def _figures(results: Mapping[str, Any], build: str) -> dict[str, float]:
    figures: dict[str, float] = results.get(build, {}).get("figures", {})
    return figures


def _machine() -> str:
    """Describe the machine and the programs in a few words."""
    said = subprocess.run(
        [program("redis-server"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    redis = next(word[2:] for word in said.split() if word.startswith("v="))
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, redis-server {redis}"
    )
