"""Lanes: of each so many tasks are taken at a time as the tube is wide; nothing else blocks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    READY,
    TAKEN,
    TUBE,
    ack,
    begin,
    bury,
    counts,
    delete,
    kick,
    kick_these,
    leave,
    put,
    put_one,
    release,
    return_all,
    state,
    states,
    take,
    truncate,
)
from tests.conformance.words import tick

WITH_LANES: Final = (b"utube", b"utubettl")
LONG: Final = 2_000  # more than any operation looks at to find one


def pass_time(store: Store, clock: ManualClock, ms: int) -> None:
    clock.advance(ms)
    tick(store)


def put_in(store: Store, *lanes: bytes) -> list[bytes]:
    """A task in each of these lanes; their ids."""
    return [put_one(store, lane=lane) for lane in lanes]


@pytest.mark.parametrize("kind", WITH_LANES)
def test_one_task_of_a_lane_is_taken_at_a_time(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put_in(store, b"a", b"a", b"b", b"a", b"b")

    assert take(store, ALL, ANN) == [b"0", b"2"]
    assert take(store, ALL, ANN) == []
    assert take(store, ALL, BEN) == []
    ack(store, b"0")
    assert take(store, ALL, BEN) == [b"1"]
    ack(store, b"2")
    assert take(store, ALL, BEN) == [b"4"]
    assert counts(store) == (1, 2, 0, 0, 2)


@pytest.mark.parametrize("kind", WITH_LANES)
def test_all_that_say_no_lane_share_one(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", b"y")
    put(store, b"z", lane=b"nil")

    assert take(store, ALL) == [b"0"]
    ack(store, b"0")
    assert take(store, ALL) == [b"1"]
    ack(store, b"1")
    assert take(store, ALL) == [b"2"]


@pytest.mark.parametrize("lane", [b"", b"\r\n\0\xff", b"l" * 1_000])
def test_the_name_of_a_lane_is_any_bytes(store: Store, lane: bytes) -> None:
    begin(store, b"utube")
    put_in(store, lane, lane, lane + b"x")

    assert take(store, ALL) == [b"0", b"2"]
    ack(store, b"0")
    assert take(store, ALL, lane=lane) == [b"1"]


FREED: Final[dict[str, Callable[[Store, ManualClock], object]]] = {
    "ack": lambda store, clock: ack(store, b"0"),
    "delete": lambda store, clock: delete(store, b"0"),
    "bury": lambda store, clock: bury(store, b"0"),
    "release": lambda store, clock: release(store, b"0"),
    "release with a delay": lambda store, clock: release(store, b"0", delay_ms=1_000),
    "ttr": lambda store, clock: pass_time(store, clock, 5_000),
    "session gone": lambda store, clock: leave(store, ANN),
    "return all": lambda store, clock: return_all(store),
}
# Which comes next: the first one again, if it is ready, for its place is before the others'.
NEXT: Final = {
    "ack": b"1",
    "delete": b"1",
    "bury": b"1",
    "release": b"0",
    "release with a delay": b"1",
    "ttr": b"0",
    "session gone": b"0",
    "return all": b"0",
}


@pytest.mark.parametrize("how", FREED)
def test_what_frees_a_lane_and_what_comes_then(store: Store, clock: ManualClock, how: str) -> None:
    begin(store, b"utubettl", ttr_ms=5_000)
    put(store, b"x", b"y", b"z")
    assert take(store, ALL) == [b"0"]
    store.commit()
    store.ready.clear()

    FREED[how](store, clock)

    assert TUBE in store.ready
    assert take(store, ALL, BEN) == [NEXT[how]]
    assert take(store, ALL, BEN) == []


@pytest.mark.parametrize("kind", WITH_LANES)
def test_what_is_not_taken_blocks_nothing(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put(store, b"x", b"y", b"z")
    bury(store, b"0")

    assert take(store) == [b"1"]
    ack(store, b"1")
    assert kick(store) == 1
    assert take(store) == [b"0"], "again the oldest"
    bury(store, b"2")
    assert kick_these(store, b"2") == 1
    assert take(store) == [], "one of the lane is still taken"


def test_a_delayed_task_does_not_block_and_wins_when_it_is_ready(
    store: Store, clock: ManualClock
) -> None:
    begin(store, b"utubettl")
    put(store, b"delayed", delay_ms=1_000)
    put(store, b"x", b"y")
    assert take(store, ALL) == [b"1"]
    clock.advance(1_000)
    assert take(store, ALL) == [], "it waits as any other"

    ack(store, b"1")

    assert take(store, ALL) == [b"0"]


def test_priority_counts_across_lanes_and_in_each(store: Store) -> None:
    begin(store, b"utubettl")
    for pri, lane in ((5, b"a"), (3, b"a"), (4, b"b"), (3, b"b"), (9, b"c"), (0, b"a")):
        put(store, b"x", pri=pri, lane=lane)

    order = []
    while given := take(store, ALL):
        order.append(given)
        ack(store, *given)

    assert order == [[b"5", b"3", b"4"], [b"1", b"2"], [b"0"]]
    assert take(store, 1) == []


def test_a_task_may_be_released_to_another_place_in_its_lane(store: Store) -> None:
    begin(store, b"utubettl", pri=5)
    put_in(store, b"a", b"a", b"b")
    take(store, ALL)
    release(store, b"0", pri=7)

    assert take(store, ALL) == [b"1"]
    ack(store, b"1")
    assert take(store, ALL) == [b"0"]


# -- take from a chosen lane, several at once ----------------------------------------------------


@pytest.mark.parametrize("kind", WITH_LANES)
def test_a_lane_may_be_chosen(store: Store, kind: bytes) -> None:
    begin(store, kind)
    put_in(store, b"a", b"b", b"b", b"c")

    assert take(store, ALL, lane=b"b") == [b"1"]
    assert take(store, ALL, lane=b"b") == []
    assert take(store, ALL, lane=b"nobody's") == []
    assert take(store, 1) == [b"0"]
    ack(store, b"1")
    assert take(store, 1) == [b"2"], "the lane is where it would be without that"
    assert take(store, ALL, lane=b"a") == []
    assert take(store, ALL, lane=b"c") == [b"3"]


@pytest.mark.parametrize("kind", WITH_LANES)
def test_as_many_of_a_lane_are_taken_as_the_tube_is_wide(store: Store, kind: bytes) -> None:
    begin(store, kind, width=3)
    put_in(store, *[b"a"] * 5, b"b")

    assert take(store, 2) == [b"0", b"1"]
    assert take(store, ALL, BEN) == [b"2", b"5"]
    assert take(store, ALL, lane=b"a") == []
    ack(store, b"1")
    assert take(store, ALL, lane=b"a") == [b"3"]
    release(store, b"0")
    assert take(store, ALL) == [b"0"]
    ack(store, b"2", session=BEN)
    ack(store, b"0")
    assert take(store, ALL) == [b"4"]
    assert counts(store) == (0, 3, 0, 0, 3)


def test_what_is_chosen_from_a_lane_is_its_first(store: Store) -> None:
    begin(store, b"utubettl", width=2)
    for pri in (4, 2, 3):
        put(store, b"x", pri=pri, lane=b"a")
        put(store, b"x", pri=pri, lane=b"b")

    assert take(store, ALL, lane=b"b") == [b"3", b"5"]
    assert take(store, 3) == [b"2", b"4"]
    assert states(store, b"0", b"1") == [READY, READY]


# -- a long lane ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WITH_LANES)
def test_behind_a_long_busy_lane_others_are_found(store: Store, kind: bytes) -> None:
    begin(store, kind)
    for _ in range(LONG // 250):
        put(store, *[b"x"] * 250, lane=b"busy")
    free = put_one(store, lane=b"free")
    assert take(store) == [b"0"]

    assert take(store, ALL, BEN) == [free]
    assert take(store, ALL, BEN) == []
    assert ack(store, b"0") == [(b"0", None)]
    assert take(store, ALL, BEN) == [b"1"]
    assert counts(store) == (LONG - 2, 2, 0, 0, 1)
    assert truncate(store) == LONG


def test_many_lanes_are_taken_from_in_order(store: Store) -> None:
    begin(store, b"utube")
    put_in(store, *[b"%d" % (number % 100) for number in range(300)])

    assert take(store, ALL) == [b"%d" % number for number in range(100)]
    ack(store, *[b"%d" % number for number in range(0, 100, 2)])
    assert take(store, ALL) == [b"%d" % number for number in range(100, 200, 2)]
    assert state(store, b"101") == READY
    assert state(store, b"99") == TAKEN
