"""Queues by their names: of which family, deleted, renamed, gone at a time; on every store."""

from __future__ import annotations

import pytest

from quinque.errors import NoQueue, WrongType
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.lifecycle import Kind, Reason
from quinque.model.ops import Op, Put
from quinque.model.own_ops import AddItems
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.work_ops import Add, Finish, LookAt, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.record_words import kinds
from tests.conformance.reliable_words import (
    HOUR_MS,
    OTHER,
    QUEUE,
    ack,
    all_queues,
    delete,
    delivered,
    everything,
    expire,
    expires_ms,
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
    rename,
)
from tests.conformance.words import tick

JOB_QUEUE = b"{r}job"
FEED = b"{r}feed"
ITEM_QUEUE = b"{r}item"


def fill_others(store: Store) -> None:
    """A queue of each of two other families."""
    store.run(Add(JOBS, JOB_QUEUE, [b"job"], Terms(HOUR_MS)))
    store.run(Put(EVENTS, FEED, [b"event"]))


# -- which family ------------------------------------------------------------------------------


def test_a_queue_is_of_the_family_that_made_it(store: Store) -> None:
    fill_others(store)
    push(store, b"1")
    push(store, b"1", queue=b"{x}")
    names = [b"{x}", FEED, b"{r}none", JOB_QUEUE, QUEUE, FEED]

    found = store.run(FindFamilies(names))

    assert found == [RELIABLE, EVENTS, None, JOBS, RELIABLE, EVENTS]
    assert store.run(FindFamilies(())) == []


def test_a_queue_of_items_is_one(store: Store) -> None:
    store.run(AddItems(ITEMS, ITEM_QUEUE, [b"id"], [b"data"]))

    assert family(store, ITEM_QUEUE) is ITEMS


def test_a_queue_is_there_from_its_first_element_until_it_is_deleted(
    store: Store, clock: ManualClock
) -> None:
    push(store, b"1")
    (given,) = pop(store)
    ack(store, given.message_id)

    clock.advance(100 * HOUR_MS)
    tick(store)

    assert (family(store), lengths(store), all_queues(store)) == (RELIABLE, (0, 0), [QUEUE])
    delete(store)
    assert (family(store), lengths(store), all_queues(store)) == (None, None, [])


# -- deleting ----------------------------------------------------------------------------------


def test_a_deleted_queue_is_gone_with_all_that_was_in_it(store: Store) -> None:
    ids = push(store, b"1", b"2")
    pop(store)
    push(store, b"3", queue=OTHER)
    push(store, b"4", queue=b"{x}")

    assert delete(store, QUEUE, b"{r}none", b"{x}", QUEUE) == 2

    assert (lengths(store), lengths(store, b"{x}"), lengths(store, OTHER)) == (None, None, (1, 0))
    assert (pop(store), ack(store, *ids), recover(store)) == ([], None, None)
    assert kinds(store, QUEUE)[-2:] == [(Kind.REMOVED, Reason.PURGED)] * 2


def test_ids_go_on_when_a_queue_is_made_again(store: Store) -> None:
    first = push_one(store)
    delete(store)

    assert key_of(push_one(store)) > key_of(first)
    assert lengths(store) == (1, 0)


def test_a_deleted_name_is_free_for_every_family(store: Store) -> None:
    push(store, b"1")
    delete(store)

    store.run(Add(JOBS, QUEUE, [b"job"], Terms(HOUR_MS)))

    assert family(store) is JOBS


# -- renaming ----------------------------------------------------------------------------------


def test_a_renamed_queue_is_the_same_under_another_name(store: Store, clock: ManualClock) -> None:
    push(store, *[b"%d" % number for number in range(6)])
    pop(store)
    clock.advance(5)
    pop(store, 2)
    recover(store, 1)
    waiting, leased = inspect(store), inspect(store, is_leased=True)

    assert rename(store, QUEUE, OTHER) is True

    assert (lengths(store), lengths(store, OTHER)) == (None, (3, 3))
    assert inspect(store, queue=OTHER) == waiting
    assert inspect(store, queue=OTHER, is_leased=True) == leased
    assert all_queues(store) == [OTHER]
    assert ack(store, leased[0].id, queue=OTHER) == [True]
    (given,) = pop(store, 1, OTHER)
    assert (given.queue, given.message_id) == (OTHER, waiting[0].id)


def test_a_queue_that_had_the_name_is_gone_or_stays(store: Store) -> None:
    push(store, b"1", b"2")
    push(store, b"other", queue=OTHER)

    assert rename(store, QUEUE, OTHER, only_free=True) is False
    assert (lengths(store), lengths(store, OTHER)) == ((2, 0), (1, 0))

    assert rename(store, QUEUE, OTHER) is True
    assert (lengths(store), popped(store, 5, OTHER)) == (None, [b"1", b"2"])
    assert rename(store, OTHER, QUEUE, only_free=True) is True
    assert delivered(store) == [b"1", b"2"]


def test_a_queue_may_be_given_the_name_it_has(store: Store) -> None:
    push(store, b"1")
    expire(store, HOUR_MS)
    before = everything(store)

    assert rename(store, QUEUE, QUEUE) is True
    assert rename(store, QUEUE, QUEUE, only_free=True) is False

    assert everything(store) == before


@pytest.mark.parametrize("only_free", [False, True])
def test_a_queue_that_is_not_there_has_no_other_name(store: Store, only_free: bool) -> None:
    push(store, b"1", queue=OTHER)

    with pytest.raises(NoQueue):
        rename(store, QUEUE, OTHER, only_free=only_free)
    with pytest.raises(NoQueue):
        rename(store, QUEUE, QUEUE, only_free=only_free)

    assert lengths(store, OTHER) == (1, 0)


def test_a_name_is_not_looked_at_for_a_queue_that_is_not_there(store: Store) -> None:
    fill_others(store)
    store.run(Finish(JOBS, store.run(Add(JOBS, OTHER, [b"1"], Terms(HOUR_MS)))))

    for name in (JOB_QUEUE, FEED, OTHER):
        with pytest.raises(NoQueue):
            rename(store, QUEUE, name)

    assert family(store, OTHER) is JOBS, "it is empty, and makes way only for another queue"


def test_the_old_name_can_be_used_again(store: Store) -> None:
    first = push_one(store, b"1")
    rename(store, QUEUE, OTHER)

    second = push_one(store, b"2")

    assert key_of(second) > key_of(first)
    assert (lengths(store), lengths(store, OTHER)) == ((1, 0), (1, 0))


def test_who_waits_on_the_new_name_is_told(store: Store) -> None:
    push(store, b"1")
    store.watched = {OTHER}
    store.ready.clear()

    rename(store, QUEUE, OTHER)

    assert OTHER in store.ready


# -- gone at a time ----------------------------------------------------------------------------


def test_a_queue_is_gone_in_that_millisecond(store: Store, clock: ManualClock) -> None:
    id = push_one(store)
    push(store, b"2")
    pop(store)
    assert expires_ms(store) == 0
    assert expire(store, 1_000) is True
    assert expires_ms(store) == store.now_ms() + 1_000

    clock.advance(999)
    assert (family(store), lengths(store)) == (RELIABLE, (1, 1))

    clock.advance(1)
    assert (family(store), lengths(store), expires_ms(store)) == (None, None, None)
    assert (pop(store), ack(store, id), recover(store)) == ([], None, None)
    assert all_queues(store) == []


@pytest.mark.parametrize("with_tick", [False, True])
def test_what_is_pushed_after_the_end_is_in_a_new_queue(
    store: Store, clock: ManualClock, with_tick: bool
) -> None:
    first = push_one(store)
    expire(store, 1_000)
    store.commit()
    assert store.next_due_ms() <= store.now_ms() + 1_000
    clock.advance(1_000)
    if with_tick:
        tick(store)

    second = push_one(store, b"2")

    assert key_of(second) > key_of(first)
    assert (lengths(store), expires_ms(store)) == ((1, 0), 0)
    assert [kind for kind, _ in kinds(store, QUEUE)].count(Kind.ADDED) == 2
    clock.advance(HOUR_MS)
    assert popped(store, 5) == [b"2"]


def test_the_end_can_be_moved_and_taken_back(store: Store, clock: ManualClock) -> None:
    push(store, b"1")
    expire(store, 1_000)
    expire(store, 2_000)
    clock.advance(1_999)
    assert store.run(SetExpiry(RELIABLE, QUEUE, 0)) is True
    assert store.run(SetExpiry(RELIABLE, QUEUE, 0)) is False
    assert expires_ms(store) == 0

    clock.advance(HOUR_MS)

    assert lengths(store) == (1, 0)


def test_an_end_that_is_over_is_at_once(store: Store) -> None:
    push(store, b"1")

    assert store.run(SetExpiry(RELIABLE, QUEUE, 1)) is True

    assert (family(store), lengths(store)) == (None, None)
    assert store.run(SetExpiry(RELIABLE, QUEUE, 1)) is False


def test_a_queue_that_is_not_there_has_no_end(store: Store) -> None:
    assert expire(store, 1_000) is False
    assert store.run(SetExpiry(RELIABLE, QUEUE, 0)) is False
    assert expires_ms(store) is None
    assert family(store) is None


def test_an_end_goes_along_with_a_new_name(store: Store, clock: ManualClock) -> None:
    push(store, b"1")
    push(store, b"2", queue=OTHER)
    expire(store, 1_000)
    expire(store, 500, OTHER)

    rename(store, QUEUE, OTHER)

    assert expires_ms(store, OTHER) == store.now_ms() + 1_000
    clock.advance(500)
    assert lengths(store, OTHER) == (1, 0)
    clock.advance(500)
    assert lengths(store, OTHER) is None


def test_pushing_and_popping_move_no_end(store: Store, clock: ManualClock) -> None:
    push(store, b"1")
    expire(store, 1_000)
    clock.advance(500)
    push(store, b"2")
    assert popped(store, 5) == [b"1", b"2"]
    recovered(store)

    clock.advance(500)

    assert lengths(store) is None


# -- other families and restarts ---------------------------------------------------------------


@pytest.mark.parametrize("other", [JOB_QUEUE, FEED])
def test_a_queue_of_another_family_is_left_alone(store: Store, other: bytes) -> None:
    fill_others(store)
    push(store, b"1")
    ops: list[Op] = [
        DeleteQueues(RELIABLE, [QUEUE, other]),
        RenameQueue(RELIABLE, other, OTHER),
        RenameQueue(RELIABLE, QUEUE, other),
        RenameQueue(RELIABLE, QUEUE, other, only_free=True),
        SetExpiry(RELIABLE, other, 1),
        SetExpiry(RELIABLE, other, 0),
        LookAtExpiry(RELIABLE, other),
    ]

    for op in ops:
        with pytest.raises(WrongType):
            store.run(op)

    assert store.run(FindFamilies([QUEUE, JOB_QUEUE, FEED])) == [RELIABLE, JOBS, EVENTS]
    view = store.run(LookAt(JOBS, JOB_QUEUE))
    assert view is not None
    assert view.ready == 1


def test_what_was_done_to_queues_is_so_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    for queue in (b"{r}deleted", b"{r}renamed", b"{r}gone", b"{r}soon", b"{r}kept"):
        push(store, b"1", b"2", queue=queue)
        pop(store, 1, queue)
    delete(store, b"{r}deleted")
    rename(store, b"{r}renamed", b"{r}new")
    expire(store, 1_000, b"{r}gone")
    expire(store, 5_000, b"{r}soon")
    expire(store, 1_000, b"{r}kept")
    store.run(SetExpiry(RELIABLE, b"{r}kept", 0))
    clock.advance(1_000)
    before = everything(store)
    store.commit()

    store = reopen(clock)

    assert everything(store) == before
    assert all_queues(store) == [b"{r}kept", b"{r}new", b"{r}soon"]
    clock.advance(4_000)
    assert all_queues(store) == [b"{r}kept", b"{r}new"]
