"""A broker's clock follows that of Redis."""

from __future__ import annotations

import pytest

from quinque.stores.redis.clock import FollowingClock

SECOND_US = 1_000_000


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The machine's monotonic clock, in µs: a test may move it."""
    now_us = [0]
    monkeypatch.setattr("time.monotonic_ns", lambda: now_us[0] * 1000)
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000 * SECOND_US * 1000)
    return now_us


def test_it_is_set_forward_at_once(passing: list[int]) -> None:
    clock = FollowingClock()
    there_us = clock.now_us() + 3600 * SECOND_US

    clock.follow(there_us, took_us=2000)
    assert clock.now_us() == there_us


def test_it_is_set_back_slowly_and_never_goes_back(passing: list[int]) -> None:
    clock = FollowingClock()
    ahead_us = SECOND_US
    start_us = latest_us = clock.now_us()
    for second in range(1, 21):
        passing[0] += SECOND_US
        clock.follow(start_us - ahead_us + second * SECOND_US, took_us=0)
        assert clock.now_us() > latest_us
        latest_us = clock.now_us()

    assert clock.now_us() == start_us - ahead_us + 20 * SECOND_US


def test_a_difference_that_the_way_explains_changes_nothing(passing: list[int]) -> None:
    clock = FollowingClock()
    now_us = clock.now_us()

    clock.follow(now_us - 900, took_us=2000)
    clock.follow(now_us - 1100, took_us=2000)
    assert clock.now_us() == now_us


def test_after_a_long_way_it_moves_no_further_than_is_sure(passing: list[int]) -> None:
    clock = FollowingClock()
    now_us = clock.now_us()

    clock.follow(now_us + 1, took_us=SECOND_US)
    assert clock.now_us() == now_us + 1


def test_it_starts_no_earlier_than_what_is_known(passing: list[int]) -> None:
    clock = FollowingClock()
    later_us = clock.now_us() + SECOND_US

    clock.start_from(later_us)
    assert clock.now_us() == later_us
