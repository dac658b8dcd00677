"""The files that a job is to read, compared to those that Spark reads.

Called by   ingest.py.
Calls       pyspark.

Spark reads the files in a directory. If it has directories such as day=2026-01-02, Spark
reads the files in those, and no others. It takes files whose names begin with _ or . for its own.

Not here: the columns of the files (ingest.py).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from quinque.errors import BadSetting, many

_CHOOSING: Final = ("pathglobfilter", "modifiedbefore", "modifiedafter")  # files, in any format


def check_files(spark: SparkSession, source: str, reading: dict[str, str]) -> None:
    """Raise BadSetting if Spark would leave out some of the files, of which it says nothing."""
    status = _status(spark, source)
    given = {name.lower(): text for name, text in reading.items()}
    if status is None or given.get("recursivefilelookup", "").lower() == "true":
        return
    name = str(status.getPath().getName())
    if status.isFile():
        if name.startswith(("_", ".")):
            raise BadSetting(
                f"{source}: Spark does not read files whose name begins with {name[0]}"
            )
        return
    chosen = {name: text for name, text in given.items() if name in _CHOOSING}
    reader = spark.read.options(**chosen).option("recursiveFileLookup", "true")
    root = urlsplit(str(status.getPath().toUri().toString())).path
    above: list[str] = []
    parted: list[str] = []  # in a directory such as day=2026-01-02
    others: list[str] = []
    for file in sorted(urlsplit(url).path for url in reader.text(source).inputFiles()):
        folder = file.rpartition("/")[0]
        is_parted = "=" in unquote(folder.rpartition("/")[2])
        (above if folder == root else parted if is_parted else others).append(unquote(file))
    left_out = others or (above if parted else [])
    if left_out:
        raise BadSetting(
            f"{source}: Spark would leave out {many(len(left_out), 'file')}, such as "
            f"{left_out[0]}: it reads the files in this directory, or only those in directories "
            "such as day=2026-01-02. Name the files with a pattern, or read all of them with "
            "--option recursiveFileLookup=true"
        )


def _status(spark: SparkSession, source: str) -> Any:
    """Return what Hadoop knows of the file or directory, or None if there is none of that name."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(source)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    return files.getFileStatus(path) if files.exists(path) else None


def streamed(spark: SparkSession, source: str) -> str:
    """The path as a stream takes it: a single file must be a pattern that matches it."""
    status = _status(spark, source)
    if status is None or not status.isFile():
        return source
    folder, slash, name = source.rpartition("/")
    return f"{folder}{slash}[{name[0]}]{name[1:]}"
