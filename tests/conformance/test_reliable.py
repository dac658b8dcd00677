"""Elements of the reliable family: pushed, popped, acked, recovered and inspected."""

from __future__ import annotations

import pytest

from quinque.errors import Leaving, WrongType
from quinque.model.families import JOBS, RELIABLE
from quinque.model.lifecycle import Kind, Reason
from quinque.model.ops import Op
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Recover, Undeliver
from quinque.model.work_ops import Add, LookAt, SetNode, Take, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.record_words import Seen as OnRecord
from tests.conformance.record_words import seen
from tests.conformance.reliable_words import (
    ALL,
    HOUR_MS,
    OTHER,
    QUEUE,
    ack,
    all_queues,
    delivered,
    everything,
    family,
    inspect,
    key_of,
    lengths,
    pop,
    popped,
    push,
    push_one,
    recover,
    recovered,
    waiting,
)

UNKNOWN = b"1-1"
JOB_QUEUE = b"{r}job"


def add_job(store: Store) -> None:
    """A queue of another family."""
    store.run(Add(JOBS, JOB_QUEUE, [b"job"], Terms(HOUR_MS)))


# -- pushing -----------------------------------------------------------------------------------


def test_ids_are_the_millisecond_and_a_number_from_1_on(store: Store, clock: ManualClock) -> None:
    began_ms = store.now_ms()
    ids = [*push(store, b"a", b"b"), *push(store, b"c")]
    clock.advance(5)
    ids += push(store, b"d", b"e")

    assert list(map(key_of, ids)) == [
        (began_ms, 1),
        (began_ms, 2),
        (began_ms, 3),
        (began_ms + 5, 1),
        (began_ms + 5, 2),
    ]


def test_ids_do_not_begin_again_when_the_queue_is_empty(store: Store) -> None:
    first = push_one(store)
    pop(store)
    ack(store, first)

    assert key_of(push_one(store)) > key_of(first)


def test_a_push_makes_the_queue_and_the_elements_wait_in_order(store: Store) -> None:
    assert lengths(store) is None

    first, second = push(store, b"a", b"b")
    third = push_one(store, b"")

    assert lengths(store) == (3, 0)
    assert inspect(store) == [(first, b"a", 0, 0), (second, b"b", 0, 0), (third, b"", 0, 0)]
    assert all_queues(store) == [QUEUE]


@pytest.mark.parametrize("body", [b"", b"\r\n\0\xff", b"x" * 100_000])
def test_an_element_is_any_bytes_and_so_is_a_name(store: Store, body: bytes) -> None:
    push(store, body, queue=b"\xff{r}\r\n")

    (given,) = pop(store, 1, b"\xff{r}\r\n")
    assert (given.queue, given.body) == (b"\xff{r}\r\n", body)


# -- popping -----------------------------------------------------------------------------------


def test_what_is_popped_is_delivered_once_and_stays_so(store: Store, clock: ManualClock) -> None:
    ids = push(store, b"a", b"b", b"c")

    given = pop(store, 2)

    assert [(it.queue, it.message_id, it.body) for it in given] == [
        (QUEUE, ids[0], b"a"),
        (QUEUE, ids[1], b"b"),
    ]
    assert lengths(store) == (1, 2)
    clock.advance(100 * 24 * HOUR_MS)
    assert lengths(store) == (1, 2)
    assert popped(store, ALL) == [b"c"]
    assert popped(store, ALL) == []


def test_queues_are_emptied_from_left_to_right(store: Store) -> None:
    push(store, b"a1", b"a2", queue=b"{r}a")
    push(store, b"b1", b"b2", queue=b"{x}b")
    push(store, b"c1", queue=b"{r}c")

    assert popped(store, 3, b"{x}b", b"{r}none", b"{r}a", b"{r}c") == [b"b1", b"b2", b"a1"]
    assert popped(store, 3, b"{x}b", b"{r}none", b"{r}a", b"{r}c") == [b"a2", b"c1"]
    assert popped(store, 3, b"{x}b", b"{r}none", b"{r}a", b"{r}c") == []


def test_a_queue_is_not_made_by_asking(store: Store) -> None:
    assert pop(store) == []

    assert (lengths(store), family(store), all_queues(store)) == (None, None, [])


def test_another_family_is_refused_only_where_nothing_came_before(store: Store) -> None:
    add_job(store)
    push(store, b"1", b"2", b"3", queue=OTHER)

    with pytest.raises(WrongType):
        pop(store, 1, JOB_QUEUE, OTHER)
    with pytest.raises(WrongType):
        pop(store, 1, QUEUE, JOB_QUEUE)
    assert lengths(store, OTHER) == (3, 0)

    push(store, b"0")
    assert popped(store, 3, QUEUE, JOB_QUEUE, OTHER) == [b"0", b"1", b"2"]
    assert popped(store, 1, OTHER, JOB_QUEUE) == [b"3"]


def test_large_elements_are_handed_out_a_few_at_a_time_and_all_of_them(store: Store) -> None:
    push(store, *[b"x" * 400_000] * 6)

    given = pop(store, 6)

    assert 0 < len(given) < 6
    while some := pop(store, 6):
        given += some
    assert len(given) == 6


def test_nobody_waits_on_a_node_that_leaves(store: Store) -> None:
    store.run(SetNode(is_leaving=True))

    with pytest.raises(Leaving):
        store.run(Take(RELIABLE, [QUEUE], is_waiting=True, is_drained=True))

    assert all_queues(store) == []


# -- acking ------------------------------------------------------------------------------------


def test_only_what_is_delivered_is_acked_and_only_once(store: Store) -> None:
    first, second, third = push(store, b"a", b"b", b"c")
    pop(store, 2)

    assert ack(store, second, first, third, second, UNKNOWN) == [True, True, False, False, False]

    assert lengths(store) == (1, 0)
    assert ack(store, first, second) == [False, False]
    assert popped(store, ALL) == [b"c"]


def test_an_id_is_known_in_its_one_form(store: Store) -> None:
    id = push_one(store)
    pop(store)
    forms = [b"%b0", b"0%b", b"%b-1", b" %b", b"%bxyz", b"7" * 400 + b"%b"]

    assert ack(store, *[form % id for form in forms], b"", b"-") == [False] * 8
    assert ack(store, id) == [True]


def test_an_id_is_known_in_its_own_queue_only(store: Store) -> None:
    id = push_one(store)
    push(store, b"2", queue=OTHER)
    pop(store)

    assert ack(store, id, queue=OTHER) == [False]
    assert ack(store, id, queue=b"{r}none") is None
    assert ack(store, id) == [True]


# -- recovering --------------------------------------------------------------------------------


def test_what_was_delivered_long_enough_ago_is_delivered_again(
    store: Store, clock: ManualClock
) -> None:
    first, second = push(store, b"a", b"b")
    began_ms = store.now_ms()
    pop(store)
    clock.advance(1_000)
    pop(store)
    clock.advance(4_000)

    given = recover(store, elapsed_ms=5_000)

    assert given is not None
    assert [(it.queue, it.message_id, it.body) for it in given] == [(QUEUE, first, b"a")]
    assert inspect(store, is_leased=True) == [
        (second, b"b", began_ms + 1_000, 1),
        (first, b"a", began_ms + 5_000, 2),
    ]
    assert recovered(store, elapsed_ms=4_001) == []
    assert recovered(store, elapsed_ms=4_000) == [b"b"]


def test_each_is_recovered_once_whatever_the_count(store: Store) -> None:
    push(store, b"a", b"b", b"c")
    pop(store, 3)

    assert recovered(store, 10) == [b"a", b"b", b"c"]
    assert recovered(store, 2) == [b"a", b"b"]
    assert recovered(store, 2) == [b"c", b"a"]
    assert [(it.body, it.deliveries) for it in inspect(store, is_leased=True)] == [
        (b"b", 3),
        (b"c", 3),
        (b"a", 4),
    ]


def test_what_was_never_delivered_is_not_recovered(store: Store) -> None:
    push(store, b"a")

    assert recovered(store) == []
    assert recovered(store, 0) == []
    assert recover(store, queue=b"{r}none") is None
    assert recover(store, 0, queue=b"{r}none") is None
    assert lengths(store) == (1, 0)


def test_what_was_recovered_is_acked_once(store: Store) -> None:
    id = push_one(store)
    pop(store)
    recover(store)

    assert ack(store, id) == [True]
    assert recovered(store) == []


def test_many_large_ones_are_recovered_a_few_at_a_time(store: Store, clock: ManualClock) -> None:
    push(store, *[b"%d" % number + b"x" * 400_000 for number in range(6)])
    while pop(store, 6):
        pass
    clock.advance(1_000)

    found = recovered(store, 6, elapsed_ms=1_000)
    assert 0 < len(found) < 6
    while some := recovered(store, 6, elapsed_ms=1_000):
        found += some
    assert [body[:1] for body in found] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_the_order_of_deliveries_is_that_in_which_they_were_made(store: Store) -> None:
    ids = push(store, *[b"%d" % number for number in range(100)])
    pop(store, 50)
    recover(store, 20)
    pop(store, 50)
    ack(store, *ids[25:30])
    recover(store, 10)

    order = [*range(35, 50), *range(20), *range(50, 100), *range(20, 25), *range(30, 35)]
    assert delivered(store) == [b"%d" % number for number in order]


# -- looking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_look_begins_where_it_is_told_to(store: Store, is_leased: bool) -> None:
    push(store, *[b"%d" % number for number in range(6)])
    if is_leased:
        pop(store, 6)
        push(store, b"not this one")
    before = everything(store)

    for start, count, found in (
        (0, 3, b"012"),
        (4, 10, b"45"),
        (-2, 2, b"45"),
        (-2, 1, b"4"),
        (-6, 1, b"0"),
        (-7, 10, b""),
        (-100, 200, b""),
        (6, 1, b""),
        ((1 << 53) - 1, (1 << 53) - 1, b""),
        (0, (1 << 53) - 1, b"012345"),
    ):
        bodies = [it.body for it in inspect(store, start, count, is_leased=is_leased)]
        assert b"".join(bodies) == found, (start, count)

    assert everything(store) == before


def test_there_is_nothing_to_see_in_an_empty_list(store: Store) -> None:
    push(store, b"1")
    (given,) = pop(store)
    ack(store, given.message_id)

    for is_leased in (False, True):
        for start in (0, 1, -1):
            assert inspect(store, start, 10, is_leased=is_leased) == []
            assert store.run(Inspect(RELIABLE, OTHER, is_leased, start, 10)) is None


def test_places_in_the_list_are_counted_without_those_that_left(store: Store) -> None:
    ids = push(store, *[b"%d" % number for number in range(1_000)])
    pop(store, 600)
    ack(store, *ids[:300], *ids[400:500])

    assert delivered(store, 99, 2) == [b"399", b"500"]
    assert delivered(store, -1, 2) == [b"599"]
    assert waiting(store, 10, 1) == [b"610"]
    assert lengths(store) == (400, 200)


def test_a_look_at_many_large_ones_ends_early(store: Store) -> None:
    push(store, *[b"x" * 400_000] * 6)

    assert 0 < len(inspect(store, 0, 6)) < 6


def test_a_queue_of_another_family_is_refused(store: Store) -> None:
    add_job(store)
    ops: list[Op] = [
        Add(RELIABLE, JOB_QUEUE, [b"1"], RELIABLE_TERMS),
        Take(RELIABLE, [JOB_QUEUE]),
        Complete(RELIABLE, JOB_QUEUE, [UNKNOWN], is_leased=True),
        Recover(RELIABLE, JOB_QUEUE, 1, 0),
        Inspect(RELIABLE, JOB_QUEUE, False, 0, 1),
        Inspect(RELIABLE, JOB_QUEUE, True, 0, 1),
        LookAt(RELIABLE, JOB_QUEUE),
    ]

    for op in ops:
        with pytest.raises(WrongType):
            store.run(op)

    view = store.run(LookAt(JOBS, JOB_QUEUE))
    assert view is not None
    assert view.ready == 1


def test_other_families_are_refused_on_a_queue_of_this_one_also_when_it_is_empty(
    store: Store,
) -> None:
    push(store, b"1")
    (given,) = pop(store)
    ack(store, given.message_id)

    with pytest.raises(WrongType):
        store.run(Add(JOBS, QUEUE, [b"job"], Terms(HOUR_MS)))
    with pytest.raises(WrongType):
        store.run(LookAt(JOBS, QUEUE))
    assert lengths(store) == (0, 0)


# -- the record --------------------------------------------------------------------------------


def test_what_happened_to_an_element_is_on_record(store: Store) -> None:
    id = push_one(store, b"body")
    pop(store)
    recover(store)
    ack(store, id)

    assert seen(store, QUEUE) == [
        OnRecord(Kind.ADDED, Reason.NONE, id, size=4),
        OnRecord(Kind.DELIVERED, Reason.NONE, id),
        OnRecord(Kind.DELIVERED, Reason.RECOVERED, id),
        OnRecord(Kind.ACKED, Reason.NONE, id),
    ]


def test_what_did_not_reach_its_consumer_is_where_it_was(store: Store) -> None:
    push(store, b"1", b"2", b"3")
    taken = pop(store, 2)

    assert store.run(Undeliver(RELIABLE, taken)) == 2
    assert store.run(Undeliver(RELIABLE, taken)) == 0
    assert delivered(store) == []
    assert popped(store, 5) == [b"1", b"2", b"3"]


def test_what_was_delivered_again_or_acked_since_is_not_taken_away(store: Store) -> None:
    push(store, b"1", b"2", b"3")
    first = pop(store, 3)
    recover(store, 1)
    ack(store, first[1].message_id)

    assert store.run(Undeliver(RELIABLE, first)) == 1
    assert delivered(store) == [b"1"]

    again = pop(store)
    assert store.run(Undeliver(RELIABLE, first)) == 0
    assert store.run(Undeliver(RELIABLE, again)) == 1
    assert popped(store, 5) == [b"3"]


def test_what_of_several_queues_did_not_reach_its_consumer_is_in_each(store: Store) -> None:
    push(store, b"1")
    push(store, b"2", queue=OTHER)
    taken = pop(store, 5, QUEUE, OTHER)

    assert store.run(Undeliver(RELIABLE, taken)) == 2
    assert popped(store) == [b"1"]
    assert popped(store, 1, OTHER) == [b"2"]
