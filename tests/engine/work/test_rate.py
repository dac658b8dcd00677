"""A limit on how fast: so many at once, filled up again evenly, and never more than that."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.engine.work.rate import Rate
from tests.model.effort import effort

NOW_MS = 1_700_000_000_000


def test_a_new_bucket_is_full() -> None:
    rate = Rate(5, 1_000)

    assert rate.room(NOW_MS) == 5


def test_it_fills_evenly() -> None:
    rate = Rate(4, 1_000)
    rate.take(4, NOW_MS)

    rooms = [rate.room(NOW_MS + ms) for ms in (0, 249, 250, 499, 500, 999, 1_000, 9_999)]

    assert rooms == [0, 0, 1, 1, 2, 3, 4, 4]
    assert rate.next_ms() == NOW_MS + 250


@effort(examples=300)
@given(
    count=st.integers(1, 1_000),
    span_ms=st.integers(1, 100_000),
    steps=st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 50)), min_size=1, max_size=30),
)
def test_it_lets_through_what_an_exact_bucket_would_and_at_most_a_millisecond_later(
    count: int, span_ms: int, steps: list[tuple[int, int]]
) -> None:
    rate = Rate(count, span_ms)
    tokens, now_ms = Fraction(count), NOW_MS
    for wait_ms, wanted in steps:
        now_ms += wait_ms
        tokens = min(Fraction(count), tokens + Fraction(count * wait_ms, span_ms))
        a_millisecond = Fraction(count, span_ms)

        room = rate.room(now_ms)

        assert room <= tokens
        assert room > tokens - a_millisecond - 1
        taken = min(wanted, room)
        if taken:
            rate.take(taken, now_ms)
            tokens -= taken


@pytest.mark.parametrize(("count", "span_ms"), [(1, 1), (1, 60_000), (3, 1_000), (7, 1_000)])
def test_it_says_when_there_is_room_again(count: int, span_ms: int) -> None:
    rate = Rate(count, span_ms)
    rate.take(count, NOW_MS)

    for _ in range(20):
        at_ms = rate.next_ms()
        assert rate.room(at_ms) >= 1
        assert rate.room(at_ms - 1) == 0
        rate.take(rate.room(at_ms), at_ms)
