"""Add the rows of files to a queue, each once.

Called by   cli/pipeline.py.
Calls       the format `quinque`, input_files.py.

    no checkpoint            one batch: all of it is in the queue, or none
    with a checkpoint        a stream over the files that are there: run again, it goes on, and
                             takes the files that came since
    with a rate              the sink adds that many messages a second; a batch of the stream is one
                             file

Lines of JSON become messages unchanged, because a row that Spark has read does not show which
fields were null and which were missing. Invalid lines of JSON and CSV are in the column BAD, and
are counted. Without a directory for them, no line is left out: with a checkpoint, a batch with an
invalid line fails.

Not here: the sink, which adds rows once (spark/sink.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StringType, StructType

from quinque.errors import BadSetting, QuinqueError, many
from quinque.spark.jobs.input_files import check_files, streamed
from quinque.spark.jobs.progress import Stopwatch, Tell, Watched
from quinque.spark.option_kinds import one_name

FORMATS: Final = ("parquet", "json", "csv", "text", "orc")

BAD: Final = "_quinque_bad_line"
_HAVE_BAD_LINES: Final = ("json", "csv")
# A row as JSON has all of its columns, and times have all their digits.
_AS_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# Spark passes over files that are older than the newest one it has seen, by a week.
_ANY_AGE: Final = {"maxFileAge": "36500d"}
_LINE: Final = "_quinque_line"
_BLANKS: Final = " \t\r\n"  # of JSON
_SET_HERE: Final = ("mode", "columnnameofcorruptrecord")
_SHOWN_MOST: Final = 80  # characters of a bad line

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
    """The options of an ingest. `columns` maps columns of the files to COLUMNS. Without
    `body_column`, the whole row is the body, as JSON (of text files, the line). `bad_lines` is a
    directory for lines that cannot be read."""

    source: str
    queue: str
    format: str = "parquet"
    body_column: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    rate: int = 0
    checkpoint: str | None = None
    reading: dict[str, str] = field(default_factory=dict)  # options of the files' format
    broker: dict[str, str] = field(default_factory=dict)  # options of the format `quinque`
    bad_lines: str | None = None


class BadLines(QuinqueError):
    """Lines of the files cannot be read, and nothing was added."""


def ingest(spark: SparkSession, asked: Ingest, tell: Tell | None = None) -> dict[str, Any]:
    """Add the rows to the queue. Raises BadSetting if the files or the columns do not exist, and
    BadLines."""
    watch = Stopwatch()
    check_files(spark, asked.source, asked.reading)
    schema = _schema(spark, asked)
    if asked.checkpoint:
        messages = as_messages(_read(spark, asked, schema, is_stream=True), asked)
        if asked.bad_lines:
            rows, bad, batches = _follow_beside(messages, asked, asked.checkpoint, tell)
        else:
            rows, batches = _follow(_whole(messages), asked, asked.checkpoint, tell)
            bad = 0
    else:
        messages = as_messages(_read(spark, asked, schema), asked)
        rows, bad = _counted(messages)
        if bad and asked.bad_lines is None:
            raise BadLines(
                f"{bad:,} of {many(rows + bad, 'line')} of {asked.source} cannot be read as "
                f"{asked.format}, the first of them {_first_bad(messages)}; nothing was added. "
                "Correct the files, or set these lines aside with --bad-lines DIR"
            )
        if tell is not None:
            tell("messages", 0, rows)
        if bad:
            _set_aside(messages, str(asked.bad_lines), "append")
        _write(_good(messages), asked)
        if tell is not None:
            tell("messages", rows, rows)
        batches = 1
    return {
        "job": "ingest",
        "from": asked.source,
        "to": asked.queue,
        "messages": rows,
        "bad_lines": bad,
        "batches": batches,
        "seconds": watch.seconds,
        "messages_per_second": watch.rate(rows),
    }


def as_messages(rows: DataFrame, asked: Ingest) -> DataFrame:
    """Return the rows with the columns of the sink, and BAD. Raises BadSetting."""
    columns = {name.lower(): name for name in rows.columns if name not in (BAD, _LINE)}

    def found(name: str, column: str) -> str:
        if column.lower() not in columns:
            raise BadSetting(
                f"no column {column} (for {name}); the columns are {', '.join(columns.values())}"
            )
        return columns[column.lower()]

    others: dict[str, Column] = {}
    for name, column in asked.columns.items():
        if name not in COLUMNS:
            raise BadSetting(f"messages have no {name}; use one of {', '.join(COLUMNS)}")
        others[name] = _column(found(name, column)).cast(COLUMNS[name])
    if "queue" in others:
        others["queue"] = F.coalesce(others["queue"], F.lit(asked.queue))
    named = [column.alias(name) for name, column in others.items()]
    body_column = None if asked.body_column is None else found("body", asked.body_column)
    bad = F.col(BAD) if BAD in rows.columns else F.lit(None).cast("string").alias(BAD)
    body = _body(rows, list(columns.values()), body_column, asked)
    return rows.select(body.alias("body"), *named, bad)


def _target(asked: Ingest) -> dict[str, str]:
    """Options of the format `quinque`. The rows name their queues if there is a column for it."""
    rate = {"maxMessagesPerSecond": str(asked.rate)} if asked.rate else {}
    return (
        asked.broker | rate | ({} if "queue" in asked.columns else {"queue": one_name(asked.queue)})
    )


def _body(rows: DataFrame, columns: list[str], body_column: str | None, asked: Ingest) -> Column:
    if body_column is None and _LINE in rows.columns:
        return F.col(_LINE)
    name = body_column or ("value" if asked.format == "text" else None)
    if name is None:
        return F.to_json(F.struct(*map(_column, columns)), _AS_JSON)
    kind = rows.schema[name].dataType.simpleString()
    column = _column(name)
    if kind.startswith(("struct", "map", "array")):
        return F.to_json(column, _AS_JSON)
    return column if kind == "binary" else column.cast("string")


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _schema(spark: SparkSession, asked: Ingest) -> StructType:
    """Return the columns of the files, with BAD if the format can have invalid lines. Raises
    BadSetting."""
    if asked.format not in FORMATS:
        raise BadSetting(f"--format must be one of {', '.join(FORMATS)}, not {asked.format}")
    for name in asked.reading:
        if name.lower() in _SET_HERE and asked.format in _HAVE_BAD_LINES:
            raise BadSetting(
                f"--option {name}: bad lines make the command fail; to set them aside, use "
                "--bad-lines DIR"
            )
    # Files may have different columns. Spark would take those of one file for all.
    reader = spark.read.format(asked.format).option("mergeSchema", "true")
    reader = reader.options(**_reading(asked))
    try:
        found = reader.load(asked.source).schema
    except AnalysisException as exc:
        raise BadSetting(f"{asked.source}: {str(exc).splitlines()[0]}") from exc
    if asked.format == "csv" and not found.fields:
        raise BadSetting(f"{asked.source}: no columns in these files")
    if asked.format not in _HAVE_BAD_LINES or BAD in found.names:
        return found
    return StructType([*found.fields]).add(BAD, StringType())


def _reading(asked: Ingest) -> dict[str, str]:
    if asked.format not in _HAVE_BAD_LINES:
        return asked.reading
    given = {name.lower(): text for name, text in asked.reading.items()}
    quote = given.get("quote", '"')
    # Programs other than Spark double a quote in a value. Spark itself expects a backslash.
    is_doubled = asked.format == "csv" and quote and "escape" not in given
    escape = {"escape": quote} if is_doubled else {}
    # Otherwise Spark reads only the used columns of a line of CSV, and does not notice that it has
    # too few or too many.
    whole = {"columnPruning": "false"} if asked.format == "csv" else {}
    return escape | asked.reading | whole | {"columnNameOfCorruptRecord": BAD}


def _read(
    spark: SparkSession, asked: Ingest, schema: StructType, *, is_stream: bool = False
) -> DataFrame:
    reader: Any = spark.readStream if is_stream else spark.read
    source = streamed(spark, asked.source) if is_stream else asked.source
    if is_stream:
        reader = reader.options(**_ANY_AGE)
    if is_stream and asked.rate:
        reader = reader.option("maxFilesPerTrigger", "1")
    if not _is_lines(asked):
        checks = _checking_headers(asked, schema)
        reader = reader.format(asked.format).options(**checks).options(**_reading(asked))
        rows: DataFrame = reader.schema(schema).load(source)
        return rows
    lines: DataFrame = reader.format("text").options(**asked.reading).load(source)
    # The names of directories may be columns, such as in day=2026-01-02/orders.json.
    folders = {name.lower(): _column(name) for name in lines.columns if name != "value"}
    schema = StructType([field for field in schema if field.name.lower() not in folders])
    # A line may have a list of rows.
    trimmed = F.btrim("value", F.lit(_BLANKS))
    is_list = trimmed.startswith("[")
    listed = F.transform(F.from_json("value", "array<variant>"), lambda row: F.to_json(row))
    each = F.when(is_list, listed)
    lines = lines.where(trimmed != "")
    every = F.explode(F.coalesce(each, F.array("value"))).alias(_LINE)
    lines = lines.select(every, *folders.values())
    row = F.from_json(_LINE, schema, _reading(asked)).alias("_")
    return lines.select("*", row).select(_LINE, "_.*", *folders.values())


def _checking_headers(asked: Ingest, schema: StructType) -> dict[str, str]:
    """Options with which a CSV file whose header has other columns, or another order, makes the
    command fail. Otherwise Spark takes its values for those of the columns of the first file."""
    given = {name.lower(): text.lower() for name, text in asked.reading.items()}
    names = [name for name in schema.names if name != BAD]
    numbered = [name for at, name in enumerate(names) if name.endswith(str(at))]
    stems = [name.rstrip("0123456789") for name in numbered]
    # Spark itself names columns that have no name, or the name of another column.
    is_named_by_spark = "_c" in stems or len(set(stems)) < len(stems)
    if asked.format != "csv" or given.get("header") != "true" or is_named_by_spark:
        return {}
    return {"enforceSchema": "false"}


def _is_lines(asked: Ingest) -> bool:
    """Return whether the files are JSON with one row on each line, in UTF-8."""
    given = {name.lower(): text.lower() for name, text in asked.reading.items()}
    is_utf8 = not given.keys() & {"encoding", "charset"}
    return asked.format == "json" and is_utf8 and given.get("multiline", "false") == "false"


def _good(messages: DataFrame) -> DataFrame:
    return messages.where(F.col(BAD).isNull()).drop(BAD)


def _set_aside(messages: DataFrame, folder: str, mode: str) -> None:
    """The bad lines are in files there."""
    # Kept first: of files, Spark does not read its column of bad lines alone.
    bad = messages.where(F.col(BAD).isNotNull()).persist()
    try:
        bad.select(BAD).write.mode(mode).text(folder)
    finally:
        bad.unpersist()


def _whole(messages: DataFrame) -> DataFrame:
    """The messages, of which a bad one makes its batch fail."""
    told = F.concat(
        F.lit("a line cannot be read: "),
        F.substring(BAD, 1, _SHOWN_MOST),
        F.lit("; correct the file, or set such lines aside with --bad-lines DIR"),
    )
    is_good = F.col(BAD).isNull()
    body = F.when(is_good, F.col("body")).otherwise(F.raise_error(told))
    return messages.withColumn("body", body).drop(BAD)


def _counted(messages: DataFrame) -> tuple[int, int]:
    """Count the messages and the invalid lines."""
    # With the bodies: of files, Spark does not read its column of bad lines alone.
    is_good = F.col(BAD).isNull()
    [counts] = messages.agg(F.count_if(is_good), F.count(BAD), F.count("body")).collect()
    return int(counts[0]), int(counts[1])


def _first_bad(messages: DataFrame) -> str:
    [row] = messages.where(F.col(BAD).isNotNull()).limit(1).collect()
    return repr(row[BAD][:_SHOWN_MOST])


def _write(messages: DataFrame, asked: Ingest, **options: Any) -> None:
    target = _target(asked) | options
    messages.write.format("quinque").options(**target).mode("append").save()


def _follow(
    messages: DataFrame, asked: Ingest, checkpoint: str, tell: Tell | None
) -> tuple[int, int]:
    """Add the rows of all existing files to the queue."""
    writer = messages.writeStream.format("quinque").options(**_target(asked))
    writer = writer.option("checkpointLocation", checkpoint)
    watched = Watched(writer.trigger(availableNow=True).start())
    watched.wait(tell, 0)
    return watched.rows, watched.batches


def _follow_beside(
    messages: DataFrame, asked: Ingest, checkpoint: str, tell: Tell | None
) -> tuple[int, int, int]:
    """Do the same, and write the invalid lines of each batch to separate files. Spark may repeat a
    batch: its files are replaced, and its messages are added once, as in _follow()."""
    counts: dict[int, tuple[int, int]] = {}

    def write(batch: DataFrame, number: int) -> None:
        run = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        batch.persist()
        try:
            counts[number] = _counted(batch)
            if counts[number][1]:
                _set_aside(batch, f"{asked.bad_lines}/{run}-{number}", "overwrite")
            # The run is that of the checkpoint, so a batch that was published under this number
            # is this one, if its rows have other columns by now.
            _write(_good(batch), asked, runId=run, batchId=number, failOnDataLoss=False)
        finally:
            batch.unpersist()

    writer = messages.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    watched = Watched(writer.trigger(availableNow=True).start())
    watched.wait(tell, 0)
    rows, bad = (sum(column) for column in zip((0, 0), *counts.values(), strict=True))
    return rows, bad, watched.batches
