"""Rows and chunks: how many go into one, and what is kept of it beside."""

from __future__ import annotations

import pytest

from quinque.engine.claims.rows import ROW_BYTES, chunk_sizes, make_chunk, pack, unpack
from quinque.model.rows import CHUNK_BYTES_MOST, CHUNK_ROWS_MOST
from tests.engine.claims.steps import Scene
from tests.engine.work.steps import add


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], []),
        ([10], [1]),
        ([1] * CHUNK_ROWS_MOST, [CHUNK_ROWS_MOST]),
        ([1] * (CHUNK_ROWS_MOST + 1), [CHUNK_ROWS_MOST, 1]),
        ([CHUNK_BYTES_MOST, CHUNK_BYTES_MOST], [1, 1]),
        ([CHUNK_BYTES_MOST // 2 - ROW_BYTES] * 4, [2, 2]),
        ([2 * CHUNK_BYTES_MOST, 1, 1], [1, 2]),
        ([1, 2 * CHUNK_BYTES_MOST, 1], [1, 1, 1]),
    ],
)
def test_a_chunk_takes_as_many_as_fit(lengths: list[int], expected: list[int]) -> None:
    assert chunk_sizes([bytes(length) for length in lengths]) == expected


def test_what_is_kept_of_a_chunk(scene: Scene) -> None:
    add(scene.queue, 2)
    add(scene.queue, key=b"k")
    claim = scene.fill(1, 3)

    (chunk,) = claim.in_order()

    assert unpack(chunk.ids) == [b"1000", b"1001", b"1002"]
    assert (chunk.messages, chunk.body_bytes) == (3, 12)
    assert (chunk.least_place, chunk.most_place) == (1000, 1002)
    assert chunk.keys == {b"k": b"1002"}


def test_rows_packed_as_text_are_read_as_well() -> None:
    row = ["id", "body", 1, 7, 0, 0, 0, 0, 0, "", None, None, 0]
    packed = pack([row])

    rows = unpack(packed)
    chunk = make_chunk(0, rows, packed, 0)

    assert rows[0][:2] == [b"id", b"body"]
    assert unpack(chunk.ids) == [b"id"]
