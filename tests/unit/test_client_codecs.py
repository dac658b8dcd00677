"""Bodies that make no sense are said to make none, whatever is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quinque.client.codecs import codec_of
from quinque.errors import BadArgument


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        ("json", b""),
        ("json", b"\xff"),
        ("json", b"[" * 100_000),
        ("msgpack", b""),
        ("msgpack", b"\xc1"),
        ("msgpack", b"\x01\x01"),
        ("msgpack", b"\x81\x91\x01\x01"),  # a list for a key
        ("msgpack", b"\x91" * 100_000),
    ],
)
def test_a_body_that_makes_no_sense(codec: str, body: bytes) -> None:
    with pytest.raises(BadArgument, match="the body is not"):
        codec_of(codec).decode(body)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_value_that_cannot_be_said(codec: str) -> None:
    endless: list[object] = []
    endless.append(endless)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (object(), endless, deep, "\ud800", 1 << 70 if codec == "msgpack" else {(): 1}):
        with pytest.raises(BadArgument, match="cannot encode this body as"):
            codec_of(codec).encode(value)


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        (json, "the codec json has no method encode"),
        (json.JSONEncoder(), "the codec JSONEncoder has no method decode"),
        (None, "the codec NoneType has no method encode"),
    ],
)
def test_an_object_that_is_no_codec_is_refused_before_it_is_used(codec: Any, said: str) -> None:
    with pytest.raises(BadArgument, match=f"^{said}: use the name of a codec"):
        codec_of(codec)
