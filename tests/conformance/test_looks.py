"""Looking without taking: the first items and tasks in a state, and one item by its id."""

from __future__ import annotations

import pytest

from quinque.errors import NoTube, WrongType
from quinque.model.families import ITEMS, JOBS
from quinque.model.limits import RESERVE_MOST_BYTES
from quinque.model.states import State
from quinque.model.tube_ops import BrowseTasks
from quinque.model.work_ops import Add, Browse, Show, Terms, WorkView
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.item_words import (
    ITEMS_QUEUE,
    MINUTE_MS,
    add,
    add_data,
    complete,
    extend,
    lease,
    lengths,
)
from tests.conformance.tube_words import (
    ALL,
    BEN,
    BURIED,
    DELAYED,
    READY,
    TAKEN,
    TUBE,
    ack,
    begin,
    bury,
    counts,
    delete,
    everything,
    kick,
    leave,
    put,
    put_one,
    take,
)

SECOND_MS = 1_000


def peek_items(store: Store, count: int = ALL, state: State = State.READY) -> list[bytes]:
    return [view.message_id for view in store.run(Browse(ITEMS, ITEMS_QUEUE, state, count))]


def show(store: Store, id: bytes, queue: bytes = ITEMS_QUEUE) -> WorkView | None:
    return store.run(Show(ITEMS, id, queue))


def browse(store: Store, state: State = READY, count: int = ALL) -> list[bytes]:
    views = store.run(BrowseTasks(TUBE, state, count))
    assert {view.state for view in views} <= {state}
    return [view.message_id for view in views]


# -- items ------------------------------------------------------------------------------------


def test_items_that_wait_are_seen_in_the_order_in_which_they_are_leased(store: Store) -> None:
    add(store, b"3", b"1", b"2")

    [first, second] = store.run(Browse(ITEMS, ITEMS_QUEUE, State.READY, 2))
    assert (first.message_id, first.body, first.state) == (b"3", b"3", State.READY)
    assert (second.message_id, second.due_within_ms) == (b"1", None)
    assert peek_items(store) == [b"3", b"1", b"2"]
    assert peek_items(store, -2) == [b"2", b"1"]

    assert lengths(store) == (3, 0)
    assert lease(store, 9) == [b"3", b"1", b"2"]


def test_items_that_are_leased_are_seen_with_what_is_left_of_the_lease(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1", b"2", b"3")
    lease(store, 2)
    extend(store, b"2", lease_ms=2 * MINUTE_MS)
    clock.advance(SECOND_MS)

    assert peek_items(store) == [b"3"]
    assert len(peek_items(store, 1, State.LEASED)) == 1
    views = store.run(Browse(ITEMS, ITEMS_QUEUE, State.LEASED, ALL))
    left_ms = {view.message_id: view.due_within_ms for view in views}
    assert left_ms == {b"1": MINUTE_MS - SECOND_MS, b"2": 2 * MINUTE_MS - SECOND_MS}

    clock.advance(MINUTE_MS)
    assert peek_items(store, ALL, State.LEASED) == [b"2"]
    assert peek_items(store) == [b"3", b"1"]


def test_items_that_are_done_are_not_seen(store: Store) -> None:
    add(store, b"1", b"2", b"3", b"4")
    lease(store)
    complete(store, b"1", b"2")

    assert peek_items(store, 1) == [b"3"]
    assert peek_items(store, ALL, State.LEASED) == []
    assert [show(store, id) for id in (b"1", b"2")] == [None, None]


def test_one_item_is_shown_as_it_is(store: Store, clock: ManualClock) -> None:
    add_data(store, b"1", b"one")
    add_data(store, b"2", b"two")
    add_data(store, b"1", b"another", queue=b"{other}")
    lease(store)
    clock.advance(SECOND_MS)

    leased, ready, other = show(store, b"1"), show(store, b"2"), show(store, b"1", b"{other}")

    assert leased is not None
    assert ready is not None
    assert other is not None
    assert (leased.state, leased.body) == (State.LEASED, b"one")
    assert leased.due_within_ms == MINUTE_MS - SECOND_MS
    assert (ready.state, ready.body, ready.due_within_ms) == (State.READY, b"two", None)
    assert (other.state, other.body) == (State.READY, b"another")
    assert show(store, b"3") is None
    assert show(store, b"1", b"{nowhere}") is None


def test_a_look_at_items_has_about_as_much_as_one_operation_hands_out(store: Store) -> None:
    large = b"x" * (RESERVE_MOST_BYTES // 2)
    for id in (b"1", b"2", b"3"):
        add_data(store, id, large)

    assert peek_items(store) == [b"1", b"2"]
    assert peek_items(store, 1) == [b"1"]


def test_many_items_are_seen_at_once(store: Store) -> None:
    ids = [b"%d" % number for number in range(1_300)]
    add(store, *ids)

    assert peek_items(store, 1_200) == ids[:1_200]
    lease(store, 600)
    assert sorted(peek_items(store, ALL, State.LEASED)) == sorted(ids[:600])


def test_items_of_a_queue_that_is_not_there_or_in_a_state_that_they_have_not_are_none(
    store: Store,
) -> None:
    assert peek_items(store) == []
    add(store, b"1")

    assert peek_items(store, ALL, State.DEAD) == []
    assert peek_items(store, ALL, State.DELAYED) == []


def test_a_look_at_items_of_another_family_is_refused(store: Store) -> None:
    store.run(Add(JOBS, ITEMS_QUEUE, [b"x"], Terms(ttl_ms=MINUTE_MS)))

    with pytest.raises(WrongType):
        peek_items(store)
    with pytest.raises(WrongType):
        show(store, b"1")


# -- tubes ------------------------------------------------------------------------------------


def test_tasks_are_seen_in_the_order_in_which_they_would_be_taken(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"a", b"b", pri=2)
    put(store, b"c", pri=1)

    [first, second] = store.run(BrowseTasks(TUBE, READY, 2))
    assert (first.message_id, first.state, first.body) == (b"2", READY, b"c")
    assert (second.message_id, second.body) == (b"0", b"a")
    assert browse(store) == [b"2", b"0", b"1"]

    assert counts(store) == (3, 0, 0, 0, 0)
    assert take(store, ALL) == [b"2", b"0", b"1"]


def test_tasks_of_each_state_are_seen_and_stay_in_it(store: Store) -> None:
    begin(store, b"fifottl")
    put(store, b"a", b"b", b"c", b"d", b"e")
    put(store, b"late", b"later", delay_ms=MINUTE_MS)
    take(store)
    take(store, session=BEN)
    bury(store, b"3", b"2")
    before = everything(store)

    assert browse(store) == [b"4"]
    assert sorted(browse(store, TAKEN)) == [b"0", b"1"]
    assert browse(store, DELAYED) == [b"5", b"6"]
    assert browse(store, BURIED) == [b"2", b"3"]
    assert [len(browse(store, state, 1)) for state in State] == [1] * 4

    assert everything(store) == before


def test_tasks_that_went_on_are_seen_where_they_are(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")
    put_one(store, ttr_ms=SECOND_MS)
    put_one(store, delay_ms=SECOND_MS)
    put(store, b"a", b"b", b"c")
    put_one(store, ttl_ms=SECOND_MS)
    take(store)
    take(store, 2, BEN)
    ack(store, b"2", session=BEN)
    bury(store, b"4")

    clock.advance(SECOND_MS)
    leave(store, BEN)
    kick(store)
    assert browse(store) == [b"0", b"1", b"3", b"4"]
    assert [browse(store, state) for state in (TAKEN, DELAYED, BURIED)] == [[], [], []]

    delete(store, b"1")
    assert browse(store) == [b"0", b"3", b"4"]


@pytest.mark.parametrize("kind", [b"utube", b"utubettl"])
def test_all_tasks_of_lanes_are_seen_and_those_that_may_be_taken_first(
    store: Store, kind: bytes
) -> None:
    begin(store, kind)
    for lane in (b"a", b"a", b"b", b"a", b"b", b"c"):
        put_one(store, lane=lane)

    assert browse(store, READY, 3) == [b"0", b"2", b"5"]
    assert sorted(browse(store)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert len(browse(store, READY, 4)) == 4

    assert take(store, lane=b"a") == [b"0"]
    assert browse(store, READY, 2) == [b"2", b"5"]
    assert sorted(browse(store)) == [b"1", b"2", b"3", b"4", b"5"]
    assert browse(store, TAKEN) == [b"0"]


def test_a_look_at_tasks_has_about_as_much_as_one_operation_hands_out(store: Store) -> None:
    begin(store)
    large = b"x" * (RESERVE_MOST_BYTES // 2)
    put(store, large, large, large)

    assert browse(store) == [b"0", b"1"]
    bury(store, b"0", b"1", b"2")
    assert browse(store, BURIED) == [b"0", b"1"]


def test_many_tasks_are_seen_at_once(store: Store) -> None:
    begin(store)
    ids = put(store, *[b"%d" % number for number in range(1_300)])

    assert browse(store, READY, 1_200) == ids[:1_200]
    take(store, 600)
    assert sorted(browse(store, TAKEN)) == sorted(ids[:600])


def test_a_look_through_a_tube_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(NoTube):
        browse(store)

    store.run(Add(JOBS, TUBE, [b"x"], Terms(ttl_ms=MINUTE_MS)))
    with pytest.raises(WrongType):
        browse(store)
