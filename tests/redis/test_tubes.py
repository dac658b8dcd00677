"""Tubes of several brokers on one Redis: what goes in parts, other families, drivers, and brokers
that are killed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import BadRequest, NoKind, TubeExists, WrongType
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import JOBS, RELIABLE, TUBES
from quinque.model.lifecycle import Kind, Reason
from quinque.model.own_ops import RELIABLE_TERMS
from quinque.model.queue_ops import DeleteQueues, FindFamilies, RenameQueue, SetExpiry
from quinque.model.tube_ops import FindTubes, MakeTube, PutTasks, TaskTerms, TubeSettings
from quinque.model.work_ops import Add, LookAt, ScanQueues, Take
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import slot_of, tags
from tests.conformance.record_words import seen
from tests.conformance.tube_words import (
    ANN,
    TUBE,
    ack,
    counts,
    delete,
    drop,
    join,
    make,
    peek,
    put,
    put_one,
    release,
    take,
    take_views,
    touch,
    truncate,
    tubes,
)
from tests.conformance.words import tick
from tests.server.broker import start_broker
from tests.servers import stores

LARGE = 2_500  # more than are told of at once
Foreign = Any


def test_tubes_of_all_slots_are_found_in_the_order_they_were_made(store: Any, other: Any) -> None:
    names = [b"m", b"a", b"z", b"k", b"{m}b"]
    for number, name in enumerate(names):
        make((store, other)[number % 2], queue=name)
    assert sorted(tubes(store)) == sorted(names)
    assert [it.queue for it in other.run(FindTubes())] == tubes(store)

    cursor, found = store.run(ScanQueues(TUBES, 0, 100, least=0, most=0))

    assert (cursor, sorted(found)) == (0, sorted(names))
    assert store.run(ScanQueues(TUBES, 0, 100, least=1)) == (0, [])


@pytest.mark.parametrize("ends", [truncate, drop])
def test_of_a_large_tube_everything_is_gone_at_once_and_told_of_later(
    store: Any, other: Any, foreign: Foreign, ends: Any
) -> None:
    make(store)
    put(store, *[b"x"] * LARGE)

    ends(store)

    if ends is truncate:
        assert counts(other)[:2] == (0, 0)
        assert put_one(other) == b"0"
    else:
        assert tubes(other) == []
    tick(other)
    tick(store)
    removed = [it.id for it in seen(other, TUBE) if it[:2] == (Kind.REMOVED, Reason.PURGED)]
    assert sorted(removed, key=int) == [b"%d" % number for number in range(LARGE)]
    assert foreign.keys("*swept*") == []


def test_a_take_behind_very_many_tasks_that_ended_finds_the_living_one(
    store: Any, clock: ManualClock
) -> None:
    make(store, b"fifottl")
    join(store, ANN, is_new=True)
    for _ in range(8):
        put(store, *[b"x"] * 1_000, ttl_ms=1_000)
    last = put_one(store)
    clock.advance(1_000)

    assert take(store) == [last]


def test_long_bodies_come_and_go_with_their_tasks(store: Any, foreign: Foreign) -> None:
    long, longer = b"x" * 1_025, b"y" * 70_000
    make(store, b"fifottl")
    join(store, ANN, is_new=True)
    put(store, long, b"short", longer, ttl_ms=1_000)

    def body(id: bytes) -> bytes:
        view = peek(store, id)
        assert view is not None
        return view.body

    assert [it.body for it in take_views(store, 3)] == [long, b"short", longer]
    touch(store, b"0", by_ms=5)
    release(store, b"0", delay_ms=0)
    assert body(b"0") == long
    take(store)
    release(store, b"0", body=b"short by now")
    release(store, b"1", body=longer)
    assert [body(id) for id in (b"0", b"1", b"2")] == [b"short by now", longer, longer]
    kept = b"quinque:{%b}:bodies:t" % tags()[slot_of(TUBE)]
    assert set(foreign.hkeys(kept)) == {b"%016d" % 1, b"%016d" % 2}
    ack(store, b"2")
    delete(store, b"1")

    assert foreign.hkeys(kept) == []


def test_a_name_has_one_family(store: Any) -> None:
    make(store)
    store.run(Add(RELIABLE, b"r", [b"x"], RELIABLE_TERMS))

    for op in (
        Add(RELIABLE, TUBE, [b"x"], RELIABLE_TERMS),
        DeleteQueues(RELIABLE, [TUBE]),
        RenameQueue(RELIABLE, TUBE, b"{t}"),
        SetExpiry(RELIABLE, TUBE, 1),
        Take(JOBS, [TUBE]),
        LookAt(JOBS, TUBE),
        MakeTube(b"r", b"fifo", TubeSettings()),
        PutTasks(b"r", [b"x"], TaskTerms()),
    ):
        with pytest.raises(WrongType):
            store.run(op)
    assert store.run(FindFamilies([TUBE, b"r", b"none"])) == [TUBES, RELIABLE, None]
    drop(store)
    store.run(Add(RELIABLE, TUBE, [b"x"], RELIABLE_TERMS))


def test_drivers_are_not_for_redis(store: Any) -> None:
    with pytest.raises(NoKind, match=r"type mine: use fifo, .*; drivers need an embedded store"):
        make(store, b"mine")
    make(store)

    assert not make(store, b"mine", is_idempotent=True)
    with pytest.raises(TubeExists):
        make(store, b"mine")


def test_claims_are_not_for_tubes(store: Any) -> None:
    make(store)
    with pytest.raises(BadRequest, match="tubes do not support claims"):
        store.run(OpenClaims(TUBES, TUBE, b"s", b"", 1_000))


def test_what_clients_of_a_killed_broker_had_taken_in_several_slots_comes_to_another(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    flags = stores.store_flags(request, "cluster")
    server = request.getfixturevalue(stores.SHARED["cluster"]).client()
    with ExitStack() as running:
        brokers = [
            running.enter_context(start_broker(tmp_path / name, *flags)) for name in ("a", "b")
        ]
        killed, other = [running.enter_context(broker.connect()) for broker in brokers]
        names = ["t1", "t2", "t3"]
        for name in names:
            killed.call("TUBE.CREATE", name, "fifo")
            killed.call("TUBE.PUT", name, "x")
            assert killed.call("TUBE.TAKE", name, 0)[1] == b"t"
        (died,) = server.zrange("quinque:{sessions}:heard", 0, -1)
        brokers[0].kill()
        assert other.call("TUBE.TAKE", names[0], 0) is None

        # As if it had been unheard of for as long as it takes to be given up.
        server.zadd("quinque:{sessions}:heard", {died: 1})

        for name in names:
            assert other.call("TUBE.TAKE", name, 20) == [0, b"t", b"x"]
