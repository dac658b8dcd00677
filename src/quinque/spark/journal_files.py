"""A folder of the record as Parquet: names, what is there, whole files or none.

Called by   export.py.
Calls       pyarrow, the file system.

    <folder>/journal_raw/dt=2026-11-16/hour=05/0-1-250000.parquet     shard, first and last row
    <folder>/journal_raw/_gaps/0-17-21.json                           rows that were never to be had
    <folder>/journal_raw/_lock                                        held by whoever writes

A file is written under another name, synced, and renamed; so the names tell how far each shard has
come, whenever the writer ends. Readers pass over names that begin with a dot or an underscore.

Not here: what a row is (arrow.py).
"""

from __future__ import annotations

import fcntl
import json
import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quinque.errors import FolderLocked

NAME: Final = "journal_raw"
HOUR_US: Final = 3_600_000_000


class JournalFolder:
    """The folder as one writer has it; `with` it, or close it."""

    def __init__(self, folder: Path) -> None:
        """The folder is there, and nobody else writes to it. Raises FolderLocked, OSError."""
        self.path = folder / NAME
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path / "_lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise FolderLocked(f"another process is writing to {self.path}") from None
        for unfinished in self.path.glob("dt=*/hour=*/.*.unfinished"):
            unfinished.unlink()

    def close(self) -> None:
        """Others may write to it."""
        os.close(self._lock)

    def __enter__(self) -> JournalFolder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def ends(self) -> dict[int, int]:
        """Of each shard the row after the last that is there, or is known to be missing."""
        found: dict[int, int] = {}
        names = [*self.path.glob("dt=*/hour=*/*.parquet"), *self.path.glob("_gaps/*.json")]
        for path in names:
            if not path.name.startswith("."):
                shard, _, last = map(int, path.stem.split("-"))
                found[shard] = max(found.get(shard, 0), last + 1)
        return found

    def write(self, shard: int, table: pa.Table) -> list[Path]:
        """The rows, which are in the order of their numbers, are in files: one for each hour, and
        for each stretch without a gap."""
        seq = table.column("seq").to_numpy()
        hours = table.column("ts").cast(pa.int64()).to_numpy() // HOUR_US
        breaks = np.flatnonzero((np.diff(seq) != 1) | (np.diff(hours) != 0)) + 1
        bounds = [0, *breaks.tolist(), len(seq)]
        return [
            self._write_file(
                shard, table.slice(start, end - start), int(seq[start]), int(hours[start])
            )
            for start, end in pairwise(bounds)
        ]

    def note_gap(self, shard: int, first: int, last: int, noticed: datetime) -> Path:
        """That these rows were not to be had any more is on record."""
        folder = self.path / "_gaps"
        folder.mkdir(exist_ok=True)
        path = folder / f"{shard}-{first}-{last}.json"
        fresh = path.with_name(f".{path.name}")
        gap = {"shard": shard, "from": first, "to": last, "noticed": noticed.isoformat()}
        fresh.write_text(json.dumps(gap) + "\n")
        _sync(fresh)
        fresh.replace(path)
        _sync(folder)
        return path

    def _write_file(self, shard: int, table: pa.Table, first: int, hour: int) -> Path:
        begin = datetime.fromtimestamp(hour * 3600, UTC)
        folder = self.path / f"dt={begin:%Y-%m-%d}" / f"hour={begin:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{shard}-{first}-{first + table.num_rows - 1}.parquet"
        fresh = folder / f".{path.name}.unfinished"
        pq.write_table(table, fresh, compression="zstd")
        _sync(fresh)
        fresh.replace(path)
        for made in (folder, folder.parent, self.path):
            _sync(made)
        return path


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
