"""Sessions that take tasks, across brokers and slots: who is of one, and what comes back when it
ends, whichever broker goes, and in whatever moment."""

from __future__ import annotations

from typing import Any

import pytest

from quinque.errors import NoSession
from quinque.model.families import TUBES
from quinque.model.limits import NODE_FAILED_MS
from quinque.model.tube_ops import AckTasks, LookAtTube
from quinque.stores.clock import ManualClock
from quinque.stores.redis import sessions, ticks
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import SESSIONS, slot_key, slot_of
from quinque.stores.redis.store import RedisStore
from tests.conformance.tube_words import (
    ANN,
    BEN,
    READY,
    TAKEN,
    ack,
    join,
    leave,
    make,
    put,
    state,
    states,
    take,
)
from tests.conformance.words import tick

MINUTE_MS = 60_000
NAMES = [b"a", b"b", b"c", b"d"]  # of four slots
PLACE = "quinque:{sessions}:"
Foreign = Any


def edge_of(store: RedisStore) -> Edge:
    return store._store.edge


def begin(store: Any, *names: bytes, bodies: int = 2) -> None:
    for name in names:
        make(store, queue=name)
        put(store, *[b"x"] * bodies, queue=name)


def taken(store: Any, *names: bytes) -> list[int]:
    """How many are taken, of each tube."""
    return [store.run(LookAtTube(name)).taken for name in names]


def beat(store: RedisStore) -> None:
    """As a broker does once a second."""
    store.finish(sessions.beat(edge_of(store)))
    tick(store)


def go_unheard(store: RedisStore, foreign: Foreign) -> None:
    """No heartbeat of the broker reaches Redis until the others take it for dead."""
    assert foreign.zrem(PLACE + "heard", edge_of(store).sessions.broker(edge_of(store).chance))
    foreign.zadd(PLACE + "heard", {edge_of(store).sessions.broker(edge_of(store).chance): 1})
    foreign.delete(PLACE + "beaten")  # however long ago that was, other brokers were heard


def stand_still(foreign: Foreign, ms: int) -> None:
    """Redis got no heartbeat of any broker for `ms`; if that is negative, its clock went back."""
    for broker, heard_ms in foreign.zrange(PLACE + "heard", 0, -1, withscores=True):
        foreign.zadd(PLACE + "heard", {broker: heard_ms - ms})
    foreign.decrby(PLACE + "beaten", ms)


def one(call: Call) -> Steps:
    (reply,) = yield [call]
    return reply


def test_a_session_is_the_same_at_every_broker(store: Any, other: Any) -> None:
    begin(store, b"t")
    join(store, ANN, is_new=True)
    take(store)

    join(other, ANN)

    assert ack(other, b"0") == [(b"0", None)]
    with pytest.raises(NoSession):
        join(other, b"another one.....")


def test_it_ends_when_the_last_connection_at_any_broker_goes(store: Any, other: Any) -> None:
    begin(store, *NAMES)
    join(store, ANN, is_new=True)
    join(other, ANN)
    for name in NAMES[:2]:
        take(store, queue=name)
    for name in NAMES[1:]:
        take(other, queue=name)

    leave(store)
    assert taken(store, *NAMES) == [1, 2, 1, 1]
    leave(other)
    assert taken(store, *NAMES) == [0, 0, 0, 0]
    with pytest.raises(NoSession):
        join(store, ANN)


def test_it_is_kept_for_whichever_broker_is_joined(
    store: Any, other: Any, clock: ManualClock
) -> None:
    begin(store, *NAMES)
    join(store, ANN, is_new=True)
    for name in NAMES:
        take(store, queue=name)
    leave(store, keep_ms=1_000)
    clock.advance(999)

    join(other, ANN)
    clock.advance(5_000)
    tick(store)
    tick(other)
    assert taken(store, *NAMES) == [1, 1, 1, 1]
    leave(other, keep_ms=1_000)
    clock.advance(1_000)

    assert taken(other, *NAMES) == [0, 0, 0, 0]


@pytest.mark.parametrize("keep_ms", [0, 3_000])
def test_a_broker_that_is_not_heard_of_loses_its_sessions(
    store: Any, other: Any, foreign: Foreign, clock: ManualClock, keep_ms: int
) -> None:
    begin(store, *NAMES)
    edge_of(store).sessions.keep_ms = keep_ms
    for session in (ANN, BEN):
        join(store, session, is_new=True)
        for name in NAMES:
            take(store, session=session, queue=name)
    join(other, BEN)
    beat(store)
    beat(other)
    assert taken(other, *NAMES) == [2, 2, 2, 2]

    go_unheard(store, foreign)
    beat(other)

    if keep_ms:
        assert taken(other, *NAMES) == [2, 2, 2, 2]
        clock.advance(keep_ms)
    assert taken(other, *NAMES) == [1, 1, 1, 1], "those of Ben, who has another connection"


@pytest.mark.parametrize("ms", [60_000, -3_600_000])
def test_brokers_that_redis_could_not_hear_keep_their_sessions(
    store: Any, other: Any, foreign: Foreign, ms: int
) -> None:
    begin(store, b"t")
    join(store, ANN, is_new=True)
    take(store)
    for broker in (store, other):
        beat(broker)

    stand_still(foreign, ms)
    beat(other)

    assert state(other, b"0") == TAKEN
    heard = foreign.zrange(PLACE + "heard", 0, -1, withscores=True)
    seconds, _ = foreign.time()
    assert [abs(heard_ms - 1000 * seconds) < MINUTE_MS for _, heard_ms in heard] == [True]
    go_unheard(store, foreign)
    beat(other)
    assert state(other, b"0") == READY


def test_another_broker_ends_a_session_that_was_half_ended(
    store: Any, other: Any, clock: ManualClock
) -> None:
    """The broker noted that the session ends, and returned what it had in one slot; no more."""
    begin(store, *NAMES)
    join(store, ANN, is_new=True)
    for name in NAMES:
        take(store, queue=name)
    now_ms, broker = store.now_ms(), edge_of(store).sessions.broker(edge_of(store).chance)
    store.finish(one(Call("session_leave", [SESSIONS], [now_ms, broker, ANN, 0])))
    argv = [TUBES.code, now_ms, 1, ANN, now_ms, 1]
    store.finish(one(Call("tube_give_back", [slot_key(slot_of(NAMES[2]))], argv)))
    with pytest.raises(NoSession):
        join(other, ANN)

    beat(other)

    assert taken(other, *NAMES) == [0, 0, 0, 0]


def test_a_session_that_is_made_again_first_gives_back_what_it_had(store: Any, other: Any) -> None:
    begin(store, b"t")
    join(store, BEN, is_new=True)
    take(store, 2, BEN)
    now_ms, broker = store.now_ms(), edge_of(store).sessions.broker(edge_of(store).chance)
    store.finish(one(Call("session_leave", [SESSIONS], [now_ms, broker, BEN, 0])))

    join(other, BEN, is_new=True)

    assert take(other, 2, BEN) == [b"0", b"1"]


def test_whoever_returns_late_takes_nothing_from_a_session_that_began_anew(
    store: Any, other: Any, clock: ManualClock
) -> None:
    begin(store, b"t")
    join(store, BEN, is_new=True)
    take(store, 1, BEN)
    ended_ms = store.now_ms()
    leave(store, BEN)
    clock.advance(1)
    join(store, BEN, is_new=True)
    take(store, 1, BEN)

    argv = [TUBES.code, other.now_ms(), 1, BEN, ended_ms, 100]
    other.finish(one(Call("tube_give_back", [slot_key(slot_of(b"t"))], argv)))

    assert state(other, b"0") == TAKEN


def test_more_tasks_than_one_call_returns_come_back(store: Any) -> None:
    begin(store, b"t", bodies=1_234)
    join(store, ANN, is_new=True)
    assert len(take(store, 1_234)) == 1_234

    leave(store)

    assert store.run(LookAtTube(b"t")).ready == 1_234


def test_a_broker_that_was_given_up_and_lives_is_of_its_sessions_again(
    store: Any, other: Any, foreign: Foreign
) -> None:
    begin(store, b"t")
    join(store, ANN, is_new=True)
    take(store)
    go_unheard(store, foreign)
    beat(other)
    assert state(other, b"0") == READY

    take(store)
    beat(store)

    join(other, ANN)
    leave(other)
    assert state(other, b"0") == TAKEN
    leave(store)
    assert state(other, b"0") == READY


def test_what_redis_forgot_of_sessions_is_told_again(
    store: Any, other: Any, foreign: Foreign
) -> None:
    """As when a primary fails before its replica has heard of it."""
    begin(store, b"t")
    for _ in range(2):
        join(store, ANN, is_new=True)
    take(store)
    broker = edge_of(store).sessions.broker(edge_of(store).chance).decode()
    for kind in ("connections", f"broker:{broker}", "totals", "heard", "keeps"):
        assert foreign.delete(PLACE + kind)

    beat(store)

    join(other, ANN)
    leave(store)
    leave(other)
    assert state(store, b"0") == TAKEN
    leave(store)
    assert state(store, b"0") == READY


def test_tasks_of_a_session_that_nobody_knows_come_back(
    store: Any, other: Any, clock: ManualClock
) -> None:
    """The broker that took them was taken for dead first, and died later."""
    begin(store, b"t")
    join(other, BEN, is_new=True)
    take(other, 1, BEN)
    edge_of(store).sessions.join(ANN)  # as it believes
    take(store)

    def look_round() -> None:
        other.finish(ticks.look_round([slot_of(b"t")], edge_of(other)))
        tick(other)

    look_round()
    clock.advance(NODE_FAILED_MS - 1)
    look_round()
    assert states(other, b"0", b"1") == [TAKEN, TAKEN], "somebody may be about to join it"
    clock.advance(1)
    tick(other)

    assert states(other, b"0", b"1") == [TAKEN, READY]


def test_a_session_that_could_not_be_joined_is_when_it_takes(store: Any, other: Any) -> None:
    begin(store, b"t")

    take(store)

    join(other, ANN)
    assert store.run(AckTasks(b"t", ANN, [b"0"]))[0] is not None


def test_a_store_that_is_closed_leaves_its_sessions(
    store: Any, url: str, clock: ManualClock
) -> None:
    begin(store, b"t")
    third: Any = RedisStore(url, clock=clock)
    join(third, ANN, is_new=True)
    take(third)

    third.close()

    assert state(store, b"0") == TAKEN
    clock.advance(NODE_FAILED_MS)
    beat(store)
    assert state(store, b"0") == READY
