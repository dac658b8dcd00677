"""Streams of requests: what clients may send, how it may be cut, what a reader makes of it.

Called by   test_request_streams.py, test_request_limits.py.
Calls       wire/requests.py, through `read` only.

Not here: lines of words as Redis reads them (redis_reader.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise

from hypothesis import strategies as st

from quinque.wire.requests import RequestLimits, RequestReader

Requests = list[list[bytes]]

QUICK = RequestLimits()
# One byte less than the quick way needs; nothing made here comes near it.
CAREFUL = RequestLimits(buffer_bytes=(256 << 10) - 1)


@dataclass(frozen=True)
class Stream:
    """Bytes, and the requests that are in them."""

    data: bytes
    requests: Requests


@dataclass(frozen=True)
class Outcome:
    """All that a reader gave, and how it was left. `why` is empty unless it broke."""

    requests: Requests
    why: str
    buffered_bytes: int


def array(args: Sequence[bytes]) -> bytes:
    """A request as clients send it."""
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in args)


def arrays(requests: Iterable[Sequence[bytes]]) -> Stream:
    """A pipeline of requests."""
    kept = [list(args) for args in requests]
    return Stream(b"".join(map(array, kept)), kept)


def joined(streams: Iterable[Stream]) -> Stream:
    """One stream after the other."""
    every = list(streams)
    return Stream(b"".join(it.data for it in every), [r for it in every for r in it.requests])


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The pieces of the data; a place beyond its end counts from its start again."""
    inside = {place % (len(data) + 1) for place in places}
    return [data[start:end] for start, end in pairwise([0, *sorted(inside), len(data)])]


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def read(chunks: Iterable[bytes], limits: RequestLimits = QUICK) -> Outcome:
    """What a new reader makes of the chunks."""
    reader = RequestReader(limits)
    requests = []
    for chunk in chunks:
        requests += reader.feed(chunk)
        while reader.has_more:
            requests += reader.feed(b"")
    why = "" if reader.broken is None else str(reader.broken)
    return Outcome(requests, why, reader.buffered_bytes)


# What a reader could take for something else, and lengths where another way of reading begins.
_args = st.one_of(
    st.sampled_from(
        (b"", b"\r\n", b"\r", b"\n", b"*", b"$", b"*1\r\n", b"$3\r\nabc\r\n", b"a\r\n$1\r\nb", b"Q")
    ),
    st.binary(max_size=12),
    st.tuples(st.sampled_from((1, 2_046, 2_047, 2_048, 2_049, 5_000)), st.binary(min_size=1)).map(
        lambda both: (both[1] * both[0])[: both[0]]
    ),
)  # fmt: skip
_few = st.lists(_args, min_size=1, max_size=6)
_many = st.tuples(st.integers(1, 130), st.lists(st.binary(max_size=5), min_size=1, max_size=7)).map(
    lambda both: list(islice(cycle(both[1]), both[0]))
)
_alike = st.tuples(st.lists(st.binary(max_size=5), min_size=1, max_size=4), st.integers(4, 12)).map(
    lambda both: [both[0]] * both[1]
)

pipelines = st.one_of(st.lists(_few, max_size=4), st.lists(_many, max_size=2), _alike).map(arrays)
lines = st.sampled_from(
    (
        Stream(b"PING\r\n", [[b"PING"]]),
        Stream(b"PING\n", [[b"PING"]]),
        Stream(b" QADD\tq 60  body \r\n", [[b"QADD", b"q", b"60", b"body"]]),
        Stream(b'ECHO "a b" \'c\' ""\r\n', [[b"ECHO", b"a b", b"c", b""]]),
        Stream(b"$3\r\n", [[b"$3"]]),
        Stream(b" *1\r\n", [[b"*1"]]),
        Stream(b'ECHO "\\r\\n*1"\r\n', [[b"ECHO", b"\r\n*1"]]),
    )
)
nothings = st.sampled_from(
    [Stream(it, []) for it in (b"*0\r\n", b"*-1\r\n", b"\r\n", b"\n", b" \t\r\n")]
)
streams = st.lists(st.one_of(pipelines, lines, nothings), max_size=5).map(joined)
places = st.lists(st.integers(0, 20_000), max_size=6)
