"""Streams of arrays, lines and broken bytes: the same requests and the same verdict, however cut.

Each stream is read the quick way and the careful way (limits that the quick way does not know),
whole and in pieces. What must come of it is known from how it was made, or from hiredis.
"""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire.requests import RequestLimits, RequestReader
from tests.model.effort import effort
from tests.wire.streams import (
    CAREFUL,
    QUICK,
    Outcome,
    Stream,
    array,
    arrays,
    cut,
    pipelines,
    places,
    read,
    single_bytes,
    streams,
)

# Bytes that break any stream at once, and what is said of them.
BROKEN = {
    b"*x\r\n": "invalid multibulk length; at most 1048576 arguments",
    b"*\r\n": "invalid multibulk length; at most 1048576 arguments",
    b"*01\r\n": "invalid multibulk length; at most 1048576 arguments",
    b"*1\r\n:1\r\n": "expected '$', got ':'",
    b"*2\r\n$1\r\na\r\n*1\r\n": "expected '$', got '*'",
    b"*1\r\n$x\r\n": "invalid bulk length; at most 67108864 bytes",
    b"*1\r\n$\r\n": "invalid bulk length; at most 67108864 bytes",
    b"*1\r\n$-1\r\n": "invalid bulk length; at most 67108864 bytes",
    b"*" + b"1" * 31: "too big mbulk count string",
    b"*1\r\n$" + b"1" * 31: "too big bulk count string",
    b'ECHO "a\r\n': "unbalanced quotes in request",
    b"ECHO 'a'b\r\n": "unbalanced quotes in request",
}
# What a careless client or a hostile one does to a stream: these bytes instead of some others.
spoils = st.lists(
    st.tuples(
        st.integers(0, 20_000),
        st.integers(0, 4),
        st.sampled_from((b"", b"\r", b"\n", b"\r\n", b"*", b"$", b"-", b"0", b"9", b'"', b"\0")),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip


@pytest.mark.parametrize(("limits", "is_quick"), [(QUICK, True), (CAREFUL, False)])
def test_these_limits_choose_the_way_of_reading(limits: RequestLimits, is_quick: bool) -> None:
    """Or else the tests below would compare a way of reading with itself."""
    assert RequestReader(limits)._is_quick is is_quick


@effort(examples=200)
@given(streams, places)
def test_a_stream_holds_its_requests_wherever_it_is_cut(stream: Stream, at: list[int]) -> None:
    expected = Outcome(stream.requests, "", 0)

    assert read([stream.data]) == expected
    assert read([stream.data], CAREFUL) == expected
    assert read(cut(stream.data, at)) == expected
    assert read(cut(stream.data, at), CAREFUL) == expected


@effort(examples=60)
@given(streams)
def test_a_stream_holds_its_requests_byte_by_byte(stream: Stream) -> None:
    assert read(single_bytes(stream.data)) == Outcome(stream.requests, "", 0)


@effort(examples=200)
@given(streams, st.sampled_from(sorted(BROKEN)), streams, places)
def test_what_precedes_broken_bytes_is_given_and_nothing_that_follows_them(
    before: Stream, broken: bytes, after: Stream, at: list[int]
) -> None:
    data = before.data + broken + after.data
    expected = Outcome(before.requests, f"Protocol error: {BROKEN[broken]}", 0)

    assert read([data]) == expected
    assert read([data], CAREFUL) == expected
    assert read(cut(data, at)) == expected


@effort(examples=300)
@given(streams, spoils, places)
def test_a_spoilt_stream_is_read_the_same_wherever_it_is_cut(
    stream: Stream, spoilt: list[tuple[int, int, bytes]], at: list[int]
) -> None:
    data = stream.data
    for place, gone, instead in spoilt:
        start = place % (len(data) + 1)
        data = data[:start] + instead + data[start + gone :]

    whole = read([data])

    assert all(args for args in whole.requests), "a request has a name"
    assert read([data], CAREFUL) == whole
    assert read(cut(data, at)) == whole
    assert read(cut(data, at), CAREFUL) == whole


@effort(examples=200)
@given(st.binary(max_size=200), places)
def test_any_bytes_at_all_are_read_the_same_wherever_they_are_cut(
    data: bytes, at: list[int]
) -> None:
    whole = read([data])

    assert read([data], CAREFUL) == whole
    assert read(cut(data, at)) == whole
    assert read(single_bytes(data)) == whole


@effort(examples=150)
@given(pipelines, places)
def test_each_piece_completes_the_requests_that_hiredis_says_it_does(
    stream: Stream, at: list[int]
) -> None:
    ours, theirs = RequestReader(QUICK), hiredis.Reader(notEnoughData=None)

    for piece in cut(stream.data, at):
        theirs.feed(piece)
        assert ours.feed(piece) == list(iter(theirs.gets, None))

    assert ours.buffered_bytes == 0
    assert not theirs.has_data()


def test_every_part_of_a_stream_holds_the_requests_that_ended_in_it() -> None:
    requests = [[b"PING"], [b"ECHO", b""], [b"QADD", b"q", b"60", b"a\r\nb"], [b"x" * 2_050]]
    stream = arrays(requests)
    ends = [len(arrays(requests[:count]).data) for count in range(len(requests) + 1)]

    for limits in (QUICK, CAREFUL):
        for size in range(len(stream.data) + 1):
            outcome = read([stream.data[:size]], limits)
            ended = max(count for count, end in enumerate(ends) if end <= size)
            assert outcome.requests == requests[:ended]
            assert outcome.buffered_bytes <= size - ends[ended]


def test_a_pipeline_longer_than_the_quick_way_takes_is_read_all_the_same() -> None:
    stream = arrays([[b"QADD", b"q", b"60", b"%d" % number] for number in range(10_000)])
    assert len(stream.data) > 256 << 10

    assert read([stream.data]) == Outcome(stream.requests, "", 0)


def test_a_broken_reader_gives_nothing_whatever_it_is_fed() -> None:
    reader = RequestReader(QUICK)
    reader.feed(b"*x\r\n")
    first = reader.broken

    for data in (array([b"PING"]), b"PING\r\n", b"*y\r\n", b""):
        assert reader.feed(data) == []

    assert reader.broken is first
    assert reader.buffered_bytes == 0
