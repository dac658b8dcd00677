"""Worklists as a whole: pauses, rates, when they go, and looking at them; a rule per test."""

from __future__ import annotations

import pytest

from quinque.errors import Leaving, QueuePaused
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.work_ops import FindQueues, LookAt, LookAtNode, ScanMessages, SetNode, Take
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.words import tick
from tests.conformance.work_words import (
    AFTER_MS,
    MINUTE_MS,
    NOBODY,
    add,
    add_one,
    all_messages,
    all_queues,
    bodies,
    browse,
    configure,
    counters,
    counts,
    due_within,
    enqueue,
    finish,
    kill,
    look,
    nack,
    pause_in,
    pause_out,
    redrive,
    show,
    state,
    take,
    take_matching,
)

IDLE_MS = 300_000


# -- pauses -----------------------------------------------------------------------------------


def test_a_queue_that_takes_nothing_gives_what_it_has(store: Store) -> None:
    add(store, b"1")
    pause_in(store)

    with pytest.raises(QueuePaused):
        add(store, b"2")

    assert bodies(store, 2) == [b"1"]
    pause_in(store, False)
    add(store, b"2")


def test_a_queue_that_gives_nothing_takes_what_comes(store: Store) -> None:
    add(store, b"1")
    pause_out(store)

    add(store, b"2")

    assert take(store) == []
    assert browse(store) == [b"1", b"2"]
    assert counts(store) == (2, 0, 0, 0)
    pause_out(store, False)
    assert bodies(store, 5) == [b"1", b"2"]


def test_what_is_given_back_comes_into_a_paused_queue(store: Store) -> None:
    nacked, enqueued = add(store, b"1", b"2")
    (dead,) = kill(store, b"3", queue=b"d")
    configure(store, b"d", is_paused_in=True)
    take(store, 2)
    pause_in(store)

    assert nack(store, nacked) == enqueue(store, enqueued) == [True]
    assert redrive(store, dead) == 1

    assert counts(store) == (2, 0, 0, 0)
    assert counts(store, b"d") == (1, 0, 0, 0)


def test_a_lapsed_lease_on_a_message_of_a_paused_queue_is_prolonged(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    take(store)
    pause_in(store)
    due_ms = due_within(store, id)

    clock.advance(due_ms - 1)
    assert due_within(store, id) == 1
    clock.advance(1)
    assert due_within(store, id) == MINUTE_MS
    assert counters(store, id) == (0, 0, 1)
    clock.advance(MINUTE_MS - 1)
    pause_in(store, False)
    assert counts(store) == (0, 0, 1, 0)
    clock.advance(1)
    assert counts(store) == (1, 0, 0, 0)
    assert counters(store, id) == (0, 1, 1)


def test_a_delay_that_is_over_in_a_paused_queue_goes_on_for_the_retry_time(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store, delay_ms=1_000)
    pause_in(store)

    clock.advance(1_000)

    assert (state(store, id), due_within(store, id)) == (State.DELAYED, MINUTE_MS)
    clock.advance(2 * MINUTE_MS + 1)
    assert due_within(store, id) == MINUTE_MS - 1
    pause_in(store, False)
    clock.advance(MINUTE_MS - 1)
    assert counters(store, id) == (0, 0, 0)
    assert bodies(store) == [b"1"]


def test_a_message_worked_at_most_once_comes_into_a_paused_queue_when_its_delay_is_over(
    store: Store, clock: ManualClock
) -> None:
    """It has no retry time to wait for, and would never come."""
    add(store, b"1", delay_ms=1_000, retry_ms=0)
    pause_in(store)

    clock.advance(1_000)

    assert bodies(store) == [b"1"]


def test_resuming_a_queue_makes_it_ready(store: Store) -> None:
    add(store, b"1")
    pause_out(store)
    store.ready.clear()

    pause_out(store, False)

    assert store.ready == {b"w"}


def test_a_queue_may_be_paused_before_it_is_used(store: Store) -> None:
    pause_in(store)

    with pytest.raises(QueuePaused):
        add(store, b"1")


# -- rates ------------------------------------------------------------------------------------


def test_a_rate_lets_so_many_go_and_then_one_after_the_other(
    store: Store, clock: ManualClock
) -> None:
    add(store, *(b"%d" % number for number in range(10)))
    configure(store, rate=(3, 3_000))

    assert bodies(store, 10) == [b"0", b"1", b"2"]
    clock.advance(999)
    assert take(store) == []
    clock.advance(1)
    assert bodies(store, 10) == [b"3"]
    clock.advance(2_500)
    assert bodies(store, 10) == [b"4", b"5"]
    clock.advance(500)
    assert bodies(store, 10) == [b"6"]


def test_a_rate_saves_up_no_more_than_its_count(store: Store, clock: ManualClock) -> None:
    add(store, *(b"%d" % number for number in range(10)))
    configure(store, rate=(2, 1_000))

    clock.advance(MINUTE_MS)

    assert bodies(store, 10) == [b"0", b"1"]


def test_in_any_span_a_rate_lets_at_most_twice_its_count_go(
    store: Store, clock: ManualClock
) -> None:
    """The bucket once, and once what fills it; of numbers that do not divide, too."""
    add(store, *[b""] * 1_000)
    configure(store, rate=(7, 1_000))
    gone = []
    for _ in range(3_000):
        clock.advance(1)
        gone.append(len(take(store, 10)))

    assert gone[0] == 7
    for start in range(0, 2_000, 50):
        assert sum(gone[start : start + 1_000]) <= 14
    assert 7 + 3 * 7 - 1 <= sum(gone) <= 7 + 3 * 7


def test_a_queue_whose_rate_was_used_up_is_ready_when_there_is_room_again(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"1", b"2")
    configure(store, rate=(1, 1_000))
    assert len(take(store, 2)) == 1
    assert take(store) == []
    store.commit()
    store.ready.clear()
    assert store.next_due_ms() == store.now_ms() + 1_000

    clock.advance(1_000)
    tick(store)

    assert store.ready == {b"w"}
    assert len(take(store)) == 1


def test_a_rate_does_not_keep_other_queues_waiting(store: Store) -> None:
    add(store, b"w1", b"w2", b"w3")
    add(store, b"a1", b"a2", b"a3", queue=b"a")
    configure(store, rate=(1, 1_000))

    assert bodies(store, 10, b"w", b"a") == [b"w1", b"a1", b"a2", b"a3"]


def test_a_rate_is_lifted(store: Store) -> None:
    add(store, b"1", b"2", b"3")
    configure(store, rate=(1, 1_000))
    take(store)

    view = configure(store, rate=(0, 0))

    assert (view.rate_count, view.rate_ms) == (0, 0)
    assert bodies(store, 3) == [b"2", b"3"]


# -- settings ---------------------------------------------------------------------------------


def test_what_is_not_set_stays_as_it_is(store: Store) -> None:
    configure(store, is_paused_in=True, max_deliveries=3)
    configure(store, rate=(5, 1_000))

    view = configure(store, is_paused_out=True)

    assert (view.is_paused_in, view.is_paused_out) == (True, True)
    assert (view.max_deliveries, view.rate_count, view.rate_ms) == (3, 5, 1_000)
    view = configure(store, is_paused_in=False, max_deliveries=0)
    assert (view.is_paused_in, view.is_paused_out, view.max_deliveries) == (False, True, 0)
    assert view == look(store)


def test_setting_nothing_for_a_queue_that_is_not_there_does_not_make_it(store: Store) -> None:
    view = configure(store, is_paused_in=False, max_deliveries=0)

    assert (view.queue, view.is_paused_in, view.ready) == (b"w", False, 0)
    assert all_queues(store) == []


# -- coming and going -------------------------------------------------------------------------


def test_a_reader_that_does_not_wait_makes_no_queue(store: Store) -> None:
    assert take(store) == []
    assert take(store, 5, b"w", b"x") == []

    assert all_queues(store) == []


def test_a_queue_is_there_as_soon_as_a_reader_waits_on_it(store: Store, clock: ManualClock) -> None:
    assert store.run(LookAt(JOBS, b"w")) is None
    assert take(store, is_waiting=True) == []

    view = look(store)
    assert (view.ready, view.age_ms, view.idle_ms, view.came, view.went) == (0, 0, 0, 0, 0)
    assert all_queues(store) == [b"w"]
    clock.advance(IDLE_MS - 1)
    assert all_queues(store) == [b"w"]
    clock.advance(1)
    assert all_queues(store) == []
    assert store.run(LookAt(JOBS, b"w")) is None


def test_looking_at_a_queue_that_is_not_there_does_not_make_it(store: Store) -> None:
    browse(store)
    all_messages(store, queue=b"w")
    take_matching(store, 1, b"w")

    assert all_queues(store) == []


def test_a_queue_that_nobody_uses_goes_with_what_was_counted(
    store: Store, clock: ManualClock
) -> None:
    id = add_one(store)
    take(store)
    clock.advance(10_000)
    finish(store, id)
    view = look(store)
    assert (view.idle_ms, view.age_ms, view.came, view.went) == (10_000, 10_000, 1, 1)

    clock.advance(IDLE_MS - 10_000)
    tick(store)

    assert all_queues(store) == []
    add(store, b"2")
    assert (look(store).came, look(store).age_ms) == (1, 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"is_paused_in": True},
        {"is_paused_out": True},
        {"max_deliveries": 1},
        {"rate": (1, 1_000)},
    ],
    ids=str,
)
def test_a_queue_for_which_something_is_set_stays(
    store: Store, clock: ManualClock, settings: dict[str, object]
) -> None:
    configure(store, **settings)
    clock.advance(10 * IDLE_MS)
    tick(store)
    assert all_queues(store) == [b"w"]

    configure(store, is_paused_in=False, is_paused_out=False, max_deliveries=0, rate=(0, 0))
    clock.advance(IDLE_MS)
    tick(store)

    assert all_queues(store) == []


def test_a_queue_with_messages_stays_whatever_state_they_are_in(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"", queue=b"delayed", delay_ms=20 * IDLE_MS)
    add(store, b"", queue=b"leased", retry_ms=0)
    take(store, 1, b"leased")
    kill(store, b"", queue=b"dead")

    clock.advance(10 * IDLE_MS)
    tick(store)

    assert all_queues(store) == [b"dead", b"delayed", b"leased"]


def test_a_scan_that_skips_idle_queues_shows_those_that_are_ready_dead_set_or_waited_on(
    store: Store, clock: ManualClock
) -> None:
    add(store, b"", queue=b"delayed", delay_ms=20 * IDLE_MS)
    add(store, b"", queue=b"leased", retry_ms=0)
    take(store, 1, b"leased")
    add(store, b"", queue=b"waited", delay_ms=20 * IDLE_MS)
    add(store, b"", queue=b"ready")
    add(store, b"", queue=b"set", delay_ms=20 * IDLE_MS)
    configure(store, b"set", max_deliveries=3)
    kill(store, b"", queue=b"dead")
    store.watched = {b"waited"}

    clock.advance(IDLE_MS - 1)
    before = all_queues(store, skips_idle=True)
    clock.advance(1)
    tick(store)

    assert before == [b"dead", b"delayed", b"leased", b"ready", b"set", b"waited"]
    assert all_queues(store, skips_idle=True) == [b"dead", b"ready", b"set", b"waited"]
    assert all_queues(store) == before


def test_a_queue_somebody_waits_on_stays(store: Store, clock: ManualClock) -> None:
    store.watched = {b"w"}
    take(store, is_waiting=True)

    clock.advance(10 * IDLE_MS)
    tick(store)

    assert all_queues(store) == [b"w"]


def test_what_comes_back_by_itself_counts_as_use(store: Store, clock: ManualClock) -> None:
    add(store, b"", ttl_ms=2 * MINUTE_MS)
    take(store)

    clock.advance(AFTER_MS)

    assert (look(store).idle_ms or 0) < 500
    assert look(store).age_ms == AFTER_MS


# -- looking ----------------------------------------------------------------------------------


def test_a_queue_can_be_browsed_from_both_ends(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2", b"3")
    add(store, b"4", b"5", delay_ms=1_000)
    kill(store, b"6", queue=b"d")

    assert browse(store, 2) == [b"1", b"2"]
    assert browse(store, -2) == [b"3", b"2"]
    assert browse(store, 0) == []
    assert browse(store, 9) == [b"1", b"2", b"3"]
    assert browse(store, -9) == [b"3", b"2", b"1"]
    assert browse(store, 9, State.DELAYED) == [b"4", b"5"]
    assert browse(store, -1, State.DELAYED) == [b"5"]
    assert browse(store, 9, State.DEAD, b"d") == [b"6"]
    assert browse(store, 9, queue=b"none") == []


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_a_scan_sees_every_queue_once(store: Store, count: int) -> None:
    for number in range(50):
        add(store, *[b""] * (number % 3 + 1), queue=b"%d" % number)
    take(store, 1, b"empty", is_waiting=True)

    assert all_queues(store, count) == sorted([b"empty", *(b"%d" % n for n in range(50))])
    assert all_queues(store, count, most=0) == [b"empty"]
    assert all_queues(store, count, least=2, most=2) == sorted(
        b"%d" % number for number in range(50) if number % 3 == 1
    )


@pytest.mark.parametrize("count", [1, 7, 10_000])
def test_a_scan_sees_every_message_once(store: Store, count: int) -> None:
    ids = add(store, *(b"%d" % number for number in range(50)))
    more = add(store, *[b""] * 5, queue=b"x", delay_ms=1_000)
    take(store, 10)

    assert [view.message_id for view in all_messages(store, count)] == ids + more
    assert all(view.body is None for view in all_messages(store, count))
    found = all_messages(store, count, queue=b"w", with_bodies=True)
    assert [view.body for view in found] == [b"%d" % number for number in range(50)]
    found = all_messages(store, count, states=[State.LEASED, State.DELAYED])
    assert [view.message_id for view in found] == ids[:10] + more
    assert found[0] == show_without_body(store, ids[0])


def test_a_scan_sees_what_is_there_all_the_time_whatever_else_happens(
    store: Store, clock: ManualClock
) -> None:
    ids = set(add(store, *[b""] * 200))
    others = add(store, *[b""] * 200, ttl_ms=1_000, queue=b"others")

    seen: set[bytes] = set()
    cursor = 0
    for step in range(1_000):
        cursor, views = store.run(ScanMessages(JOBS, cursor, 5))
        seen |= {view.message_id for view in views}
        if cursor == 0:
            break
        if step == 10:
            add(store, *[b""] * 300, queue=b"new")
            finish(store, *others[:100])
            take(store, 100)
            clock.advance(1_000)

    assert seen >= ids
    assert (cursor, step > 10) == (0, True)


def test_each_message_is_found_in_its_queue(store: Store) -> None:
    a, b = add_one(store, queue=b"a"), add_one(store, queue=b"b")

    assert store.run(FindQueues(JOBS, [b, NOBODY, a])) == [b"b", None, b"a"]


# -- the node ---------------------------------------------------------------------------------


def test_nobody_waits_on_a_node_that_is_leaving(store: Store) -> None:
    store.run(SetNode(is_leaving=True))

    assert store.run(Take(JOBS, [b"w"])) == []
    with pytest.raises(Leaving):
        store.run(Take(JOBS, [b"w"], is_waiting=True))
    store.run(SetNode(is_leaving=False))
    add(store, b"1")
    store.run(SetNode(is_leaving=True))
    assert bodies(store, is_waiting=True) == [b"1"]


def test_the_node_keeps_its_name_and_leaves_until_it_is_told_otherwise(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    first = store.run(LookAtNode())
    assert len(first.node_id) == 40
    int(first.node_id, 16)
    assert not first.is_leaving
    assert store.run(SetNode(is_leaving=True)).node_id == first.node_id

    store = reopen(clock)

    view = store.run(LookAtNode())
    assert (view.node_id, view.is_leaving) == (first.node_id, True)
    renamed = store.run(SetNode(is_renamed=True))
    assert (renamed.node_id == first.node_id, renamed.is_leaving) == (False, True)
    assert reopen(clock).run(LookAtNode()) == renamed


def test_an_id_names_the_node_and_the_life_and_whether_it_may_come_back(store: Store) -> None:
    node_id = store.run(LookAtNode()).node_id
    again = add_one(store)
    once = add_one(store, retry_ms=0)
    short = add_one(store, ttl_ms=1_000)
    long = add_one(store, ttl_ms=100 * 365 * 86_400_000)

    for id in (again, once, short, long):
        assert (len(id), id[:11], id[35:36]) == (40, b"D-" + node_id[:8] + b"-", b"-")
    assert (again[36:], once[36:]) == (b"05a1", b"05a0")
    assert int(short[36:], 16) % 2 == 1
    assert int(long[36:], 16) == 0xFFFF
    assert store.next_due_ms() < NEVER_MS


def show_without_body(store: Store, id: bytes) -> object:
    view = show(store, id)
    view.body = None
    return view


def test_a_scan_that_reads_bodies_pages_by_their_size(store: Store) -> None:
    ids = [add_one(store, b"x" * 30_000) for _ in range(400)]
    seen: list[bytes] = []
    largest = cursor = 0

    while not seen or cursor:
        cursor, views = store.run(ScanMessages(JOBS, cursor, 1_000_000, with_bodies=True))
        seen += [view.message_id for view in views]
        largest = max(largest, len(views))

    assert set(seen) == set(ids)
    assert largest < 400  # a mebibyte and what one script reads
