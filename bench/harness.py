"""Shared code of the benches: servers on free ports, scratch folders, medians, tables.

Called by   every bench of this folder.
Calls       quinque and redis-server, as processes.

Other programs run on the machine too. So the two sides of a comparison are measured in turns in the
same run (Quinque, Redis, Quinque, Redis, …), and the result is the median of the ratios of
neighbours.

Not here: the load generator (load.py), the targets (summary.py).
"""

from __future__ import annotations

import csv
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONNECTIONS = 50
BODY = b"x" * 64
START_TIMEOUT_S = 120.0


@dataclass
class Table:
    """Rows to print. The first cell of each is a name, the others are numbers."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def text(self) -> str:
        """Return the table as Markdown with aligned columns."""
        cells = [self.columns, *self.rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.columns))]
        marks = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

        def line(row: Sequence[str]) -> str:
            name, *numbers = row
            padded = [name.ljust(widths[0])]
            padded += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
            return "| " + " | ".join(padded) + " |"

        return "\n".join(
            [f"{self.title}\n", line(self.columns), line(marks), *map(line, self.rows)]
        )


@dataclass
class Result:
    """The result of one bench: tables, and the figures that summary.py compares to its targets."""

    tables: list[Table] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)


class Server:
    """A process that speaks the Redis protocol on its own port."""

    def __init__(self, words: Sequence[str], port: int) -> None:
        self.port = port
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end_s:
                self.stop()
                raise RuntimeError(f"{words[0]} did not start: {' '.join(words)}")
            time.sleep(0.002)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        """Return the CPU time that the process has used so far."""
        return cpu_s([self.pid])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as sock:
                sock.sendall(b"PING\r\n")
                return sock.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def start_quinque(folder: Path, *flags: str) -> Server:
    port = free_port()
    words = [sys.executable, "-m", "quinque", "serve", "--listen", f"127.0.0.1:{port}"]
    return Server([*words, "--dir", str(folder), "--log-level", "warning", *flags], port)


def start_redis(folder: Path, *flags: str) -> Server:
    port = free_port()
    folder.mkdir(exist_ok=True)
    words = [program("redis-server"), "--port", str(port), "--dir", str(folder), "--save", ""]
    return Server([*words, "--loglevel", "warning", *flags], port)


def redis_benchmark(server: Server, count: int, depth: int, *words: str | bytes) -> float:
    """Return the requests per second that redis-benchmark measures over CONNECTIONS connections."""
    options = ["-h", "127.0.0.1", "-p", str(server.port), "-c", str(CONNECTIONS), "--csv"]
    done = subprocess.run(
        [program("redis-benchmark"), *options, "-n", str(count), "-P", str(depth), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(csv.DictReader(done.stdout.splitlines()))
    if not rows:
        raise RuntimeError(f"redis-benchmark printed no figures: {done.stdout}{done.stderr}")
    return float(rows[0]["rps"])


def program(name: str) -> str:
    """Return the path of the program. Raises RuntimeError if it is not installed."""
    path = shutil.which(name)
    if path is None:
        raise RuntimeError(f"{name} is not installed: run make programs")
    return path


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder on the disk of the repository. /tmp may be memory, where a sync is free."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="bench-") as folder:
        yield Path(folder)


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time that the processes have used so far."""
    # The kernel books it when a process goes to sleep, or else every 4 ms.
    time.sleep(0.002)
    # Linux: the clock of a process is made from its id; 2 is the exact kind.
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


def in_turns(
    measures: Mapping[str, Callable[[], float]], rounds: int, *, both_ways: bool = False
) -> dict[str, list[float]]:
    """Run each measure once in each round and return the results. `both_ways` reverses the order
    in every other round, so that none is always the first."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: -1 if both_ways and number % 2 else 1]:
            found[name].append(measures[name]())
    return found


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of results of the same round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def per_second(rate: float) -> str:
    return f"{rate:,.0f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f} ×"


def compiled_folder() -> Path | None:
    """Return the folder that `make compiled` built, or None."""
    folder = ROOT / "build" / "compiled"
    return folder if (folder / "made").exists() else None


def python_path(first: Path) -> dict[str, str]:
    """Return an environment that imports from `first` before all other folders."""
    rest = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{first}{os.pathsep}{rest}" if rest else str(first)}
