"""A million messages: the speed of reading them back, and the memory of each.

A broker is filled over the network, and the growth of its process is measured. It is stopped and
started again, and the time until it replies is measured, minus that of a start on an empty folder.
This is done once with bodies in memory, and once with a `maxmemory` so small that all are on disk.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from bench.harness import Result, Server, Table, per_second, scratch, start_quinque
from bench.load import add, drive

MESSAGES = 1_000_000
DEPTH = 100
MEMORIES = {"bodies in memory": "0", "bodies on disk": "1"}


def run(quick: bool) -> Result:
    table = Table(
        "A million 64-byte messages",
        ["", "read back /s", "bytes per message, filled", "bytes per message, read back"],
    )
    result = Result([table])
    count = 5000 if quick else MESSAGES
    for name, maxmemory in MEMORIES.items():
        with scratch() as folder:
            rate, filled, read_back = _measure(folder, count, maxmemory)
        table.rows.append([name, *map(per_second, (rate, filled, read_back))])
        result.figures[f"recovery, {name}"] = rate
        result.figures[f"bytes a message, {name}"] = max(filled, read_back)
    return result


def _measure(folder: Path, count: int, maxmemory: str) -> tuple[float, float, float]:
    flags = ("--fsync", "no", "--maxmemory", maxmemory)
    empty, empty_s = _start(folder / "data", flags)
    with empty:
        bare_bytes = _resident_bytes(empty)
        drive(empty.port, add("q", count), DEPTH)
        filled = (_resident_bytes(empty) - bare_bytes) / count
    full, full_s = _start(folder / "data", flags)
    with full:
        read_back = (_resident_bytes(full) - bare_bytes) / count
    return count / max(full_s - empty_s, 1e-3), filled, read_back


def _start(folder: Path, flags: tuple[str, ...]) -> tuple[Server, float]:
    began_s = time.perf_counter()
    server = start_quinque(folder, *flags)
    return server, time.perf_counter() - began_s


def _resident_bytes(server: Server) -> int:
    resident: int = psutil.Process(server.pid).memory_info().rss
    return resident
