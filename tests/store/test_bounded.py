"""One request, and one tick, do a bounded amount of work, however many messages there are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quinque.model.families import EVENTS, JOBS, RELIABLE
from quinque.model.ops import Flush, Op, Put, Release, Reserve
from quinque.model.own_ops import RELIABLE_TERMS
from quinque.model.queue_ops import DeleteQueues, RenameQueue, SetExpiry
from quinque.model.tube_ops import DropTube, PutTasks, TakeTasks, TaskTerms, TruncateTube
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    FindKey,
    FindQueues,
    Finish,
    Purge,
    PurgeAll,
    ScanMessages,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from tests.conformance.tube_words import ANN, TUBE, begin
from tests.servers.steps import lines_run
from tests.store.picture import check_indexes, messages_of

MANY = 20_000
TOGETHER = 5_000
# To remove one message takes about 100 lines, so this is room for a tenth of them.
LINES_MOST = 300_000
SOON_MS, DAY_MS = 1_000, 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(folder: Path, clock: ManualClock) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(folder / "data", clock=clock, fsync="no")
    yield opened
    opened.close()


def many(store: EmbeddedStore, op: Callable[[list[bytes]], Op]) -> None:
    """The operation, of some bodies, again and again until there are many of them."""
    for _ in range(0, MANY, TOGETHER):
        store.run(op([b"x"] * TOGETHER))
    store.commit()


def tick_all(store: EmbeddedStore, clock: ManualClock) -> int:
    """Tick until nothing is due; the lines of the tick that ran most."""
    most = 0
    while store.next_due_ms() <= store.now_ms():
        clock.advance(1)
        most = max(most, lines_run(store.tick))
        store.commit()
    return most


def test_a_take_behind_many_expired_jobs_finds_the_living_one_at_once(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    many(store, lambda bodies: Add(JOBS, b"q", bodies, Terms(SOON_MS, retry_ms=60_000)))
    store.run(Add(JOBS, b"q", [b"alive"], Terms(DAY_MS, retry_ms=60_000)))
    clock.advance(2_000)
    given: list[bytes] = []

    lines = lines_run(lambda: given.extend(it.body for it in store.run(Take(JOBS, [b"q"]))))

    assert given == [b"alive"]
    assert lines < LINES_MOST
    assert tick_all(store, clock) < LINES_MOST
    assert store.info()["messages"] == 1


def test_max_length_counts_no_expired_jobs_and_stays_cheap(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    many(store, lambda bodies: Add(JOBS, b"q", bodies, Terms(SOON_MS, retry_ms=60_000)))
    clock.advance(2_000)

    lines = lines_run(lambda: store.run(Add(JOBS, b"q", [b"x"], Terms(DAY_MS), max_length=5)))

    assert lines < LINES_MOST
    assert store.run(Take(JOBS, [b"q"], 10))[0].body == b"x"


@pytest.mark.parametrize(
    ("kind", "lane"), [(b"fifottl", None), (b"utubettl", None), (b"utubettl", b"a")]
)
def test_a_take_behind_many_tasks_that_are_over_is_cheap(
    store: EmbeddedStore, clock: ManualClock, kind: bytes, lane: bytes | None
) -> None:
    begin(store, kind)
    many(store, lambda bodies: PutTasks(TUBE, bodies, TaskTerms(ttl_ms=SOON_MS, lane=b"a")))
    store.run(PutTasks(TUBE, [b"alive"], TaskTerms(lane=b"a")))
    clock.advance(2_000)

    lines = lines_run(lambda: store.run(TakeTasks(TUBE, ANN, lane=lane)))

    assert lines < LINES_MOST
    assert tick_all(store, clock) < LINES_MOST
    assert store.info()["messages"] == 1


@pytest.mark.parametrize("how", ["delete", "expire", "expire now", "rename"])
@pytest.mark.parametrize("is_on", [True, False])
def test_a_large_queue_is_gone_at_once_and_its_messages_a_little_at_a_time(
    folder: Path, clock: ManualClock, how: str, is_on: bool
) -> None:
    """With a record of what became of each message, and without."""
    store = EmbeddedStore(folder / "q", clock=clock, fsync="no", keeping=Keeping(is_on=is_on))
    many(store, lambda bodies: Add(RELIABLE, b"q", bodies, RELIABLE_TERMS))
    store.run(Take(RELIABLE, [b"q"], 100))
    store.run(Add(RELIABLE, b"other", [b"mine"], RELIABLE_TERMS))
    ways: dict[str, Callable[[], object]] = {
        "delete": lambda: store.run(DeleteQueues(RELIABLE, [b"q"])),
        "expire": store.tick,
        "expire now": lambda: store.run(SetExpiry(RELIABLE, b"q", store.now_ms() - 1)),
        "rename": lambda: store.run(RenameQueue(RELIABLE, b"other", b"q")),
    }
    if how == "expire":
        store.run(SetExpiry(RELIABLE, b"q", store.now_ms() + 1))
        clock.advance(2)
    store.commit()
    store.info()  # what came until here is on record

    lines = lines_run(ways[how])
    lines += lines_run(store.commit)

    assert lines < LINES_MOST // 5
    assert store.info()["messages"] == 1
    if how != "rename":
        store.run(Add(RELIABLE, b"q", [b"new"], RELIABLE_TERMS))
    left = messages_of(store)
    store.commit()
    check_indexes(store)
    assert tick_all(store, clock) < LINES_MOST
    check_indexes(store)
    assert messages_of(store) == left
    assert store.bodies.count == sum(map(len, left.values()))
    store.close()
    store = EmbeddedStore(folder / "q", clock=clock)
    assert messages_of(store) == left
    store.close()


def test_a_get_behind_many_expired_events_that_came_back_is_cheap(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    many(store, lambda bodies: Put(EVENTS, b"q", bodies, SOON_MS))
    store.run(Put(EVENTS, b"q", [b"alive"], DAY_MS))
    given = store.run(Reserve(EVENTS, b"q", b"g", DAY_MS, MANY + 1))
    store.run(Release(EVENTS, b"q", b"g", [it.message_id for it in given]))
    clock.advance(2_000)

    found: list[bytes] = []

    lines = lines_run(
        lambda: found.extend(it.body for it in store.run(Reserve(EVENTS, b"q", b"g", DAY_MS)))
    )

    assert found == [b"alive"]
    assert lines < LINES_MOST
    assert tick_all(store, clock) < LINES_MOST
    assert store.info()["messages"] == 1


def test_events_that_expire_in_a_queue_of_many_groups_cost_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"x"] * 500, SOON_MS))
    for number in range(300):
        store.run(Reserve(EVENTS, b"q", b"g%d" % number, 0, 500))
    store.commit()
    clock.advance(2_000)

    lines = tick_all(store, clock)

    assert lines < LINES_MOST
    assert store.info()["messages"] == 0


def test_a_removed_event_costs_a_few_lines_for_each_group(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    groups = 10_000  # so many that a tick removes one event
    store.run(Put(EVENTS, b"q", [b"x"] * 5, SOON_MS))
    store.run(Put(EVENTS, b"q", [b"alive"], DAY_MS))
    for number in range(groups):
        store.run(Reserve(EVENTS, b"q", b"g%d" % number, 0, 6))
    store.run(Reserve(EVENTS, b"q", b"slow", DAY_MS, 6))
    store.commit()
    clock.advance(2_000)

    lines = tick_all(store, clock)

    assert lines < 13 * groups
    assert store.info()["messages"] == 1
    check_indexes(store)


def fill_jobs(store: EmbeddedStore) -> None:
    many(store, lambda bodies: Add(JOBS, b"q", bodies, Terms(DAY_MS, retry_ms=60_000)))
    store.run(Add(JOBS, b"q", [b"late"] * 100, Terms(DAY_MS, delay_ms=5_000)))
    store.run(Add(JOBS, b"q", [b"keyed"], Terms(DAY_MS), key=b"k"))
    store.run(Take(JOBS, [b"q"], 200))


def fill_tube(store: EmbeddedStore) -> None:
    begin(store, b"utubettl")
    for lane in range(4):
        terms = TaskTerms(ttl_ms=DAY_MS, lane=b"%d" % lane)
        store.run(PutTasks(TUBE, [b"x"] * TOGETHER, terms))
    store.run(PutTasks(TUBE, [b"x"] * 100, TaskTerms(delay_ms=5_000)))


def fill_feed(store: EmbeddedStore) -> None:
    many(store, lambda bodies: Put(EVENTS, b"q", bodies, DAY_MS))
    for group in (b"g", b"h"):
        given = store.run(Reserve(EVENTS, b"q", group, DAY_MS, 1_000))
        store.run(Release(EVENTS, b"q", group, [it.message_id for it in given[:500]]))


def take_tasks(store: EmbeddedStore) -> None:
    fill_tube(store)
    store.run(TakeTasks(TUBE, ANN, 50))


# How the queue is filled, what empties it, and what that gives.
EMPTIED: dict[str, tuple[Callable[[EmbeddedStore], None], Op, object]] = {
    "purge": (fill_jobs, Purge(JOBS, b"q"), MANY + 101),
    "purge all": (fill_jobs, PurgeAll(JOBS), MANY + 101),
    "delete": (fill_jobs, DeleteQueues(JOBS, [b"q"]), 1),
    "truncate": (take_tasks, TruncateTube(TUBE), MANY + 100),
    "drop": (fill_tube, DropTube(TUBE), True),
    "flush": (fill_feed, Flush(EVENTS, b"q"), None),
}


@pytest.mark.parametrize("how", EMPTIED)
@pytest.mark.parametrize("is_on", [True, False])
def test_a_large_queue_is_emptied_at_once_and_its_messages_go_a_little_at_a_time(
    folder: Path, clock: ManualClock, how: str, is_on: bool
) -> None:
    """With a record of what became of each message, and without."""
    store = EmbeddedStore(folder / "q", clock=clock, fsync="no", keeping=Keeping(is_on=is_on))
    fill, op, gives = EMPTIED[how]
    fill(store)
    store.commit()
    store.info()  # what came until here is on record
    given: list[object] = []

    lines = lines_run(lambda: given.append(store.run(op)))
    lines += lines_run(store.commit)

    assert given == [gives]
    assert lines < LINES_MOST // 5
    assert (store.info()["messages"], store.info()["jobs"]) == (0, 0)
    store.run(Add(JOBS, b"new", [b"new"], Terms(DAY_MS), key=b"k"))
    if how == "purge":
        assert not store.run(Take(JOBS, [b"q"]))
        assert store.run(Add(JOBS, b"q", [b"again"], Terms(DAY_MS), key=b"k"))
    left = messages_of(store)
    store.commit()
    check_indexes(store)
    copy = shutil.copytree(folder / "q", folder / "killed", ignore=shutil.ignore_patterns("lock"))
    assert tick_all(store, clock) < LINES_MOST
    check_indexes(store)
    assert messages_of(store) == left
    rows = store.info()["lifecycle_next_row"]
    store.close()
    for path in (copy, folder / "q"):
        store = EmbeddedStore(path, clock=clock, keeping=Keeping(is_on=is_on))
        check_indexes(store)
        assert messages_of(store) == left
        assert store.info()["lifecycle_next_row"] == rows
        store.close()


def test_a_job_that_was_purged_is_not_found_by_its_id(store: EmbeddedStore) -> None:
    ids = store.run(Add(JOBS, b"q", [b"x"] * 1_000, Terms(DAY_MS)))
    store.run(Add(JOBS, b"other", [b"y"], Terms(DAY_MS)))

    assert store.run(Purge(JOBS, b"q")) == 1_000

    assert store.leaving
    assert store.run(Finish(JOBS, ids[:3])) == [False] * 3
    assert store.run(FindQueues(JOBS, ids[:3])) == [None] * 3
    assert store.run(AwaitEnd(JOBS, ids)) == 1_000
    assert [it.body for it in store.run(ScanMessages(JOBS, 0, 10, with_bodies=True))[1]] == [b"y"]
    assert store.run(FindKey(JOBS, b"q", b"k")) is None


def test_many_small_queues_are_purged_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    for number in range(1_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"] * 20, Terms(DAY_MS)))
    store.commit()

    lines = lines_run(lambda: store.run(PurgeAll(JOBS)))

    assert lines < LINES_MOST
    assert store.info()["jobs"] == 0
    assert tick_all(store, clock) < LINES_MOST
    check_indexes(store)


def test_a_purge_of_many_expired_jobs_is_cheap(store: EmbeddedStore, clock: ManualClock) -> None:
    many(store, lambda bodies: Add(JOBS, b"q", bodies, Terms(SOON_MS, retry_ms=60_000)))
    store.run(Add(JOBS, b"q", [b"alive"], Terms(DAY_MS, retry_ms=60_000)))
    clock.advance(2_000)

    lines = lines_run(lambda: store.run(Purge(JOBS, b"q")))

    assert lines < LINES_MOST
    assert tick_all(store, clock) < LINES_MOST
    assert store.info()["messages"] == 0


CYCLES: dict[str, tuple[Callable[[list[bytes]], Op], Op, Op | None]] = {
    "jobs": (lambda some: Add(JOBS, b"q", some, Terms(DAY_MS)), Purge(JOBS, b"q"), None),
    "leased jobs": (
        lambda some: Add(JOBS, b"q", some, Terms(DAY_MS)),
        Purge(JOBS, b"q"),
        Take(JOBS, [b"q"], 1_000),
    ),
    "events": (lambda some: Put(EVENTS, b"q", some), Flush(EVENTS, b"q"), None),
}


@pytest.mark.parametrize("how", CYCLES)
def test_a_queue_that_is_filled_and_emptied_again_and_again_leaves_no_backlog(
    folder: Path, how: str
) -> None:
    fill, empty, take = CYCLES[how]
    store = EmbeddedStore(folder / "data", clock=ManualClock(), fsync="no", segment_bytes=1 << 16)
    most = 0

    for _ in range(30):  # with no tick between them: a busy broker has few
        for _ in range(4):
            store.run(fill([b"x" * 20] * 1_000))
            if take is not None:
                store.run(take)
            store.commit()
        store.run(empty)
        store.commit()
        most = max(most, store.count_leaving())

    assert most <= 4_000
    assert store.info()["compacted_segments"]
    assert store.info()["messages"] == 0
    store.close()


def test_temporary_tubes_that_are_filled_and_emptied_leave_no_backlog(
    store: EmbeddedStore,
) -> None:
    begin(store, is_temporary=True)
    most = 0

    for _ in range(10):
        for _ in range(2):
            store.run(PutTasks(TUBE, [b"x"] * 1_000, TaskTerms()))
            store.commit()
        store.run(TruncateTube(TUBE))
        store.commit()
        most = max(most, sum(it.remains.size for it in store.leaving))

    assert most <= 2_000
