"""Tubes: names and kinds, ids and order, and what is done to all tasks of one."""

from __future__ import annotations

from typing import Final

import pytest

from quinque.errors import (
    NoKind,
    NoTube,
    TubeBusy,
    TubeExists,
    WrongType,
)
from quinque.model.families import JOBS, TUBES
from quinque.model.ops import Op
from quinque.model.queue_ops import FindFamilies
from quinque.model.tube_ops import (
    KINDS,
    PRIORITY_MOST,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    KickTasks,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
    TruncateTube,
    TubeSettings,
)
from quinque.model.work_ops import Add, LookAt, ScanQueues, Terms
from quinque.stores.base import Store
from tests.conformance.tube_words import (
    ALL,
    ANN,
    BEN,
    GONE,
    NOTHING,
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
    kick,
    look,
    make,
    put,
    put_one,
    put_views,
    release,
    return_all,
    state,
    states,
    take,
    take_views,
    truncate,
    tubes,
)
from tests.conformance.words import tick

HOUR_MS = 3_600_000
OF_TASKS: Final[tuple[Op, ...]] = (
    PutTasks(TUBE, [b"x"], TaskTerms()),
    TakeTasks(TUBE, ANN),
    AckTasks(TUBE, ANN, [b"0"]),
    ReleaseTasks(TUBE, ANN, [b"0"]),
    TouchTasks(TUBE, ANN, [b"0"], 1_000),
    PeekTasks(TUBE, [b"0"]),
    BuryTasks(TUBE, [b"0"]),
    DeleteTasks(TUBE, [b"0"]),
    KickTasks(TUBE),
    ReturnTasks(TUBE),
    TruncateTube(TUBE),
    DropTube(TUBE),
)


# -- tubes ----------------------------------------------------------------------------------------


def test_a_tube_is_made_once_and_stays_as_it_was_made(store: Store) -> None:
    settings = TubeSettings(9_000, 8_000, 7, 6, 5, is_temporary=True)
    assert store.run(MakeTube(TUBE, b"limfifottl", settings))

    with pytest.raises(TubeExists, match="Space 't' already exists"):
        make(store)
    assert not make(store, b"utube", is_idempotent=True)

    view = look(store)
    assert (view.queue, view.kind, view.settings) == (TUBE, b"limfifottl", settings)
    assert (counts(store), calls(store), view.is_asleep) == (NOTHING, {}, False)


def test_tubes_are_found_in_the_order_they_were_made(store: Store) -> None:
    for name in (b"z", b"m", b"a\xff\r\n "):
        assert make(store, queue=name)
    assert drop(store, b"m")
    assert make(store, queue=b"m")

    assert tubes(store) == [b"z", b"a\xff\r\n ", b"m"]
    assert store.run(LookAtTube(b"nobody")) is None
    assert store.run(FindFamilies([b"z", b"nobody"])) == [TUBES, None]
    _, names = store.run(ScanQueues(TUBES, 0, 100))
    assert sorted(names) == [b"a\xff\r\n ", b"m", b"z"]


def test_a_look_at_all_tubes_can_be_cut_off(store: Store) -> None:
    for name in (b"a", b"b", b"c", b"other"):
        make(store, queue=name)

    found = [view.queue for view in store.run(FindTubes(4))]
    cut = store.run(FindTubes(3))
    seen = store.run(FindTubes(3, lambda name: name != b"b"))

    assert found == [b"a", b"b", b"c", b"other"]
    assert len(cut) > 3
    assert [view.queue for view in seen] == [b"a", b"c", b"other"]
    assert len(store.run(FindTubes(2, lambda name: name != b"b"))) == 3


def test_a_kind_that_nobody_knows_is_refused(store: Store) -> None:
    with pytest.raises(NoKind, match="lifo"):
        make(store, b"lifo")

    assert tubes(store) == []


@pytest.mark.parametrize("op", OF_TASKS, ids=lambda op: type(op).__name__)
def test_there_is_nothing_to_do_without_a_tube(store: Store, op: Op) -> None:
    with pytest.raises(NoTube):
        store.run(op)

    store.run(Add(JOBS, TUBE, [b"job"], Terms(HOUR_MS)))
    with pytest.raises(WrongType):
        store.run(op)


def test_a_name_is_of_one_family(store: Store) -> None:
    store.run(Add(JOBS, OTHER, [b"job"], Terms(HOUR_MS)))
    begin(store)

    for is_idempotent in (False, True):
        with pytest.raises(WrongType):
            make(store, queue=OTHER, is_idempotent=is_idempotent)
    with pytest.raises(WrongType):
        store.run(LookAtTube(OTHER))
    with pytest.raises(WrongType):
        store.run(Add(JOBS, TUBE, [b"job"], Terms(HOUR_MS)))
    with pytest.raises(WrongType):
        store.run(LookAt(JOBS, TUBE))
    assert drop(store)
    assert store.run(Add(JOBS, TUBE, [b"job"], Terms(HOUR_MS)))


def test_a_tube_goes_with_all_that_is_in_it_unless_somebody_works_there(store: Store) -> None:
    begin(store, b"fifottl")
    first, second = put(store, b"a", b"b")
    put(store, b"c", delay_ms=HOUR_MS)
    take(store)
    bury(store, second)

    with pytest.raises(TubeBusy, match="There are taken tasks in the tube"):
        drop(store)
    assert counts(store) == (0, 1, 1, 1, 0)
    release(store, first)
    assert drop(store)

    assert tubes(store) == []
    with pytest.raises(NoTube):
        drop(store)
    begin(store)
    assert (counts(store), calls(store)) == (NOTHING, {})
    assert put(store, b"d") == [b"0"]
    assert ack(store, first) == [None]


def test_an_empty_tube_stays(store: Store) -> None:
    begin(store)
    put(store, b"a")
    ack(store, *take(store))

    assert tubes(store) == [TUBE]
    assert counts(store) == (0, 0, 0, 0, 1)


# -- ids and order --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_ids_count_from_0_and_none_comes_again(store: Store, kind: bytes) -> None:
    begin(store, kind)
    assert put(store, b"a", b"b") == [b"0", b"1"]
    ack(store, *take(store, ALL))
    delete(store, b"1")
    assert counts(store)[:4] == NOTHING[:4]

    assert put(store, b"c") == [b"2"]
    assert delete(store, b"2") == [(b"2", GONE)]
    assert put(store, b"d", queue=TUBE) == [b"3"]
    assert make(store, kind, OTHER)
    assert put(store, b"e", queue=OTHER) == [b"0"]


def test_an_id_is_known_in_its_one_form(store: Store) -> None:
    begin(store)
    put(store, b"a")
    take(store)
    forms = [b"", b"00", b"-0", b"+0", b" 0", b"0 ", b"0.0", b"x", b"9" * 400, b"1", b"\xff"]

    assert store.run(PeekTasks(TUBE, forms)) == [None] * len(forms)
    for word in (ack, release, bury, delete):
        assert word(store, *forms) == [None] * len(forms)
    assert state(store, b"0") == TAKEN


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_is_what_was_put_in_that_order(store: Store, kind: bytes) -> None:
    begin(store, kind, width=10)
    bodies = [b"", b"\r\n\0\xff", b"x" * 5_000, b"\xc1"]
    added = put_views(store, *bodies[:2]) + put_views(store, *bodies[2:])
    assert [(it.message_id, it.state, it.body) for it in added] == [
        (b"%d" % number, READY, body) for number, body in enumerate(bodies)
    ]

    given = take_views(store, 3) + take_views(store, 3)

    assert [(it.message_id, it.body) for it in given] == [
        (b"%d" % number, body) for number, body in enumerate(bodies)
    ]
    assert take(store, 1, BEN) == []


@pytest.mark.parametrize("kind", [b"fifottl", b"limfifottl", b"utubettl"])
def test_a_smaller_priority_is_taken_and_kicked_first(store: Store, kind: bytes) -> None:
    begin(store, kind, pri=5, width=10)
    priorities = [None, 5, 4, PRIORITY_MOST, 0, 4, PRIORITY_MOST - 1]
    ids = [put_one(store, pri=pri) for pri in priorities]
    in_order = [ids[at] for at in (4, 2, 5, 0, 1, 6, 3)]

    assert take(store, 2) + take(store, 5) == in_order
    bury(store, *reversed(ids))
    for id in in_order:
        assert kick(store) == 1
        assert state(store, id) == READY
    assert take(store, ALL) == in_order


@pytest.mark.parametrize("kind", [b"fifo", b"utube"])
def test_where_there_are_no_times_nothing_of_the_kind_is_heard(store: Store, kind: bytes) -> None:
    begin(store, kind, width=10)
    first = put_one(store, ttl_ms=0, ttr_ms=0, pri=9, delay_ms=5_000)
    second = put_one(store, pri=1)

    assert states(store, first, second) == [READY, READY]
    assert take(store, 5) == [first, second]
    assert release(store, first, delay_ms=5_000, pri=7, ttl_ms=0) == [(first, READY)]
    release(store, second)
    assert take(store, 5) == [first, second]
    store.commit()
    tick(store)
    assert store.next_due_ms() > store.now_ms() + HOUR_MS


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_comes_back_has_its_old_place(store: Store, kind: bytes) -> None:
    begin(store, kind, width=10)
    ids = put(store, b"a", b"b", b"c", b"d")
    assert take(store, 3) == ids[:3]

    bury(store, ids[1])
    release(store, ids[2])
    release(store, ids[0])
    kick(store)

    assert take(store, ALL) == ids


def test_large_tasks_are_handed_out_a_few_at_a_time_and_all_of_them(store: Store) -> None:
    begin(store)
    put(store, *[b"x" * 400_000] * 6)

    given = take(store, 6)

    assert 0 < len(given) < 6
    while some := take(store, 6):
        given += some
    assert given == [b"%d" % number for number in range(6)]


# -- all of a tube --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_all_taken_tasks_come_back_whoever_took_them(store: Store, kind: bytes) -> None:
    begin(store, kind, width=10)
    ids = put(store, *[b"x"] * 5)
    take(store, 2, ANN)
    take(store, 2, BEN)
    bury(store, ids[1])

    assert return_all(store) == 3
    assert return_all(store) == 0

    assert ack(store, ids[0]) == [None]
    assert counts(store) == (4, 0, 0, 1, 0)
    assert calls(store) == {"put": 5, "take": 4, "bury": 1, "release": 3}
    assert take(store, ALL) == [ids[0], *ids[2:]]


@pytest.mark.parametrize("kind", KINDS)
def test_an_emptied_tube_begins_again_and_knows_nobody_who_worked_there(
    store: Store, kind: bytes
) -> None:
    begin(store, kind)
    put(store, *[b"x"] * 4)
    take(store)
    bury(store, b"3")
    counted = calls(store)

    assert truncate(store) == 4
    assert truncate(store) == 0

    assert counts(store) == NOTHING
    assert calls(store) == counted
    assert put(store, b"new") == [b"0"]
    assert ack(store, b"0") == [None], "that was another task"
    assert take(store, ALL, BEN) == [b"0"], "no lane is busy"
    assert ack(store, b"0", session=BEN) == [(b"0", GONE)]
    assert drop(store)


# -- bounded tubes --------------------------------------------------------------------------------


def test_a_full_tube_takes_no_more_until_one_is_gone(store: Store) -> None:
    begin(store, b"limfifottl", capacity=3)
    put(store, b"a", delay_ms=HOUR_MS)

    assert put(store, b"b", b"c", b"d") == [b"1", b"2"]
    assert put(store, b"e") == []
    take(store)
    bury(store, b"2")
    assert put(store, b"e") == [], "it counts in any state"
    assert calls(store) == {"put": 3, "take": 1, "bury": 1}

    ack(store, b"1")
    assert put(store, b"e", b"f") == [b"3"]
    delete(store, b"2")
    assert put(store, b"f") == [b"4"]
    truncate(store)
    assert put(store, b"g", b"h") == [b"0", b"1"]


@pytest.mark.parametrize(("kind", "capacity"), [(b"limfifottl", 0), (b"fifottl", 1), (b"fifo", 1)])
def test_what_is_not_bounded_is_never_full(store: Store, kind: bytes, capacity: int) -> None:
    begin(store, kind, capacity=capacity)

    assert len(put(store, *[b"x"] * 50)) == 50
