"""Limits on requests: exact, the same however the bytes are cut, and before anything is kept."""

from __future__ import annotations

import tracemalloc
from itertools import product
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.wire.requests import RequestLimits, RequestReader
from tests.model.effort import effort
from tests.wire.streams import Outcome, Requests, array, arrays, cut, places, read, single_bytes

SMALL = RequestLimits(args=3, arg_bytes=10, buffer_bytes=15)
HEADERS = {
    "too many arguments": (
        b"*4\r\n",
        "Protocol error: invalid multibulk length; at most 3 arguments",
    ),
    "too long an argument": (
        b"*1\r\n$11\r\n",
        "Protocol error: invalid bulk length; at most 10 bytes",
    ),
    "too long together": (
        b"*2\r\n$10\r\n0123456789\r\n$6\r\n",
        "Protocol error: a request of more than 15 bytes",
    ),
}


def test_requests_that_are_not_alike_are_read_in_time_that_grows_with_them() -> None:
    """A request of another width at the end, or between each two, costs no look at all others."""
    one, other = array([b"PING"]), array([b"ECHO", b"x"])
    streams = [one * 18_000 + other, (one + other) * 7_000, (one * 63 + other) * 270]

    began_s = process_time()
    counts = [len(RequestReader(RequestLimits()).feed(stream)) for stream in streams]

    assert counts == [18_001, 14_000, 17_280]
    assert process_time() - began_s < 1.0, "of the processor; seconds when every rest is looked at"


def why_refused(args: list[bytes], limits: RequestLimits) -> str:
    """What is wrong with a request, in the order in which its bytes come; empty = nothing."""
    if len(args) > limits.args:
        return f"Protocol error: invalid multibulk length; at most {limits.args} arguments"
    so_far = 0
    for arg in args:
        so_far += len(arg)
        if len(arg) > limits.arg_bytes:
            return f"Protocol error: invalid bulk length; at most {limits.arg_bytes} bytes"
        if so_far > limits.buffer_bytes:
            return f"Protocol error: a request of more than {limits.buffer_bytes} bytes"
    return ""


def expected(requests: Requests, limits: RequestLimits) -> Outcome:
    """Everything up to the first request that is refused."""
    for count, args in enumerate(requests):
        why = why_refused(args, limits)
        if why:
            return Outcome(requests[:count], why, 0)
    return Outcome(requests, "", 0)


@pytest.mark.parametrize("what", HEADERS)
def test_what_is_too_much_is_refused_with_the_last_byte_of_its_header(what: str) -> None:
    header, why = HEADERS[what]
    reader = RequestReader(SMALL)

    assert reader.feed(header[:-1]) == []
    assert reader.broken is None
    assert reader.feed(header[-1:]) == []

    assert str(reader.broken) == why
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize(
    "args", [[b"a", b"b", b"c"], [b"0123456789"], [b"0123456789", b"01234"], [b"", b"", b""]]
)
def test_a_request_that_just_fits_is_read(args: list[bytes]) -> None:
    data = array(args)

    assert read([data], SMALL) == Outcome([args], "", 0)
    assert read(single_bytes(data), SMALL) == Outcome([args], "", 0)


@effort(examples=300)
@given(
    st.lists(st.lists(st.binary(max_size=8), min_size=1, max_size=5), max_size=6),
    st.builds(RequestLimits, st.integers(1, 5), st.integers(0, 8), st.integers(0, 20)),
    places,
)
def test_small_limits_are_exact_wherever_the_bytes_are_cut(
    requests: Requests, limits: RequestLimits, at: list[int]
) -> None:
    data = arrays(requests).data

    assert read([data], limits) == expected(requests, limits)
    assert read(cut(data, at), limits) == expected(requests, limits)
    assert read(single_bytes(data), limits) == expected(requests, limits)


# Where the quick way begins: 127 arguments of 2047 bytes, 256 KiB in all.
@pytest.mark.parametrize("most_args", [126, 127, 128])
@pytest.mark.parametrize("most_arg_bytes", [2_046, 2_047, 2_048])
@pytest.mark.parametrize("most_bytes", [126 * 2_047 - 1, 126 * 2_047, 262_143, 262_144])
def test_limits_are_exact_where_the_quick_way_begins(
    most_args: int, most_arg_bytes: int, most_bytes: int
) -> None:
    limits = RequestLimits(most_args, most_arg_bytes, most_bytes)

    for count, size in product((1, 126, 127, 128), (1, 2_046, 2_047, 2_048)):
        requests = [[b"PING"], [b"x" * size] * count]
        data = arrays(requests).data
        assert read([data], limits) == expected(requests, limits)
        assert read(cut(data, [10, len(data) // 2]), limits) == expected(requests, limits)


def test_a_limit_on_one_request_is_none_on_a_pipeline() -> None:
    """A chunk of the kernel's holds thousands of requests, and may begin inside one."""
    stream = arrays([[b"ECHO", b"0123456789"]] * 1_000)

    assert read(cut(stream.data, [5]), SMALL) == Outcome(stream.requests, "", 0)


@pytest.mark.parametrize(
    "header",
    [
        b"*1048576\r\n",
        b"*1\r\n$67108864\r\n",
        b"*1048576\r\n$67108864\r\n",
        b"*2147483647\r\n",
        b"*1\r\n$9223372036854775807\r\n",
    ],
)
def test_a_header_makes_room_for_nothing_that_has_not_come(header: bytes) -> None:
    reader = RequestReader(RequestLimits())
    tracemalloc.start()

    reader.feed(header)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most_bytes < 16 << 10  # a few small objects and the error; not what was announced


def test_what_has_come_of_an_argument_is_counted_until_the_request_is_whole() -> None:
    reader = RequestReader(RequestLimits())
    counted = []

    for piece in (b"*2\r\n", b"$4\r\nQA", b"DD\r\n", b"$3\r\n", b"a\r\n", b"\r\n"):
        reader.feed(piece)
        counted.append(reader.buffered_bytes)

    assert counted == [0, len(b"$4\r\nQA"), 4, 4 + len(b"$3\r\n"), 4 + len(b"$3\r\na\r\n"), 0]


def test_a_line_may_be_as_long_as_redis_lets_it_be_and_no_longer() -> None:
    longest = b"x" * (64 << 10)
    too_long = Outcome([], "Protocol error: too big inline request", 0)

    assert read([longest + b"\n"]) == Outcome([[longest]], "", 0)
    assert read([longest, b"\n"]) == Outcome([[longest]], "", 0)
    assert read([longest + b"x\n"]) == too_long
    assert read([longest, b"x"]) == too_long
