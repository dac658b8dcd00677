"""The lifecycle log as Parquet files in a directory, which has only complete files.

Called by   export.py, spark/jobs/lake.py.
Calls       pyarrow, the file system.

    <folder>/journal_raw/dt=2026-11-16/hour=05/0-1-250000.parquet     shard, first and last row
    <folder>/journal_raw/_gaps/0-17-21.json                           rows that were not available
    <folder>/journal_raw/_logs.json the store of each shard
    <folder>/journal_raw/_exported.json                               for each shard, the first row
                                                                      and the row after the last
    <folder>/journal_raw/_lock                                        held by the exporter
    <folder>/journal_raw/_writing                                     held by a writer for a moment

A file is written under another name, synced and renamed, so the names show the position of each
shard whenever the writer ends. _exported.json does not change when files are deleted, so an audit
sees that they are missing. Readers skip names that begin with a dot or an underscore.

Several processes may write to the directory in turn: each row is written once.

Not here: the columns of a row (arrow.py).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quinque.errors import FolderLocked

NAME: Final = "journal_raw"
EXPORTED: Final = "_exported.json"
HOUR_US: Final = 3_600_000_000
_PATIENCE_S: Final = 60.0  # a writer writes some hundred megabytes at most
_POLL_S: Final = 0.05

Spans = dict[int, tuple[int, int]]  # for each shard, the first row and the row after the last


class JournalFolder:
    """The folder as a writer has it; `with` it, or close it."""

    def __init__(
        self, folder: Path, *, is_kept: bool = False, patience_s: float = _PATIENCE_S
    ) -> None:
        """Create the directory if needed. With `is_kept`, no other process may keep it until it is
        closed, but others may still write to it. Raises FolderLocked, OSError."""
        self.path = folder / NAME
        self.path.mkdir(parents=True, exist_ok=True)
        self._patience_s = patience_s
        self._spans: Spans = {}
        self._seen: tuple[int, int] | None = None
        self._kept = lock_file(self.path / "_lock", 0.0) if is_kept else None
        try:
            with self.writing():
                for unfinished in self.path.glob("dt=*/hour=*/.*.unfinished"):
                    unfinished.unlink()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Others may keep it."""
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None

    def __enter__(self) -> JournalFolder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within this block, no other process writes, and ends() is current. Raises
        FolderLocked."""
        lock = lock_file(self.path / "_writing", self._patience_s)
        try:
            # The file has something in it while a process writes, and when one was killed.
            is_unfinished = os.fstat(lock).st_size > 0
            if is_unfinished or self._seen is None or self._seen != self._state():
                self._spans = self._found()
            before = {} if is_unfinished else dict(self._spans)
            os.pwrite(lock, b"1", 0)
            yield
            if self._spans != before:
                self._note_spans()
            self._seen = self._state()
            os.ftruncate(lock, 0)
        finally:
            os.close(lock)

    def ends(self) -> dict[int, int]:
        """Return for each shard the row after the last one that exists, or is known to be
        missing."""
        return {shard: end for shard, (_, end) in self._spans.items()}

    def logs(self) -> dict[int, int]:
        """Return for each shard the number of the log of its store, if it is stored."""
        try:
            kept = json.loads((self.path / "_logs.json").read_text())
        except FileNotFoundError:
            return {}
        return {int(shard): log for shard, log in kept.items()}

    def keep_logs(self, logs: dict[int, int]) -> None:
        """Keep these numbers."""
        _write_at_once(self.path / "_logs.json", json.dumps(logs, sort_keys=True) + "\n")

    def write(self, shard: int, table: pa.Table) -> tuple[int, int]:
        """Write the rows, which are in the order of their numbers, to files: one for each hour and
        each range without a gap. Return the numbers of new rows and files. Call it within
        writing()."""
        seq = table.column("seq").to_numpy()
        start = int(np.searchsorted(seq, self.ends().get(shard, 0)))
        table, seq = table.slice(start), seq[start:]
        if not len(seq):
            return 0, 0
        hours = table.column("ts").cast(pa.int64()).to_numpy() // HOUR_US
        breaks = np.flatnonzero((np.diff(seq) != 1) | (np.diff(hours) != 0)) + 1
        bounds = [0, *breaks.tolist(), len(seq)]
        for begin, end in pairwise(bounds):
            rows = table.slice(begin, end - begin)
            self._write_file(shard, rows, int(seq[begin]), int(hours[begin]))
            self._reach(shard, int(seq[begin]), int(seq[end - 1]) + 1)
        return len(seq), len(bounds) - 1

    def note_gap(self, shard: int, first: int, last: int, noticed: datetime) -> int:
        """Record that these rows were no longer available, except those that exist. Return how
        many. Call it within writing()."""
        first = max(first, self.ends().get(shard, first))
        if first > last:
            return 0
        folder = self.path / "_gaps"
        folder.mkdir(exist_ok=True)
        path = folder / f"{shard}-{first}-{last}.json"
        gap = {"shard": shard, "from": first, "to": last, "noticed": noticed.isoformat()}
        _write_at_once(path, json.dumps(gap) + "\n")
        self._reach(shard, first, last + 1)
        return last - first + 1

    def _reach(self, shard: int, first: int, end: int) -> None:
        known = self._spans.get(shard, (first, end))
        self._spans[shard] = (min(known[0], first), max(known[1], end))

    def _found(self) -> Spans:
        """Return the rows that the names show. Files of a shard may be missing."""
        found: Spans = {}
        names = [*self.path.glob("dt=*/hour=*/*.parquet"), *self.path.glob("_gaps/*.json")]
        for path in names:
            if not path.name.startswith("."):
                shard, first, last = map(int, path.stem.split("-"))
                known = found.get(shard, (first, last + 1))
                found[shard] = (min(known[0], first), max(known[1], last + 1))
        return found

    def _note_spans(self) -> None:
        """The spans are noted, together with all that were noted before."""
        noted = dict(self._spans)
        path = self.path / EXPORTED
        if path.exists():
            for shard, (first, end) in read_spans(path.read_text(encoding="utf-8")).items():
                known = noted.get(shard, (first, end))
                noted[shard] = (min(known[0], first), max(known[1], end))
        spans = {str(shard): span for shard, span in sorted(noted.items())}
        _write_at_once(path, json.dumps({"shards": spans}) + "\n")

    def _state(self) -> tuple[int, int] | None:
        """Differs when another one has written."""
        try:
            found = (self.path / EXPORTED).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _write_file(self, shard: int, table: pa.Table, first: int, hour: int) -> Path:
        begin = datetime.fromtimestamp(hour * 3600, UTC)
        folder = self.path / f"dt={begin:%Y-%m-%d}" / f"hour={begin:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{shard}-{first}-{first + table.num_rows - 1}.parquet"
        fresh = folder / f".{path.name}.unfinished"
        pq.write_table(table, fresh, compression="zstd")
        sync(fresh)
        fresh.replace(path)
        for made in (folder, folder.parent, self.path):
            sync(made)
        return path


def read_spans(text: str) -> Spans:
    """Return the contents of _exported.json."""
    shards = json.loads(text)["shards"]
    return {int(shard): (int(first), int(end)) for shard, (first, end) in shards.items()}


def lock_file(path: Path, patience_s: float) -> int:
    """Return the file, created if needed and locked until it is closed. Raises FolderLocked if
    another process has it for longer than `patience_s`, and OSError."""
    until_s = monotonic() + patience_s
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= until_s:
                os.close(lock)
                raise FolderLocked(f"another process is writing to {path.parent}") from None
            sleep(_POLL_S)
        else:
            return lock


def _write_at_once(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text, encoding="utf-8")
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """The file, or the names in the folder, are on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
