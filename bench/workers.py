"""Quinque's worker compared to dramatiq, huey, saq, celery and rq: one process, empty jobs.

    jobs /s    waiting jobs are processed: from the call for the first to the call for the last, and
               for Quinque to the ack of the last
    CPU        of the worker process, and of the server, for each job
    to start   from the addition of a job to its call, while jobs are added half as fast as that
               worker has just processed them, or as fast as one process can; the median

Each runs in turn, in the same run. All have THREADS threads, or as many tasks of an event loop, and
otherwise their defaults, without results; celery acks late, which is a setting. rq forks for every
job; its SimpleWorker, which does not, takes a tenth of the time and is measured instead. The peers
use a Redis that keeps nothing on disk. Quinque uses a broker that syncs every change: it starts a
job two or three syncs after its addition, so the bench also prints the time of a sync.

A job appends 24 bytes to a file, and all figures are calculated from that file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import redis

from bench.harness import (
    ROOT,
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    python_path,
    scratch,
    start_quinque,
    start_redis,
    times,
)
from bench.peer_packages import PYTHON, installed
from bench.peers.noted import NOTE, NOTES, QUEUE, TASKS, URL
from bench.summary import PEERS

JOBS, FEW, ROUNDS = 5_000, 1_000, 5  # few for those that take a second for them
THREADS = 8
PACED_S = 2.0  # how long jobs are added at half load
MOST_S = 120.0  # a worker that takes longer has stopped
OURS = "Quinque"
_SYNCS = 20  # a round
_LOOK_S = 0.002  # between two looks at how far a worker is


@dataclass(frozen=True)
class System:
    """How the worker is started, and whether a job is stored until it is done."""

    name: str
    module: str
    words: Sequence[str]
    acks: bool
    jobs: int = JOBS


_APPS = "bench.peers"
_THREADS = ("--threads", str(THREADS))
SYSTEMS = (
    System(OURS, "quinque_app", ("quinque", "work", f"{_APPS}.quinque_app:app", *_THREADS), True),
    System(
        f"{OURS}, async",
        "quinque_app",
        ("quinque", "work", f"{_APPS}.quinque_app:async_app"),
        True,
    ),
    System(
        "dramatiq",
        "dramatiq_app",
        ("dramatiq", f"{_APPS}.dramatiq_app", "--processes", "1", *_THREADS),
        True,
    ),
    System(
        "huey",
        "huey_app",
        ("huey.bin.huey_consumer", f"{_APPS}.huey_app.huey", "--quiet", "--workers", str(THREADS)),
        False,
    ),
    System("saq", "saq_app", ("saq", f"{_APPS}.saq_app.settings"), True),
    System(
        "celery",
        "celery_app",
        ("celery", "-A", f"{_APPS}.celery_app", "worker", "-P", "threads", "-c", str(THREADS)),
        True,
        FEW,
    ),
    System(
        "rq",
        "rq_app",
        ("rq.cli", "worker", "--quiet", "--worker-class", "rq.SimpleWorker", "--url", URL, QUEUE),
        False,
        FEW,
    ),
)


@dataclass(frozen=True)
class Note:
    """The times that noted.py wrote for one job, in seconds."""

    started_s: float
    cpu_s: float
    added_s: float


@dataclass
class Found:
    """The measurements of a system, one for each round."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)  # jobs a second that were really added


class Bench:
    """The servers, and the worker of one system after the other."""

    def __init__(self, folder: Path, broker: Server, store: Server, quick: bool) -> None:
        self._notes = folder / "notes"
        self._broker, self._store = broker, store
        self._quick = quick
        self._synced = folder / "synced"
        self.sync_ms: list[float] = []  # of the disk, while ours was measured

    def measure(self, system: System, found: Found) -> float:
        """Measure a system once, store the results, and return its jobs per second."""
        server = self._broker if _is_ours(system) else self._store
        jobs = 200 if self._quick else system.jobs
        self._notes.write_bytes(b"")
        with redis.Redis(port=server.port) as db:
            db.execute_command(*(("QPURGE", QUEUE) if _is_ours(system) else ("FLUSHALL",)))
        self._add(system, jobs, 0)
        server_began_s = server.cpu_s()
        with self._worker(system):
            notes = self._await_notes(jobs)
            ended_s = self._await_acks() if _is_ours(system) else 0.0
            found.server_us.append((server.cpu_s() - server_began_s) / jobs * 1e6)
            began_s = min(note.started_s for note in notes)
            rate = jobs / (max(ended_s, *(note.started_s for note in notes)) - began_s)
            found.rates.append(rate)
            cpu_s = max(note.cpu_s for note in notes) - min(note.cpu_s for note in notes)
            found.cpu_us.append(cpu_s / (jobs - 1) * 1e6)
            paced = max(20, int(rate / 2 * (0.2 if self._quick else PACED_S)))
            self._add(system, paced, rate / 2)
            late = self._await_notes(jobs + paced)[jobs:]
            found.start_ms.append(1e3 * median(it.started_s - it.added_s for it in late))
            added_s = [note.added_s for note in late]
            found.paced.append(paced / max(max(added_s) - min(added_s), 1e-3))
            if _is_ours(system):
                self._await_acks()
                self._note_sync()
        return rate

    def _note_sync(self) -> None:
        """Store the time of a sync now. Other programs may use the disk as well."""
        with self._synced.open("ab", buffering=0) as file:
            for _ in range(_SYNCS):
                file.write(bytes(512))
                began_s = time.perf_counter()
                os.fdatasync(file.fileno())
                self.sync_ms.append(1e3 * (time.perf_counter() - began_s))

    def _add(self, system: System, count: int, rate: float) -> None:
        words = [_python(system), "-m", f"{_APPS}.adding", f"{_APPS}.{system.module}", str(count)]
        subprocess.run([*words, str(rate)], env=self._environment(system), check=True)

    @contextmanager
    def _worker(self, system: System) -> Iterator[None]:
        environment = self._environment(system)
        words = [environment[URL] if word == URL else word for word in system.words]
        worker = subprocess.Popen(
            [_python(system), "-m", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            worker.terminate()
            try:
                worker.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()

    def _environment(self, system: System) -> dict[str, str]:
        """Return the environment: the measured package for Quinque, their own venv for peers."""
        server = self._broker if _is_ours(system) else self._store
        paths = python_path(ROOT) if _is_ours(system) else {"PYTHONPATH": str(ROOT)}
        told = {URL: f"redis://127.0.0.1:{server.port}", NOTES: str(self._notes)}
        return {**os.environ, **paths, **told, TASKS: str(THREADS)}

    def _await_notes(self, count: int) -> list[Note]:
        """Wait until `count` jobs are processed, and return their notes. Raises RuntimeError."""
        until_s = time.monotonic() + MOST_S
        while self._notes.stat().st_size < count * NOTE.size:
            if time.monotonic() > until_s:
                raise RuntimeError(f"not all of {count} jobs were processed within {MOST_S:.0f} s")
            time.sleep(_LOOK_S)
        return [
            Note(*(time_ns / 1e9 for time_ns in noted))
            for noted in NOTE.iter_unpack(self._notes.read_bytes())
        ]

    def _await_acks(self) -> float:
        """Wait until the broker has no jobs, and return that time. Raises RuntimeError."""
        until_s = time.monotonic() + MOST_S
        with redis.Redis(port=self._broker.port) as db:
            while True:
                told = db.execute_command("QSTAT", QUEUE, "DETAILS")
                view = dict(zip(told[::2], told[1::2], strict=True))
                left = {state: view[state] for state in (b"len", b"active", b"delayed", b"dead")}
                now_s = time.monotonic()
                if not any(left.values()):
                    return now_s
                if left[b"dead"] or now_s > until_s:
                    raise RuntimeError(f"the worker did not ack all jobs: {left}")
                time.sleep(_LOOK_S)


def run(quick: bool) -> Result:
    versions = installed(may_install=not quick)
    ours = [system for system in SYSTEMS if _is_ours(system)]
    peers = [system for system in SYSTEMS if system.name in versions]
    systems = [*ours, *(peers[:1] if quick else peers)]
    found = {system.name: Found() for system in systems}
    with (
        scratch() as folder,
        start_quinque(folder / "ours") as broker,
        start_redis(folder / "redis") as store,
    ):
        bench = Bench(folder, broker, store, quick)
        measures = {it.name: partial(bench.measure, it, found[it.name]) for it in systems}
        in_turns(measures, 1 if quick else ROUNDS, both_ways=True)
    title = f"One worker process, jobs that do nothing; a sync took {median(bench.sync_ms):.2f} ms"
    return Result([_table(title, found, versions)], _figures(found))


def _figures(found: Mapping[str, Found]) -> dict[str, float]:
    """Compare Quinque to the best system that stores a job until it is done."""
    ours = found[OURS]
    ackers = [found[it.name] for it in SYSTEMS if it.acks and not _is_ours(it) and it.name in found]
    figures = {"worker to start ms": median(ours.start_ms)}
    if ackers:
        figures[f"{PEERS}drain"] = min(median_ratio(ours.rates, its.rates) for its in ackers)
        figures[f"{PEERS}cpu"] = max(median_ratio(ours.cpu_us, its.cpu_us) for its in ackers)
    return figures


def _table(title: str, found: Mapping[str, Found], versions: Mapping[str, str]) -> Table:
    table = Table(
        title,
        [
            *("", "jobs", "acks", "jobs /s", "Quinque / this", "CPU µs", "Quinque / this"),
            *("server CPU µs", "to start ms", "added /s"),
        ],
    )
    for system in SYSTEMS:
        name = system.name
        if not _is_ours(system) and name not in versions:
            table.rows.append([f"{name}: not installed", *"–" * (len(table.columns) - 1)])
        elif name in found:
            ours, its = found[OURS], found[name]
            table.rows.append(
                [
                    f"{name} {versions.get(name, '')}".strip(),
                    f"{system.jobs:,}",
                    "yes" if system.acks else "no",
                    per_second(median(its.rates)),
                    times(median_ratio(ours.rates, its.rates)),
                    f"{median(its.cpu_us):.0f}",
                    times(median_ratio(ours.cpu_us, its.cpu_us)),
                    f"{median(its.server_us):.0f}",
                    f"{median(its.start_ms):.2f}",
                    per_second(median(its.paced)),
                ]
            )
    return table


def _is_ours(system: System) -> bool:
    return system.name.startswith(OURS)


def _python(system: System) -> str:
    return sys.executable if _is_ours(system) else str(PYTHON)
