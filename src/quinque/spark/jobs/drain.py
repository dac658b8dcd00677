"""Write a queue to files or a Delta table: each message once. Then ack it.

Called by   cli/pipeline.py.
Calls       the format `quinque`; the package deltalake for Delta, which needs no jars.

In text formats, a body that is not UTF-8 is in a separate column as base64, because otherwise its
batch would fail repeatedly.

The checkpoint and the subscription belong together: with the same ones, the job continues where it
was. Valid files are those that Spark's file sink lists in _spark_metadata. A Delta table records
its batches, so a repeated batch is skipped.

Not here: the source (spark/stream.py).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.errors import BadSetting
from quinque.errors.extras import package_missing
from quinque.spark.jobs.progress import IsAskedToEnd, Stopwatch, Tell, Watched, never
from quinque.spark.option_kinds import one_name
from quinque.spark.options import CLAIM, read_options
from quinque.spark.stream import ClaimStreamReader

FORMATS: Final = ("parquet", "json", "csv", "delta")
BODIES: Final = ("binary", "text", "base64")
# Options of the writers: files name their columns, and times have all their digits. A quote in a
# value of CSV is doubled, as programs other than Spark expect, and spaces at its ends stay.
_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_SPACES: Final = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
_WRITING: Final = {"json": _TIMES, "csv": _TIMES | _SPACES | {"header": "true", "escape": '"'}}
# Where the checkpoint and the folder keep the name that they have in common. It goes with the log
# of the folder, which takes only numbers for batches.
_NAME_OF_CHECKPOINT: Final = "_quinque_name"
_NAME_IN_FOLDER: Final = f"_spark_metadata/{_NAME_OF_CHECKPOINT}"
_ADVICE: Final = "Use the checkpoint of these files, or another directory"
_BATCH: Final = re.compile(r"(\d+)(\.compact)?")  # a file of one of Spark's logs


@dataclass(frozen=True)
class Drain:
    """The options of a drain. `body_as` is one of BODIES; if a format has no binary type, it is
    text."""

    queue: str
    target: str
    subscription: str
    checkpoint: str
    format: str = "parquet"
    body_as: str = "binary"
    follows: bool = False
    every: str = "10 seconds"
    broker: dict[str, str] = field(default_factory=dict)  # options of the format `quinque`


def drain(
    spark: SparkSession,
    asked: Drain,
    tell: Tell | None = None,
    backlog: int = 0,
    is_asked_to_end: IsAskedToEnd = never,
) -> dict[str, Any]:
    """Write and ack the messages in the queue. With `follows`, continue until a stop is requested.

    After a stop request, the job finishes its batch, and acks the written messages. It raises
    KeyboardInterrupt then, unless it follows, because the queue may have more messages. Raises
    BadSetting if the directory was written with another checkpoint.
    """
    watch = Stopwatch()
    source = {**asked.broker, "queue": one_name(asked.queue), "subscription": asked.subscription}
    rows = shaped(spark.readStream.format("quinque").options(**source).load(), asked)
    if asked.format == "delta":
        _check_delta(asked.target)
        writer = rows.writeStream.foreachBatch(_delta_writer(asked))
    else:
        _check_folder(spark, asked)
        writer = rows.writeStream.format(asked.format).option("path", asked.target)
        writer = writer.options(**_WRITING.get(asked.format, {}))
    writer = writer.option("checkpointLocation", asked.checkpoint)
    if asked.follows:
        writer = writer.trigger(processingTime=asked.every)
    else:
        writer = writer.trigger(availableNow=True)
    watched = Watched(writer.start())
    watched.wait(tell, backlog, is_asked_to_end)
    if watched.was_ended:
        _ack(source, watched.committed)
        if not asked.follows:
            raise KeyboardInterrupt
    return {
        "job": "drain",
        "from": asked.queue,
        "to": asked.target,
        "format": asked.format,
        "messages": watched.rows,
        "batches": watched.batches,
        "seconds": watch.seconds,
        "messages_per_second": watch.rate(watched.rows),
    }


def shaped(rows: DataFrame, asked: Drain) -> DataFrame:
    """Return the columns as the format can hold them. Raises BadSetting."""
    if asked.format not in FORMATS:
        raise BadSetting(f"--format must be one of {', '.join(FORMATS)}, not {asked.format}")
    body_as = asked.body_as
    if body_as == "binary" and asked.format in ("csv", "json"):
        body_as = "text"
    if body_as not in BODIES:
        raise BadSetting(f"--body must be one of {', '.join(BODIES)}, not {asked.body_as}")
    as_base64 = F.base64("body")
    if body_as == "text":
        text = F.try_validate_utf8(F.col("body").cast("string"))
        rows = rows.withColumn("body_base64", F.when(text.isNull(), as_base64))
        rows = rows.withColumn("body", text)
    elif body_as == "base64":
        rows = rows.withColumn("body", as_base64)
    if asked.format == "csv":
        rows = rows.withColumn("headers", F.to_json("headers"))
    return rows


def _ack(source: dict[str, str], committed: dict[str, Any]) -> None:
    """Ack the messages that Spark has committed: a query does that for a batch when it begins with
    the next one, and the last batch has no next one."""
    if committed:
        reader = ClaimStreamReader(read_options(source, CLAIM), ())
        reader.commit(committed)
        reader.stop()


def _check_folder(spark: SparkSession, asked: Drain) -> None:
    """The folder belongs to the checkpoint. Raises BadSetting when it has batches that the
    checkpoint does not know, or belongs to another one: Spark's file sink would skip new batches of
    these numbers, and their messages would be in no file."""
    written = _last_batch(spark, f"{asked.target}/_spark_metadata")
    known = _last_batch(spark, f"{asked.checkpoint}/offsets")
    if written > known:
        had = f"ends with batch {known}" if known >= 0 else "has no batch"
        raise BadSetting(
            f"{asked.target} has batch {written}, and the checkpoint {asked.checkpoint} {had}: the "
            "files were written with another checkpoint, and Spark would skip batches of these "
            f"numbers. {_ADVICE}"
        )
    of_checkpoint = f"{asked.checkpoint}/{_NAME_OF_CHECKPOINT}"
    of_folder = f"{asked.target}/{_NAME_IN_FOLDER}"
    # Two that begin at once have the same numbers, and both have read their batch.
    owner = _text(spark, of_folder)
    if owner is None:
        owner = _text(spark, of_folder, _text(spark, of_checkpoint, uuid.uuid4().hex))
    if owner != _text(spark, of_checkpoint):
        raise BadSetting(
            f"{asked.target} belongs to another checkpoint than {asked.checkpoint}. {_ADVICE}"
        )


def _text(spark: SparkSession, name: str, new: str | None = None) -> str | None:
    """Return the content of the file. Create a missing file with the content `new`, if given."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(name)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if new is not None and not files.exists(path):
        stream = files.create(path, False)
        stream.write(new.encode())
        stream.close()
    if not files.exists(path):
        return None
    stream = files.open(path)
    text: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    stream.close()
    return text


def _last_batch(spark: SparkSession, folder: str) -> int:
    """The highest number of a batch in one of Spark's logs; -1 for an empty or missing log."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        return -1
    names = (_BATCH.fullmatch(status.getPath().getName()) for status in files.listStatus(path))
    return max((int(name[1]) for name in names if name), default=-1)


def _check_delta(target: str) -> None:
    try:
        from quinque.spark.jobs.lake_table import check_path
    except ModuleNotFoundError as exc:
        raise package_missing(exc.name, "delta", "the format is delta") from exc
    check_path(target)


def _delta_writer(asked: Drain) -> Any:
    """Make a function that writes a batch into the Delta table once: the table keeps the number of
    the last batch of the checkpoint, which may have been that of another queue."""
    target = asked.target

    def write(batch: DataFrame, number: int) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        run = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        name = f"quinque/{run}"
        # Earlier versions used a longer name.
        names = (name, f"quinque/{asked.subscription}/{asked.queue}/{run}")
        if DeltaTable.is_deltatable(target):
            table = DeltaTable(target)
            versions = map(table.transaction_version, names)
            if any(last is not None and last >= number for last in versions):
                return
        properties = CommitProperties(app_transactions=[Transaction(name, number)])
        # A table of before `body_base64` gets the column.
        write_deltalake(
            target,
            batch.toArrow(),
            mode="append",
            schema_mode="merge",
            commit_properties=properties,
        )

    return write
