"""Sessions: who took a task, through how many connections, and what becomes of it without any."""

from __future__ import annotations

import pytest

from quinque.errors import NoSession
from quinque.model.tube_ops import KINDS, AckTasks, TakeTasks
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    BURIED,
    DELAYED,
    GONE,
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
    drop,
    join,
    leave,
    make,
    put,
    release,
    return_all,
    shown,
    state,
    states,
    take,
    touch,
    truncate,
)
from tests.conformance.words import tick

KEEP_MS = 60_000


def test_nobody_joins_a_session_that_is_not_there(store: Store) -> None:
    with pytest.raises(
        NoSession, match=r"The UUID 616e6e27-7320-7365-7373-696f6e2e2e2e is unknown\."
    ):
        join(store, ANN)

    join(store, ANN, is_new=True)
    join(store, ANN)
    leave(store, ANN)
    join(store, ANN)
    leave(store, ANN)
    leave(store, ANN)

    with pytest.raises(NoSession):
        join(store, ANN)
    with pytest.raises(NoSession):
        join(store, b"unheard of")


@pytest.mark.parametrize("kind", KINDS)
def test_with_its_last_connection_the_tasks_of_a_session_come_back(
    store: Store, kind: bytes
) -> None:
    begin(store, kind, width=10)
    put(store, *[b"x"] * 6)
    assert take(store, 3, ANN) == [b"0", b"1", b"2"]
    assert take(store, 1, BEN) == [b"3"]
    join(store, ANN)

    leave(store, ANN)
    assert counts(store) == (2, 4, 0, 0, 0)
    store.commit()
    store.ready.clear()
    leave(store, ANN)

    assert counts(store) == (5, 1, 0, 0, 0)
    assert calls(store) == {"put": 6, "take": 4, "release": 3}
    assert store.ready == {TUBE}
    assert ack(store, b"0", session=ANN) == [None]
    assert take(store, ALL, BEN) == [b"0", b"1", b"2", b"4", b"5"]


def test_a_session_that_took_nothing_leaves_nothing(store: Store) -> None:
    begin(store)
    put(store, b"x")
    store.commit()
    store.ready.clear()

    leave(store, ANN)

    assert (store.ready, calls(store)) == (set(), {"put": 1})


def test_tasks_of_all_tubes_come_back(store: Store) -> None:
    names = [b"%d" % number for number in range(7)]
    begin(store)
    for name, kind in zip(names, [*KINDS, b"fifo", b"utube"], strict=True):
        make(store, kind, name)
        put(store, b"x", b"y", queue=name)
        assert take(store, 1, ANN, queue=name) == [b"0"]
    take(store, 1, BEN, queue=names[0])

    leave(store, ANN)

    for name in names[1:]:
        assert counts(store, name) == (2, 0, 0, 0, 0)
        assert drop(store, name)
    assert counts(store, names[0]) == (1, 1, 0, 0, 0)


def test_a_session_that_is_kept_may_be_joined_again(store: Store, clock: ManualClock) -> None:
    begin(store)
    put(store, b"x", b"y")
    take(store)

    leave(store, ANN, KEEP_MS)
    clock.advance(KEEP_MS - 1)
    tick(store)
    assert states(store, b"0", b"1") == [TAKEN, READY]
    join(store, ANN)
    clock.advance(10 * KEEP_MS)
    tick(store)

    assert state(store, b"0") == TAKEN
    assert ack(store, b"0") == [(b"0", GONE)]
    assert calls(store) == {"put": 2, "take": 1, "ack": 1}


def test_a_session_that_is_kept_ends_in_its_millisecond(store: Store, clock: ManualClock) -> None:
    begin(store)
    put(store, b"x", b"y")
    take(store)
    leave(store, ANN, KEEP_MS)
    store.commit()

    clock.advance(KEEP_MS - 1)
    tick(store)
    assert state(store, b"0") == TAKEN
    store.ready.clear()
    clock.advance(1)
    tick(store)

    assert store.ready == {TUBE}
    assert state(store, b"0") == READY
    assert calls(store) == {"put": 2, "take": 1, "release": 1}
    with pytest.raises(NoSession):
        join(store, ANN)
    join(store, ANN, is_new=True)
    assert ack(store, b"0") == [None]


def test_6_a_kept_session_is_over_for_whoever_looks_first(store: Store, clock: ManualClock) -> None:
    begin(store)
    put(store, b"x")
    take(store)
    leave(store, ANN, KEEP_MS)

    clock.advance(KEEP_MS)

    assert take(store, ALL, BEN) == [b"0"]


def test_the_latest_leave_says_how_long_it_is_kept(store: Store, clock: ManualClock) -> None:
    begin(store)
    put(store, b"x")
    take(store)
    leave(store, ANN, KEEP_MS)
    clock.advance(1_000)
    join(store, ANN)
    leave(store, ANN, 2 * KEEP_MS)
    clock.advance(KEEP_MS)
    tick(store)
    assert state(store, b"0") == TAKEN

    join(store, ANN)
    leave(store, ANN)

    assert state(store, b"0") == READY


def test_time_goes_on_for_the_tasks_of_a_kept_session(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")
    put(store, b"short to run", ttr_ms=1_000)
    put(store, b"short to live", ttl_ms=1_000)
    put(store, b"long")
    take(store, 3)
    leave(store, ANN, KEEP_MS)

    clock.advance(1_000)
    assert states(store, b"0", b"1", b"2") == [READY, GONE, TAKEN]
    take(store, 1, BEN)
    clock.advance(KEEP_MS)
    tick(store)

    assert states(store, b"0", b"2") == [READY, READY]
    counted = calls(store)
    assert (counted["ttr"], counted["release"], counted["ttl"]) == (3, 1, 1)


@pytest.mark.parametrize("keep_ms", [0, KEEP_MS])
def test_only_what_a_session_still_has_comes_back(
    store: Store, clock: ManualClock, keep_ms: int
) -> None:
    begin(store, b"fifottl")
    put(store, *[b"x"] * 6)
    take(store, 6)
    ack(store, b"0")
    bury(store, b"1")
    delete(store, b"2")
    release(store, b"3", delay_ms=1_000_000)
    release(store, b"4")
    assert take(store, 1, BEN) == [b"4"]

    leave(store, ANN, keep_ms)
    clock.advance(keep_ms)
    tick(store)

    ids = [b"%d" % number for number in range(6)]
    assert states(store, *ids) == [GONE, BURIED, GONE, DELAYED, TAKEN, READY]
    assert calls(store)["release"] == 3


def test_a_session_leaves_an_emptied_or_dropped_tube_in_peace(store: Store) -> None:
    begin(store)
    for name in (OTHER, b"third", b"fourth"):
        make(store, queue=name)
    for name in (TUBE, OTHER, b"third", b"fourth"):
        put(store, b"x", queue=name)
        take(store, queue=name)
    truncate(store)
    put(store, b"new")
    truncate(store, b"third")
    assert drop(store, b"third")
    return_all(store, b"fourth")

    leave(store, ANN)

    assert counts(store) == (1, 0, 0, 0, 0)
    assert counts(store, OTHER) == (1, 0, 0, 0, 0)
    assert counts(store, b"fourth") == (1, 0, 0, 0, 0)
    assert "release" not in calls(store)


def test_connections_of_one_session_share_its_tasks(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"x", b"y", b"z")
    join(store, ANN)
    take(store, 3, ANN)
    leave(store, ANN)

    assert touch(store, b"0", by_ms=5) == [(b"0", TAKEN)]
    assert ack(store, b"0") == [(b"0", GONE)]
    assert release(store, b"1") == [(b"1", READY)]
    assert state(store, b"2") == TAKEN


@pytest.mark.parametrize("kind", [b"fifo", b"utubettl"])
def test_several_sessions_may_take_and_ack_together(store: Store, kind: bytes) -> None:
    begin(store, kind, width=3)
    put(store, *[b"x"] * 4)
    given = store.run(TakeTasks(TUBE, b"", sessions=[ANN, BEN, ANN]))
    assert [view.message_id for view in given] == [b"0", b"1", b"2"]
    assert release(store, b"2", session=ANN) == [(b"2", READY)]
    last = store.run(TakeTasks(TUBE, b"", sessions=[BEN] * 5))
    assert len(last) == (2 if kind == b"fifo" else 1), "as many as there is room for"

    done = store.run(AckTasks(TUBE, b"", [b"0", b"1", b"2", b"0"], [BEN, BEN, BEN, ANN]))

    assert shown(done) == [None, (b"1", GONE), (b"2", GONE), (b"0", GONE)]
    leave(store, BEN)
    assert counts(store)[:2] == (1, 0)


def test_a_lane_is_free_when_its_session_is_gone(store: Store, clock: ManualClock) -> None:
    begin(store, b"utube")
    put(store, b"x", b"y", lane=b"a")
    take(store)
    leave(store, ANN, KEEP_MS)
    assert take(store, ALL, BEN) == []

    clock.advance(KEEP_MS)
    tick(store)

    assert take(store, ALL, BEN) == [b"0"]


@pytest.mark.parametrize("session", [b"\0", b"s" * 255, b"\r\n\xff\xfe", bytes(16)])
def test_a_session_is_any_bytes(store: Store, session: bytes) -> None:
    begin(store)
    put(store, b"x", b"y")
    join(store, session, is_new=True)
    take(store, 2, session)

    assert ack(store, b"0", session=session) == [(b"0", GONE)]
    leave(store, session)
    assert state(store, b"1") == READY
    with pytest.raises(NoSession):
        join(store, session)


def test_many_tasks_of_a_session_come_back_all_of_them(store: Store, clock: ManualClock) -> None:
    begin(store)
    for _ in range(12):
        put(store, *[b"x"] * 1_000)
        assert len(take(store, ALL)) == 1_000

    leave(store, ANN)
    tick(store)

    assert counts(store) == (12_000, 0, 0, 0, 0)
    assert take(store, 1, BEN) == [b"0"]
    assert calls(store)["release"] == 12_000
