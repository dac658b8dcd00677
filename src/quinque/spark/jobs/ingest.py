"""Files into a queue: each row a message, each once.

Called by   cli/pipeline.py.
Calls       the format `quinque`.

    no checkpoint            one batch: all of it is in the queue, or none
    with a checkpoint        a stream over the files that are there: run again, it goes on, and
                             takes the files that came since
    with a rate              the sink adds that many messages a second; a batch of the stream is one
                             file

Not here: how rows are put once (spark/sink.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from quinque.errors import BadSetting
from quinque.spark.jobs.progress import Stopwatch, Tell, Watched

FORMATS: Final = ("parquet", "json", "csv", "text", "orc")

# The options of a message, by the names of the sink, with their types.
COLUMNS: Final = {
    "id": "string",
    "key": "string",
    "queue": "string",
    "ttl_ms": "bigint",
    "delay_ms": "bigint",
    "retry_ms": "bigint",
    "max_deliveries": "int",
}


@dataclass(frozen=True)
class Ingest:
    """What is asked for. `columns` says which column of the files is which of COLUMNS; without
    `body_column` a row as a whole is the body, as JSON (of text files, the line)."""

    source: str
    queue: str
    format: str = "parquet"
    body_column: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    rate: int = 0
    checkpoint: str | None = None
    reading: dict[str, str] = field(default_factory=dict)  # options of the files' format
    broker: dict[str, str] = field(default_factory=dict)  # options of the format `quinque`


def ingest(spark: SparkSession, asked: Ingest, tell: Tell | None = None) -> dict[str, Any]:
    """The rows are messages in the queue. Raises BadSetting when the files or the columns are not
    there."""
    watch = Stopwatch()
    messages = as_messages(_read(spark, asked), asked)
    if asked.checkpoint:
        stream = spark.readStream.format(asked.format).options(**asked.reading)
        if asked.rate:
            stream = stream.option("maxFilesPerTrigger", "1")
        files = stream.schema(_read(spark, asked).schema).load(asked.source)
        rows, batches = _follow(as_messages(files, asked), asked, asked.checkpoint, tell)
    else:
        rows = messages.count()
        if tell is not None:
            tell("messages", 0, rows)
        messages.write.format("quinque").options(**_target(asked)).mode("append").save()
        if tell is not None:
            tell("messages", rows, rows)
        batches = 1
    return {
        "job": "ingest",
        "from": asked.source,
        "to": asked.queue,
        "messages": rows,
        "batches": batches,
        "seconds": watch.seconds,
        "messages_per_second": watch.rate(rows),
    }


def as_messages(rows: DataFrame, asked: Ingest) -> DataFrame:
    """The rows with the columns that the sink takes. Raises BadSetting."""
    wanted = {"body": asked.body_column, **asked.columns}
    for name, column in wanted.items():
        if column is not None and column not in rows.columns:
            raise BadSetting(
                f"no column {column} (for {name}); the columns are {', '.join(rows.columns)}"
            )
        if name != "body" and name not in COLUMNS:
            raise BadSetting(f"messages have no {name}; use one of {', '.join(COLUMNS)}")
    others = {name: F.col(f"`{asked.columns[name]}`").cast(kind)
              for name, kind in COLUMNS.items() if name in asked.columns}  # fmt: skip
    if "queue" in others:
        others["queue"] = F.coalesce(others["queue"], F.lit(asked.queue))
    named = [column.alias(name) for name, column in others.items()]
    return rows.select(_body(rows, asked).alias("body"), *named)


def _target(asked: Ingest) -> dict[str, str]:
    """Options of the format `quinque`. The rows name their queues if there is a column for it."""
    rate = {"maxMessagesPerSecond": str(asked.rate)} if asked.rate else {}
    return asked.broker | rate | ({} if "queue" in asked.columns else {"queue": asked.queue})


def _body(rows: DataFrame, asked: Ingest) -> Column:
    name = asked.body_column or ("value" if rows.columns == ["value"] else None)
    if name is None:
        return F.to_json(F.struct(*[F.col(f"`{column}`") for column in rows.columns]))
    kind = rows.schema[name].dataType.simpleString()
    column = F.col(f"`{name}`")
    if kind.startswith(("struct", "map", "array")):
        return F.to_json(column)
    return column if kind == "binary" else column.cast("string")


def _read(spark: SparkSession, asked: Ingest) -> DataFrame:
    if asked.format not in FORMATS:
        raise BadSetting(f"--format must be one of {', '.join(FORMATS)}, not {asked.format}")
    reader = spark.read.format(asked.format).options(**asked.reading)
    try:
        return reader.load(asked.source)
    except AnalysisException as exc:
        raise BadSetting(f"{asked.source}: {str(exc).splitlines()[0]}") from exc


def _follow(
    messages: DataFrame, asked: Ingest, checkpoint: str, tell: Tell | None
) -> tuple[int, int]:
    """The rows of all files that are there have gone into the queue."""
    writer = messages.writeStream.format("quinque").options(**_target(asked))
    writer = writer.option("checkpointLocation", checkpoint)
    watched = Watched(writer.trigger(availableNow=True).start())
    watched.wait(tell, 0)
    return watched.rows, watched.batches
