"""Replies: every kind of Value in both protocols, byte by byte; any of them as clients see it."""

from __future__ import annotations

import math
from typing import Any, get_args, get_origin

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire.resp import (
    NULL_ARRAY,
    OK,
    Encoded,
    NullArray,
    Push,
    Simple,
    Value,
    Verbatim,
    encode,
    encode_error,
)
from tests.model.effort import effort

# A value, its bytes in RESP2, its bytes in RESP3.
TABLE: dict[str, tuple[Value, bytes, bytes]] = {
    "bulk string": (b"abc", b"$3\r\nabc\r\n", b"$3\r\nabc\r\n"),
    "empty bulk string": (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
    "line break in it": (b"\r\n", b"$2\r\n\r\n\r\n", b"$2\r\n\r\n\r\n"),
    "integer": (42, b":42\r\n", b":42\r\n"),
    "negative integer": (-1, b":-1\r\n", b":-1\r\n"),
    "largest integer": (2**63 - 1, b":9223372036854775807\r\n", b":9223372036854775807\r\n"),
    "true": (True, b":1\r\n", b"#t\r\n"),
    "false": (False, b":0\r\n", b"#f\r\n"),
    "double": (0.1, b"$3\r\n0.1\r\n", b",0.1\r\n"),
    "whole double": (2.0, b"$3\r\n2.0\r\n", b",2.0\r\n"),
    "small double": (-1e-7, b"$6\r\n-1e-07\r\n", b",-1e-07\r\n"),
    "infinity": (math.inf, b"$3\r\ninf\r\n", b",inf\r\n"),
    "minus infinity": (-math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
    "no number": (math.nan, b"$3\r\nnan\r\n", b",nan\r\n"),
    "null": (None, b"$-1\r\n", b"_\r\n"),
    "null array": (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
    "simple string": (OK, b"+OK\r\n", b"+OK\r\n"),
    "empty simple string": (Simple(b""), b"+\r\n", b"+\r\n"),
    "verbatim": (Verbatim(b"a\nb"), b"$3\r\na\nb\r\n", b"=7\r\ntxt:a\nb\r\n"),
    "empty verbatim": (Verbatim(b""), b"$0\r\n\r\n", b"=4\r\ntxt:\r\n"),
    "array": ([b"a", 1], b"*2\r\n$1\r\na\r\n:1\r\n", b"*2\r\n$1\r\na\r\n:1\r\n"),
    "empty array": ([], b"*0\r\n", b"*0\r\n"),
    "map": ({b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
    "map by text": (
        {"ü": 1, "b": None},
        b"*4\r\n$2\r\n\xc3\xbc\r\n:1\r\n$1\r\nb\r\n$-1\r\n",
        b"%2\r\n$2\r\n\xc3\xbc\r\n:1\r\n$1\r\nb\r\n_\r\n",
    ),
    "empty map": ({}, b"*0\r\n", b"%0\r\n"),
    "push": (Push([b"a", 1]), b"*2\r\n$1\r\na\r\n:1\r\n", b">2\r\n$1\r\na\r\n:1\r\n"),
    "encoded": (Encoded(b"*1\r\n:1\r\n"), b"*1\r\n:1\r\n", b"*1\r\n:1\r\n"),
    "empty push": (Push([]), b"*0\r\n", b">0\r\n"),
    "everything in an array": (
        [True, 1.5, None, NULL_ARRAY, OK, Verbatim(b"v"), {b"k": [False]}],
        b"*7\r\n:1\r\n$3\r\n1.5\r\n$-1\r\n*-1\r\n+OK\r\n$1\r\nv\r\n*2\r\n$1\r\nk\r\n*1\r\n:0\r\n",
        b"*7\r\n#t\r\n,1.5\r\n_\r\n_\r\n+OK\r\n=5\r\ntxt:v\r\n%1\r\n$1\r\nk\r\n*1\r\n#f\r\n",
    ),
    "a map in a push": (
        Push([b"p", {b"k": True}]),
        b"*2\r\n$1\r\np\r\n*2\r\n$1\r\nk\r\n:1\r\n",
        b">2\r\n$1\r\np\r\n%1\r\n$1\r\nk\r\n#t\r\n",
    ),
}

_line = st.binary(max_size=20).filter(lambda text: b"\r" not in text and b"\n" not in text)
_values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(
        st.binary(max_size=20),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.booleans(),
        st.none(),
        st.just(NULL_ARRAY),
        _line.map(Simple),
        st.binary(max_size=20).map(Verbatim),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.binary(max_size=4), inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
    ),
    max_leaves=15,
)
values = st.one_of(_values, st.lists(_values, max_size=3).map(Push))


def test_every_kind_of_value_is_in_the_table() -> None:
    kinds = {get_origin(kind) or kind for kind in get_args(Value)}

    assert {type(value) for value, _, _ in TABLE.values()} == kinds


@pytest.mark.parametrize("kind", TABLE)
def test_a_value_has_these_bytes_alone_and_inside_another(kind: str) -> None:
    value, resp2, resp3 = TABLE[kind]

    assert encode(value, 2) == resp2
    assert encode(value, 3) == resp3
    assert encode([value, value], 2) == b"*2\r\n" + resp2 + resp2
    assert encode({b"k": value}, 3) == b"%1\r\n$1\r\nk\r\n" + resp3


@effort(examples=150)
@given(st.lists(values, max_size=2), st.sampled_from((2, 3)))
def test_hiredis_reads_back_what_was_written(replies: list[Value], protocol: int) -> None:
    reader = hiredis.Reader(notEnoughData=...)

    reader.feed(b"".join(encode(value, protocol) for value in replies))

    got = [reader.gets() for _ in replies]
    assert repr(got) == repr([as_read(value, protocol) for value in replies])  # nan != nan
    assert reader.gets() is ...
    assert not reader.has_data()


def test_a_client_can_tell_a_push_from_a_reply() -> None:
    reader = hiredis.Reader()

    reader.feed(encode(Push([b"a"]), 3) + encode([b"a"], 3))

    assert type(reader.gets()) is hiredis.PushNotification
    assert type(reader.gets()) is list


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no such thing", b"-ERR no such thing\r\n"),
        ("", b"-ERR\r\n"),
        ("a\r\nb\nc\rd", b"-ERR a  b c d\r\n"),
        ("ü \udcff", b"-ERR \xc3\xbc \\udcff\r\n"),
    ],
    ids=["plain", "no text", "line breaks", "no UTF-8"],
)
def test_an_error_is_its_code_and_its_text(text: str, line: bytes) -> None:
    assert encode_error("ERR", text) == line


@effort(examples=200)
@given(st.one_of(st.text("\r\n -+ab"), st.text(st.characters(exclude_categories=()))))
def test_an_error_is_one_line_whatever_its_text(text: str) -> None:
    reader = hiredis.Reader(notEnoughData=...)
    line = encode_error("ERR", text)

    reader.feed(line)

    assert line.startswith(b"-ERR")
    assert line.count(b"\r") == line.count(b"\n") == 1
    assert line.endswith(b"\r\n")
    assert isinstance(reader.gets(), hiredis.ReplyError)
    assert reader.gets() is ...


def as_read(value: Value, protocol: int) -> Any:
    """What a client has of it: RESP2 knows neither maps nor doubles nor booleans nor pushes."""
    match value:
        case Simple() | Verbatim():
            return value.text
        case bool():
            return value if protocol == 3 else int(value)
        case float():
            return value if protocol == 3 else repr(value).encode()
        case list():
            return [as_read(item, protocol) for item in value]
        case Push():
            return [as_read(item, protocol) for item in value.items]
        case dict():
            keys = [key.encode() if isinstance(key, str) else key for key in value]
            items = [as_read(item, protocol) for item in value.values()]
            pairs = list(zip(keys, items, strict=True))
            return dict(pairs) if protocol == 3 else [part for pair in pairs for part in pair]
        case NullArray() | None:
            return None
        case bytes() | int():
            return value
