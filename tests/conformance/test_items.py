"""Items: adding, leasing, completing, extending, counting and cleaning, a rule per test."""

from __future__ import annotations

import pytest

from quinque.errors import QuinqueError, WrongType
from quinque.model.families import EVENTS, ITEMS, JOBS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.ops import Op, Put
from quinque.model.own_ops import AddItems, CleanItems, Complete, ExtendLeases
from quinque.model.work_ops import Add, LookAt, Take, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.item_words import (
    ITEMS_QUEUE,
    MINUTE_MS,
    add,
    add_data,
    clean,
    complete,
    extend,
    lease,
    lease_data,
    lengths,
    queues,
)
from tests.conformance.record_words import Seen, seen

# -- adding -----------------------------------------------------------------------------------


def test_items_are_leased_in_the_order_they_were_added(store: Store) -> None:
    assert add(store, b"3", b"1") == [True, True]
    assert add(store, b"2", prefix=b"data of ") == [True]

    assert lease_data(store, 2) == [(b"3", b"3"), (b"1", b"1")]
    assert lease_data(store, 2) == [(b"2", b"data of 2")]
    assert lease(store) == []


def test_an_item_that_is_there_stays_as_it_is(store: Store) -> None:
    add(store, b"queued", b"leased")
    assert lease(store) == [b"queued"]
    add(store, b"last")

    assert add(store, b"leased", b"queued", b"new", prefix=b"other ") == [False, False, True]

    assert lengths(store) == (3, 1)
    wanted = [(b"leased", b"leased"), (b"last", b"last"), (b"new", b"other new")]
    assert lease_data(store, 9) == wanted


def test_an_id_that_is_named_twice_is_new_once(store: Store) -> None:
    op = AddItems(ITEMS, ITEMS_QUEUE, [b"1", b"2", b"1"], [b"a", b"b", b"c"])

    assert store.run(op) == [True, True, False]
    assert lease_data(store, 9) == [(b"1", b"a"), (b"2", b"b")]


def test_an_item_that_is_done_may_be_added_again(store: Store) -> None:
    add(store, b"1", b"2")
    complete(store, b"1")

    assert add_data(store, b"1", b"again")
    assert lease_data(store, 9) == [(b"2", b"2"), (b"1", b"again")]


def test_an_item_that_was_said_to_be_new_and_is_not_has_the_new_data(store: Store) -> None:
    """It is where it was, and is not there twice."""
    add(store, b"leased", b"queued", b"last")
    assert lease(store) == [b"leased"]

    assert add_data(store, b"new", b"new", is_known_new=True)
    assert not add_data(store, b"queued", b"better", is_known_new=True)
    assert not add_data(store, b"leased", b"better", is_known_new=True)

    assert lengths(store) == (3, 1)
    wanted = [(b"queued", b"better"), (b"last", b"last"), (b"new", b"new")]
    assert lease_data(store, 9) == wanted
    assert complete(store, b"leased", b"queued") == [True, True]


def test_items_said_to_be_new_may_be_many_and_some_there_and_some_twice(store: Store) -> None:
    add(store, b"1")
    ids, data = [b"1", b"2", b"2"], [b"a", b"b", b"c"]

    op = AddItems(ITEMS, ITEMS_QUEUE, ids, data, is_known_new=True)

    assert store.run(op) == [False, True, False]
    assert lease_data(store, 9) == [(b"1", b"a"), (b"2", b"c")]


@pytest.mark.parametrize(
    ("id", "data"),
    [
        (b"\0\r\n\xff", b"\0\r\n\xff"),
        (b"*?[a]:{b}", b""),
        (b":queue", b":processing"),
        (b"x" * 1_024, b"x" * 100_000),
    ],
)
def test_ids_and_data_are_any_bytes(store: Store, id: bytes, data: bytes) -> None:
    add_data(store, id, data)

    assert not add_data(store, id, b"other")
    assert lease_data(store) == [(id, data)]
    assert extend(store, id) == [True]
    assert complete(store, id) == [True]


def test_the_same_id_in_another_queue_is_another_item(store: Store) -> None:
    """Also where one queue's name is the beginning of the other's."""
    other = ITEMS_QUEUE + b":item"
    add(store, b"1", b"2")
    add(store, b"1", b"3", queue=other, prefix=b"other ")

    assert lease(store) == [b"1"]
    assert complete(store, b"1", b"3") == [True, False]

    assert (lengths(store), lengths(store, other)) == ((1, 0), (2, 0))
    assert lease_data(store, 9, queue=other) == [(b"1", b"other 1"), (b"3", b"other 3")]
    assert queues(store) == [ITEMS_QUEUE, other]


def test_a_queue_of_any_name(store: Store) -> None:
    name = b"{\xff}*?[x]\r\n"

    assert add(store, b"1", b"2", queue=name) == [True, True]
    assert lease(store, queue=name) == [b"1"]
    assert clean(store, is_deep=True, queue=name).returned == 0
    assert (lengths(store, name), queues(store)) == ((1, 1), [name])


def test_thousands_at_once(store: Store) -> None:
    ids = [b"%d" % number for number in range(3_000)]

    assert add(store, *ids) == [True] * 3_000
    given: list[bytes] = []
    while some := lease(store, 1_000):
        given += some
    assert given == ids
    assert extend(store, *ids) == [True] * 3_000
    assert complete(store, *ids) == [True] * 3_000
    assert lengths(store) == (0, 0)


# -- leasing ----------------------------------------------------------------------------------


def test_there_is_nothing_to_lease_where_nothing_was_added(store: Store) -> None:
    assert lease(store, queue=b"{nothing}") == []
    assert lengths(store, b"{nothing}") == (0, 0)


def test_an_item_is_leased_to_one_worker(store: Store) -> None:
    add(store, b"1")

    assert lease(store) == [b"1"]
    assert lease(store) == []
    assert lengths(store) == (0, 1)


def test_items_come_from_several_queues(store: Store) -> None:
    add(store, b"1", b"2")
    add(store, b"3", queue=b"{i}2")

    taken = store.run(Take(ITEMS, [ITEMS_QUEUE, b"{i}2"], 9, lease_ms=MINUTE_MS))

    assert sorted((item.queue, item.message_id) for item in taken) == [
        (ITEMS_QUEUE, b"1"),
        (ITEMS_QUEUE, b"2"),
        (b"{i}2", b"3"),
    ]


# -- completing -------------------------------------------------------------------------------


def test_an_item_is_completed_once(store: Store) -> None:
    add(store, b"1", b"2")
    lease(store, 2)

    assert complete(store, b"1") == [True]
    assert complete(store, b"1", b"2", b"2", b"3") == [False, True, False, False]
    assert lengths(store) == (0, 0)


def test_an_item_that_nobody_has_may_be_completed_and_is_not_leased_then(store: Store) -> None:
    add(store, b"1", b"2", b"3")

    assert complete(store, b"2") == [True]

    assert lengths(store) == (2, 0)
    assert lease(store, 9) == [b"1", b"3"]


def test_nothing_is_completed_where_there_is_no_queue(store: Store) -> None:
    assert complete(store, b"1", b"2", queue=b"{nothing}") == [False, False]


# -- extending --------------------------------------------------------------------------------


def test_only_a_lease_that_runs_is_extended(store: Store) -> None:
    add(store, b"leased", b"done", b"queued")
    lease(store, 2)
    complete(store, b"done")

    assert extend(store, b"leased", b"done", b"queued", b"nobody", b"leased") == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert lengths(store) == (1, 1)
    assert extend(store, b"1", queue=b"{nothing}") == [False]


# -- cleaning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_deep", [False, True])
def test_where_nothing_is_wrong_cleaning_changes_nothing(store: Store, is_deep: bool) -> None:
    add(store, *(b"%d" % number for number in range(10)))
    lease(store, 5)

    done = clean(store, is_deep=is_deep, count=3)

    assert (done.returned, done.dropped, done.doubled) == (0, 0, 0)
    assert lengths(store) == (5, 5)
    assert lease(store, 9) == [b"%d" % number for number in range(5, 10)]


@pytest.mark.parametrize("is_deep", [False, True])
def test_there_is_nothing_to_clean_where_nothing_is(store: Store, is_deep: bool) -> None:
    done = clean(store, is_deep=is_deep, queue=b"{nothing}")

    assert (done.looked_at, done.returned, done.dropped, done.doubled) == (0, 0, 0, 0)


# -- promises ---------------------------------------------------------------------------------


REFUSED: list[Op] = [
    AddItems(ITEMS, b"{i}jobs", [b"1"], [b"x"]),
    AddItems(ITEMS, b"{i}events", [b"1"], [b"x"], is_known_new=True),
    Take(ITEMS, [b"{i}jobs"], lease_ms=1_000),
    Take(ITEMS, [ITEMS_QUEUE, b"{i}jobs"], lease_ms=1_000),
    Complete(ITEMS, b"{i}jobs", [b"1"], is_leased=False),
    ExtendLeases(ITEMS, b"{i}events", [b"1"], 1_000),
    LookAt(ITEMS, b"{i}jobs"),
    CleanItems(ITEMS, b"{i}jobs", is_deep=False),
    Add(JOBS, ITEMS_QUEUE, [b"x"], Terms(MINUTE_MS)),
    Take(JOBS, [ITEMS_QUEUE]),
    LookAt(JOBS, ITEMS_QUEUE),
    Put(EVENTS, ITEMS_QUEUE, [b"x"]),
]


@pytest.mark.parametrize("op", REFUSED, ids=lambda op: f"{type(op).__name__}-{op.family.name}")
def test_2_an_operation_of_another_family_is_refused_and_changes_nothing(
    store: Store, op: Op
) -> None:
    store.run(Add(JOBS, b"{i}jobs", [b"job"], Terms(MINUTE_MS)))
    store.run(Put(EVENTS, b"{i}events", [b"event"]))
    add(store, b"leased", b"queued")
    lease(store)
    store.ready.clear()

    with pytest.raises(WrongType):
        store.run(op)

    assert lengths(store) == (1, 1)
    jobs = store.run(LookAt(JOBS, b"{i}jobs"))
    assert jobs is not None
    assert (jobs.ready, jobs.leased) == (1, 0)
    assert store.ready == set()
    assert lease(store, 9) == [b"queued"]


def test_2_a_queue_with_nothing_in_it_belongs_to_any_family(store: Store) -> None:
    add(store, b"1")
    complete(store, b"1")
    lease(store, queue=b"{asked for}")

    for name in (ITEMS_QUEUE, b"{asked for}"):
        store.run(Add(JOBS, name, [b"job"], Terms(MINUTE_MS)))
        with pytest.raises(WrongType):
            add(store, b"1", queue=name)


def test_3_a_repeat_of_what_took_effect_does_no_harm(store: Store) -> None:
    add(store, b"1", b"2", b"3")
    lease(store, 2)
    ops: list[Op] = [
        AddItems(ITEMS, ITEMS_QUEUE, [b"1", b"4"], [b"x", b"x"]),
        AddItems(ITEMS, ITEMS_QUEUE, [b"5"], [b"x"], is_known_new=True),
        ExtendLeases(ITEMS, ITEMS_QUEUE, [b"1"], MINUTE_MS),
        Complete(ITEMS, ITEMS_QUEUE, [b"2"], is_leased=False),
        CleanItems(ITEMS, ITEMS_QUEUE, is_deep=True),
    ]
    for op in ops:
        store.run(op)
        before = lengths(store)

        store.run(op)

        assert lengths(store) == before
    assert lease(store, 9) == [b"3", b"4", b"5"]


def test_1_a_queue_that_gets_something_to_deliver_is_ready(store: Store) -> None:
    add(store, b"1")
    assert store.ready == {ITEMS_QUEUE}
    store.ready.clear()

    assert add(store, b"1") == [False]
    assert not add_data(store, b"1", b"x", is_known_new=True)
    lease(store)
    extend(store, b"1")
    complete(store, b"1")

    assert store.ready == set()


def test_8_what_was_committed_is_there_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, b"leased", b"done", b"queued", b"better")
    lease(store, 2)
    complete(store, b"done")
    add_data(store, b"better", b"data", is_known_new=True)
    store.commit()

    store = reopen(clock)

    assert lengths(store) == (2, 1)
    assert add(store, b"queued", b"leased", b"done") == [False, False, True]
    assert lease_data(store, 9) == [
        (b"queued", b"queued"),
        (b"better", b"data"),
        (b"done", b"done"),
    ]
    assert complete(store, b"leased", b"queued", b"better", b"done") == [True] * 4
    assert lengths(reopen(clock)) == (0, 0)


def test_11_data_may_be_on_disk(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    store.configure("no", 1)
    add(store, b"1", b"2", prefix=b"data of ")
    store.commit()
    add_data(store, b"2", b"better", is_known_new=True)
    store.commit()

    assert lease_data(store) == [(b"1", b"data of 1")]
    store = reopen(clock)
    assert lease_data(store) == [(b"2", b"better")]


def test_14_what_happens_to_an_item_is_on_record(store: Store) -> None:
    none = Reason.NONE
    add(store, b"1", b"22")
    add(store, b"1")
    lease(store)
    extend(store, b"1")
    complete(store, b"1", b"22")

    assert seen(store, ITEMS_QUEUE) == [
        Seen(Kind.ADDED, none, b"1", size=1),
        Seen(Kind.ADDED, none, b"22", size=2),
        Seen(Kind.DELIVERED, none, b"1"),
        Seen(Kind.HELD, none, b"1"),
        Seen(Kind.ACKED, none, b"1"),
        Seen(Kind.ACKED, none, b"22"),
    ]


def test_an_error_is_one_of_ours(store: Store) -> None:
    """Whatever is refused, is refused with words of our own and not those of a server behind."""
    store.run(Put(EVENTS, b"{i}events", [b"event"]))

    with pytest.raises(QuinqueError):
        add(store, b"1", queue=b"{i}events")
