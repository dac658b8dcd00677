"""The journal alone: records and megabytes per second, by sync setting and size of a turn.

A turn is one commit: a number of records with 64-byte bodies are appended, written, and synced as
the setting says. The speed of the disk itself is measured in turns with it: a write of a page and a
sync.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.harness import BODY, Result, Table, per_second, scratch
from quinque.model.events import STORED, Stored
from quinque.model.families import EVENTS
from quinque.stores.embedded.journal import Fsync, Journal

POLICIES: tuple[Fsync, ...] = ("always", "everysec", "no")
TURNS = (1, 16, 50, 800)
SECONDS, ROUNDS = 0.5, 3
NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 64 << 20


def run(quick: bool) -> Result:
    table = Table(
        "The journal alone, by records in a turn",
        ["", *(f"{size} per turn" for size in TURNS), "MB/s at 800"],
    )
    seconds, rounds = (0.01, 1) if quick else (SECONDS, ROUNDS)
    for policy in POLICIES:
        rates, megabytes = _measure(policy, seconds, rounds)
        table.rows.append([f"records/s, {policy}", *map(per_second, rates), f"{megabytes:.1f}"])
    syncs = median(_syncs_a_second(seconds) for _ in range(rounds))
    page = "a page written and synced, /s"
    table.rows.append([page, per_second(syncs), *[""] * len(TURNS)])
    return Result([table])


def _measure(policy: Fsync, seconds: float, rounds: int) -> tuple[list[float], float]:
    """Return records per second for each size of a turn, and MB per second for the largest."""
    found: dict[int, list[float]] = {size: [] for size in TURNS}
    megabytes: list[float] = []
    for _ in range(rounds):
        for size in TURNS:
            with scratch() as folder:
                journal = _open(folder, policy)
                turns, spent_s = _repeat(lambda: _turn(journal, size), seconds)  # noqa: B023
                found[size].append(turns * size / spent_s)
                if size == TURNS[-1]:
                    megabytes.append(journal.total_bytes / spent_s / 1e6)
                journal.close()
    return [median(rates) for rates in found.values()], median(megabytes)


def _open(folder: Path, policy: Fsync) -> Journal:
    journal = Journal(folder, policy, SEGMENT_BYTES)
    journal.open_segment(1, 0, NOW_MS)
    if policy == "everysec":
        journal.start_syncer()
    return journal


def _turn(journal: Journal, size: int) -> None:
    place = NOW_MS * 1000
    stored = Stored(STORED, b"q", EVENTS.code, place, NOW_MS, False, None, None, [BODY])
    for _ in range(size):
        journal.append(stored)
    journal.commit(NOW_MS)
    journal.rotate(NOW_MS * 1000, NOW_MS)


def _syncs_a_second(seconds: float) -> float:
    with scratch() as folder:
        file = os.open(folder / "page", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(file, 0, SEGMENT_BYTES)
        page = bytes(4096)
        at = 0

        def write_and_sync() -> None:
            nonlocal at
            os.pwrite(file, page, at)
            os.fdatasync(file)
            at = (at + len(page)) % SEGMENT_BYTES

        count, spent_s = _repeat(write_and_sync, seconds)
        os.close(file)
    return count / spent_s


def _repeat(work: Callable[[], None], seconds: float) -> tuple[int, float]:
    """Repeat it for about that time; return the number of repetitions and the time."""
    count = 0
    began_s = perf_counter()
    while (spent_s := perf_counter() - began_s) < seconds:
        work()
        count += 1
    return count, spent_s
