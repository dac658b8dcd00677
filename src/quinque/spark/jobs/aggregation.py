"""How Spark is told to aggregate millions of messages: settings that hold for one step of a job.

Called by   build.py, bench/lifecycle_tables.py.
Calls       pyspark.

    of_events     few events of each message, of very many messages
    of_partials   almost as many messages as rows
    PARTIAL_FILES how partials of messages are written

None of them changes what is in a table. bench/lifecycle_tables.py runs with them.

Not here: what is aggregated (spark/tables/partials.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

# A shuffled partition of this size fits into the memory of a small executor.
_PARTITION_ROWS: Final = 500_000

# Spark looks into a small map of 65,536 keys before its large one. That is full after the first
# messages, and from then on every event is looked for twice.
_OF_EVENTS: Final = {"spark.sql.codegen.aggregate.map.twolevel.enabled": "false"}

# A partial has a message once, and few messages are in two of them: to aggregate before the shuffle
# makes a map of everything and saves nothing. From Spark 4.3 on.
_OF_PARTIALS: Final = {"spark.sql.execution.bypassPartialAggregation": "true"}

# Spark's own form of times in Parquet, INT96, has no place in a Delta table.
_TIMES: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

# These differ in almost every row. Parquet would begin a dictionary of each and give it up.
_ALL_DIFFERENT: Final = (
    *("message_id", "added", "first_delivered", "last_delivered", "ended"),
    *("first_ack_seq", "last_delivered_seq", "last_change"),
)
PARTIAL_FILES: Final = {f"parquet.enable.dictionary#{name}": "false" for name in _ALL_DIFFERENT}


@contextmanager
def of_events(spark: SparkSession) -> Iterator[None]:
    """Within, Spark aggregates events into partials as suits many messages of few events each."""
    with _set(spark, _OF_EVENTS):
        yield


@contextmanager
def of_partials(spark: SparkSession) -> Iterator[None]:
    """Within, Spark merges partials as suits messages that are mostly in one of them."""
    with _set(spark, _OF_PARTIALS):
        yield


@contextmanager
def shuffled(spark: SparkSession, rows: int) -> Iterator[None]:
    """Within, Spark shuffles into the number of partitions that fits `rows`, and writes times as
    other readers of Delta tables expect them."""
    partitions = str(max(2, rows // _PARTITION_ROWS))
    with _set(spark, {"spark.sql.shuffle.partitions": partitions} | _TIMES):
        yield


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
