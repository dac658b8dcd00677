"""Packed rows as Arrow: the columns, their types, and names that are not text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quinque.spark.options import BadOption
from quinque.spark.schema import COLUMNS, ClaimName, Origin, chosen_columns, rows_as_batch

ORIGIN = Origin("jobs", b"q", 0, "q/0/s/1")
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def test_the_arrow_types_are_those_that_spark_expects() -> None:
    schema = spark_schema()

    batch = rows_as_batch([], ORIGIN, chosen_columns(schema))

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_row_is_shown_in_its_columns() -> None:
    batch = rows_as_batch([packed(row(b"D-1"))], ORIGIN, [column.name for column in COLUMNS])

    [shown] = batch.to_pylist()
    assert shown == {
        "family": "jobs",
        "queue": "q",
        "id": "D-1",
        "body": b"\xffbody",
        "key": "k",
        "attempt": 2,
        "enqueued": datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC),
        "expires": datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC),
        "state": "dead",
        "reason": "too often",
        "headers": None,
        "lane": None,
        "priority": None,
        "shard": 0,
        "_claim": "q/0/s/1",
    }


def test_what_is_not_there_is_null() -> None:
    plain = row(b"D-1", expires_ms=0, reason=b"", key=None)

    batch = rows_as_batch([packed(plain)], Origin("jobs", b"q", 3), ["expires", "reason", "key"])

    assert batch.to_pylist() == [{"expires": None, "reason": None, "key": None}]


def test_names_that_are_not_text_are_shown_with_backslashes() -> None:
    origin = Origin("events", b"q\xff", 0)

    batch = rows_as_batch([packed(row(b"\xfe1"), row(b"2"))], origin, ["queue", "id"])

    assert batch.to_pylist() == [
        {"queue": "q\\xff", "id": "\\xfe1"},
        {"queue": "q\\xff", "id": "2"},
    ]


def test_only_the_columns_asked_for_are_made() -> None:
    schema = StructType([StructField("body", BinaryType()), StructField("id", StringType())])

    batch = rows_as_batch([packed(row(b"1"))] * 2, ORIGIN, chosen_columns(schema))

    assert batch.schema.names == ["body", "id"]
    assert batch.num_rows == 2


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("colour", StringType()), "no column colour"),
        (StructField("body", StringType()), "column body is binary"),
        (StructField("id", StringType(), nullable=False), "column id is string and can be null"),
    ],
)
def test_a_schema_of_other_columns_is_refused(field: StructField, said: str) -> None:
    with pytest.raises(BadOption) as refusal:
        chosen_columns(StructType([field]))

    assert said in str(refusal.value)


@pytest.mark.parametrize("queue", [b"q", b"a/b c%", b"\xff\x00"])
def test_the_name_of_a_claim_can_be_read_back(queue: bytes) -> None:
    name = ClaimName(queue, 3, b"sub/1", 17)

    assert ClaimName.parsed(str(name)) == name


def spark_schema() -> StructType:
    return StructType([StructField(column.name, TYPES[column.sql_type]) for column in COLUMNS])


def row(
    message_id: bytes,
    *,
    expires_ms: int = 1_700_000_001_000,
    reason: bytes = b"too often",
    key: bytes | None = b"k",
) -> list[Any]:
    place = 1_700_000_000_000_005
    terms = [86_400_000, 0, 300_000, 0, 1]
    return [message_id, b"\xffbody", 2, place, expires_ms, 3, 0, 0, 0, reason, key, terms, 1]


def packed(*rows: list[Any]) -> bytes:
    chunk: bytes = msgpack.packb(rows)
    return chunk
