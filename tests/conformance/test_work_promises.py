"""The obligations of stores/base.py, as they are kept for worklists; the number is in the name."""

from __future__ import annotations

import pytest

from quinque.errors import (
    Leaving,
    NoMessage,
    NoReplicas,
    QueueFull,
    QueuePaused,
    QuinqueError,
    TooLate,
    WrongType,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Ack, Count, FindReady, Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    Configure,
    Extend,
    FindKey,
    Finish,
    Hold,
    LookAt,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Take,
    Terms,
)
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import words
from tests.conformance.conftest import Reopen
from tests.conformance.words import HOUR_MS, fact, peek, put, tick
from tests.conformance.work_words import (
    AFTER_MS,
    BEFORE_MS,
    DAY_MS,
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
    everything,
    extend,
    finish,
    hold,
    is_there,
    kill,
    look,
    nack,
    pause_in,
    pause_out,
    redrive,
    show,
    state,
    take,
)

TERMS = Terms(DAY_MS, retry_ms=MINUTE_MS)

REFUSED: list[tuple[Op, type[QuinqueError]]] = [
    (Add(JOBS, b"w", [b"new"], Terms(DAY_MS, replicas=5)), NoReplicas),
    (Add(JOBS, b"new", [b"new"], Terms(DAY_MS, replicas=5)), NoReplicas),
    (Add(JOBS, b"w", [b"new"], TERMS, max_length=1), QueueFull),
    (Add(JOBS, b"paused", [b"new"], TERMS), QueuePaused),
    (Extend(JOBS, NOBODY), NoMessage),
    (Extend(JOBS, b"old"), TooLate),
    (Add(JOBS, b"q", [b"new"], TERMS), WrongType),
    (Add(JOBS, b"q", [b"new"], TERMS, key=b"k"), WrongType),
    (Take(JOBS, [b"w", b"q"], 5), WrongType),
    (Take(JOBS, [b"new", b"q"], 5), WrongType),
    (Browse(JOBS, b"q", State.READY, 1), WrongType),
    (LookAt(JOBS, b"q"), WrongType),
    (Configure(JOBS, b"q", is_paused_in=True), WrongType),
    (Redrive(JOBS, queue=b"q"), WrongType),
    (Purge(JOBS, b"q"), WrongType),
    (FindKey(JOBS, b"q", b"k"), WrongType),
    (Put(EVENTS, b"w", [b"new"]), WrongType),
    (Reserve(EVENTS, b"w", b"g", 1_000), WrongType),
    (Ack(EVENTS, b"w", b"g", [b"x"]), WrongType),
    (Release(EVENTS, b"w", b"g", [b"x"]), WrongType),
    (ExtendLeases(EVENTS, b"w", [b"x"], 1_000, b"g"), WrongType),
    (Flush(EVENTS, b"w"), WrongType),
    (Peek(EVENTS, b"w", b"g"), WrongType),
    (FindReady(EVENTS, b"g", [b"w"]), WrongType),
    (Count(EVENTS, [b"w"]), WrongType),
]


def test_1_an_effect_is_seen_by_the_next_operation(store: Store) -> None:
    id = add_one(store)
    assert (state(store, id), counts(store)) == (State.READY, (1, 0, 0, 0))

    assert bodies(store) == [b"1"]
    assert (state(store, id), counts(store)) == (State.LEASED, (0, 0, 1, 0))

    nack(store, id, delay_ms=1_000)
    assert (state(store, id), counts(store)) == (State.DELAYED, (0, 1, 0, 0))

    finish(store, id)
    assert not is_there(store, id)
    assert counts(store) == (0, 0, 0, 0)
    assert all_messages(store) == []


def test_1_a_queue_that_gets_something_to_deliver_is_ready(store: Store) -> None:
    id = add_one(store)
    assert store.ready == {b"w"}

    for give_back in (nack, enqueue):
        take(store)
        store.ready.clear()
        give_back(store, id)
        assert store.ready == {b"w"}


def test_1_a_queue_that_gets_nothing_to_deliver_is_not_ready(store: Store) -> None:
    id = add_one(store, delay_ms=1_000)
    add(store, b"2", queue=b"a")
    hold(store, *[view.message_id for view in all_messages(store, queue=b"a")])
    store.ready.clear()

    nack(store, id, delay_ms=1_000)
    finish(store, id)

    assert store.ready == set()


@pytest.mark.parametrize(
    ("op", "error"), REFUSED, ids=[f"{type(op).__name__}-{error.__name__}" for op, error in REFUSED]
)
def test_2_an_operation_that_is_refused_changes_nothing(
    store: Store, reopen: Reopen, clock: ManualClock, op: Op, error: type[QuinqueError]
) -> None:
    old = add_one(store, queue=b"old", ttl_ms=1_000)
    clock.advance(501)
    if isinstance(op, Extend) and op.message_id == b"old":
        op = Extend(JOBS, old)
    add(store, b"1", b"2", key=None)
    add(store, b"3", delay_ms=1_000)
    take(store)
    configure(store, b"paused", is_paused_in=True)
    put(store, b"event")
    store.ready.clear()
    before = everything(store), words.everything(store)

    with pytest.raises(error):
        store.run(op)

    assert (everything(store), words.everything(store)) == before
    assert store.ready == set()
    store = reopen(clock)
    assert (everything(store), words.everything(store)) == before


def test_2_nobody_is_told_to_wait_on_a_node_that_leaves_and_no_queue_is_made(store: Store) -> None:
    store.run(SetNode(is_leaving=True))

    with pytest.raises(Leaving):
        store.run(Take(JOBS, [b"w"], is_waiting=True))

    assert all_queues(store) == []


def test_2_a_queue_with_nothing_in_it_belongs_to_any_family(store: Store) -> None:
    finish(store, add_one(store))
    take(store, 1, b"asked for")

    put(store, b"event", queue=b"w")
    put(store, b"event", queue=b"asked for")

    with pytest.raises(WrongType):
        add(store, b"1")
    store.run(Flush(EVENTS, b"w"))
    add(store, b"1")
    assert bodies(store) == [b"1"]


@pytest.mark.parametrize("settings", [{"is_paused_in": True}, {"max_deliveries": 1}], ids=str)
def test_2_a_queue_for_which_something_is_set_belongs_to_its_family(
    store: Store, settings: dict[str, object]
) -> None:
    configure(store, **settings)

    with pytest.raises(WrongType):
        put(store, b"event", queue=b"w")


def test_3_a_repeat_of_what_took_effect_does_no_harm(store: Store) -> None:
    """But of an addition without a key, which stores one more."""
    kept = add_one(store, key=b"k")
    done, back, held = add(store, b"1", b"2", b"3")
    (dead,) = kill(store, b"4", queue=b"d")
    hold(store, kept)
    take(store, 2)
    for op in (
        Add(JOBS, b"w", [b"again"], TERMS, key=b"k"),
        Finish(JOBS, [done]),
        Requeue(JOBS, [back], is_nack=True),
        Hold(JOBS, [held]),
        Configure(JOBS, b"w", is_paused_out=True, max_deliveries=3),
        Redrive(JOBS, [dead]),
        Purge(JOBS, b"w"),
        SetNode(is_leaving=True),
        PurgeAll(JOBS),
    ):
        store.run(op)
        before = everything(store)

        store.run(op)

        assert everything(store) == before


def test_4_operations_take_effect_in_the_order_they_were_started(store: Store) -> None:
    add(store, b"1", b"2")
    add(store, b"3", delay_ms=0, queue=b"w")
    add(store, b"4", key=b"k")

    assert [bodies(store)[0] for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    places = [view.place or 0 for view in all_messages(store)]
    assert places == sorted(set(places))


def test_5_a_message_is_in_the_hands_of_one_consumer(store: Store, clock: ManualClock) -> None:
    id = add_one(store)
    assert bodies(store) == [b"1"]

    clock.advance(due_within(store, id) - 1)
    assert take(store) == []
    clock.advance(1)
    assert bodies(store) == [b"1"]
    assert finish(store, id) == [True]
    clock.advance(HOUR_MS)
    assert take(store) == []


def test_7_no_id_is_made_twice(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    ids = add(store, *[b""] * 500)
    for _ in range(5):
        store = reopen(clock)
        ids += add(store, *[b""] * 500)
        finish(store, *ids)

    assert len(set(ids)) == 3_000


@pytest.mark.parametrize("set_back_ms", [0, HOUR_MS])
def test_7_places_grow_across_restarts_and_a_clock_that_was_set_back(
    store: Store, reopen: Reopen, clock: ManualClock, set_back_ms: int
) -> None:
    add(store, b"0", b"1")
    for number in range(1, 4):
        store = reopen(ManualClock(clock.now_us() - 1_000 * set_back_ms))
        add(store, b"%d" % (2 * number), b"%d" % (2 * number + 1))

    assert bodies(store, 10) == [b"%d" % number for number in range(8)]


def test_8_what_was_committed_is_there_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    fill(store, clock)
    store.commit()
    before = everything(store)

    store = reopen(clock)

    assert everything(store) == before
    assert bodies(store, 10) == [b"back", b"ready"]


def test_8_what_was_closed_without_a_commit_is_there_too(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    fill(store, clock)
    before = everything(store)

    assert everything(reopen(clock)) == before


def test_9_ticks_carry_out_what_is_due_and_say_when_the_next_thing_is(
    store: Store, clock: ManualClock
) -> None:
    assert store.next_due_ms() == NEVER_MS
    id = add_one(store, ttl_ms=HOUR_MS)
    take(store)
    store.commit()
    due_ms = due_within(store, id)
    assert store.next_due_ms() == store.now_ms() + due_ms
    store.ready.clear()

    clock.advance(due_ms)
    tick(store)

    assert store.ready == {b"w"}, "those who wait are to be woken"
    assert store.next_due_ms() == store.now_ms() + HOUR_MS - due_ms
    clock.advance(HOUR_MS)
    tick(store)
    assert fact(store, "messages") == 0
    clock.advance(HOUR_MS)
    tick(store)
    assert store.next_due_ms() == NEVER_MS
    assert fact(store, "queues") == 0


def test_9_a_tick_that_comes_early_or_twice_does_nothing(store: Store, clock: ManualClock) -> None:
    add(store, b"1", b"2")
    take(store)
    pause_out(store)
    store.ready.clear()
    before = everything(store)

    store.tick()
    store.tick()

    assert everything(store) == before
    assert store.ready == set()


def test_9_many_queues_that_are_due_at_once_are_all_seen_to(
    store: Store, clock: ManualClock
) -> None:
    names = {b"%d" % number for number in range(200)}
    for name in names:
        add(store, b"1", queue=name, delay_ms=1_000)
    store.ready.clear()

    clock.advance(1_000)
    tick(store)

    assert store.ready == names


def test_9_a_million_milliseconds_of_pause_are_one_tick(store: Store, clock: ManualClock) -> None:
    """What is put off again and again is put off to where it is ahead, at once."""
    id = add_one(store, retry_ms=1, delay_ms=1)
    pause_in(store)

    clock.advance(1_000_000)
    tick(store)

    assert due_within(store, id) == 1


@pytest.mark.parametrize("set_back_ms", [0, HOUR_MS])
def test_10_delays_leases_and_lives_have_the_time_they_had_left_after_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock, set_back_ms: int
) -> None:
    """A clock that was set back prolongs nothing: the store goes on from the last time it knew."""
    leased = add_one(store, ttl_ms=HOUR_MS)
    take(store)
    delayed = add_one(store, delay_ms=MINUTE_MS, ttl_ms=HOUR_MS)
    clock.advance(20_000)
    add(store, b"", queue=b"r")
    left = [(show(store, id).ttl_left_ms, due_within(store, id)) for id in (leased, delayed)]

    clock = ManualClock(clock.now_us() - 1_000 * set_back_ms)
    store = reopen(clock)

    again = [(show(store, id).ttl_left_ms, due_within(store, id)) for id in (leased, delayed)]
    assert again == left
    assert again[1] == (HOUR_MS - 20_000, MINUTE_MS - 20_000)
    clock.advance(BEFORE_MS - 20_000)
    assert take(store) == []
    clock.advance(AFTER_MS - BEFORE_MS)
    assert len(take(store, 5)) == 2


def test_10_time_that_passed_while_it_was_closed_has_passed(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    lapsed, dead, gone = (
        add_one(store),
        add_one(store, max_deliveries=1),
        add_one(store, ttl_ms=MINUTE_MS),
    )
    take(store, 3)
    delayed = add_one(store, delay_ms=MINUTE_MS)

    store = reopen(ManualClock(clock.now_us() + 1_000 * HOUR_MS))

    assert not is_there(store, gone)
    assert [state(store, id) for id in (lapsed, dead, delayed)] == [
        State.READY,
        State.DEAD,
        State.READY,
    ]
    assert counters(store, lapsed) == (0, 1, 1)
    assert counters(store, delayed) == (0, 0, 0)
    assert counts(store) == (2, 0, 0, 1)


def test_10_a_message_worked_at_most_once_is_not_stranded_by_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, b"ready", retry_ms=0)
    add(store, b"delayed", retry_ms=0, delay_ms=1_000)

    clock = ManualClock(clock.now_us())
    store = reopen(clock)

    assert bodies(store, 5) == [b"ready"]
    clock.advance(1_000)
    assert bodies(store, 5) == [b"delayed"]
    store = reopen(clock)
    clock.advance(HOUR_MS)
    assert take(store, 5) == []


def test_10_a_store_may_be_opened_again_and_again(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    """Counters stay as they are, whatever becomes of the segments of a journal."""
    id = add_one(store, b"x" * 300)
    for number in range(1, 40):
        take(store)
        nack(store, id, reason=b"y" * 300)
        store.commit()
        store = reopen(clock)
        assert counters(store, id) == (number, 0, number)
        assert (look(store).came, look(store).went) == (number + 1, number)


def test_10_pauses_and_rates_survive_a_restart(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    add(store, *[b""] * 10)
    configure(store, rate=(2, 2_000), max_deliveries=5)
    assert len(take(store, 5)) == 2
    configure(store, b"p", is_paused_in=True, is_paused_out=True)
    before = everything(store)

    clock = ManualClock(clock.now_us())
    store = reopen(clock)

    assert everything(store) == before
    assert take(store, 5) == []
    clock.advance(1_000)
    assert len(take(store, 5)) == 1
    with pytest.raises(QueuePaused):
        add(store, b"", queue=b"p")


def test_10_the_feeds_beside_them_are_as_they_were(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    put(store, b"event")
    fill(store, clock)
    extend(store, add_one(store, queue=b"z"))
    redrive(store, *[view.message_id for view in all_messages(store, states=[State.DEAD])])

    store = reopen(clock)

    assert peek(store) == b"event"
    assert all_queues(store) == [b"d", b"w", b"z"]


def test_11_bodies_may_be_on_disk(store: Store, reopen: Reopen, clock: ManualClock) -> None:
    add(store, b"in memory")
    store.commit()

    store.configure("no", 1)
    add(store, b"on disk", b"too")
    (dead,) = kill(store, b"dead", queue=b"d")
    store.commit()

    assert browse(store) == [b"in memory", b"on disk", b"too"]
    assert show(store, dead).body == b"dead"
    assert bodies(store, 2) == [b"in memory", b"on disk"]
    store.configure("always", 1)
    store = reopen(clock)
    assert browse(store) == [b"too"]


def fill(store: Store, clock: ManualClock) -> None:
    """Messages in every state, some with a past."""
    lapsed, nacked, dead = add(store, b"lapsed", b"nacked", b"back", max_deliveries=3)
    take(store, 3)
    clock.advance(AFTER_MS)
    nack(store, nacked)
    take(store, 3)
    nack(store, nacked, dead, reason=b"because")
    enqueue(store, lapsed, delay_ms=20_000)
    take(store)
    kill(store, b"dead", queue=b"d", key=b"k", reason=b"why")
    add(store, b"ready", key=b"k")
    add(store, b"delayed", delay_ms=5_000, retry_ms=0)
