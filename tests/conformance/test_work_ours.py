"""What worklists do beyond their model: dead messages, keys, patterns, purges; a rule per test."""

from __future__ import annotations

import pytest

from quinque.errors import NoMessage
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import REDRIVE_MOST
from quinque.model.ops import Put
from quinque.model.queue_ops import FindFamilies
from quinque.model.states import State
from quinque.model.work_ops import AwaitEnd, FindKey, Purge, PurgeAll, Redrive, Requeue
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.words import peek, tick
from tests.conformance.work_words import (
    AFTER_MS,
    DAY_MS,
    MINUTE_MS,
    NOBODY,
    add,
    add_one,
    all_queues,
    bodies,
    browse,
    configure,
    counters,
    counts,
    enqueue,
    extend,
    finish,
    hold,
    is_there,
    kill,
    look,
    nack,
    pause_in,
    redrive,
    show,
    state,
    take,
    take_matching,
)

# -- dead messages ----------------------------------------------------------------------------


def test_a_message_that_lapses_after_its_last_delivery_is_dead(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, b"body", max_deliveries=2)
    take(store)
    clock.advance(AFTER_MS)
    assert (state(store, id), take(store)[0].requeues) == (State.READY, 1)

    clock.advance(AFTER_MS)

    view = show(store, id)
    assert (view.state, view.reason, view.body) == (State.DEAD, b"lapsed", b"body")
    assert (view.deliveries, view.requeues, view.due_within_ms) == (2, 1, None)
    assert counts(store) == (0, 0, 0, 1)
    assert take(store) == []


@pytest.mark.parametrize(("reason", "kept"), [(b"", b"nacked"), (b"bad input", b"bad input")])
def test_a_nack_after_the_last_delivery_makes_a_message_dead(
    store: Store, reason: bytes, kept: bytes
) -> None:
    id = add_one(store, max_deliveries=1)
    take(store)

    assert nack(store, id, delay_ms=1_000, reason=reason) == [True]

    assert (state(store, id), show(store, id).reason) == (State.DEAD, kept)
    assert counters(store, id) == (1, 0, 1)


def test_a_nack_that_says_so_makes_a_message_dead_whatever_its_limit_is(store: Store) -> None:
    limited = add_one(store, b"limited", max_deliveries=10)
    unlimited = add_one(store, b"unlimited")
    once = add_one(store, b"at most once", retry_ms=0)
    delayed = add_one(store, b"delayed", delay_ms=1_000)
    take(store, 3)
    ready = add_one(store, b"ready")

    ids = [limited, unlimited, once, delayed, ready]
    done = store.run(Requeue(JOBS, ids, is_nack=True, delay_ms=5, reason=b"no", is_dead=True))

    assert done == [True, True, True, True, False]
    assert [state(store, id) for id in ids] == [State.DEAD] * 4 + [State.READY]
    assert [show(store, id).reason for id in ids] == [b"no"] * 4 + [b""]


def test_a_delivery_that_is_not_counted_is_not_the_last(store: Store) -> None:
    id = add_one(store, b"x", max_deliveries=2)
    for _ in range(5):
        take(store)
        assert store.run(Requeue(JOBS, [id], is_nack=False, is_uncounted=True)) == [True]
    assert counters(store, id) == (0, 0, 0)

    for deliveries in (1, 2):
        take(store)
        assert counters(store, id)[2] == deliveries
        nack(store, id)

    assert counts(store) == (0, 0, 0, 1)


def test_enqueueing_never_makes_a_message_dead(store: Store) -> None:
    id = add_one(store, max_deliveries=1)
    for deliveries in (1, 2, 3):
        take(store)
        assert enqueue(store, id) == [True]
        assert counters(store, id) == (0, deliveries, deliveries)


def test_the_limit_of_a_queue_holds_for_messages_that_have_none(store: Store) -> None:
    configure(store, max_deliveries=1)
    own, other = add_one(store, max_deliveries=2), add_one(store)
    assert (show(store, own).max_deliveries, show(store, other).max_deliveries) == (2, 1)
    take(store, 2)

    nack(store, own, other)

    assert (state(store, own), state(store, other)) == (State.READY, State.DEAD)


def test_a_limit_that_is_set_later_holds_for_what_is_there(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    take(store)
    configure(store, max_deliveries=1)

    clock.advance(AFTER_MS)

    assert state(store, id) is State.DEAD


def test_a_message_of_a_paused_queue_dies_all_the_same(store: Store, clock: ManualClock) -> None:
    id = add_one(store, max_deliveries=1)
    take(store)
    pause_in(store)

    clock.advance(AFTER_MS)

    assert state(store, id) is State.DEAD


def test_a_dead_message_does_not_expire(store: Store, clock: ManualClock) -> None:
    (id,) = kill(store, b"body", ttl_ms=MINUTE_MS)

    clock.advance(1_000 * DAY_MS)
    tick(store)

    assert show(store, id).body == b"body"


def test_a_message_that_died_before_it_would_have_expired_is_dead_whenever_somebody_looks(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    id = add_one(store, ttl_ms=10 * MINUTE_MS, max_deliveries=1)
    take(store)

    later = ManualClock(clock.now_us() + 1_000 * DAY_MS)
    store = reopen(later)

    assert (state(store, id), show(store, id).reason) == (State.DEAD, b"lapsed")


def test_a_message_that_expires_before_it_would_have_died_is_gone(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, ttl_ms=MINUTE_MS - 1_000, max_deliveries=1)
    take(store)

    clock.advance(DAY_MS)

    assert not is_there(store, id)


def test_nothing_can_be_done_with_a_dead_message_but_redrive_and_finish(store: Store) -> None:
    (id,) = kill(store, b"")
    before = show(store, id)

    assert nack(store, id) == enqueue(store, id) == hold(store, id) == [False]
    with pytest.raises(NoMessage):
        extend(store, id)

    assert show(store, id) == before
    assert finish(store, id) == [True]
    assert not is_there(store, id)


def test_a_redriven_message_begins_anew_at_its_old_place(store: Store, clock: ManualClock) -> None:
    (id,) = kill(store, b"dead", reason=b"why", ttl_ms=10 * MINUTE_MS)
    place = show(store, id).place
    add(store, b"later")
    clock.advance(9 * MINUTE_MS)

    assert redrive(store, id, NOBODY, id) == 1

    view = show(store, id)
    assert (view.state, view.place, view.reason) == (State.READY, place, b"")
    assert counters(store, id) == (0, 0, 0)
    assert view.ttl_left_ms == 10 * MINUTE_MS
    assert look(store).came == 3
    assert bodies(store, 2) == [b"dead", b"later"]
    assert extend(store, id) == MINUTE_MS, "half of its new life is not over"
    nack(store, id)
    assert state(store, id) is State.DEAD, "its limit is as it was"


def test_a_redriven_message_expires_when_its_new_life_is_over(
    store: Store, clock: ManualClock
) -> None:
    (id,) = kill(store, b"", ttl_ms=MINUTE_MS)
    clock.advance(DAY_MS)
    redrive(store, id)

    clock.advance(MINUTE_MS - 1)
    assert is_there(store, id)
    clock.advance(1)
    assert not is_there(store, id)


def test_only_dead_messages_are_redriven(store: Store) -> None:
    ready = add_one(store)
    nack(store, ready)
    leased = add_one(store, queue=b"l")
    take(store, 1, b"l")

    assert redrive(store, ready, leased, NOBODY) == 0
    assert redrive(store) == 0
    assert store.run(Redrive(JOBS, queue=b"none")) == 0
    assert all_queues(store) == [b"l", b"w"]


def test_one_operation_redrives_a_bounded_number_of_dead_messages(store: Store) -> None:
    add(store, *[b"body"] * (REDRIVE_MOST + 2), max_deliveries=1)
    nack(store, *[found.message_id for found in take(store, count=REDRIVE_MOST + 2)])

    assert store.run(Redrive(JOBS, queue=b"w", count=2**63 - 1)) == REDRIVE_MOST
    assert store.run(Redrive(JOBS, queue=b"w")) == 2


@pytest.mark.parametrize(("count", "redriven"), [(0, 4), (1, 1), (3, 3), (9, 4)])
def test_the_dead_of_a_queue_are_redriven_from_the_first(
    store: Store, count: int, redriven: int
) -> None:
    kill(store, b"1", b"2", b"3", b"4")
    kill(store, b"other", queue=b"o")

    assert store.run(Redrive(JOBS, queue=b"w", count=count)) == redriven

    assert browse(store) == [b"1", b"2", b"3", b"4"][:redriven]
    assert browse(store, state=State.DEAD) == [b"1", b"2", b"3", b"4"][redriven:]
    assert counts(store, b"o") == (0, 0, 0, 1)


def test_redriving_makes_the_queue_ready(store: Store) -> None:
    (id,) = kill(store, b"")
    store.ready.clear()

    redrive(store, id)

    assert store.ready == {b"w"}


# -- keys -------------------------------------------------------------------------------------


def test_a_key_is_of_one_living_message_of_its_queue(store: Store, clock: ManualClock) -> None:
    first = add_one(store, b"1", key=b"k")

    assert add_one(store, b"2", key=b"k") == first
    take(store)
    assert add_one(store, b"3", key=b"k") == first
    assert show(store, first).key == b"k"
    assert store.run(FindKey(JOBS, b"w", b"k")) == first
    assert add_one(store, b"4", key=b"k", queue=b"other") != first
    assert add_one(store, b"5", key=b"other") != first
    assert counts(store) == (1, 0, 1, 0)


def test_an_addition_that_finds_its_key_stores_nothing(store: Store) -> None:
    add(store, b"1", key=b"k")
    before = look(store)
    store.ready.clear()

    add(store, b"2", key=b"k")

    assert look(store) == before
    assert store.ready == set()


@pytest.mark.parametrize("how", ["finished", "expired", "dead", "purged"])
def test_a_key_is_free_when_its_message_lives_no_more(
    store: Store, clock: ManualClock, how: str
) -> None:
    first = add_one(store, b"1", key=b"k", ttl_ms=MINUTE_MS, max_deliveries=1)
    if how == "finished":
        finish(store, first)
    elif how == "expired":
        clock.advance(MINUTE_MS)
    elif how == "dead":
        take(store)
        nack(store, first)
    else:
        store.run(Purge(JOBS, b"w"))

    assert store.run(FindKey(JOBS, b"w", b"k")) is None
    second = add_one(store, b"2", key=b"k")
    assert second != first
    assert store.run(FindKey(JOBS, b"w", b"k")) == second


def test_a_redriven_message_has_its_key_again(store: Store) -> None:
    (id,) = kill(store, b"", key=b"k")
    assert store.run(FindKey(JOBS, b"w", b"k")) is None

    redrive(store, id)

    assert store.run(FindKey(JOBS, b"w", b"k")) == id
    assert add_one(store, key=b"k") == id


def test_a_redriven_message_leaves_its_key_to_who_has_it_by_then(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    (old,) = kill(store, b"", key=b"k")
    new = add_one(store, key=b"k")

    redrive(store, old)

    assert store.run(FindKey(JOBS, b"w", b"k")) == new
    finish(store, new)
    assert store.run(FindKey(JOBS, b"w", b"k")) is None
    assert show(store, old).key is None
    store = reopen(clock)
    assert store.run(FindKey(JOBS, b"w", b"k")) is None


# -- patterns ---------------------------------------------------------------------------------


def test_messages_may_be_taken_from_all_queues_whose_names_match(store: Store) -> None:
    for queue in (b"mail:a", b"mail:b", b"other"):
        add(store, queue + b"1", queue + b"2", queue=queue)

    given = take_matching(store, 3, b"mail:*")

    assert sorted(it.queue for it in given[:2]) == [b"mail:a", b"mail:b"], "each has its turn"
    assert all(it.queue.startswith(b"mail:") for it in given)
    assert len(take_matching(store, 9, b"none*", b"o*", b"mail:[ab]")) == 3
    assert take_matching(store, 9, b"*") == []


def test_a_name_that_is_matched_twice_is_one_queue(store: Store) -> None:
    add(store, b"1", b"2", queue=b"a")
    add(store, b"3", b"4", queue=b"b")

    given = take_matching(store, 2, b"a", b"?", b"a*")

    assert sorted(it.queue for it in given) == [b"a", b"b"]


def test_patterns_do_not_see_queues_of_other_families(store: Store) -> None:
    store.run(Put(EVENTS, b"events", [b"event"]))
    add(store, b"1")

    assert [it.body for it in take_matching(store, 5, b"*")] == [b"1"]


# -- purges -----------------------------------------------------------------------------------


def test_a_purge_removes_messages_of_the_states_it_names(store: Store) -> None:
    kill(store, b"dead")
    add(store, b"leased")
    take(store)
    add(store, b"ready", b"ready", key=None)
    add(store, b"delayed", delay_ms=1_000)
    add(store, b"other", queue=b"other")

    assert store.run(Purge(JOBS, b"w", [State.DELAYED, State.DEAD])) == 2
    assert counts(store) == (2, 0, 1, 0)
    assert store.run(Purge(JOBS, b"w", [State.READY])) == 2
    assert store.run(Purge(JOBS, b"w")) == 1
    assert store.run(Purge(JOBS, b"w")) == 0

    assert counts(store) == (0, 0, 0, 0)
    assert counts(store, b"other") == (1, 0, 0, 0)


def test_a_purge_leaves_what_is_set_and_counted(store: Store) -> None:
    add(store, b"1", b"2")
    take(store)
    configure(store, max_deliveries=3)

    store.run(Purge(JOBS, b"w"))

    view = look(store)
    assert (view.max_deliveries, view.came, view.went) == (3, 2, 1)


def test_a_purge_that_forgets_leaves_nothing(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    kill(store, b"dead")
    add(store, b"1", b"2")
    take(store)
    configure(store, max_deliveries=3, is_paused_in=True)

    assert store.run(Purge(JOBS, b"w", forgets=True)) == 3
    assert store.run(Purge(JOBS, b"w", forgets=True)) == 0

    assert all_queues(store) == []
    store.run(Put(EVENTS, b"w", [b"x"]))
    assert reopen(clock).run(FindFamilies([b"w"])) == [EVENTS]


def test_a_purge_does_not_count_what_expired(store: Store, clock: ManualClock) -> None:
    add(store, b"1", ttl_ms=1_000)
    add(store, b"2")
    clock.advance(1_000)

    assert store.run(Purge(JOBS, b"w")) == 1


def test_a_purge_of_what_is_not_there_makes_nothing(store: Store) -> None:
    assert store.run(Purge(JOBS, b"w")) == 0
    assert store.run(PurgeAll(JOBS)) == 0
    assert all_queues(store) == []


def test_a_purge_of_all_removes_all_queues_of_the_family_and_no_others(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    ids = add(store, b"1", b"2") + add(store, b"3", queue=b"a", delay_ms=1_000)
    kill(store, b"4", queue=b"d")
    configure(store, b"p", is_paused_in=True)
    store.run(Put(EVENTS, b"q", [b"event"]))

    assert store.run(PurgeAll(JOBS)) == 4

    for _ in range(2):
        assert all_queues(store) == []
        assert not any(is_there(store, id) for id in ids)
        assert peek(store) == b"event"
        store = reopen(clock)
    add(store, b"5", queue=b"p")


# -- ends -------------------------------------------------------------------------------------


def test_a_message_has_ended_when_it_is_gone_or_dead(store: Store) -> None:
    (dead,) = kill(store, b"")
    done, open = add(store, b"1", b"2")

    assert store.run(AwaitEnd(JOBS, [done])) is None
    finish(store, done)
    assert store.run(AwaitEnd(JOBS, [done])) == 1
    assert store.run(AwaitEnd(JOBS, [dead])) == 0
    assert store.run(AwaitEnd(JOBS, [done, dead, NOBODY])) == 2
    assert store.run(AwaitEnd(JOBS, [done, open])) is None


@pytest.mark.parametrize("how", ["finished", "expired", "dead", "lapsed", "purged", "all purged"])
def test_the_end_of_a_watched_message_is_told(store: Store, clock: ManualClock, how: str) -> None:
    retry_ms = DAY_MS if how == "expired" else MINUTE_MS
    id = add_one(store, ttl_ms=2 * MINUTE_MS, retry_ms=retry_ms, max_deliveries=1)
    other = add_one(store)
    take(store)
    store.watched = {id}
    store.ready.clear()

    if how == "finished":
        finish(store, id, other)
    elif how == "dead":
        nack(store, id)
    elif how == "purged":
        store.run(Purge(JOBS, b"w"))
    elif how == "all purged":
        store.run(PurgeAll(JOBS))
    else:
        clock.advance(2 * MINUTE_MS if how == "expired" else AFTER_MS)
        tick(store)

    assert store.ready - {b"w"} == {id}
    assert store.run(AwaitEnd(JOBS, [id])) in (0, 1)
