"""Dead messages back into their queue, those for which a condition holds.

Called by   cli/pipeline.py.
Calls       the format `quinque` to look at them, client/ to send them back.

The condition is an expression of Spark's SQL over the columns of a message: `reason = 'timeout'`,
`enqueued > now() - interval 1 day`, `get_json_object(cast(body as string), '$.tenant') = 'acme'`.

Not here: what becomes of a message that is redriven (engine/work/decide.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.model.families import JOBS
from quinque.model.work_ops import Redrive
from quinque.spark.jobs.progress import Stopwatch, Tell
from quinque.spark.option_kinds import one_name

_TOGETHER: Final = 500
_SAMPLES: Final = 10


def redrive(
    spark: SparkSession,
    broker: Broker,
    queue: str,
    where: str | None,
    options: dict[str, str],
    tell: Tell | None = None,
    *,
    limit: int = 0,
    only_looks: bool = False,
) -> dict[str, Any]:
    """The chosen dead messages are ready, as if they were new; with `only_looks`, none is.

    Raises BadSetting when the condition is invalid.
    """
    watch = Stopwatch()
    chosen = dead_messages(spark, queue, where, options)
    if limit:
        chosen = chosen.limit(limit)
    # A name that is not UTF-8 cannot be an id here: ids of jobs are ASCII.
    ids = [str(row["id"]) for row in chosen.select("id").toLocalIterator()]
    back = 0
    if not only_looks:
        for some in _in_groups(ids, _TOGETHER):
            back += broker.run(Redrive(JOBS, [id.encode() for id in some]))
            if tell is not None:
                tell("messages", back, len(ids))
    return {
        "job": "redrive",
        "queue": queue,
        "where": where or "true",
        "chosen": len(ids),
        "redriven": back,
        "dry_run": only_looks,
        "sample_ids": ids[:_SAMPLES],
        "seconds": watch.seconds,
    }


def dead_messages(
    spark: SparkSession, queue: str, where: str | None, options: dict[str, str]
) -> DataFrame:
    """Return the dead jobs of the queue that match the condition. Raises BadSetting."""
    reader = spark.read.format("quinque").options(**options).option("queue", one_name(queue))
    dead = reader.option("mode", "peek").option("states", "dead").load()
    if where is None:
        return dead
    try:
        chosen = dead.where(where)
        chosen.schema  # noqa: B018 - names are looked up here
    except (AnalysisException, ParseException) as exc:
        raise BadSetting(f"--where {where}: {_first_line(exc)}") from exc
    return chosen


def _first_line(exc: Exception) -> str:
    return next((line for line in str(exc).splitlines() if line.strip()), "is not a condition")


def _in_groups(ids: list[str], size: int) -> Iterator[Iterable[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
