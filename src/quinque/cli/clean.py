"""The cleaning process that Redis Work Queue recommends: light cleanings often, deep ones rarely.

Called by   cli/main.py.
Calls       workqueue/sync.py, which cleans; cli/redis_client.py for a client.

    0  stopped as requested     1  Redis did not answer
    2  wrong usage              3  a dry run found repairs

The time between light cleanings of a queue is the shortest lease that was seen in it, so that an
abandoned item waits for at most twice its lease. The process can stop between two slices of a
cleaning. Completed repairs stay.

Not here: the rule (workqueue/cleaning.py).
"""

from __future__ import annotations

import heapq
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import click
from redis import Redis, RedisCluster
from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from quinque.cli.interrupts import asked_to_end
from quinque.cli.redis_client import open_client
from quinque.errors import BadArgument, BadSetting, many
from quinque.stores.redis.rights import what_is_missing
from quinque.workqueue import DeepClean, KeyPrefix, LightClean, Progress, WorkQueue

ENDED, FAILED, FOUND_SOMETHING = 0, 1, 3

Kind = Literal["light", "deep"]
Tell = Callable[[Progress | None], None]

_SHORTEST_S, _LONGEST_S = 1.0, 300.0  # between light cleanings, if leases decide
_UNKNOWN_S: Final = 30.0  # while no lease has been seen
_AGAIN_S: Final = 5.0  # after Redis did not answer
_LOOK_S: Final = 0.1  # how often the process checks for a signal


@dataclass(frozen=True)
class Asked:
    """The options of the command line."""

    prefixes: tuple[str, ...]
    url: str
    light_every_s: float | None  # None: the shortest lease that was seen
    deep_every_s: float  # 0 means never
    is_once: bool
    is_dry: bool
    as_json: bool


def read_prefixes(given: tuple[str, ...], file: str | None) -> tuple[str, ...]:
    """Return the prefixes of the arguments, then those of the file, one on each line. Repeated ones
    are left out. Raises BadSetting."""
    lines: list[str] = []
    if file is not None:
        try:
            text = _stdin() if file == "-" else Path(file).read_text(encoding="utf-8")
        except OSError as exc:
            raise BadSetting(f"{file}: {exc.strerror}") from exc
        except UnicodeDecodeError as exc:
            raise BadSetting(f"{file} is not UTF-8 text") from exc
        lines = [line.strip() for line in text.splitlines()]
    found = [*given, *(line for line in lines if line and not line.startswith("#"))]
    if not found:
        raise BadSetting("no queue to clean: pass a PREFIX, or a file of prefixes with --file")
    return tuple(dict.fromkeys(found))


def _stdin() -> str:
    if sys.stdin is None:
        raise BadSetting("--file -: stdin is closed")
    return sys.stdin.read()


def run(asked: Asked) -> int:
    """Clean the queues and return the exit code. Raises BadSetting."""
    if asked.light_every_s == 0:
        raise BadSetting("--light-every is 0 but must be greater than 0")
    try:
        db = open_client(asked.url)
    except RedisError as exc:
        return _failed(exc)
    try:
        with asked_to_end() as is_ending:
            cleaning = _Cleaning(asked, db, is_ending)
            return cleaning.run_once() if asked.is_once else cleaning.run_on()
    except BadArgument as exc:
        raise BadSetting(str(exc)) from exc
    finally:
        db.close()


class _Cleaning:
    def __init__(
        self, asked: Asked, db: Redis | RedisCluster, is_ending: Callable[[], bool]
    ) -> None:
        self._asked = asked
        self._db = db
        self._is_ending = is_ending
        self._queues = {prefix: WorkQueue(KeyPrefix(prefix)) for prefix in asked.prefixes}
        self._lease_s: dict[str, float] = {}  # the shortest lease that was seen, by queue

    def run_once(self) -> int:
        """Clean every queue once. A deep cleaning includes a light one."""
        code = ENDED
        for prefix in self._queues:
            kind: Kind = "deep" if self._asked.deep_every_s else "light"
            try:
                found = self._clean(kind, prefix)
            except RedisError as exc:
                code = _failed(exc, prefix)
                continue
            if found and self._asked.is_dry and code == ENDED:
                code = FOUND_SOMETHING
            if self._is_ending():
                break
        return code

    def run_on(self) -> int:
        """Clean queues when they are due, until a signal arrives."""
        now_s = time.monotonic()
        # If both are due, light before deep: items that a light cleaning finds are most urgent.
        due: list[tuple[float, int, Kind, str]] = []
        for prefix in self._queues:
            heapq.heappush(due, (now_s, 0, "light", prefix))
            if self._asked.deep_every_s:
                heapq.heappush(due, (now_s, 1, "deep", prefix))
        while True:
            due_s, order, kind, prefix = heapq.heappop(due)
            while not self._is_ending() and time.monotonic() < due_s:
                time.sleep(min(_LOOK_S, max(0.0, due_s - time.monotonic())))
            if self._is_ending():
                return ENDED
            began_s = time.monotonic()
            try:
                self._clean(kind, prefix)
                next_s = began_s + self._every_s(kind, prefix)
            except RedisError as exc:
                _failed(exc, prefix)
                next_s = time.monotonic() + _AGAIN_S
            heapq.heappush(due, (next_s, order, kind, prefix))

    def _every_s(self, kind: Kind, prefix: str) -> float:
        if kind == "deep":
            return self._asked.deep_every_s
        if self._asked.light_every_s is not None:
            return self._asked.light_every_s
        lease_s = self._queues[prefix].shortest_lease_s(self._db)
        if lease_s is not None:
            self._lease_s[prefix] = min(lease_s, self._lease_s.get(prefix, lease_s))
        return min(_LONGEST_S, max(_SHORTEST_S, self._lease_s.get(prefix, _UNKNOWN_S)))

    def _clean(self, kind: Kind, prefix: str) -> int:
        """Clean one queue and print the result. Returns how much was, or would be, repaired."""
        make = DeepClean if kind == "deep" else LightClean
        cleaning = make(self._queues[prefix], self._db, dry_run=self._asked.is_dry)
        began_s = time.monotonic()
        with _telling(prefix, kind == "deep" and not self._asked.as_json) as tell:
            while not self._is_ending() and cleaning.step():
                tell(cleaning.progress)
        counts = cleaning.counts
        took_s = time.monotonic() - began_s
        if self._asked.as_json:
            told = {"prefix": prefix, "clean": kind, **asdict(counts)}
            told |= {"dry_run": self._asked.is_dry, "finished": cleaning.is_done}
            click.echo(json.dumps({**told, "seconds": round(took_s, 3)}))
        else:
            would = "would return" if self._asked.is_dry else "returned"
            click.echo(
                f"{prefix}: {kind} clean, checked {many(counts.looked, 'item')},"
                f" {would} {counts.returned:,}, {counts.ghosts:,} without data,"
                f" {many(counts.duplicates, 'duplicate')}"
                + ("" if cleaning.is_done else ", not finished")
            )
        return counts.repaired


def _failed(exc: RedisError, prefix: str = "") -> int:
    where = f"{prefix}: " if prefix else ""
    missing = what_is_missing(str(exc), keys=f"~{prefix}:*")
    click.secho(f"quinque: {where}{missing or exc}", fg="red", err=True)
    return FAILED


@contextmanager
def _telling(prefix: str, is_wanted: bool) -> Iterator[Tell]:
    """Yield a function that shows the progress at a terminal, and otherwise does nothing."""
    if not is_wanted or not sys.stderr.isatty():
        yield lambda progress: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(prefix)

        def tell(progress: Progress | None) -> None:
            if progress is not None:
                bars.update(
                    bar,
                    description=f"{prefix}: {progress.phase}",
                    completed=progress.done,
                    total=progress.total,
                )

        yield tell
