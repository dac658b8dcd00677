"""What time does to tasks: each row of the table of timers, to the millisecond.

moment            what is due next
put               its end, after ttl
put with delay    it is ready after the delay; its end is later by that
take              ready after ttr, or its end if that is sooner (fifottl, limfifottl)
release, bury     its end
release, delayed  it is ready after the delay; its end is later by that
kick              its end
touch             both are later by that
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from quinque.model.limits import NEVER_MS
from quinque.model.tube_ops import FOREVER_MS
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    BURIED,
    DELAYED,
    GONE,
    READY,
    TAKEN,
    TUBE,
    ack,
    begin,
    bury,
    calls,
    counts,
    delete,
    kick,
    kick_these,
    peek,
    put,
    put_one,
    release,
    return_all,
    state,
    take,
    touch,
)
from tests.conformance.words import tick

WITH_TIMES: Final = (b"fifottl", b"utubettl")
WITH_ENDS_WHILE_TAKEN: Final = (b"fifottl", b"limfifottl")
ID: Final = b"0"


def becomes(store: Store, clock: ManualClock, after_ms: int, wanted: object) -> None:
    """The task is something else in that millisecond, and not in the one before."""
    clock.advance(after_ms - 1)
    before = state(store, ID)
    clock.advance(1)

    assert state(store, ID) == wanted
    assert before != wanted, "it was so already"


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_task_is_gone_when_its_ttl_is_over(store: Store, clock: ManualClock, kind: bytes) -> None:
    begin(store, kind, ttl_ms=700)
    put(store, b"the tube's ttl")
    becomes(store, clock, 700, GONE)
    assert take(store) == []
    assert calls(store) == {"put": 1, "ttl": 1, "delete": 1}
    assert counts(store) == (0, 0, 0, 0, 1)

    own = put_one(store, b"its own", ttl_ms=100)
    clock.advance(99)
    assert state(store, own) == READY
    clock.advance(1)
    assert take(store) == []
    assert counts(store) == (0, 0, 0, 0, 2)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_ttl_of_nothing_ends_at_once(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=0)

    assert take(store) == []
    assert state(store, ID) is GONE
    assert counts(store) == (0, 0, 0, 0, 1)
    assert calls(store) == {"put": 1, "ttl": 1, "delete": 1}


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_delay_lengthens_the_ttl(store: Store, clock: ManualClock, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=100, delay_ms=400)
    assert take(store) == []

    becomes(store, clock, 400, READY)
    assert calls(store) == {"put": 1, "delay": 1}
    becomes(store, clock, 100, GONE)
    assert calls(store) == {"put": 1, "delay": 1, "ttl": 1, "delete": 1}


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_task_comes_back_to_its_place_when_its_ttr_is_over(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind, ttr_ms=500, width=5)
    put(store, b"a", b"b", b"c")
    put(store, b"d", ttr_ms=200)
    assert take(store, 4) == [b"0", b"1", b"2", b"3"]
    ack(store, b"1")

    clock.advance(199)
    assert take(store, ALL, BEN) == []
    clock.advance(1)
    assert take(store, ALL, BEN) == [b"3"]
    clock.advance(300)
    assert ack(store, b"0", b"3") == [None, None], "too late"
    assert take(store, ALL, BEN) == [b"0", b"2", b"3"]
    assert calls(store) == {"put": 4, "take": 8, "ack": 1, "ttr": 4}


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_ttr_of_nothing_is_over_at_once(store: Store, kind: bytes) -> None:
    begin(store, kind, ttr_ms=0)
    put(store, b"x")

    assert take(store, ALL, ANN) == [ID]
    assert ack(store, ID) == [None]
    assert take(store, ALL, BEN) == [ID]
    assert calls(store) == {"put": 1, "take": 2, "ttr": 2} or calls(store)["ttr"] == 1


@pytest.mark.parametrize("kind", WITH_ENDS_WHILE_TAKEN)
def test_a_task_ends_though_somebody_has_taken_it(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000)
    clock.advance(300)
    take(store)

    becomes(store, clock, 700, GONE)

    assert ack(store, ID) == [None]
    assert counts(store) == (0, 0, 0, 0, 1)
    assert calls(store) == {"put": 1, "take": 1, "ttr": 1, "ttl": 1, "delete": 1}


def test_in_utubettl_a_taken_task_does_not_end(store: Store, clock: ManualClock) -> None:
    begin(store, b"utubettl")
    put(store, b"x", ttl_ms=1_000)
    take(store)
    clock.advance(5_000)

    assert state(store, ID) == TAKEN
    assert ack(store, ID) == [(ID, GONE)]
    assert calls(store) == {"put": 1, "take": 1, "ack": 1}


RETURNS: Final[dict[str, Callable[[Store, ManualClock], object]]] = {
    "release": lambda store, clock: release(store, ID),
    "release by the session": lambda store, clock: return_all(store),
    "bury": lambda store, clock: bury(store, ID),
    "ttr": lambda store, clock: clock.advance(1_000),
}


@pytest.mark.parametrize("how", RETURNS)
def test_in_utubettl_a_task_that_returns_after_its_ttl_is_gone(
    store: Store, clock: ManualClock, how: str
) -> None:
    begin(store, b"utubettl", ttr_ms=6_000)
    put(store, b"x", ttl_ms=1_000)
    put(store, b"y")
    take(store)
    clock.advance(5_000)

    RETURNS[how](store, clock)

    assert state(store, ID) is GONE
    assert take(store, ALL) == [b"1"], "the lane is free"
    assert counts(store) == (0, 1, 0, 0, 1)
    counted = calls(store)
    assert (counted["ttl"], counted["delete"]) == (1, 1)


def test_in_utubettl_ttl_still_holds_after_a_release(store: Store, clock: ManualClock) -> None:
    begin(store, b"utubettl")
    put(store, b"x", ttl_ms=1_000)
    take(store)
    clock.advance(400)
    release(store, ID)

    becomes(store, clock, 600, GONE)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_delayed_release_lengthens_the_ttl(store: Store, clock: ManualClock, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000, ttr_ms=2_000)
    clock.advance(100)
    take(store)
    clock.advance(100)
    assert release(store, ID, delay_ms=400) == [(ID, DELAYED)]

    becomes(store, clock, 400, READY)
    becomes(store, clock, 800, GONE)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_delayed_task_does_not_end(store: Store, clock: ManualClock, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=10, delay_ms=1_000)
    clock.advance(999)

    assert state(store, ID) == DELAYED


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_buried_task_ends_and_ttr_does_not_touch_it(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000, ttr_ms=200)
    take(store)
    bury(store, ID)
    clock.advance(200)
    assert state(store, ID) == BURIED

    becomes(store, clock, 800, GONE)
    assert kick_these(store, ID) == kick(store) == 0
    assert calls(store) == {"put": 1, "take": 1, "bury": 1, "ttl": 1, "delete": 1}


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_kicked_task_ends_when_it_would_have(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000)
    bury(store, ID)
    clock.advance(600)
    kick(store)
    assert state(store, ID) == READY

    becomes(store, clock, 400, GONE)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_delayed_task_that_is_buried_keeps_its_longer_life(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000, delay_ms=500)
    bury(store, ID)
    clock.advance(700)
    assert state(store, ID) == BURIED
    kick(store)
    assert state(store, ID) == READY

    becomes(store, clock, 800, GONE)
    assert "delay" not in calls(store)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_touch_lengthens_what_is_left_to_run_and_to_live(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000, ttr_ms=100)
    take(store)
    clock.advance(99)
    assert touch(store, ID, by_ms=300) == [(ID, TAKEN)]

    becomes(store, clock, 301, READY)
    assert take(store, 1, BEN) == [ID]
    becomes(store, clock, 400, READY)
    becomes(store, clock, 500, GONE)
    assert calls(store)["touch"] == 1


@pytest.mark.parametrize("kind", WITH_ENDS_WHILE_TAKEN)
def test_touch_puts_off_the_end_of_a_taken_task(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000)
    take(store)
    touch(store, ID, by_ms=1)
    touch(store, ID, by_ms=99)

    becomes(store, clock, 1_100, GONE)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_for_ever_is_for_ever_however_it_is_said(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind, width=10)
    put(store, b"a", ttl_ms=FOREVER_MS, ttr_ms=FOREVER_MS)
    put(store, b"b", ttl_ms=10, ttr_ms=10)
    put(store, b"c", ttl_ms=FOREVER_MS - 1, delay_ms=1)
    clock.advance(1)
    assert take(store, 3) == [b"0", b"1", b"2"]
    for by_ms in (FOREVER_MS, FOREVER_MS, 1):
        assert touch(store, b"0", b"1", b"2", by_ms=by_ms) == [
            (b"%d" % number, TAKEN) for number in range(3)
        ]

    clock.advance(50 * 365 * 86_400_000)
    assert counts(store) == (0, 3, 0, 0, 0)
    release(store, b"0", b"1", b"2", delay_ms=1_000)
    clock.advance(1_000)
    assert counts(store) == (3, 0, 0, 0, 0)
    clock.advance(49 * 365 * 86_400_000)
    assert take(store, ALL) == [b"0", b"1", b"2"]


def test_nothing_is_due_where_everything_is_for_ever(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"a", b"b", b"c")
    take(store)
    bury(store, b"2")
    store.commit()
    tick(store)

    assert store.next_due_ms() == NEVER_MS


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_task_is_released_with_another_ttl_which_begins_then(
    store: Store, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    put(store, b"x", ttl_ms=1_000)
    take(store)
    clock.advance(900)
    assert release(store, ID, ttl_ms=500) == [(ID, READY)]
    clock.advance(499)
    assert take(store) == [ID]
    assert release(store, ID, ttl_ms=200, delay_ms=300) == [(ID, DELAYED)]

    becomes(store, clock, 300, READY)
    becomes(store, clock, 200, GONE)


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_a_task_that_is_released_with_a_ttl_of_nothing_is_gone(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", b"y")
    take(store)

    release(store, ID, ttl_ms=0)

    assert state(store, ID) is GONE
    assert take(store, ALL) == [b"1"]


def test_room_comes_when_a_task_ends(store: Store, clock: ManualClock) -> None:
    begin(store, b"limfifottl", capacity=1)
    put(store, b"x", ttl_ms=1_000)
    clock.advance(999)
    assert put(store, b"y") == []
    clock.advance(1)

    assert put(store, b"y") == [b"1"]


# -- whoever looks first -------------------------------------------------------------------------

LOOKS: Final[dict[str, Callable[[Store], bool]]] = {
    "take": lambda store: take(store, ALL, BEN) == [b"0", b"1"],
    "counts": lambda store: counts(store) == (2, 0, 0, 0, 1),
    "peek": lambda store: (
        [state(store, b"%d" % number) for number in range(3)] == [READY, READY, GONE]
    ),
    "ack": lambda store: ack(store, b"0", b"2") == [None, None],
    "release": lambda store: release(store, b"0", b"2") == [None, None],
    "touch": lambda store: touch(store, b"0", b"2", by_ms=5) == [None, None],
    "bury": lambda store: bury(store, b"2", b"0") == [None, (b"0", BURIED)],
    "delete": lambda store: delete(store, b"2") == [None],
    "return all": lambda store: return_all(store) == 0,
    "kick": lambda store: kick(store) == 0 and counts(store) == (2, 0, 0, 0, 1),
    "kick by ids": lambda store: kick_these(store, b"0", b"2") == 0 and take(store) == [b"0"],
}


@pytest.mark.parametrize("how", LOOKS)
def test_6_what_is_due_is_so_for_whoever_looks_first(
    store: Store, clock: ManualClock, how: str
) -> None:
    """One whose ttr is over, one whose delay is over, one that is over."""
    begin(store, b"fifottl")
    put(store, b"taken", ttr_ms=1_000)
    put(store, b"delayed", delay_ms=1_000)
    take(store)
    put(store, b"short", ttl_ms=1_000)
    clock.advance(1_000)

    assert LOOKS[how](store)


def test_9_the_clock_alone_brings_it_about_and_says_when(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")
    began_ms = store.now_ms()
    put(store, b"taken", ttr_ms=1_000)
    take(store)
    put(store, b"delayed", delay_ms=2_000)
    put(store, b"short", ttl_ms=3_000)
    store.commit()

    for moment_ms, wanted in ((1_000, {TUBE}), (2_000, {TUBE}), (3_000, set())):
        tick(store)
        assert store.next_due_ms() <= began_ms + moment_ms
        clock.advance(began_ms + moment_ms - 1 - store.now_ms())
        tick(store)
        store.ready.clear()
        clock.advance(1)
        tick(store)
        assert store.ready == wanted, moment_ms
    assert calls(store) == {"put": 3, "take": 1, "ttr": 1, "delay": 1, "ttl": 1, "delete": 1}


def test_many_that_end_at_once_are_gone_for_everybody(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")
    for _ in range(5):
        put(store, *[b"x"] * 400, ttl_ms=1_000)
    last = put_one(store, b"y")
    clock.advance(1_000)

    assert take(store, 5) == [last]
    tick(store)
    assert counts(store) == (0, 1, 0, 0, 2_000)
    found = peek(store, last)
    assert found is not None
