"""Data of tasks: what one client puts, another gets, whatever protocol each of them speaks."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.dialects.task_data import from_packed, pack_into
from quinque.model.task_bodies import from_plain, plain

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.binary())
def test_bytes_of_a_resp_client_come_back_as_they_are(data: bytes) -> None:
    assert plain(from_plain(data)) == data


@given(VALUES)
def test_a_value_of_an_iproto_client_comes_back_as_it_is(value: Any) -> None:
    came_back = msgpack.unpackb(pack_into(from_packed(msgpack.packb(value))))

    if isinstance(value, bytes):  # as a string if it can be one, as in Tarantool
        came_back = came_back.encode() if isinstance(came_back, str) else came_back
    assert came_back == value


@given(st.binary())
def test_bytes_of_a_resp_client_are_a_string_or_bytes_to_an_iproto_client(data: bytes) -> None:
    seen = msgpack.unpackb(pack_into(from_plain(data)))

    assert (seen.encode() if isinstance(seen, str) else seen) == data
    assert isinstance(seen, str) == _is_utf8(data)


@given(st.text() | st.binary())
def test_a_string_of_an_iproto_client_is_its_bytes_to_a_resp_client(value: str | bytes) -> None:
    data = value if isinstance(value, bytes) else value.encode()

    assert plain(from_packed(msgpack.packb(value))) == data


@pytest.mark.parametrize("value", [None, 7, 1.5, [1, "two"], {"k": None}, True])
def test_any_other_value_is_its_msgpack_bytes_to_a_resp_client(value: Any) -> None:
    assert plain(from_packed(msgpack.packb(value))) == msgpack.packb(value)


@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 65_535, 65_536])
def test_every_length_has_its_own_header(length: int) -> None:
    text, data = "x" * length, b"\xff" * length

    assert from_packed(msgpack.packb(text)) == text.encode()
    assert msgpack.unpackb(pack_into(text.encode())) == text
    assert from_packed(msgpack.packb(data)) == data
    assert msgpack.unpackb(pack_into(data)) == (data or "")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
