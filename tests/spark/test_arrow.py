"""Entries of the record as tables."""

from __future__ import annotations

from typing import Any

import msgpack
import pyarrow as pa

from quinque.model.lifecycle import Entry, Kind
from quinque.spark.arrow import JOURNAL_SCHEMA, journal_table


def entry(number: int, ids: list[bytes], sizes: list[int] | None = None, **fields: Any) -> bytes:
    made = Entry(
        number, 1_700_000_000_123, Kind.ACKED, 0, 2, b"q", b"", 0, msgpack.packb(ids), None
    )
    if sizes is not None:
        made = made._replace(kind=Kind.ADDED, sizes=msgpack.packb(sizes))
    packed: bytes = msgpack.packb(made._replace(**fields))
    return packed


def test_every_message_of_an_entry_is_a_row() -> None:
    table = journal_table(
        7,
        [
            entry(10, [b"a", b"b"], [100, 0]),
            entry(12, [b"a"], group=b"g", claim=3, reason=6, family=1, queue=b"other"),
        ],
    )

    assert table.schema == JOURNAL_SCHEMA
    assert table.column("seq").to_pylist() == [10, 11, 12]
    assert table.column("shard").to_pylist() == [7, 7, 7]
    assert table.column("ts").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000] * 3
    assert table.column("message_id").to_pylist() == ["a", "b", "a"]
    assert table.column("queue").to_pylist() == ["q", "q", "other"]
    assert table.column("kind").to_pylist() == [1, 1, 3]
    assert table.column("reason").to_pylist() == [0, 0, 6]
    assert table.column("family").to_pylist() == [2, 2, 1]
    assert table.column("consumer_group").to_pylist() == ["", "", "g"]
    assert table.column("claim").to_pylist() == [0, 0, 3]
    assert table.column("size").to_pylist() == [100, 0, None]


def test_rows_before_the_one_that_was_asked_for_are_left_out() -> None:
    entries = [entry(10, [b"a", b"b", b"c"]), entry(13, [b"d"])]

    for start, first in ((1, 10), (10, 10), (12, 12), (13, 13)):
        assert journal_table(0, entries, start).column("seq").to_pylist() == [*range(first, 14)]


def test_no_entries_are_a_table_without_rows() -> None:
    table = journal_table(0, [])

    assert table.num_rows == 0
    assert table.schema == JOURNAL_SCHEMA


def test_names_that_are_no_text_can_be_told_apart() -> None:
    table = journal_table(0, [entry(1, [b"\xff", "ü".encode()], queue=b"\xfe", group=b"\xfd")])

    assert table.column("message_id").to_pylist() == ["\\xff", "ü"]
    assert table.column("queue").to_pylist() == ["\\xfe"] * 2
    assert table.column("consumer_group").to_pylist() == ["\\xfd"] * 2


def test_what_a_store_on_redis_packs_is_the_same() -> None:
    """It has no bytes, only text, and no other lengths."""
    fields = msgpack.unpackb(entry(1, [b"a"], [5]), raw=True)
    fields[8] = msgpack.packb([b"a"], use_bin_type=False)

    table = journal_table(0, [msgpack.packb(fields, use_bin_type=False)])

    assert table.equals(journal_table(0, [entry(1, [b"a"], [5])]))
