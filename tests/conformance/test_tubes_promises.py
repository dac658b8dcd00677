"""The obligations of stores/base.py, as they are kept for tubes: who is told that there is work,
restarts, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from quinque.errors import BadRequest, NoSession
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import TUBES
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.tube_ops import KINDS, LeaveSessions
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.stage_words import run_of, stage
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    BURIED,
    DELAYED,
    OTHER,
    READY,
    TAKEN,
    TUBE,
    ack,
    begin,
    bury,
    calls,
    counts,
    delete,
    everything,
    join,
    kick,
    kick_these,
    look,
    make,
    put,
    release,
    return_all,
    states,
    take,
    truncate,
    tubes,
)
from tests.conformance.words import tick

HOUR_MS = 3_600_000


# -- who is told ---------------------------------------------------------------------------------


def is_told(store: Store, act: Callable[[], object]) -> bool:
    """Whether the tube has something to deliver, or room, by this."""
    store.commit()
    store.ready.clear()
    act()
    store.commit()
    assert store.ready <= {TUBE}
    return bool(store.ready)


@pytest.mark.parametrize("kind", KINDS)
def test_1_a_tube_is_ready_when_a_task_is(store: Store, kind: bytes) -> None:
    begin(store, kind, width=10)

    assert is_told(store, lambda: put(store, b"x", b"y"))
    assert not is_told(store, lambda: take(store, 2))
    assert is_told(store, lambda: release(store, b"0"))
    assert not is_told(store, lambda: bury(store, b"0"))
    assert is_told(store, lambda: kick(store))
    assert is_told(store, lambda: return_all(store))
    assert not is_told(store, lambda: return_all(store))
    assert not is_told(store, lambda: kick(store))
    assert not is_told(store, lambda: kick_these(store, b"0"))
    assert not is_told(store, lambda: release(store, b"0"))
    bury(store, b"0")
    assert is_told(store, lambda: kick_these(store, b"0"))


def test_1_what_is_delayed_is_told_of_when_it_is_ready(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")

    assert not is_told(store, lambda: put(store, b"x", delay_ms=1_000))
    clock.advance(1_000)
    assert is_told(store, lambda: tick(store))
    take(store)
    assert not is_told(store, lambda: release(store, b"0", delay_ms=1_000))
    clock.advance(1_000)
    assert is_told(store, lambda: counts(store)), "whoever looks first"


ENDS: Final[dict[str, Callable[[Store], object]]] = {
    "ack": lambda store: ack(store, b"0"),
    "delete": lambda store: delete(store, b"0"),
    "bury": lambda store: bury(store, b"0"),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("kind", [b"utube", b"utubettl"])
def test_1_a_tube_is_ready_when_a_lane_is_free(store: Store, kind: bytes, how: str) -> None:
    begin(store, kind)
    put(store, b"x", b"y")
    take(store)

    assert is_told(store, lambda: ENDS[how](store))
    assert take(store, ALL) == [b"1"]


@pytest.mark.parametrize("how", ["ack", "delete", "ttl", "truncate"])
def test_1_a_bounded_tube_is_ready_when_it_has_room(
    store: Store, clock: ManualClock, how: str
) -> None:
    def act() -> None:
        if how == "ttl":
            clock.advance(1_000)
            tick(store)
        elif how == "truncate":
            truncate(store)
        else:
            ENDS[how](store)

    begin(store, b"limfifottl", capacity=1)
    put(store, b"x", ttl_ms=1_000)
    take(store)
    assert put(store, b"y") == []

    assert is_told(store, act)
    assert put(store, b"y") != []


# -- restarts ------------------------------------------------------------------------------------


def work(store: Store, clock: ManualClock) -> None:
    """Some of everything, from a chance that is always the same."""
    chance = random.Random(7)
    names = []
    for number, kind in enumerate(KINDS):
        names.append(b"%d" % number)
        make(store, kind, names[-1], pri=3, capacity=40, width=1 + number % 3)
    for number in range(80):
        queue = chance.choice(names)
        put(
            store,
            b"%d" % number,
            queue=queue,
            lane=chance.choice((b"a", b"b", b"c")),
            delay_ms=chance.choice((0, 0, 100, 100_000)),
            ttl_ms=chance.choice((None, 50, 100_000)),
            ttr_ms=chance.choice((None, 60, 100_000)),
            pri=chance.choice((None, 1, 9)),
        )
        given = take(store, chance.randrange(3), chance.choice((ANN, BEN)), queue=queue)
        release(store, *given[:1], queue=queue, delay_ms=chance.choice((0, 1_000)))
        ack(store, *given[1:2], queue=queue, session=chance.choice((ANN, BEN)))
        bury(store, b"%d" % chance.randrange(20), queue=queue)
        kick(store, chance.randrange(2), queue=queue)
        delete(store, b"%d" % chance.randrange(40), queue=queue)
        clock.advance(chance.randrange(10))
        store.commit()


def begin_to_last(store: Store, *args: Any, **settings: Any) -> None:
    """As begin(); and sessions are kept when the store is closed."""
    begin(store, *args, **settings)
    assert store.run(LeaveSessions(HOUR_MS)) == 0


def test_8_everything_is_as_it_was_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    begin_to_last(store)
    work(store, clock)
    tick(store)
    before = everything(store)

    store = reopen(clock)

    assert everything(store) == before
    join(store, BEN, is_new=True)
    for name in tubes(store):
        ids = take(store, ALL, BEN, queue=name)
        number = int(put(store, b"new", queue=name)[0])
        assert number > max(map(int, ids), default=-1)


def test_8_times_go_on_over_a_restart(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    begin_to_last(store, b"fifottl")
    put(store, b"taken", ttr_ms=1_000)
    take(store)
    put(store, b"delayed", delay_ms=2_000)
    put(store, b"short", ttl_ms=3_000)
    put(store, b"buried", ttl_ms=4_000)
    bury(store, b"3")
    store.commit()
    ids = [b"0", b"1", b"2", b"3"]
    clock.advance(999)

    store = reopen(clock)
    assert states(store, *ids) == [TAKEN, DELAYED, READY, BURIED]
    clock.advance(1)
    assert states(store, *ids) == [READY, DELAYED, READY, BURIED]
    clock.advance(999)
    store = reopen(clock)
    clock.advance(1)
    assert states(store, *ids) == [READY, READY, READY, BURIED]
    clock.advance(5_000)
    store = reopen(clock)
    assert states(store, *ids) == [READY, READY, None, None]


def test_7_ids_go_on_over_a_restart_and_begin_again_only_in_an_emptied_tube(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    begin(store)
    put(store, b"x", b"y")
    delete(store, b"0", b"1")
    make(store, queue=OTHER)
    put(store, b"x", b"y", queue=OTHER)
    truncate(store, OTHER)
    store.commit()

    store = reopen(clock)

    assert put(store, b"z") == [b"2"]
    assert put(store, b"z", queue=OTHER) == [b"0"]


def test_8_tubes_keep_their_order_settings_and_lanes(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    begin_to_last(store, b"utubettl", b"z", width=2, ttl_ms=90_000, ttr_ms=80_000, pri=4)
    make(store, b"utube", b"a")
    for lane in (b"l", b"l", b"l", b"m"):
        put(store, b"x", queue=b"z", lane=lane)
    assert take(store, 1, queue=b"z") == [b"0"]
    before = look(store, b"z").settings
    store.commit()

    clock.advance(1)
    store = reopen(clock)
    make(store, b"fifo", b"k")

    assert tubes(store) == [b"z", b"a", b"k"]
    assert look(store, b"z").settings == before
    join(store, BEN, is_new=True)
    assert take(store, ALL, BEN, queue=b"z") == [b"1", b"3"]


def test_sessions_are_found_again_after_a_restart_as_long_as_they_are_kept(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    begin_to_last(store)
    put(store, b"x", b"y")
    take(store, 1, ANN)
    take(store, 1, BEN)
    store.commit()

    store = reopen(clock)
    store.run(LeaveSessions(HOUR_MS))
    join(store, ANN)
    clock.advance(HOUR_MS)
    tick(store)

    assert states(store, b"0", b"1") == [TAKEN, READY]
    with pytest.raises(NoSession):
        join(store, BEN)
    assert ack(store, b"0") == [(b"0", None)]


# -- what is refused -----------------------------------------------------------------------------


def test_tubes_have_no_claims_stages_and_pages(store: Store) -> None:
    begin(store)
    put(store, b"x")
    before = everything(store)
    ops: list[Op] = [
        OpenClaims(TUBES, TUBE, b"s", b"", 1_000, 0),
        BrowsePlaces(TUBES, TUBE, 0, 0, 10, (State.READY,)),
        DividePlaces(TUBES, TUBE, 2),
    ]

    for op in ops:
        with pytest.raises(BadRequest, match="tubes"):
            store.run(op)
    with pytest.raises(BadRequest, match="tubes"):
        stage(store, run_of(b"1"), family=TUBES, queue=TUBE)

    assert everything(store) == before
    assert calls(store) == {"put": 1}
