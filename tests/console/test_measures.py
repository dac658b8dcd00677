"""What a store tells of its queues and of itself, on both stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from quinque.model.lifecycle import Kind, Reason
from quinque.model.measure_ops import (
    GroupMeasure,
    MeasureQueues,
    MeasureStore,
    QueueMeasure,
    QueueMeasures,
)
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from quinque.stores.redis.measures import Health
from quinque.stores.redis.store import RedisStore
from tests.conformance import tube_words, words, work_words

COUNTING = Keeping(is_counting=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["embedded", "redis"])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Callable[[Keeping], Store]]:
    with ExitStack() as stack:

        def open_one(keeping: Keeping) -> Store:
            opened: EmbeddedStore | RedisStore
            if request.param == "embedded":
                opened = EmbeddedStore(tmp_path, clock=clock, keeping=keeping)
            else:
                url = request.getfixturevalue("redis_url")
                opened = RedisStore(url, clock=clock, keeping=keeping)
            stack.callback(opened.close)
            return opened

        yield open_one


@pytest.fixture
def store(open_store: Callable[[Keeping], Store]) -> Store:
    return open_store(COUNTING)


def measures(store: Store, count: int = 100) -> dict[bytes, QueueMeasure]:
    """Every queue, asked for some at a time."""
    store.commit()
    found: dict[bytes, QueueMeasure] = {}
    cursor: object = None
    while True:
        some: QueueMeasures = store.run(MeasureQueues(count, cursor))
        found.update((measured.queue, measured) for measured in some.found)
        cursor = some.cursor
        if cursor is None:
            return found


def changes(measured: QueueMeasure) -> dict[tuple[Kind, Reason], int]:
    return {(Kind(it >> 8), Reason(it & 255)): n for it, n in measured.changes.items()}


def test_a_worklist_is_counted_by_state(store: Store, clock: ManualClock) -> None:
    work_words.kill(store, b"dead")
    work_words.add(store, b"1", b"2", b"3")
    work_words.add(store, b"later", delay_ms=1000)
    work_words.take(store, 1)
    clock.advance(2500)
    measured = measures(store)[b"w"]

    assert (measured.ready, measured.leased, measured.delayed, measured.dead) == (2, 1, 1, 1)
    assert measured.kept == 5
    assert measured.first_ms == store.now_ms() - 2500


def test_a_feed_is_counted_by_group(store: Store, clock: ManualClock) -> None:
    words.put(store, b"1", b"2", b"3")
    words.lease(store, 2, group=b"far")
    words.lease(store, 1, group=b"near")
    clock.advance(1000)
    measured = measures(store)[b"q"]

    assert sorted(measured.groups, key=lambda group: group.name) == [
        GroupMeasure(b"far", ready=1, leased=2),
        GroupMeasure(b"near", ready=2, leased=1),
    ]
    assert (measured.ready, measured.leased, measured.kept) == (2, 3, 3)
    assert measured.first_ms == store.now_ms() - 1000


def test_what_a_group_may_have_again_is_ready_for_it(store: Store) -> None:
    words.put(store, b"1", b"2")
    (given,) = words.lease(store)
    words.release(store, given.message_id)

    assert measures(store)[b"q"].groups == [GroupMeasure(b"g", ready=2, leased=0)]


def test_very_many_groups_come_some_at_a_time(store: Store) -> None:
    words.put(store, b"1", b"2")
    for number in range(600):
        words.lease(store, 1 + number % 2, group=b"%d" % number)
    measured = measures(store)[b"q"]

    assert len(measured.groups) == 600
    assert (measured.ready, measured.leased) == (1, 900)


def test_a_tube_is_counted_by_state(store: Store, clock: ManualClock) -> None:
    tube_words.begin(store, b"fifottl")
    ids = tube_words.put(store, b"1", b"2", b"3", b"4")
    tube_words.put(store, b"later", delay_ms=5000)
    tube_words.bury(store, ids[3])
    tube_words.take(store)
    clock.advance(1000)
    measured = measures(store)[tube_words.TUBE]

    assert (measured.ready, measured.leased, measured.delayed, measured.dead) == (2, 1, 1, 1)
    assert measured.first_ms == store.now_ms() - 1000


def test_a_task_whose_lane_is_busy_is_not_next(store: Store) -> None:
    tube_words.begin(store, b"utube")
    tube_words.put(store, b"1", b"2")
    tube_words.take(store)
    measured = measures(store)[tube_words.TUBE]

    assert (measured.ready, measured.leased, measured.first_ms) == (1, 1, None)


def test_what_becomes_of_messages_is_counted(store: Store) -> None:
    ids = work_words.add(store, b"1", b"2", b"3")
    work_words.take(store, 3)
    work_words.finish(store, ids[0])
    work_words.nack(store, ids[1])
    words.put(store, b"1")
    words.take(store)
    found = measures(store)

    assert changes(found[b"w"]) == {
        (Kind.ADDED, Reason.NONE): 3,
        (Kind.DELIVERED, Reason.NONE): 3,
        (Kind.ACKED, Reason.NONE): 1,
        (Kind.RETURNED, Reason.NACKED): 1,
    }
    assert changes(found[b"q"])[Kind.ADDED, Reason.NONE] == 1


@pytest.mark.parametrize("is_temporary", [False, True])
def test_what_becomes_of_tasks_is_counted(store: Store, is_temporary: bool) -> None:
    tube_words.begin(store, is_temporary=is_temporary)
    ids = tube_words.put(store, b"1", b"2", b"3")
    tube_words.bury(store, ids[2])
    tube_words.take(store)
    tube_words.ack(store, ids[0])
    tube_words.truncate(store)

    assert changes(measures(store)[tube_words.TUBE]) == {
        (Kind.ADDED, Reason.NONE): 3,
        (Kind.DEAD, Reason.ASKED): 1,
        (Kind.DELIVERED, Reason.NONE): 1,
        (Kind.ACKED, Reason.NONE): 1,
        (Kind.REMOVED, Reason.PURGED): 2,
    }


def test_what_time_does_is_counted(store: Store, clock: ManualClock) -> None:
    work_words.add(store, b"1")
    work_words.take(store)
    clock.advance(work_words.AFTER_MS)
    work_words.take(store)

    counted = changes(measures(store)[b"w"])

    assert counted[Kind.RETURNED, Reason.LAPSED] == 1
    assert counted[Kind.DELIVERED, Reason.NONE] == 2


def test_many_queues_come_some_at_a_time(store: Store) -> None:
    for number in range(30):
        words.put(store, b"1", queue=b"{here}%d" % number)
        words.put(store, b"1", queue=b"%d" % number)

    assert len(measures(store, count=7)) == 60


def test_only_those_that_are_named_are_told(store: Store) -> None:
    for name in (b"{here}1", b"{here}2", b"3"):
        words.put(store, b"1", queue=name)
    some: QueueMeasures = store.run(MeasureQueues(10, names=[b"{here}1", b"3", b"nothing"]))

    assert sorted(found.queue for found in some.found) == [b"3", b"{here}1"]
    assert some.cursor is None


def test_measuring_changes_nothing(store: Store, clock: ManualClock) -> None:
    work_words.add(store, b"1")
    work_words.take(store)
    clock.advance(work_words.AFTER_MS)

    assert measures(store)[b"w"].leased == 1


def test_a_store_that_works_has_no_trouble(store: Store) -> None:
    assert store.run(MeasureStore()).trouble == ""


def test_counts_need_no_record(open_store: Callable[[Keeping], Store]) -> None:
    store = open_store(Keeping(is_on=False, is_counting=True))
    work_words.add(store, b"1", b"2")
    counted = changes(measures(store)[b"w"])
    facts: Any = store.info()

    assert counted == {(Kind.ADDED, Reason.NONE): 2}
    assert (facts["lifecycle_status"], facts["lifecycle_rows"]) == ("off", 0)


def test_counts_begin_when_the_broker_starts(tmp_path: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(tmp_path, clock=clock, keeping=COUNTING)
    work_words.add(store, b"1", b"2")
    store.close()
    store = EmbeddedStore(tmp_path, clock=clock, keeping=COUNTING)
    measured = measures(store)[b"w"]
    store.close()

    assert (measured.ready, changes(measured)) == (2, {})


@pytest.mark.parametrize("is_on", [True, False])
def test_counts_begin_when_somebody_first_asks_for_them(
    open_store: Callable[[Keeping], Store], is_on: bool
) -> None:
    store = open_store(Keeping(is_on=is_on))
    work_words.add(store, b"1", b"2")
    store.commit()

    store.run(MeasureQueues(10, is_counting=True))
    store.run(MeasureQueues(10, is_counting=True))
    work_words.take(store, 1)

    assert changes(measures(store)[b"w"]) == {(Kind.DELIVERED, Reason.NONE): 1}


def test_syncs_and_batches_of_a_journal_are_counted(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    work_words.add(store, b"1")
    work_words.add(store, b"2")
    store.commit()
    spreads = store.run(MeasureStore()).spreads
    store.close()

    batches: Any = spreads["journal_batches"]
    assert batches.size >= 1
    assert batches.total >= 2
    assert spreads["journal_syncs"].total > 0


def test_a_redis_that_is_silent_is_trouble() -> None:
    health = Health()
    health.heard_s -= 10

    assert health.measure().trouble == "Redis has not answered for 10 s"
