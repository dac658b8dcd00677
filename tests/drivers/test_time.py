"""Drivers have times: the broker's clock calls them, and it is never late for an operation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.drivers.odd_drivers import Timed
from tests.drivers.workshop import TUBE, Workshop


@pytest.fixture
def timed(workshop: Callable[..., Workshop]) -> Workshop:
    return workshop(timed=Timed)


def test_what_is_due_is_true_for_the_next_operation_though_nobody_ticked(timed: Workshop) -> None:
    timed.put(b"a", delay=1)

    timed.clock.advance(999)
    assert timed.take() is None
    timed.clock.advance(1)

    assert timed.take() == (0, "t", b"a")


def test_the_clock_wakes_readers_when_a_delay_is_over(timed: Workshop) -> None:
    timed.put(b"a", delay=1)
    timed.store.commit()
    timed.store.ready.clear()
    assert timed.store.next_due_ms() == timed.store.now_ms() + 1000

    timed.pass_time(1000)

    assert timed.store.ready == {TUBE}
    assert timed.calls() == {"put": 1, "delay": 1}


def test_time_to_run_time_to_live_and_touch_are_the_drivers_own(timed: Workshop) -> None:
    timed.put(b"short", ttl=0.5)
    timed.put(b"long")
    timed.pass_time(500)
    assert timed.peek(0) is None
    timed.take()
    timed.pass_time(900)
    assert timed.touch(1, 500) == (1, "t", b"long")
    timed.pass_time(500)
    assert timed.peek(1) == (1, "t", b"long")
    timed.pass_time(100)

    assert timed.peek(1) == (1, "r", b"long")
    assert timed.ack(1) is None
    assert timed.calls() == {"put": 2, "take": 1, "delete": 1, "touch": 1, "ttl": 1, "ttr": 1}
    assert timed.look().done == 1


def test_what_was_due_while_nobody_was_there_is_done_at_the_start(timed: Workshop) -> None:
    timed.put(b"a", delay=1)
    timed.put(b"b", ttl=1)
    timed.store.commit()
    timed.store.close()
    timed.clock.advance(2000)

    timed.open()

    assert timed.all() == [(0, "r", b"a")]
    assert timed.store.ready == {TUBE}
    timed.reopen()
    assert timed.all() == [(0, "r", b"a")]


def test_much_that_is_due_at_once_is_done_a_little_at_a_time(timed: Workshop) -> None:
    for _ in range(250):
        timed.put(b"x", delay=1)

    timed.pass_time(1000)

    assert timed.look().ready >= 100
    for _ in range(3):
        timed.store.tick()
    assert timed.look().ready == 250
