"""The exporter: the lifecycle log of a broker as Parquet files.

Called by   cli/exporting.py (as a process of its own, next to a broker), cli's `pipeline archive`,
            people: python -m quinque.spark.export --url redis://127.0.0.1:4777 --folder lake
Calls       client/ (reads over the wire), arrow.py, journal_files.py.

The exporter continues where its files end. Rows wait in memory until there are ROWS_MOST or
`every_s` have passed. Then each shard gets another file for each hour. Rows that the broker dropped
before they were read are recorded as gaps. Another process may export to the same directory at the
same time, as `pipeline audit` does: each row is written once.

The password, if one is needed, is in the environment: QUINQUE_PASSWORD(_FILE), and
QUINQUE_USERNAME unless it is the default user's.

Not here: the tables (tables/).
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

from quinque.client.secret_files import secret_of
from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting, FolderLocked, QuinqueError, many
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
    """The numbers of rows and files that were written."""

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
        """`on_rows` is called with the number of rows newly written to files, `on_lag` with the
        number of rows that are not in files yet."""
        self._broker = broker
        self._folder = folder
        self._rows_most = rows_most
        self._on_rows = on_rows
        self._on_lag = on_lag
        self._unread = 0
        self._next = folder.ends()
        self._logs = folder.logs()
        self._tables: dict[int, list[pa.Table]] = {}
        self._rows = 0
        self.done = Exported()

    @property
    def ends(self) -> dict[int, int]:
        """The number of the next row for each shard."""
        return dict(self._next)

    def read(self) -> int:
        """Read all rows up to the newest. Return how many. Raises QuinqueError."""
        records: list[Record] = self._broker.run(FindRecords())
        self._check_logs(records)
        self._unread = sum(record.next - self._start(record) for record in records)
        count = sum(map(self._read_shard, records))
        self._tell_lag()
        return count

    def flush(self) -> None:
        """Write all rows that were read to files."""
        if self._tables:
            with self._folder.writing():
                for shard in list(self._tables):
                    self._flush_shard(shard)
        self._tell_lag()

    def _flush_shard(self, shard: int) -> None:
        table = pa.concat_tables(self._tables.pop(shard))
        rows, files = self._folder.write(shard, table)
        self._next[shard] = max(self._next[shard], self._folder.ends()[shard])
        self._rows -= table.num_rows
        self.done.files += files
        self.done.rows += rows
        if self._on_rows is not None:
            self._on_rows(rows)

    def _tell_lag(self) -> None:
        if self._on_lag is not None:
            self._on_lag(max(0, self._unread) + self._rows)

    def _check_logs(self, records: Sequence[Record]) -> None:
        """Raise BadSetting if the directory has rows of another store."""
        new = {it.shard: it.log for it in records if it.log and it.shard not in self._logs}
        for record in records:
            log = self._logs.get(record.shard, 0)
            if log and record.log and log != record.log:
                raise BadSetting(
                    f"{self._folder.path} has rows of shard {record.shard} of another store; "
                    "export to another directory"
                )
        if new:
            self._logs |= new
            self._folder.keep_logs(self._logs)

    def _start(self, record: Record) -> int:
        """Return the number of the next row of the shard, if the broker still has it."""
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
        begin = 0
        for at in np.flatnonzero(seq - before != 1).tolist():
            self._keep(shard, table.slice(begin, at - begin))
            self._miss(shard, int(before[at]) + 1, int(seq[at]))
            begin = at
        self._keep(shard, table.slice(begin))
        self._unread -= table.num_rows
        return int(seq[-1]) + 1

    def _keep(self, shard: int, table: pa.Table) -> None:
        if table.num_rows:
            self._tables.setdefault(shard, []).append(table)
            self._rows += table.num_rows
            self._next[shard] = int(table.column("seq")[-1].as_py()) + 1

    def _miss(self, shard: int, first: int, end: int) -> None:
        self.flush()  # a recorded gap means that the rows before it are in files
        with self._folder.writing():
            missing = self._folder.note_gap(shard, first, end - 1, datetime.now(UTC))
        self._next[shard] = end
        if not missing:  # another one has exported them
            return
        first = end - missing
        log.warning(
            "rows %d to %d of shard %d are no longer in the lifecycle log", first, end - 1, shard
        )
        self.done.gaps += 1
        self.done.missing += missing


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
    """Export until `ending` is set, then export the rest of the log, if the broker answers. Raises
    QuinqueError if a retry cannot help, and OSError."""
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
    """Return the exit code: 0 after a requested stop, 1 after an error, which is printed."""
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
    try:
        password = secret_of(os.environ, "QUINQUE_PASSWORD") or None
    except BadSetting as error:
        log.error("QUINQUE_PASSWORD_FILE: %s", error)
        return 1
    # Its own retries are short, so that it ends soon when it is to.
    broker = Broker(
        asked.url,
        username=os.environ.get("QUINQUE_USERNAME") or None,
        password=password,
        retries=1 if not asked.once else 5,
    )
    try:
        done = _run(broker, asked, ending)
    except (QuinqueError, OSError) as error:
        log.error("%s", error)
        return 1
    finally:
        broker.close()
    rows, files, gaps = many(done.rows, "row"), many(done.files, "file"), many(done.gaps, "gap")
    log.info("exported %s in %s, with %s", rows, files, gaps)
    return 0


def _run(broker: Broker, asked: argparse.Namespace, ending: threading.Event) -> Exported:
    if asked.once:
        with JournalFolder(asked.folder) as files:
            return _export_all(Exporter(broker, files, asked.rows))
    with _kept(asked.folder, ending) as files:
        on_lag = _tell_parent if asked.beside else None
        exporter = Exporter(broker, files, asked.rows, on_lag=on_lag)
        return export_on(exporter, asked.every, ending)


def _kept(folder: Path, ending: threading.Event) -> JournalFolder:
    """The folder, as soon as its last exporter has ended."""
    until_s = monotonic() + _LOCKED_S
    while True:
        try:
            return JournalFolder(folder, is_kept=True)
        except FolderLocked:
            if monotonic() > until_s or ending.wait(POLL_S / 10):
                raise


def _tell_parent(lag: int) -> None:
    """cli/exporting.py reads it."""
    try:
        sys.stdout.write(f"lag {lag}\n")
        sys.stdout.flush()
    except OSError:  # the parent process is gone, and this one will end soon
        return


def _watch(parent: int, ending: threading.Event) -> None:
    """Stop this process when its parent is gone."""
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
