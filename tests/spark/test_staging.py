"""Rows as chunks to stage: order, runs, sizes, and what a family refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from quinque.spark.options import WRITE, BadOption, read_options
from quinque.spark.staging import BadRow, Chunk, Stager, check_columns

URL = {"url": "redis://127.0.0.1:1"}
RETRY_MS = -1  # the family's own


def test_plain_bodies_become_one_run_per_chunk() -> None:
    [first, second, third] = staged({"body": [b"%d" % n for n in range(2_500)]})

    assert [chunk.messages for chunk in (first, second, third)] == [1_000, 1_000, 500]
    assert runs(first) == [[0, 0, RETRY_MS, 0, None, [b"%d" % n for n in range(1_000)]]]
    assert bodies([first, second, third]) == [b"%d" % n for n in range(2_500)]


def test_text_is_staged_as_utf8() -> None:
    [chunk] = staged({"body": ["héllo", ""]})

    assert bodies([chunk]) == ["héllo".encode(), b""]


def test_a_part_of_a_batch_has_its_own_bodies() -> None:
    table = pa.record_batch({"body": [b"a", b"bb", b"", b"ccc"]})
    stager = Stager(read_options({"queue": "q"}, WRITE))

    chunks = [*stager.chunks(table.slice(1, 2)), *stager.chunks(table.slice(3)), *stager.rest()]

    assert bodies(chunks) == [b"bb", b"", b"ccc"]


def test_large_bodies_fill_a_chunk_by_their_size() -> None:
    big = b"x" * 700_000

    chunks = staged({"body": [big, b"small", big, b"y" * 3_000_000, b"last"]})

    assert bodies(chunks) == [big, b"small", big, b"y" * 3_000_000, b"last"]
    assert [chunk.messages for chunk in chunks] == [2, 1, 1, 1]


def test_rows_that_are_alike_share_a_run() -> None:
    [chunk] = staged(
        {
            "body": [b"a", b"b", b"c", b"d"],
            "delay_ms": pa.array([None, None, 500, 500], pa.int64()),
            "ttl_ms": pa.array([None, None, None, 60_000], pa.int64()),
        }
    )

    assert runs(chunk) == [
        [0, 0, RETRY_MS, 0, None, [b"a", b"b"]],
        [0, 500, RETRY_MS, 0, None, [b"c"]],
        [60_000, 500, RETRY_MS, 0, None, [b"d"]],
    ]


def test_a_key_makes_a_run_of_one() -> None:
    [chunk] = staged({"body": [b"a", b"b", b"c"], "key": ["k", "k", None]})

    assert [(run[4], run[5]) for run in runs(chunk)] == [
        (b"k", [b"a"]),
        (b"k", [b"b"]),
        (None, [b"c"]),
    ]


def test_at_a_limited_rate_a_chunk_has_what_goes_in_a_second() -> None:
    chunks = staged({"body": [b"%d" % n for n in range(5)]}, {"maxMessagesPerSecond": "2"})

    assert [chunk.messages for chunk in chunks] == [2, 2, 1]


def test_each_queue_gets_its_rows_in_order() -> None:
    stager = Stager(read_options(URL, WRITE))
    batch = pa.record_batch({"body": [b"1", b"2", b"4"], "queue": ["a", "b", "a"]})
    chunks = [*stager.chunks(batch), *stager.rest()]

    assert {chunk.queue: bodies([chunk]) for chunk in chunks} == {
        b"a": [b"1", b"4"],
        b"b": [b"2"],
    }


def test_the_queue_of_the_options_may_be_in_the_rows_too() -> None:
    [chunk] = staged({"body": [b"1", b"2"], "queue": ["q", None]})

    assert (chunk.queue, bodies([chunk])) == (b"q", [b"1", b"2"])
    with pytest.raises(BadRow, match=r"column queue is 'a', and the option queue is 'q'.*drop"):
        staged({"body": [b"1", b"2"], "queue": ["q", "a"]})


def test_options_hold_where_a_row_says_nothing() -> None:
    given = {"ttl": "1h", "delay": "5s", "retry": "0", "maxDeliveries": "3"}

    [chunk] = staged({"body": [b"a"]}, given)

    assert runs(chunk) == [[3_600_000, 5_000, 0, 3, None, [b"a"]]]


def test_an_id_is_for_a_feed_or_an_item() -> None:
    [event] = staged({"body": [b"a"], "id": ["7"]}, {"family": "events", "ttl": "1m"})
    [item] = staged({"body": [b"a"], "id": ["7"]}, {"family": "items"})

    assert runs(event) == [[60_000, 0, 0, 0, b"7", [b"a"]]]
    assert runs(item) == [[0, 0, 0, 0, b"7", [b"a"]]]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"body": [b"a", None]}, {}, "column body is null in row 2 of the task"),
        (
            {"body": [b"a", None], "key": ["x", "y"], "ttl_ms": [None, 5]},
            {},
            "column body is null in row 2 of the task (key 'y', ttl_ms 5)",
        ),
        ({"body": [b"a"], "id": ["x"]}, {}, "column id: the family jobs creates the ids itself"),
        (
            {"body": [b"a"], "key": ["x"]},
            {"family": "events"},
            "the family events does not support unique keys",
        ),
        ({"body": [b"a"], "lane": ["x"]}, {}, "column lane: the family jobs does not support lane"),
        ({"body": [b"a"], "priority": [1]}, {}, "the family jobs does not support priority"),
        ({"body": [b"a"], "delay_ms": [-1]}, {}, "column delay_ms is negative in row 1 of"),
        (
            {"body": [b"a"] * 2, "ttl_ms": [1, 1 << 60]},
            {},
            "column ttl_ms is over 3153600000000 in row 2 of the task (ttl_ms 1152921504606846976)",
        ),
        ({"body": [b"a"] * 2, "key": [None, ""]}, {}, "column key is empty in row 2 of the task"),
        ({"body": [b"a"] * 2, "key": ["x", "k" * 1025]}, {}, "key has more than 1024 bytes in row"),
        ({"body": [b"a"], "id": [b""]}, {"family": "events"}, "column id is empty in row 1 of"),
        ({"body": [b"a"], "queue": [""]}, {"queue": None}, "column queue is empty in row 1 of"),
        ({"body": [b"a"], "delay_ms": [9]}, {"family": "events"}, "column delay_ms: the family ev"),
        ({"body": [b"a"], "retry_ms": [9]}, {"family": "events"}, "column retry_ms: the family ev"),
        (
            {"body": [b"a"], "ttl_ms": [9]},
            {"family": "reliable"},
            "the family reliable does not support it",
        ),
        (
            {"body": [b"a"]},
            {"family": "reliable", "retry": "1m"},
            "column retry_ms: the family rel",
        ),
        ({"body": [b"a"], "id": ["x"]}, {"family": "reliable"}, "reliable creates the ids itself"),
        (
            {"body": [b"a"], "key": ["x"]},
            {"family": "reliable"},
            "the family reliable does not support unique keys",
        ),
        (
            {"body": [b"a"], "key": ["x"]},
            {"family": "items"},
            "items does not support unique keys; see id",
        ),
    ],
)
def test_a_row_that_cannot_be_put_is_refused_by_its_column(
    columns: dict[str, Any], options: dict[str, str], said: str
) -> None:
    with pytest.raises(BadRow) as refusal:
        staged(columns, options)

    assert said in str(refusal.value)


def test_a_row_that_cannot_be_put_is_counted_over_all_batches_of_its_task() -> None:
    stager = Stager(read_options({"queue": "q"}, WRITE))
    list(stager.chunks(pa.record_batch({"body": [b"a", b"b"]})))

    with pytest.raises(BadRow, match="column body is null in row 3 of the task"):
        list(stager.chunks(pa.record_batch({"body": pa.array([None, b"c"], pa.binary())})))


def test_a_null_is_no_value() -> None:
    columns = {"body": [b"a"], "lane": pa.nulls(1, pa.string()), "id": pa.nulls(1, pa.string())}

    [chunk] = staged(columns)

    assert bodies([chunk]) == [b"a"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": StringType()}, "column text cannot be written"),
        ({"body": DoubleType()}, "column body is double and must be string or binary"),
        ({"delay_ms": LongType()}, "a column body (binary or string) is required"),
        ({"body": BinaryType(), "Body": BinaryType()}, "columns body and Body are the same"),
        ({"body": BinaryType(), "_action": StringType()}, "requires the columns _claim and _id"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(fields: dict[str, DataType], said: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])

    with pytest.raises(BadOption) as refusal:
        check_columns(schema, read_options({"queue": "q"}, WRITE))

    assert said in str(refusal.value)


def test_without_any_queue_there_must_be_a_column() -> None:
    schema = StructType([StructField("body", BinaryType())])

    with pytest.raises(BadOption, match="set the option queue, or add a column queue"):
        check_columns(schema, read_options(URL, WRITE))


def staged(columns: dict[str, Any], options: dict[str, str] | None = None) -> list[Chunk]:
    stager = Stager(read_options({"queue": "q", **(options or {})}, WRITE))
    return [*stager.chunks(pa.record_batch(columns)), *stager.rest()]


def runs(chunk: Chunk) -> list[Any]:
    unpacked: list[Any] = msgpack.unpackb(chunk.rows)
    return unpacked


def bodies(chunks: Iterable[Chunk]) -> list[bytes]:
    return [body for chunk in chunks for run in runs(chunk) for body in run[5]]
