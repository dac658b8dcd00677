"""The exporter: the record of a broker, as Parquet files that any engine reads.

Called by   cli/exporting.py (as a process of its own, beside a broker), cli's `pipeline archive`,
            people: python -m quinque.spark.export --url redis://127.0.0.1:4777 --folder lake
Calls       client/ (reads over the wire), arrow.py, journal_files.py.

It goes on from where its files end. Rows wait in memory until there are ROWS_MOST or `every_s` have
passed; then each shard has one file more for each hour. Rows that the broker dropped before they
were read are written down as gaps.

The password, if one is needed, is in the environment: QUINQUE_PASSWORD, and
QUINQUE_USERNAME unless it is the default user's.

Not here: the tables that are made of the files (tables/).
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting, FolderLocked, QuinqueError
from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.spark.arrow import journal_table
from quinque.spark.journal_files import JournalFolder

ROWS_MOST: Final = 1_000_000  # about 100 MB as a table
EVERY_S: Final = 60.0
POLL_S: Final = 1.0
_READ_ROWS: Final = 100_000
_LOCKED_S: Final = 30.0  # how long the exporter of a broker that was killed may need to end

log = logging.getLogger("quinque.export")


class Runs(Protocol):
    """A broker's client, or a store."""

    def run(self, op: Any, /) -> Any: ...


@dataclass
class Exported:
    """What was written."""

    rows: int = 0
    files: int = 0
    gaps: int = 0
    missing: int = 0  # rows in those gaps


class Exporter:
    def __init__(
        self,
        broker: Runs,
        folder: JournalFolder,
        rows_most: int = ROWS_MOST,
        on_rows: Callable[[int], None] | None = None,
        on_lag: Callable[[int], None] | None = None,
    ) -> None:
        """`on_rows` is told of how many more rows there are files, `on_lag` how many there are of
        which there are none yet."""
        self._broker = broker
        self._folder = folder
        self._rows_most = rows_most
        self._on_rows = on_rows
        self._on_lag = on_lag
        self._unread = 0
        self._next = folder.ends()
        self._tables: dict[int, list[pa.Table]] = {}
        self._rows = 0
        self.done = Exported()

    @property
    def ends(self) -> dict[int, int]:
        """Of each shard the row after the last that was read."""
        return dict(self._next)

    def read(self) -> int:
        """All rows up to the newest are read; how many. Raises QuinqueError."""
        records: list[Record] = self._broker.run(FindRecords())
        self._unread = sum(record.next - self._start(record) for record in records)
        count = sum(map(self._read_shard, records))
        self._tell_lag()
        return count

    def flush(self) -> None:
        """All that was read is in files."""
        for shard in list(self._tables):
            table = pa.concat_tables(self._tables.pop(shard))
            self.done.files += len(self._folder.write(shard, table))
            self.done.rows += table.num_rows
            self._rows -= table.num_rows
            if self._on_rows is not None:
                self._on_rows(table.num_rows)
        self._tell_lag()

    def _tell_lag(self) -> None:
        if self._on_lag is not None:
            self._on_lag(max(0, self._unread) + self._rows)

    def _start(self, record: Record) -> int:
        """The row of the shard to be read next, if it is there."""
        return max(record.first, self._next.get(record.shard, record.first))

    def _read_shard(self, record: Record) -> int:
        start = self._next.get(record.shard, record.first)
        if start > record.next:
            raise BadSetting(
                f"{self._folder.path} has rows of shard {record.shard} up to {start - 1}, but "
                f"the broker has rows only up to {record.next - 1}: the directory belongs to "
                "another broker, or the broker lost its newest rows; export to another directory"
            )
        if start < record.first:
            self._miss(record.shard, start, record.first)
            start = record.first
        count = 0
        while start < record.next:
            entries: list[bytes] = self._broker.run(ReadRecord(record.shard, start, _READ_ROWS))
            table = journal_table(record.shard, entries, start)
            if not table.num_rows:
                break
            start = self._take(record.shard, start, table)
            count += table.num_rows
            if self._rows >= self._rows_most:
                self.flush()
        return count

    def _take(self, shard: int, start: int, table: pa.Table) -> int:
        """The rows are to be written; the row after them."""
        seq = table.column("seq").to_numpy()
        before = np.concatenate(([start - 1], seq[:-1]))
        for at in np.flatnonzero(seq - before != 1).tolist():
            self._miss(shard, int(before[at]) + 1, int(seq[at]))
        self._tables.setdefault(shard, []).append(table)
        self._rows += table.num_rows
        self._unread -= table.num_rows
        self._next[shard] = int(seq[-1]) + 1
        return self._next[shard]

    def _miss(self, shard: int, first: int, end: int) -> None:
        log.warning(
            "rows %d to %d of shard %d are no longer in the lifecycle log", first, end - 1, shard
        )
        self._folder.note_gap(shard, first, end - 1, datetime.now(UTC))
        self._next[shard] = end
        self.done.gaps += 1
        self.done.missing += end - first


def export_until(
    broker: Runs,
    folder: Path,
    *,
    rows_most: int = ROWS_MOST,
    on_rows: Callable[[int], None] | None = None,
) -> Exported:
    """All rows up to the newest are in files; what was written.

    Raises FolderLocked, BadSetting when the folder is another broker's, OSError.
    """
    with JournalFolder(folder) as files:
        return _export_all(Exporter(broker, files, rows_most, on_rows))


def _export_all(exporter: Exporter) -> Exported:
    exporter.read()
    exporter.flush()
    return exporter.done


def export_on(exporter: Exporter, every_s: float, ending: threading.Event) -> Exported:
    """Export until `ending` is set; then all that is on record is in files, if the broker is
    there. Raises QuinqueError when asking again is of no use, OSError."""
    flushed_s = monotonic()
    while not ending.wait(POLL_S):
        _try_read(exporter)
        if monotonic() - flushed_s >= every_s:
            exporter.flush()
            flushed_s = monotonic()
    _try_read(exporter)
    exporter.flush()
    return exporter.done


def _try_read(exporter: Exporter) -> None:
    try:
        exporter.read()
    except QuinqueError as error:
        if not error.retry:
            raise
        log.warning("%s", error)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 when it ended because it was to, 1 with a word on why."""
    asked = _arguments(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format=f"%(asctime)s [{os.getpid()}] %(levelname)s export: %(message)s",
    )
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    os.nice(10)  # the broker goes first
    if asked.beside:
        threading.Thread(target=_watch, args=(asked.beside, ending), daemon=True).start()
    # Its own retries are short, so that it ends soon when it is to.
    broker = Broker(
        asked.url,
        username=os.environ.get("QUINQUE_USERNAME") or None,
        password=os.environ.get("QUINQUE_PASSWORD") or None,
        retries=1 if not asked.once else 5,
    )
    try:
        done = _run(broker, asked, ending)
    except (QuinqueError, OSError) as error:
        log.error("%s", error)
        return 1
    finally:
        broker.close()
    log.info("exported %d rows in %d files, with %d gaps", done.rows, done.files, done.gaps)
    return 0


def _run(broker: Broker, asked: argparse.Namespace, ending: threading.Event) -> Exported:
    with _locked(asked.folder, ending) as files:
        if asked.once:
            return _export_all(Exporter(broker, files, asked.rows))
        on_lag = _tell_parent if asked.beside else None
        exporter = Exporter(broker, files, asked.rows, on_lag=on_lag)
        return export_on(exporter, asked.every, ending)


def _locked(folder: Path, ending: threading.Event) -> JournalFolder:
    """The folder, as soon as its last writer has ended."""
    until_s = monotonic() + _LOCKED_S
    while True:
        try:
            return JournalFolder(folder)
        except FolderLocked:
            if monotonic() > until_s or ending.wait(POLL_S / 10):
                raise


def _tell_parent(lag: int) -> None:
    """cli/exporting.py reads it."""
    try:
        sys.stdout.write(f"lag {lag}\n")
        sys.stdout.flush()
    except OSError:  # it is gone, and this will end soon
        return


def _watch(parent: int, ending: threading.Event) -> None:
    """When the parent is gone, this is to end too."""
    while os.getppid() == parent:
        if ending.wait(POLL_S):
            return
    ending.set()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m quinque.spark.export",
        description="Export the lifecycle log of a broker to Parquet files.",
    )
    parser.add_argument("--url", required=True, help="URL of the broker: redis://host:port")
    parser.add_argument(
        "--folder", required=True, type=Path, help="directory in which journal_raw is created"
    )
    parser.add_argument(
        "--every", type=float, default=EVERY_S, help="seconds between files (default: 60)"
    )
    parser.add_argument(
        "--rows", type=int, default=ROWS_MOST, help="maximum number of rows in memory"
    )
    parser.add_argument("--once", action="store_true", help="export up to the newest row and exit")
    parser.add_argument("--beside", type=int, default=0, help="exit when this parent process exits")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
