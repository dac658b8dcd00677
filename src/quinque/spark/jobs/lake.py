"""A folder with the lifecycle record and the tables made of it: what is where, and what is done.

Called by   build.py, archive.py, audit.py, spark/report/.
Calls       pyarrow (files on this machine, or wherever it has a file system for).

    <lake>/journal_raw/dt=…/hour=…/<shard>-<first>-<last>.parquet   the exporter's
    <lake>/partials/<table>/batch=<name>/                           what one batch of files tells
    <lake>/batches/<name>.parquet                                   which files that was: file,
                                                                    shard, first, last
    <lake>/tables/<table>/                                          made of all partials, each time
    <lake>/tables/made_of.parquet                                   of which batches that was

A batch is done when its file in batches/ is there, which is written last and in one step. Partials
without one are of a run that did not end: nobody reads them, and the next run removes them. A batch
is named for its files, so one that is run again takes the place of the first; and one that has all
files of another takes its place, which is how many small batches become a large one.

Not here: what is in the tables (spark/tables/), how the record gets here (spark/export.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from quinque.errors import BadSetting

PARTIALS: Final = ("lifecycle", "flow", "ranges")
BATCHES: Final = pa.schema(
    [("file", pa.string()), ("shard", pa.int32()), ("first", pa.int64()), ("last", pa.int64())]
)
_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)\.parquet")


class Piece(NamedTuple):
    """A file of the record, and the numbers of the rows that its name says it has."""

    file: str  # from journal_raw/ on
    shard: int
    first: int
    last: int
    rows: int  # that it has


class Lake:
    """The folder, given as a path or as a URL that pyarrow and Spark both know."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") if "://" in url else str(Path(url).absolute())
        try:
            self.files, self.root = pa.fs.FileSystem.from_uri(_as_uri(self.url))
        except (pa.ArrowInvalid, OSError) as exc:
            raise BadSetting(f"cannot use {url} as the directory of a lake: {exc}") from exc

    def at(self, *parts: str) -> str:
        """A path in the lake, as Spark takes it."""
        return "/".join((self.url, *parts))

    def new_pieces(self) -> list[Piece]:
        """The files of the record that no batch has taken, in the order of their numbers."""
        taken = {name for batch in self.batches().values() for name in batch["file"].to_pylist()}
        found = []
        for path in self._paths("journal_raw"):
            file = path[len(f"{self.root}/journal_raw/") :]
            named = _NAME.fullmatch(file.rsplit("/", 1)[-1])
            if named is not None and file not in taken:
                shard, first, last = map(int, named.groups())
                rows = pq.read_metadata(path, filesystem=self.files).num_rows
                found.append(Piece(file, shard, first, last, rows))
        return sorted(found, key=lambda piece: (piece.shard, piece.first, piece.last))

    def batches(self) -> dict[str, pa.Table]:
        """What each batch was made of, of those that are done and in no larger one."""
        every = self._done()
        files = {name: frozenset(batch["file"].to_pylist()) for name, batch in every.items()}
        return {
            name: batch
            for name, batch in every.items()
            if not any(files[name] < larger for larger in files.values())
        }

    def finish_batch(self, name: str, files: pa.Table) -> None:
        """The batch of these files (BATCHES) is done: its partials count from here on."""
        self._write_at_once(files, "batches", f"{name}.parquet")

    def tables_are_new(self) -> bool:
        """Whether the tables are made of the batches that there are."""
        if not self.has("tables", "made_of.parquet"):
            return False
        path = f"{self.root}/tables/made_of.parquet"
        made_of = pq.read_table(path, filesystem=self.files)["batch"].to_pylist()
        return list(made_of) == sorted(self.batches())

    def finish_tables(self) -> None:
        """The tables are made of the batches that there are."""
        made_of = pa.table({"batch": pa.array(sorted(self.batches()), pa.string())})
        self._write_at_once(made_of, "tables", "made_of.parquet")

    def forget_unfinished(self) -> int:
        """Partials of batches that never were done, or are in larger ones, are gone; how many."""
        done = set(self.batches())
        gone = 0
        for name in set(self._done()) - done:
            self.files.delete_file(f"{self.root}/batches/{name}.parquet")
        for table in PARTIALS:
            for info in self._infos("partials", table):
                name = info.base_name.removeprefix("batch=")
                if info.type == pa.fs.FileType.Directory and name not in done:
                    self.files.delete_dir(info.path)
                    gone += 1
        return gone

    def has(self, *parts: str) -> bool:
        """Whether there is a file or a folder at that path in the lake."""
        info = self.files.get_file_info("/".join((self.root, *parts)))
        return bool(info.type != pa.fs.FileType.NotFound)

    def _done(self) -> dict[str, pa.Table]:
        return {
            path.rsplit("/", 1)[-1].removesuffix(".parquet"): pq.read_table(
                path, filesystem=self.files, schema=BATCHES
            )
            for path in self._paths("batches")
            if path.endswith(".parquet")
        }

    def _write_at_once(self, table: pa.Table, folder: str, name: str) -> None:
        self.files.create_dir(f"{self.root}/{folder}", recursive=True)
        unnamed = f"{self.root}/{folder}/.{name}.unfinished"
        pq.write_table(table, unnamed, filesystem=self.files)
        self.files.move(unnamed, f"{self.root}/{folder}/{name}")

    def _paths(self, *parts: str) -> list[str]:
        infos = self._infos(*parts, is_deep=True)
        hidden = re.compile(r"/[._][^/]*")
        return [
            info.path
            for info in infos
            if info.type == pa.fs.FileType.File
            and not hidden.search(info.path[len("/".join((self.root, *parts))) :])
        ]

    def _infos(self, *parts: str, is_deep: bool = False) -> list[pa.fs.FileInfo]:
        selector = pa.fs.FileSelector(
            "/".join((self.root, *parts)), allow_not_found=True, recursive=is_deep
        )
        return list(self.files.get_file_info(selector))


def batch_files(pieces: Sequence[Piece]) -> pa.Table:
    """What a batch of these pieces is made of."""
    rows = [{name: getattr(piece, name) for name in BATCHES.names} for piece in pieces]
    return pa.Table.from_pylist(rows, BATCHES)


def batch_name(files: pa.Table) -> str:
    """What a batch of these files is called, today and tomorrow."""
    text = "\n".join(sorted(files["file"].to_pylist()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def overlap(pieces: Sequence[Piece], taken: Iterable[tuple[int, int, int]]) -> bool:
    """Whether a row may be there twice, or have been counted before: by the files' names, and by
    how many rows they have."""
    spans = [(piece.shard, piece.first, piece.last) for piece in pieces]
    if any(piece.rows != piece.last - piece.first + 1 for piece in pieces):
        return True
    ordered = sorted([*spans, *taken])
    return any(
        one[0] == next_one[0] and next_one[1] <= one[2] for one, next_one in pairwise(ordered)
    )


def _as_uri(url: str) -> str:
    return url if "://" in url else Path(url).as_uri()
