"""The lake: a directory with the lifecycle log and the tables made from it.

Called by   build.py, archive.py, audit.py, compaction.py, spark/report/.
Calls       lake_table.py; pyarrow (files on this machine, or on any of its file systems).

    <lake>/journal_raw/dt=…/hour=…/<shard>-<first>-<last>.parquet   the exporter's files
    <lake>/journal_raw/_delta_log/                                  those of them that are archived
    <lake>/partials/<table>/                                        what each batch of files tells
    <lake>/tables/<table>/                                          made of all partials
    <lake>/_lock                                                    held by the job that writes

Each of them is a Delta table. A batch of files is done when its ranges are in partials/ranges, in
one commit. Its other partials are written before that. Partials of other batches belong to a run
that did not finish: they are not read, and the next run removes them. After that the files are
added to the log of journal_raw. If a run ends before, the next one finds their rows in the ranges.

Commits of partials/ranges are numbered. A job that starts to write takes the next number. Then an
older job that still runs, on another machine, can no longer commit. A table has the number of the
partials from which it was made.

Not here: the contents of the tables (spark/tables/), the export (spark/export.py).
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql.types import (
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from quinque.errors import BadSetting, FolderLocked
from quinque.spark.jobs.lake_table import LakeTable, check_path
from quinque.spark.journal_files import EXPORTED, Spans, lock_file, read_spans
from quinque.spark.tables.columns import JOURNAL_RAW

LOCK_PATIENCE_S: Final = 600.0
PARTIALS: Final = ("lifecycle", "flow", "ranges")
JOURNAL: Final = StructType(
    [*JOURNAL_RAW, StructField("dt", DateType()), StructField("hour", IntegerType())]
)
RANGES: Final = StructType(
    [
        StructField("shard", IntegerType()),
        *(StructField(name, LongType()) for name in ("first", "last", "rows")),
        StructField("batch", StringType()),
    ]
)
_PATTERNS: Final = "{}*?"  # Spark takes a path with one of them for a pattern
_NAME: Final = re.compile(r"dt=[\d-]+/hour=\d+/(\d+)-(\d+)-(\d+)\.parquet")


Span = tuple[int, int, int]  # a shard, and the numbers of the first and the last row


class Piece(NamedTuple):
    """A file of the log, and the numbers of the rows in its name."""

    file: str  # from journal_raw/ on
    shard: int
    first: int
    last: int
    rows: int  # that it has

    @property
    def span(self) -> Span:
        return self.shard, self.first, self.last

    @property
    def hour(self) -> str:
        """The folders that it is in: dt=…/hour=…"""
        return self.file.rsplit("/", 1)[0]

    @property
    def is_whole(self) -> bool:
        """Return whether the file has all rows of its name."""
        return self.rows == self.last - self.first + 1


class Lake:
    """The folder, given as a path or as a URL that pyarrow and Spark both know."""

    def __init__(self, url: str) -> None:
        check_path(url, _PATTERNS)
        self.url = url.rstrip("/") if "://" in url else str(Path(url).absolute())
        try:
            self.files, self.root = pa.fs.FileSystem.from_uri(_as_uri(self.url))
        except (pa.ArrowInvalid, OSError) as exc:
            raise BadSetting(f"cannot use {url} as the directory of a lake: {exc}") from exc
        self.journal = self._table("journal_raw", by=("dt", "hour"))
        self.partials = {name: self._table("partials", name, by=("batch",)) for name in PARTIALS}
        self._holder: int | None = None  # the thread that writes

    @contextmanager
    def alone(
        self, on_wait: Callable[[], None] | None = None, patience_s: float = LOCK_PATIENCE_S
    ) -> Iterator[None]:
        """Within this block, no other job writes to the lake, if it is on this machine. A later job
        waits. Raises FolderLocked if that takes longer than `patience_s`."""
        is_remote = not isinstance(self.files, pa.fs.LocalFileSystem)
        if is_remote or self._holder == threading.get_ident():
            yield
            return
        self.files.create_dir(self.root, recursive=True)
        path = Path(self.root) / "_lock"
        try:
            lock = lock_file(path, 0.0)
        except FolderLocked:
            if on_wait is not None:
                on_wait()
            lock = lock_file(path, patience_s)
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            os.close(lock)

    def exported(self) -> Spans:
        """Return for each shard the first row that was ever exported, and the row after the
        last."""
        if not self.has("journal_raw", EXPORTED):
            return {}
        with self.files.open_input_file(f"{self.root}/journal_raw/{EXPORTED}") as file:
            return read_spans(file.read().decode())

    def at(self, *parts: str) -> str:
        """A path in the lake, as Spark takes it."""
        return "/".join((self.url, *parts))

    def table(self, name: str) -> LakeTable:
        """Return one of the tables that are made from all partials."""
        return self._table("tables", name, by=("dt",) if name == "lifecycle" else ())

    def archived(self) -> dict[str, Piece]:
        """The files of the record that are in the tables."""
        pieces = [_piece(file.path, file.rows) for file in self.journal.listed()]
        return {piece.file: piece for piece in pieces if piece is not None}

    def missing_files(self) -> list[str]:
        """The files of the record that are in the tables and are no longer there."""
        return sorted(self.archived().keys() - set(self._record()))

    def new_pieces(self) -> list[Piece]:
        """The files of the record that no batch has taken, in the order of their numbers."""
        archived = self.archived()
        if self.partials["ranges"].opened() is None:  # all but the record was deleted
            archived = {}
        whole = merged(piece.span for piece in archived.values() if piece.is_whole)
        found = []
        for file in set(self._record()) - archived.keys():
            path = f"{self.root}/journal_raw/{file}"
            named = _piece(file, 0)
            # A file that lies within a larger one was merged, or was exported twice.
            if named is not None and not covers(whole, named.span):
                rows = pq.read_metadata(path, filesystem=self.files).num_rows
                found.append(named._replace(rows=rows))
        return sorted(found, key=lambda piece: piece.span)

    def left_over(self) -> list[Piece]:
        """The files of the record that are not archived, and of which all rows are."""
        archived = self.archived()
        whole = merged(piece.span for piece in archived.values() if piece.is_whole)
        named = (_piece(file, 0) for file in set(self._record()) - archived.keys())
        return [piece for piece in named if piece is not None and covers(whole, piece.span)]

    def archive(self, pieces: Sequence[Piece], removed: Sequence[str] = ()) -> None:
        """Record that these files are in the tables, and that the removed files were merged into
        others."""
        known = self.archived()
        added = [
            self.journal.action(
                piece.file,
                stats={
                    "numRecords": piece.rows,
                    "minValues": {"shard": piece.shard, "seq": piece.first},
                    "maxValues": {"shard": piece.shard, "seq": piece.last},
                },
            )
            for piece in pieces
            if piece.file not in known
        ]
        if added or removed:
            self.journal.commit(JOURNAL, added, removed)

    def batches(self) -> list[str]:
        """The batches that are done."""
        listed = self.partials["ranges"].listed()
        return sorted({str(file.partition["batch"]) for file in listed})

    def taken(self) -> list[Span]:
        """The numbers of the rows that are in batches, as spans that do not touch."""
        table = self.partials["ranges"]
        spans: list[Span] = []
        for file in table.listed():
            path = f"{self.root}/partials/ranges/{file.path}"
            rows = pq.read_table(path, filesystem=self.files, partitioning=None)
            columns = (rows[name].to_pylist() for name in ("shard", "first", "last"))
            spans += zip(*columns, strict=True)
        return merged(spans)

    def number(self) -> int:
        """Return the number of the last change of the batches."""
        return self.partials["ranges"].number() or 0

    def begin(self) -> int:
        """Start a change of the batches and return its number. Jobs that started before cannot
        change them any more, and their partials are removed."""
        number = self.number() + 1
        self.partials["ranges"].commit(RANGES, [], number=number)
        self.forget_unfinished()
        return number

    def finish(self, number: int, ranges: Sequence[AddAction], *, replaces: bool = False) -> int:
        """Record that the batch of these ranges is done, in place of all others if it `replaces`
        them. Return the number of that change. Raises FolderLocked if another job has started since
        `number`."""
        self.partials["ranges"].commit(
            RANGES, ranges, replaces=replaces, number=number + 1, follows=number
        )
        return number + 1

    def forget_unfinished(self) -> None:
        """Remove partials of batches that never finished, or were merged into a larger one."""
        done = set(self.batches())
        for name, table in self.partials.items():
            gone = [file.path for file in table.listed() if file.partition["batch"] not in done]
            opened = table.opened()
            if gone and name != "ranges" and opened is not None:
                table.commit(StructType.fromJson(json.loads(opened.schema().to_json())), [], gone)
            table.sweep(kept=1)

    def has(self, *parts: str) -> bool:
        """Return whether the lake has a file or a directory at that path."""
        info = self.files.get_file_info("/".join((self.root, *parts)))
        return bool(info.type != pa.fs.FileType.NotFound)

    def _table(self, *parts: str, by: Sequence[str] = ()) -> LakeTable:
        return LakeTable(self.files, "/".join((self.root, *parts)), self.at(*parts), by)

    def _record(self) -> list[str]:
        """Return the existing files of the exporter, as paths from journal_raw/ on."""
        begin = len(f"{self.root}/journal_raw/")
        hidden = re.compile(r"(^|/)[._]")
        return [
            info.path[begin:]
            for info in self._infos("journal_raw", is_deep=True)
            if info.type == pa.fs.FileType.File and not hidden.search(info.path[begin:])
        ]

    def _infos(self, *parts: str, is_deep: bool = False) -> list[pa.fs.FileInfo]:
        selector = pa.fs.FileSelector(
            "/".join((self.root, *parts)), allow_not_found=True, recursive=is_deep
        )
        return list(self.files.get_file_info(selector))


def overlap(pieces: Sequence[Piece], taken: Iterable[Span]) -> bool:
    """Return whether a row may exist twice, or was counted before, by the names of the files and
    their numbers of rows."""
    if not all(piece.is_whole for piece in pieces):
        return True
    ordered = sorted([*(piece.span for piece in pieces), *taken])
    return any(
        one[0] == next_one[0] and next_one[1] <= one[2] for one, next_one in pairwise(ordered)
    )


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans that touch or overlap are one."""
    found: list[Span] = []
    for shard, first, last in sorted(spans):
        if found and found[-1][0] == shard and first <= found[-1][2] + 1:
            found[-1] = (shard, found[-1][1], max(last, found[-1][2]))
        else:
            found.append((shard, first, last))
    return found


def covers(spans: Sequence[Span], span: Span) -> bool:
    """Return whether one of the spans, which are merged, has all numbers of the span."""
    shard, first, last = span
    place = bisect_right(spans, (shard, first, sys.maxsize)) - 1
    return place >= 0 and spans[place][0] == shard and last <= spans[place][2]


def _piece(file: str, rows: int) -> Piece | None:
    """The file, if it has a name as the exporter gives them."""
    named = _NAME.fullmatch(file)
    if named is None:
        return None
    shard, first, last = map(int, named.groups())
    return Piece(file, shard, first, last, rows)


def _as_uri(url: str) -> str:
    return url if "://" in url else Path(url).as_uri()
