"""The reader of requests: what it says is wrong, and what it does with long ones."""

from __future__ import annotations

import pytest

from quinque.wire.requests import RequestLimits, RequestReader
from tests.wire.streams import array

LIMITS = RequestLimits()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length; at most 1048576 arguments"),
        (b"*9223372036854775808\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"*" + b"1" * 40, "too big mbulk count string"),
        (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
        (b"*1\r\n\r\n", "expected '$', got '\r'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$67108865\r\n", "invalid bulk length; at most 67108864 bytes"),
        (b"*1\r\n$1x\r\n", "invalid bulk length"),
        (b"*1\r\n$" + b"1" * 40, "too big bulk count string"),
        (b'"unbalanced\r\n', "unbalanced quotes in request"),
        (b"x" * 65_537, "too big inline request"),
        (b"x" * 65_537 + b"\r\n", "too big inline request"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_read_after_it(data: bytes, why: str) -> None:
    reader = RequestReader(LIMITS)

    assert reader.feed(array([b"PING"]) + data) == [[b"PING"]]

    assert str(reader.broken).startswith(f"Protocol error: {why}")
    assert reader.broken is not None
    assert reader.broken.closes
    assert reader.feed(array([b"PING"])) == []


def test_a_request_that_is_too_much_in_all_is_no_request_at_all() -> None:
    """Its last argument takes it over the limit."""
    reader = RequestReader(RequestLimits(args=5, arg_bytes=20, buffer_bytes=50))

    assert reader.feed(array([b"x" * 20] * 3)) == []

    assert reader.broken is not None


def test_limits_may_be_set_while_it_reads() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(array([b"x"] * 10))

    reader.set_limits(RequestLimits(args=5))

    assert reader.feed(array([b"x"] * 10)) == []
    assert reader.broken is not None


def test_a_long_argument_in_small_pieces_is_put_together_once() -> None:
    """Looking at all that came so far with each piece would take the square of its length."""
    reader = RequestReader(LIMITS)
    reader.feed(b"*1\r\n$1000000\r\n")

    for _ in range(1_000):
        reader.feed(b"x" * 1_000)
        assert len(reader._rest) > 1
    assert reader.feed(b"\r\n") == [[b"x" * 1_000_000]]


def test_the_two_bytes_after_an_argument_are_not_looked_at() -> None:
    """As in Redis, which skips them."""
    reader = RequestReader(LIMITS)

    assert reader.feed(b"*1\r\n$3\r\nabcXY" + array([b"PING"])) == [[b"abc"], [b"PING"]]


@pytest.mark.parametrize("small", [b"\r\n", b"\n", b" \n", b"*0\r\n", b"*-1\r\n", b"PING\n"])
def test_small_requests_are_read_some_at_a_time(small: bytes) -> None:
    """Each costs a microsecond, and 256 KB can be a quarter of a million of them."""
    reader = RequestReader(LIMITS)
    found = reader.feed(small * 10_000 + array([b"END"]) + b"*1\r\n$4\r\nPI")

    times = 1
    while reader.has_more:
        reader.refuse_large(10, 100)  # which none of these is
        found += reader.feed(b"")
        times += 1

    assert times == 3
    assert found == [[b"PING"]] * (10_000 if b"PING" in small else 0) + [[b"END"]]
    assert reader.feed(b"NG\r\n") == [[b"PING"]]
    assert reader.broken is None


MANY = 20_000
WORDY = {
    "one request": (array([b"x"] * MANY), [[b"x"] * MANY]),
    "requests": (array([b""] * 100) * (MANY // 100), [[b""] * 100] * (MANY // 100)),
    "lines": (b"x " * 5_000 + b"\n", [[b"x"] * 5_000]),
}


@pytest.mark.parametrize("wordy", WORDY)
def test_words_are_read_some_at_a_time(wordy: str) -> None:
    """256 KB can be 40,000 of them, in a few requests, and take 25 ms."""
    data, wanted = WORDY[wordy]
    times = MANY // sum(map(len, wanted))
    reader = RequestReader(LIMITS)
    reader.feed(b"*1\r\n$4\r\nPI")  # as most chunks of a long stream end
    found = reader.feed(b"NG\r\n" + data * times + array([b"END"]) + b"*1\r\n$4\r\nPI")

    pauses = 0
    while reader.has_more:
        found += reader.feed(b"")
        pauses += 1

    assert pauses == 2
    assert found == [[b"PING"], *wanted * times, [b"END"]]
    assert reader.feed(b"NG\r\n") == [[b"PING"]]


def test_escapes_are_read_some_at_a_time() -> None:
    """Each takes as long as a word, and a line can have 32,000 of them."""
    line = b'"' + rb"\x41" * 5_000 + b'"\n'
    reader = RequestReader(LIMITS)
    found = reader.feed(line * 4 + array([b"END"]))

    counts = [reader.escapes]
    while reader.has_more:
        found += reader.feed(b"")
        counts.append(reader.escapes)

    assert counts == [10_000, 10_000, 0]
    assert found == [[b"A" * 5_000]] * 4 + [[b"END"]]


def test_a_request_of_many_words_is_refused_before_all_of_them_are_read() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(array([b"x"] * MANY))
    assert reader.has_more

    reader.refuse_large(10, 1 << 20)

    assert reader.broken is not None
    assert not reader.has_more


def test_requests_of_few_words_are_not_refused_while_there_are_more() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(b"*")
    found = reader.feed(array([b"x"] * 10)[1:] + array([b"x"] * 10) * (MANY // 10))

    while reader.has_more:
        reader.refuse_large(10, 1_000)  # which none of these is
        found += reader.feed(b"")

    assert found == [[b"x"] * 10] * (1 + MANY // 10)


def test_bytes_that_come_while_there_are_more_are_read_after_those() -> None:
    reader = RequestReader(LIMITS)
    found = reader.feed(b"\n" * 5_000 + array([b"1"]))
    assert reader.has_more

    found += reader.feed(array([b"2"]))

    assert found == [[b"1"], [b"2"]]
    assert not reader.has_more


def test_broken_bytes_end_what_there_is_more() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(b"\n" * 5_000 + b"*x\r\n" + b"\n" * 5_000)

    assert reader.feed(b"") == []

    assert reader.broken is not None
    assert not reader.has_more
