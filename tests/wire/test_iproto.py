"""Packets of Tarantool's protocol: the same requests however the bytes are cut, and one verdict on
what is none."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire import iproto
from quinque.wire.iproto import Packet, PacketLimits, PacketReader
from tests.model.effort import effort
from tests.wire.streams import cut, places, single_bytes

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 99), inner, max_size=4)
    ),
    max_leaves=8,
)
requests = st.tuples(
    st.sampled_from([iproto.CALL]) | st.integers(0, 0x7F),
    st.integers(0, 200) | st.integers(0, (1 << 64) - 1),
    st.lists(values, max_size=4) | st.tuples(values, st.just({})).map(list),
    st.sampled_from(["queue.tube.a:put", "x" * 40, ""]),
    st.sampled_from(["", ">B", ">H", ">I", ">Q"]),
)


def packet(kind: int, sync: int, args: list[Any], function: str = "f", length: str = ">I") -> bytes:
    """A request as a client sends it, with its length written so."""
    # As asynctnt puts them, and as others do.
    is_short = length == ">I"
    header: bytes = msgpack.packb({0: kind, 1: sync} if is_short else {0: kind, 1: sync, 5: 0})
    parts = [(0x22, function), (0x21, args)]
    body: bytes = msgpack.packb(dict(parts if is_short else reversed(parts)))
    size = len(header) + len(body)
    first = {"": b"", ">B": b"\xcc", ">H": b"\xcd", ">I": b"\xce", ">Q": b"\xcf"}[length]
    width = {"": 1, ">B": 1, ">H": 2, ">I": 4, ">Q": 8}[length]
    if size >= 1 << (7 if not length else 8 * width):
        return packet(kind, sync, args, function)
    return first + size.to_bytes(width, "big") + header + body


def shown(read: Packet) -> tuple[int, int, list[bytes], dict[int, bytes]]:
    return read.kind, read.sync, read.args, read.body


def fed(chunks: Iterable[bytes], limits: PacketLimits | None = None) -> tuple[list[Any], str]:
    """The requests in the chunks, and what is wrong with them."""
    reader = PacketReader(limits or PacketLimits())
    found = [shown(one) for chunk in chunks for one in reader.feed(chunk)]
    return found, "" if reader.broken is None else str(reader.broken)


def fed_carefully(data: bytes) -> tuple[list[Any], str]:
    """The same, under a limit that the quick way of reading does not know."""
    found, why = fed([data], PacketLimits(arg_bytes=511))
    # Only what is longer than any short argument may be refused by that limit.
    return fed([data]) if "an argument of more than 511 bytes" in why else (found, why)


@effort(40)
@given(st.lists(requests, max_size=6), places)
def test_requests_are_the_same_however_they_are_cut(
    made: list[tuple[int, int, list[Any], str, str]], at: list[int]
) -> None:
    data = b"".join(packet(*one) for one in made)

    whole = fed([data])

    assert whole == fed(cut(data, at)) == fed(single_bytes(data)) == fed_carefully(data)
    assert whole == (
        [
            (kind, sync, [msgpack.packb(arg) for arg in args], {0x22: msgpack.packb(function)})
            for kind, sync, args, function, _ in made
        ],
        "",
    )


@effort(120)
@given(
    st.binary(max_size=200)
    | st.lists(values, max_size=5).map(lambda some: bytes(b"".join(map(msgpack.packb, some)))),
    places,
)
def test_anything_is_read_or_refused_alike(data: bytes, at: list[int]) -> None:
    assert fed([data]) == fed(cut(data, at)) == fed(single_bytes(data)) == fed_carefully(data)


@effort(60)
@given(st.lists(requests, min_size=1, max_size=3), st.integers(0, 5000), st.integers(0, 255))
def test_a_spoilt_byte_breaks_nothing_but_the_stream(
    made: list[tuple[int, int, list[Any], str, str]], at: int, byte: int
) -> None:
    good = [packet(*one) for one in made]
    data = bytearray(b"".join(good))
    data[at % len(data)] = byte
    whole = sum(sum(map(len, good[: number + 1])) <= at % len(data) for number in range(len(good)))

    found, why = fed([bytes(data)])

    assert (found, why) == fed_carefully(bytes(data))
    assert found[:whole] == fed(good[:whole])[0]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xa1", "the length of a packet is not a number"),
        (b"\xff\x00", "the length of a packet is not a number"),
        (b"\xcf" + b"\xff" * 8, "a packet of more than 134217728 bytes"),
        (b"\x00", "Invalid MsgPack - packet"),
        (b"\x01\xc0", "Invalid MsgPack - packet"),
        (b"\x01\x80", "Invalid MsgPack - packet"),
        (b"\x03\x81\x00\xc1", "Invalid MsgPack - packet"),
        (b"\x04\x81\x00\x40\x01", "Invalid MsgPack - packet"),
        (b"\x05\x81\x00\x40\x80\x80", "Invalid MsgPack - packet"),
        (b"\x06\x82\x00\x40\x01\xff\x80", "Invalid MsgPack - packet"),
        (b"\x05\xdf\xff\xff\xff\xff", "Invalid MsgPack - packet"),
        (b"\x06\x81\x00\x0a\x81\x21\x01", "Invalid MsgPack - packet"),
        (b"\x0a\x81\x00\x0a\x81\x21\xdd\xff\xff\xff\xff", "a call with more than 1048576"),
        (b"\x0a\x81\x00\x0a\x81\x21\xdd\x00\x00\xff\xff", "Invalid MsgPack - packet"),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, why: str) -> None:
    good = packet(iproto.PING, 1, [])

    found, broken = fed([good + data, good])

    assert len(found) == 1
    assert broken.startswith(f"Protocol error: {why}")


def test_limits_are_kept() -> None:
    small = PacketLimits(args=2, arg_bytes=10, packet_bytes=60)

    assert fed([packet(10, 1, ["a" * 8, 2])], small)[1] == ""
    assert "more than 2 arguments" in fed([packet(10, 1, [1, 2, 3])], small)[1]
    assert "an argument of more than 10 bytes" in fed([packet(10, 1, ["a" * 10])], small)[1]
    assert "a packet of more than 60 bytes" in fed([packet(10, 1, ["a" * 60])], small)[1]


def test_deep_values_are_refused() -> None:
    nested = b"\x91" * 5000 + b"\xc0"
    data = b"\x81\x00\x0a\x81\x21\x91" + nested

    assert "Invalid MsgPack" in fed([b"\xce" + len(data).to_bytes(4, "big") + data])[1]


def test_a_large_packet_leaves_the_next_ones_as_they_are() -> None:
    large = packet(10, 1, ["x" * 200_000, {"a": b"\xff" * 70_000}])
    small = packet(10, 2, [1])

    found, broken = fed(cut(large + small, [100_000, 200_000]))

    assert not broken
    assert [(sync, len(args)) for _, sync, args, _ in found] == [(1, 2), (2, 1)]


def test_a_request_may_have_no_body() -> None:
    found, broken = fed([b"\x05\x82\x00\x40\x01\x07"])

    assert (found, broken) == ([(iproto.PING, 7, [], {})], "")


def test_the_greeting_is_as_clients_check_it() -> None:
    salt = bytes(range(32))

    text = iproto.greeting("0f2bd1a5-9c94-41f8-8a9e-f7fbbd8bb4de", salt)

    assert len(text) == 128
    assert text[:26] == b"Tarantool 2.11.0 (Binary) "
    assert text[63:64] == text[127:] == b"\n"
    assert b64decode(text[64:108]) == salt


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 300))
def test_replies_have_fixed_places(sync: int, code: int) -> None:
    good = iproto.reply(sync, b"\x80")
    bad = iproto.error_reply(sync, code, "Tube ü")

    for answer, status in ((good, 0), (bad, 0x8000 | code)):
        unpacker = msgpack.Unpacker(strict_map_key=False)
        unpacker.feed(answer)
        assert answer[0] == 0xCE
        assert unpacker.unpack() == len(answer) - 5
        assert unpacker.unpack() == {0: status, 1: sync, 5: 1}
        body = unpacker.unpack()
        assert body.get(0x31, "") == ("Tube ü" if status else "")
        assert iproto.sync_of(answer) == sync


def test_many_packets_are_read_some_at_a_time() -> None:
    reader = PacketReader(PacketLimits())
    last = packet(iproto.CALL, 2, [])
    found = reader.feed(packet(iproto.PING, 1, []) * 10_000 + last[:5])

    times = 1
    while reader.has_more:
        found += reader.feed(b"")
        times += 1

    assert times == 3
    assert [each.sync for each in found + reader.feed(last[5:])] == [1] * 10_000 + [2]
    assert reader.broken is None
