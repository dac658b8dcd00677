"""What is gone leaves nothing behind: memory does not grow with what was done."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.limits import QUEUE_IDLE_MOST_MS, STAGE_KEPT_MS
from quinque.model.ops import Put, Release, Reserve
from quinque.model.own_ops import RELIABLE_TERMS, AddItems
from quinque.model.queue_ops import DeleteQueues, RenameQueue
from quinque.model.stage_ops import FindStages
from quinque.model.states import State
from quinque.model.tube_ops import (
    JoinSession,
    LeaveSession,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    TakeTasks,
    TaskTerms,
)
from quinque.model.work_ops import Add, Finish, LookAt, Requeue, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance import stage_words
from tests.conformance.tube_words import ANN, TUBE, begin
from tests.store.stage import Stage

DAY_MS = 86_400_000
TIMES = 4_200  # more than the 4,096 reminders that may be left
# A reminder or a name takes 100 bytes at least.
GROWTH_MOST_BYTES = 20 * TIMES


@pytest.fixture
def store(folder: Path, clock: ManualClock) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(folder / "data", clock=clock, fsync="no")
    yield opened
    opened.close()


def growth_bytes(again: Callable[[int], object]) -> int:
    """By how much the peak of memory grows from one round of many calls of `again` to the next.

    The smaller of two growths: other threads of the test process use memory now and then, and what
    leaks grows in each round.
    """
    peaks: list[int] = []
    for number in range(TIMES):  # what is there once is not counted
        again(number)
    tracemalloc.start()
    try:
        for start in (TIMES, 2 * TIMES, 3 * TIMES):
            tracemalloc.reset_peak()
            for number in range(start, start + TIMES):
                again(number)
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    return min(peaks[1] - peaks[0], peaks[2] - peaks[1])


def test_names_of_queues_that_were_deleted_are_forgotten(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    def use(number: int) -> None:
        clock.advance(1_000)
        queue = b"q%d" % number
        store.run(Add(RELIABLE, queue, [b"x"], RELIABLE_TERMS))
        store.run(DeleteQueues(RELIABLE, [queue]))
        store.ready.clear()
        store.commit()

    assert growth_bytes(use) < GROWTH_MOST_BYTES


def test_batches_that_were_published_leave_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """A batch reminds of its end, a day later, and so does what is remembered of its run."""

    def use(number: int) -> None:
        clock.advance(1_000)
        stage_words.stage(store, stage_words.run_of(b"x"), number=number, run=b"r" * 8)
        stage_words.publish(store, (0, 0, 1), number=number, run=b"r" * 8, keep_ms=30 * DAY_MS)
        store.run(Finish(JOBS, [store.run(Take(JOBS, [b"w"]))[0].message_id]))
        store.ready.clear()
        store.commit()

    assert growth_bytes(use) < GROWTH_MOST_BYTES
    stage_words.stage(store, stage_words.run_of(b"x"), run=b"late")
    clock.advance(STAGE_KEPT_MS)
    store.tick()
    assert store.run(FindStages()) == []
    assert store.stages.soonest_ms <= store.now_ms() + 30 * DAY_MS


def test_queues_that_were_renamed_and_deleted_are_forgotten(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    def use(number: int) -> None:
        clock.advance(1_000)
        store.run(Add(RELIABLE, b"inbox", [b"x"], RELIABLE_TERMS))
        store.run(RenameQueue(RELIABLE, b"inbox", b"batch"))
        store.run(DeleteQueues(RELIABLE, [b"batch"]))
        store.ready.clear()
        store.commit()

    assert growth_bytes(use) < GROWTH_MOST_BYTES


def test_names_of_queues_that_were_idle_are_forgotten(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    def use(number: int) -> None:
        queue = b"q%d" % number
        store.run(Finish(JOBS, store.run(Add(JOBS, queue, [b"x"], Terms(DAY_MS)))))
        clock.advance(QUEUE_IDLE_MOST_MS / 100)
        store.tick()
        store.ready.clear()
        store.commit()

    assert growth_bytes(use) < GROWTH_MOST_BYTES


def test_a_job_that_is_taken_and_nacked_again_and_again_leaves_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    store.run(Add(JOBS, b"q", [b"x"], Terms(DAY_MS, retry_ms=3_600_000)))

    def go_round(number: int) -> None:
        clock.advance(1)
        (given,) = store.run(Take(JOBS, [b"q"]))
        assert store.run(Requeue(JOBS, [given.message_id], True)) == [True]
        store.commit()

    assert growth_bytes(go_round) < GROWTH_MOST_BYTES


def test_an_event_that_is_taken_and_released_again_and_again_leaves_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"x"], DAY_MS))

    def go_round(number: int) -> None:
        clock.advance(1)
        (given,) = store.run(Reserve(EVENTS, b"q", b"g", 3_600_000))
        assert store.run(Release(EVENTS, b"q", b"g", [given.message_id])) == [True]
        store.commit()

    assert growth_bytes(go_round) < GROWTH_MOST_BYTES


def test_a_task_that_is_taken_and_released_again_and_again_leaves_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    begin(store, b"utubettl")
    store.run(PutTasks(TUBE, [b"x"], TaskTerms(ttl_ms=DAY_MS, ttr_ms=3_600_000)))

    def go_round(number: int) -> None:
        clock.advance(1)
        (task,) = store.run(TakeTasks(TUBE, ANN))
        store.run(ReleaseTasks(TUBE, ANN, [task.message_id]))
        store.commit()

    assert growth_bytes(go_round) < GROWTH_MOST_BYTES


def test_events_that_are_put_to_the_front_and_expire_leave_no_places(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """To a group that has come further they are redeliveries, and the newest comes first."""
    store.run(Put(EVENTS, b"q", [b"stays"]))
    store.run(Reserve(EVENTS, b"q", b"g", DAY_MS))

    def put(number: int) -> None:
        clock.advance(1)
        store.run(Put(EVENTS, b"q", [b"x"], 5, to_front=True))
        store.tick()
        store.ready.clear()
        store.commit()

    assert growth_bytes(put) < GROWTH_MOST_BYTES
    (given,) = store.run(Reserve(EVENTS, b"q", b"g", DAY_MS))
    assert given.body == b"x"
    clock.advance(5)
    assert store.run(Reserve(EVENTS, b"q", b"g", DAY_MS)) == []


def test_a_leased_item_that_gets_another_body_again_and_again_leaves_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    store.run(AddItems(ITEMS, b"i", [b"id"], [b"x"]))
    store.run(Take(ITEMS, [b"i"], lease_ms=DAY_MS))

    def add(number: int) -> None:
        store.run(AddItems(ITEMS, b"i", [b"id"], [b"x"], is_known_new=True))
        store.ready.clear()
        store.commit()

    assert growth_bytes(add) < TIMES  # a reminder of the same millisecond takes 8 bytes
    clock.advance(DAY_MS)
    store.tick()
    assert store.run(LookAt(ITEMS, b"i")).ready == 1


def test_a_session_that_is_left_and_joined_again_and_again_leaves_no_reminders(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    begin(store, b"fifo")
    store.run(PutTasks(TUBE, [b"x"], TaskTerms()))
    (task,) = store.run(TakeTasks(TUBE, ANN))

    def go_round(number: int) -> None:
        clock.advance(1)
        store.run(LeaveSession(ANN, DAY_MS))
        store.run(JoinSession(ANN, is_new=False))
        store.commit()

    assert growth_bytes(go_round) < GROWTH_MOST_BYTES
    store.run(LeaveSession(ANN, 5))
    clock.advance(5)
    store.tick()
    (again,) = store.run(PeekTasks(TUBE, [task.message_id]))
    assert again.state == State.READY


def test_a_batch_that_compaction_wrote_again_out_of_order_still_expires_after_a_restart(
    stage: Stage,
) -> None:
    store = stage.store
    for chunk in range(3):
        stage_words.stage(store, stage_words.run_of(b"x"), chunk=chunk)
        stage.turn()
        stage.clock.advance(1_000)
    for _ in stage.compact_first():
        stage.turn()
    store = stage.reopened()
    stage.clock.advance(STAGE_KEPT_MS)

    while store.next_due_ms() <= store.now_ms():
        store.tick()
        stage.turn()

    assert store.run(FindStages()) == []
