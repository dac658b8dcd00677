"""Merge small files of the lifecycle log.

Called by   build.py.
Calls       lake.py, pyarrow.

An exporter writes a file each minute. When an hour is over and its files are in the tables,
consecutive files of a shard are merged into one file with a name like those of the exporter. One
commit in the log of journal_raw replaces the small files. They are deleted a day later, because a
reader of an older version may need them.

Rows pass through this process in pieces, and each run does a limited amount of work.

Not here: the other tables, of which each build writes large files (build.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pyarrow.parquet as pq

from quinque.spark.jobs.lake import Lake, Piece

FILES_LEAST: Final = 8  # fewer are left as they are
FILE_ROWS_MOST: Final = 5_000_000
RUN_ROWS_MOST: Final = 50_000_000
LEFT_S: Final = 86_400


def compact(lake: Lake, left_s: float = LEFT_S) -> int:
    """Files of past hours are put together; how many became part of a larger one."""
    archived = lake.archived()
    _delete_old(lake, archived, left_s)
    done = rows = 0
    for pieces in _runs(list(archived.values())):
        rows += sum(piece.rows for piece in pieces)
        if rows > RUN_ROWS_MOST:
            break
        lake.archive([_put_together(lake, pieces)], [piece.file for piece in pieces])
        done += len(pieces)
    return done


def _runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Files of one shard and hour that follow each other, if they are many and the hour is over."""
    newest = max((piece.hour for piece in pieces), default="")
    past = [piece for piece in pieces if piece.hour < newest and piece.is_whole]
    past.sort(key=lambda piece: (piece.hour, piece.span))
    for _, together in groupby(past, lambda piece: (piece.hour, piece.shard)):
        run: list[Piece] = []
        for piece in together:
            is_full = sum(one.rows for one in run) + piece.rows > FILE_ROWS_MOST
            if run and (piece.first != run[-1].last + 1 or is_full):
                if len(run) >= FILES_LEAST:
                    yield run
                run = []
            run.append(piece)
        if len(run) >= FILES_LEAST:
            yield run


def _put_together(lake: Lake, pieces: Sequence[Piece]) -> Piece:
    """Write the rows of all files to one file."""
    first, last = pieces[0].first, pieces[-1].last
    name = f"{pieces[0].shard}-{first}-{last}.parquet"
    folder = f"{lake.root}/journal_raw/{pieces[0].hour}"
    unfinished = f"{folder}/.{name}.compacting"
    paths = [f"{lake.root}/journal_raw/{piece.file}" for piece in pieces]
    schema = pq.read_schema(paths[0], filesystem=lake.files)
    with pq.ParquetWriter(unfinished, schema, filesystem=lake.files, compression="zstd") as writer:
        for path in paths:
            with lake.files.open_input_file(path) as file:
                for batch in pq.ParquetFile(file).iter_batches():
                    writer.write_batch(batch)
    lake.files.move(unfinished, f"{folder}/{name}")
    return Piece(
        f"{pieces[0].hour}/{name}", pieces[0].shard, first, last, sum(one.rows for one in pieces)
    )


def _delete_old(lake: Lake, archived: dict[str, Piece], left_s: float) -> None:
    """Delete files that were merged a while ago."""
    old_ns = time.time_ns() - int(left_s * 1e9)
    large: dict[str, list[Piece]] = {}
    for piece in archived.values():
        if piece.is_whole:
            large.setdefault(piece.hour, []).append(piece)
    for piece in lake.left_over():
        for one in large.get(piece.hour, ()):
            if one.shard == piece.shard and one.first <= piece.first and piece.last <= one.last:
                info = lake.files.get_file_info(f"{lake.root}/journal_raw/{one.file}")
                if (info.mtime_ns or old_ns + 1) <= old_ns:
                    lake.files.delete_file(f"{lake.root}/journal_raw/{piece.file}")
                break
