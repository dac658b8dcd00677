"""A Delta table of the lake: Spark reads and writes its files, the package deltalake keeps its log.

Called by   lake.py, build.py, compaction.py.
Calls       deltalake, pyspark, pyarrow (to list files).

Spark needs no jars for Delta: the log names the Parquet files of a version, and Spark reads those.
To write, Spark puts files into a new directory of the table, and one commit adds them. Until then,
and if a job is killed before, no reader sees them.

    <table>/_delta_log/                 the versions
    <table>/<name of a write>/…         the files of one write

A commit has a number, in the table as a transaction of the application `quinque`. If two jobs
commit from the same version, one fails.

Not here: the list of tables (lake.py).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from quinque.errors import BadSetting, FolderLocked

APPLICATION: Final = "quinque"
# In a path, deltalake takes these for something else, or panics.
_NOT_IN_A_PATH: Final = "[]^|%\\"
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


class Listed(NamedTuple):
    """A file of a version: its path in the table, how many rows it has, and of which partition."""

    path: str
    rows: int
    partition: dict[str, str | None]


class LakeTable:
    def __init__(
        self, files: pa.fs.FileSystem, root: str, url: str, by: Sequence[str] = ()
    ) -> None:
        """`root` and `url` are the table's folder, as pyarrow and Spark take it; `by` are the
        columns by which it is partitioned."""
        self.url = url
        self._files = files
        self._root = root
        self._by = list(by)

    def opened(self) -> DeltaTable | None:
        """Return its newest version, or None if the table does not exist."""
        return DeltaTable(self.url) if DeltaTable.is_deltatable(self.url) else None

    def number(self) -> int | None:
        """Return the number of its last numbered commit."""
        table = self.opened()
        return None if table is None else table.transaction_version(APPLICATION)

    def listed(self, table: DeltaTable | None = None) -> list[Listed]:
        """The files of that version, or of its newest."""
        table = table or self.opened()
        if table is None:
            return []
        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return [
            Listed(
                unquote(row["path"]),
                row["num_records"] or 0,
                {name: row.get(f"partition.{name}") for name in self._by},
            )
            for row in rows
        ]

    def read(self, spark: SparkSession, only: Collection[str] | None = None) -> DataFrame:
        """Return the rows of its newest version, or with `only` those with these values of the
        partition column. That column is left out if directories are not named after it. Raises
        BadSetting."""
        table = self.opened()
        if table is None:
            raise BadSetting(f"no table in {self.url}")
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        paths = [
            file.path
            for file in self.listed(table)
            if only is None or file.partition[self._by[0]] in only
        ]
        if not any(f"{name}=" in path for path in paths for name in self._by):
            schema = StructType([part for part in schema if part.name not in self._by])
        if not paths:
            return spark.createDataFrame([], schema)
        reader = spark.read.schema(schema)
        if len(schema) == len(table.schema().fields) and self._by:
            reader = reader.option("basePath", f"{self.url}/{paths[0].split('/', 1)[0]}")
        return reader.parquet(*[f"{self.url}/{path}" for path in paths])

    def write(
        self,
        frame: DataFrame,
        partition: dict[str, str | None] | None = None,
        options: dict[str, str] | None = None,
    ) -> list[AddAction]:
        """Write the rows to files that are in no version yet. They belong to that partition, or to
        those in their columns."""
        folder = uuid.uuid4().hex
        writer = frame.write.options(**(options or {}))
        if partition is None and self._by:
            writer = writer.partitionBy(*self._by)
        writer.parquet(f"{self.url}/{folder}")
        selector = pa.fs.FileSelector(f"{self._root}/{folder}", recursive=True)
        return [
            self.action(info.path[len(self._root) + 1 :], partition)
            for info in self._files.get_file_info(selector)
            if info.type == pa.fs.FileType.File and info.path.endswith(".parquet")
        ]

    def action(
        self,
        path: str,
        partition: dict[str, str | None] | None = None,
        stats: dict[str, Any] | None = None,
    ) -> AddAction:
        """Return the entry of a file in a commit."""
        full = f"{self._root}/{path}"
        info = self._files.get_file_info(full)
        if stats is None:
            stats = {"numRecords": pq.read_metadata(full, filesystem=self._files).num_rows}
        values = _in_path(path) if partition is None else partition
        changed_ms = (info.mtime_ns or 0) // 1_000_000
        return AddAction(path, info.size, values, changed_ms, True, json.dumps(stats))

    def commit(
        self,
        schema: StructType,
        added: Sequence[AddAction],
        removed: Iterable[str] = (),
        *,
        replaces: bool = False,
        number: int | None = None,
        follows: int | None = None,
    ) -> None:
        """Make a new version with these files added, or in place of all others, and without the
        removed ones. If one of them fails, nothing changes. `follows` is the required number of the
        last commit.

        Raises FolderLocked if another job has written to the table meanwhile.
        """
        transactions = None if number is None else [Transaction(APPLICATION, number)]
        properties = CommitProperties(app_transactions=transactions)
        known = Schema.from_json(json.dumps(_nullable(schema.jsonValue())))
        now_ms = time.time_ns() // 1_000_000
        gone = [RemoveAction(path, True, now_ms) for path in removed]
        table = self.opened()
        if follows is not None and (
            table is None or table.transaction_version(APPLICATION) != follows
        ):
            raise self._changed()
        try:
            if table is None:
                create_table_with_add_actions(
                    self.url,
                    known,
                    list(added),
                    partition_by=self._by,
                    commit_properties=properties,
                )
            else:
                mode = "overwrite" if replaces else "append"
                table.create_write_transaction(
                    [*added, *gone], mode, known, self._by, commit_properties=properties
                )
        except CommitFailedError as exc:
            raise self._changed() from exc
        except DeltaError as exc:
            if table is None and self.opened() is not None:
                raise self._changed() from exc
            raise

    def sweep(self, kept: int) -> None:
        """Delete files that no version needs. Keep those of the newest version, and of the `kept` -
        1 newest writes before it."""
        needed = {file.path.split("/", 1)[0] for file in self.listed()}
        writes: dict[str, int] = {}
        selector = pa.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for info in self._files.get_file_info(selector):
            name = info.path[len(self._root) + 1 :].split("/", 1)[0]
            if name not in needed and not name.startswith(("_", ".")):
                writes[name] = max(writes.get(name, 0), info.mtime_ns or 0)
        old = sorted(writes, key=lambda name: (writes[name], name), reverse=True)
        for name in old[kept - 1 :]:
            path = f"{self._root}/{name}"
            if self._files.get_file_info(path).type == pa.fs.FileType.File:
                self._files.delete_file(path)
            else:
                self._files.delete_dir(path)

    def _changed(self) -> FolderLocked:
        return FolderLocked(f"another job has written to {self.url}: run this job again")


def check_path(path: str, others: str = "") -> None:
    """Raise BadSetting for the path of a directory in which deltalake cannot keep a table, or which
    has one of the `others`."""
    found = sorted({*_NOT_IN_A_PATH, *others} & {*str(Path(path).absolute())})
    if found and "://" not in path:
        raise BadSetting(
            f"{path}: the path of a directory with Delta tables cannot have {' '.join(found)}"
        )


def _in_path(path: str) -> dict[str, str | None]:
    """The values that the names of the folders give."""
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {name: None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}


def _nullable(schema: Any) -> Any:
    """The schema, as JSON, in which each value may be null, as in all Parquet files of Spark."""
    if isinstance(schema, dict):
        may_be = {"nullable": True, "containsNull": True, "valueContainsNull": True}
        return {name: may_be.get(name, _nullable(value)) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_nullable(part) for part in schema]
    return schema
