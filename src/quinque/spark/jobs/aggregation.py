"""Settings of Spark for the aggregation of millions of messages, each for one step of a job.

Called by   build.py, bench/lifecycle_tables.py.
Calls       pyspark.

    of_events     few events of each message, of very many messages
    of_partials   almost as many messages as rows
    PARTIAL_FILES how partials of messages are written

They do not change the contents of a table. bench/lifecycle_tables.py runs with them.

Not here: the aggregations (spark/tables/partials.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

# A shuffled partition of this size fits into the memory of a small executor.
_PARTITION_ROWS: Final = 500_000

# Spark looks into a small map of 65,536 keys before its large one. The small map is full after the
# first messages, and from then on every event is looked up twice.
_OF_EVENTS: Final = {"spark.sql.codegen.aggregate.map.twolevel.enabled": "false"}

# A partial has each message once, and few messages are in two partials: to aggregate before the
# shuffle would make a map of everything and save nothing. From Spark 4.3 on.
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
    """Within this block, Spark aggregates events as suits very many messages with few events
    each."""
    with _set(spark, _OF_EVENTS):
        yield


@contextmanager
def of_partials(spark: SparkSession) -> Iterator[None]:
    """Within this block, Spark merges partials as suits messages that are mostly in one of them."""
    with _set(spark, _OF_PARTIALS):
        yield


@contextmanager
def shuffled(spark: SparkSession, rows: int) -> Iterator[None]:
    """Within this block, Spark shuffles into a number of partitions that suits `rows`, and writes
    times as other readers of Delta tables expect them."""
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
