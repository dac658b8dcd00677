"""The columns of the lifecycle record in Spark, and the numbers in them.

Called by   the other tables, spark/jobs/lake.py.
Calls       pyspark.

Not here: what the numbers mean (model/lifecycle.py), the same columns in Arrow (spark/arrow.py).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quinque.model.families import FAMILIES
from quinque.model.lifecycle import Kind, Reason

_COLUMNS: Final[dict[str, DataType]] = {
    "shard": IntegerType(),
    "seq": LongType(),
    "ts": TimestampType(),
    "family": ByteType(),
    "queue": StringType(),
    "message_id": StringType(),
    "kind": ByteType(),
    "reason": ByteType(),
    "consumer_group": StringType(),
    "claim": LongType(),
    "size": IntegerType(),  # of a body in bytes; null unless it was added
}
JOURNAL_RAW: Final = StructType([StructField(name, kind) for name, kind in _COLUMNS.items()])

MESSAGE: Final = ("family", "queue", "message_id", "consumer_group")

# A change in one number that is larger for a later one:  seq << 9 | kind << 5 | reason
REASON_BITS: Final = 5
KIND_BITS: Final = 4
CHANGE_BITS: Final = KIND_BITS + REASON_BITS

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400

ENDS: Final = (Kind.ACKED, Kind.EXPIRED, Kind.REMOVED)


def change() -> Column:
    """The row as one number, which grows with seq and has kind and reason in it."""
    return (
        F.shiftleft(F.col("seq"), CHANGE_BITS)
        + F.shiftleft(F.col("kind").cast("bigint"), REASON_BITS)
        + F.col("reason")
    )


def kind_of(change: Column) -> Column:
    return F.shiftright(change, REASON_BITS).bitwiseAND((1 << KIND_BITS) - 1)


def reason_of(change: Column) -> Column:
    return change.bitwiseAND((1 << REASON_BITS) - 1)


def is_named_worklist() -> Column:
    """Return whether the queue belongs to another family than events, if families are names."""
    return F.col("family").isin([family.name for family in FAMILIES if family.is_worklist])


def is_worklist() -> Column:
    return F.col("family").isin([family.code for family in FAMILIES if family.is_worklist])


def family_name() -> Column:
    return _named({family.code: family.name for family in FAMILIES}, F.col("family"))


def reason_name(reason: Column) -> Column:
    """Return the name of the reason: `lapsed`, `nacked`, …"""
    return _named({word.value: word.name.lower() for word in Reason}, reason)


def millis_between(first: Column, last: Column) -> Column:
    return F.round((F.unix_micros(last) - F.unix_micros(first)) / 1000).cast("bigint")


def utc_floor(when: Column, seconds: int) -> Column:
    """The time at which its minute or hour began in UTC. date_trunc would use the session's zone,
    and some zones are half an hour off."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(when) / seconds) * seconds)


def utc_day(when: Column) -> Column:
    return F.date_from_unix_date(F.floor(F.unix_seconds(when) / DAY_S).cast("int"))


def _named(names: dict[int, str], number: Column) -> Column:
    named = F.lit(None).cast("string")
    for value, name in names.items():
        named = F.when(number == value, F.lit(name)).otherwise(named)
    return named
