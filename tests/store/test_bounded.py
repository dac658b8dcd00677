"""One request, and one tick, do a bounded amount of work, however many messages there are."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import DiskFull, StoreUnavailable
from quinque.model.claim_ops import FillClaim, OpenClaims
from quinque.model.families import EVENTS, JOBS, RELIABLE
from quinque.model.ops import Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import RELIABLE_TERMS
from quinque.model.queue_ops import DeleteQueues, RenameQueue, SetExpiry
from quinque.model.stage_ops import Published
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    KickTasks,
    PutTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TruncateTube,
)
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    Configure,
    FindKey,
    FindQueues,
    Finish,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    ScanMessages,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from quinque.stores.pending import Pending
from tests.conformance.claim_words import whole
from tests.conformance.stage_words import publish, run_of, stage
from tests.conformance.tube_words import ANN, TUBE, begin
from tests.servers.steps import lines_run
from tests.store.disk import Disk
from tests.store.picture import check_indexes, messages_of

MANY = 10_000
TOGETHER = 5_000
# To remove one message takes about 100 lines, so this is room for a third of them.
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


@pytest.mark.parametrize("is_buried", [True, False])
def test_a_kick_among_many_tasks_that_are_over_is_cheap_and_kicks_a_living_one(
    store: EmbeddedStore, clock: ManualClock, is_buried: bool
) -> None:
    begin(store, b"fifottl")
    many(store, lambda bodies: PutTasks(TUBE, bodies, TaskTerms(ttl_ms=SOON_MS)))
    (living,) = store.run(PutTasks(TUBE, [b"alive"], TaskTerms()))
    if is_buried:
        store.run(BuryTasks(TUBE, [b"%d" % number for number in range(MANY)]))
    store.run(BuryTasks(TUBE, [living.message_id]))
    store.commit()
    clock.advance(2_000)
    kicked: list[int] = []

    lines = lines_run(lambda: kicked.append(store.run(KickTasks(TUBE, 1))))

    assert kicked == [1]
    assert lines < LINES_MOST
    (given,) = store.run(TakeTasks(TUBE, ANN))
    assert given.body == b"alive"
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


def test_a_look_at_the_last_of_many_events_that_came_back_is_cheap(store: EmbeddedStore) -> None:
    many(store, lambda bodies: Put(EVENTS, b"q", bodies))
    ids = [it.message_id for it in store.run(Reserve(EVENTS, b"q", b"g", DAY_MS, MANY))]
    store.run(Release(EVENTS, b"q", b"g", ids))
    found: list[Any] = []

    lines = lines_run(lambda: found.append(store.run(Peek(EVENTS, b"q", b"g", last=True))))

    assert found[0].message_id == ids[-1]
    assert lines < LINES_MOST // 100


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
        store.run(PutTasks(TUBE, [b"x"] * (MANY // 4), terms))
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


def test_jobs_of_many_queues_are_acked_as_cheaply_as_those_of_one(store: EmbeddedStore) -> None:
    ids = [
        id
        for number in range(1_000)
        for id in store.run(Add(JOBS, b"q%d" % number, [b"x", b"y"], Terms(DAY_MS)))
    ]
    ids = ids[::2] + ids[1::2]  # those of a queue are not beside each other
    done: list[bool] = []

    lines = lines_run(lambda: done.extend(store.run(Finish(JOBS, [*ids, ids[0], b"none"]))))

    assert done == [True] * len(ids) + [False, False]
    assert lines < LINES_MOST
    assert store.info()["jobs"] == 0


def test_a_chunk_of_a_large_batch_is_staged_and_published_as_cheaply_as_of_a_small_one(
    store: EmbeddedStore,
) -> None:
    def lines_of(number: int, chunks: int) -> list[int]:
        """To stage the last chunk, and to publish the second of its messages."""
        for chunk in range(chunks):
            stage(store, run_of(b"x"), number=number, chunk=chunk)
        done = [lines_run(lambda: stage(store, run_of(b"x", b"y"), number=number, chunk=chunks))]
        parts = (0, 0, chunks + 1)
        assert publish(store, parts, number=number, count=1) == Published(1, chunks + 1)
        done.append(lines_run(lambda: publish(store, parts, number=number, count=1)))
        assert publish(store, parts, number=number, count=1) == Published(1, chunks - 1)
        return done

    few, many = lines_of(1, 10), lines_of(2, 3_000)

    assert all(of_many <= of_few + 20 for of_few, of_many in zip(few, many, strict=True)), (
        few,
        many,
    )


def test_many_patterns_cost_no_more_lines_than_one(store: EmbeddedStore) -> None:
    queues = 500
    for number in range(queues):
        store.run(Add(JOBS, b"q%d" % number, [b"x"], Terms(DAY_MS)))
    store.commit()

    def lines_of(patterns: list[bytes], *given: bytes) -> int:
        """Of the second take, when the patterns are read; the queues from which it took."""
        store.run(Take(JOBS, [], 2, patterns=patterns))
        taken: list[bytes] = []
        op = Take(JOBS, [], 2, patterns=patterns)
        lines = lines_run(lambda: taken.extend(it.queue for it in store.run(op)))
        assert taken == [*given]
        return lines

    one = lines_of([b"none*"])
    many = lines_of([b"none%d*" % number for number in range(100)])
    found = lines_of([b"none*", b"q*"], b"q2", b"q3")

    assert many <= one + 20
    assert found <= one + 2 * queues  # those that match are listed, and two are looked at


def test_many_small_queues_are_purged_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    for number in range(1_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"] * 20, Terms(DAY_MS)))
    store.commit()

    lines = lines_run(lambda: store.run(PurgeAll(JOBS)))

    assert lines < LINES_MOST
    assert tick_all(store, clock) < LINES_MOST
    assert store.info()["jobs"] == 0
    check_indexes(store)


def test_messages_of_many_queues_that_were_purged_go_together(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """A broker with many queues of few messages is not busy with them for as many ticks."""
    for number in range(2_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"], Terms(DAY_MS)))
    store.commit()

    assert whole(store, store.run(PurgeAll(JOBS))) == 2_000

    store.commit()
    store.run(Add(RELIABLE, b"other", [b"x"], RELIABLE_TERMS))
    assert lines_run(store.commit) < 1_000  # the record does not look at all that it has to tell
    ticks = 0
    while store.leaving:
        assert lines_run(store.tick) < LINES_MOST
        store.commit()
        ticks += 1
    assert ticks < 50
    assert store.info()["messages"] == 1
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


@pytest.mark.parametrize("is_first", [True, False])
def test_the_end_of_one_of_many_jobs_that_are_awaited_is_not_much_work(
    store: EmbeddedStore, is_first: bool
) -> None:
    """A client may wait for 10,000 jobs, and asks again whenever one of them ends."""
    ids = store.run(Add(JOBS, b"q", [b"x"] * 1_000, Terms(DAY_MS)))
    awaited = AwaitEnd(JOBS, ids)
    assert store.run(awaited) is None

    for id in ids[:-1] if is_first else ids[:0:-1]:
        store.run(Finish(JOBS, [id]))
        assert lines_run(lambda: store.run(awaited)) < 200
    assert store.run(awaited) is None
    store.run(Finish(JOBS, ids))
    assert store.run(awaited) == 1_000


def test_the_ends_of_many_jobs_are_looked_for_together_in_many_claims(
    store: EmbeddedStore,
) -> None:
    claimed: list[bytes] = []
    for number in range(100):
        name = b"q%d" % number
        claimed += store.run(Add(JOBS, name, [b"x"], Terms(DAY_MS)))
        epoch = store.run(OpenClaims(JOBS, name, b"s", b"", DAY_MS)).epoch
        store.run(FillClaim(name, b"s", epoch, 1, 1, seals=True))
    ids = store.run(Add(JOBS, b"q", [b"x"] * 500, Terms(DAY_MS)))
    awaited = [AwaitEnd(JOBS, ids), AwaitEnd(JOBS, [*claimed[:1], *ids])]
    assert [store.run(each) for each in awaited] == [None, None]
    store.run(Finish(JOBS, ids))
    gone: list[int | None] = []

    lines = lines_run(lambda: gone.extend(store.run(each) for each in awaited))

    assert gone == [500, None]
    assert lines < 200_000
    assert store.run(AwaitEnd(JOBS, ids)) == 500


def test_a_dead_job_that_is_queued_again_is_awaited_again(store: EmbeddedStore) -> None:
    ids = store.run(Add(JOBS, b"q", [b"x"] * 3, Terms(DAY_MS)))
    awaited = AwaitEnd(JOBS, ids)
    assert store.run(awaited) is None
    store.run(Take(JOBS, [b"q"], 3))
    store.run(Requeue(JOBS, ids[2:], is_nack=True, is_dead=True))
    assert store.run(awaited) is None

    store.run(Redrive(JOBS, ids[2:]))
    store.run(Finish(JOBS, ids[:2]))
    assert store.run(awaited) is None

    store.run(Take(JOBS, [b"q"], 3))
    store.run(Requeue(JOBS, ids[2:], is_nack=True, is_dead=True))
    assert store.run(awaited) == 2


# -- operations that take many ticks --------------------------------------------------------------


def jobs_of(store: EmbeddedStore, *bodies: bytes, delay_ms: int = 0) -> list[bytes]:
    terms = Terms(DAY_MS, delay_ms, retry_ms=DAY_MS)
    ids: list[bytes] = store.run(Add(JOBS, b"q", bodies, terms))
    return ids


def bodies_of(store: EmbeddedStore, queue: bytes = b"q") -> list[bytes]:
    """What can be taken, in its order."""
    bodies: list[bytes] = []
    while given := store.run(Take(JOBS, [queue], TOGETHER)):
        bodies += [it.body for it in given]
    return bodies


@pytest.mark.parametrize("state", [State.READY, State.DELAYED, State.LEASED, State.DEAD])
def test_jobs_of_a_state_are_purged_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock, state: State
) -> None:
    delay_ms = DAY_MS if state == State.DELAYED else 0
    many(store, lambda bodies: Add(JOBS, b"q", bodies, Terms(DAY_MS * 2, delay_ms, 60_000, 1)))
    if state in (State.LEASED, State.DEAD):
        while store.run(Take(JOBS, [b"q"], TOGETHER)):
            store.commit()
    if state == State.DEAD:
        clock.advance(120_000)
        tick_all(store, clock)
    other = store.run(Add(JOBS, b"q", [b"other"], Terms(DAY_MS, 1 if not delay_ms else 0)))
    answers: list[Any] = []

    # To list the leased ones, all are gone through.
    lines = lines_run(lambda: answers.append(store.run(Purge(JOBS, b"q", [state]))))
    more = jobs_of(store, b"more", delay_ms=delay_ms)

    assert lines < LINES_MOST
    assert isinstance(answers[0], Pending)
    assert tick_all(store, clock) < LINES_MOST
    assert answers[0].value() == MANY
    assert set(store.directory.by_id) == {*other, *more}
    check_indexes(store)


def test_a_purge_in_a_transaction_does_not_carry_out_those_of_other_clients(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    jobs_of(store, *[b"%d" % number for number in range(2_000)])
    first = store.run(Purge(JOBS, b"q", [State.READY]))
    store.run(Add(JOBS, b"other", [b"x"] * 600, Terms(DAY_MS)))
    second = store.run(Purge(JOBS, b"other", [State.READY]))

    store.finish_slices()

    assert second.value() == 600
    assert not first.is_settled
    tick_all(store, clock)
    assert first.value() == 2_000
    check_indexes(store)


def test_what_changes_meanwhile_is_not_purged(store: EmbeddedStore, clock: ManualClock) -> None:
    ids = jobs_of(store, *[b"%d" % number for number in range(2_000)])
    first = store.run(Purge(JOBS, b"q", [State.READY]))
    second = store.run(Purge(JOBS, b"q", [State.READY, State.DEAD]))

    [taken] = store.run(Take(JOBS, [b"q"]))
    assert store.run(Finish(JOBS, ids[-1:])) == [True]
    tick_all(store, clock)

    assert first.value() + second.value() == 1_998
    assert list(store.directory.by_id) == [taken.message_id]
    assert store.run(Finish(JOBS, [taken.message_id])) == [True]
    store.commit()
    assert store.next_due_ms() > store.now_ms()
    check_indexes(store)


@pytest.mark.parametrize("how", [Purge(JOBS, b"q"), PurgeAll(JOBS), DeleteQueues(JOBS, [b"q"])])
def test_a_queue_that_goes_meanwhile_ends_the_purge(
    store: EmbeddedStore, clock: ManualClock, how: Op
) -> None:
    jobs_of(store, *[b"x"] * 2_000)
    purge = store.run(Purge(JOBS, b"q", [State.READY]))

    store.run(how)
    jobs_of(store, b"new")
    tick_all(store, clock)

    assert purge.value() == 500
    assert bodies_of(store) == [b"new"]
    check_indexes(store)


def test_a_restart_finds_each_job_purged_or_as_it_was(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no")
    jobs_of(store, *[b"%d" % number for number in range(2_000)])
    purge = store.run(Purge(JOBS, b"q", [State.READY]))
    store.tick()
    store.commit()
    crashed = folder / "crashed"
    shutil.copytree(folder / "data", crashed, ignore=shutil.ignore_patterns("lock"))
    store.close()

    again = EmbeddedStore(crashed, clock=clock, fsync="no")
    assert not purge.is_settled
    assert again.run(Purge(JOBS, b"none", [State.READY])) == 0
    assert again.next_due_ms() > again.now_ms()
    assert bodies_of(again) == [b"%d" % number for number in range(1_000, 2_000)]
    check_indexes(again)
    again.close()


def test_many_queues_are_flushed_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    for number in range(1_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x", b"y"], Terms(DAY_MS)))
    store.commit()

    flushed = store.run(PurgeAll(JOBS))
    store.run(Add(JOBS, b"q999", [b"later"], Terms(DAY_MS)))
    store.run(Add(JOBS, b"new", [b"later"], Terms(DAY_MS)))
    left = [len(store.queues)]
    while store.next_due_ms() <= store.now_ms():
        clock.advance(1)
        store.tick()
        store.commit()
        left.append(len(store.queues))

    assert flushed.value() == 2_000
    assert max(before - after for before, after in pairwise(left)) == 100
    assert set(store.queues) == {b"q999", b"new"}
    assert bodies_of(store, b"q999") == bodies_of(store, b"new") == [b"later"]
    check_indexes(store)


def test_a_job_that_is_added_between_two_slices_of_a_flush_stays(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    for number in range(100):  # the first slice
        store.run(Add(JOBS, b"q%d" % number, [b"x"], Terms(DAY_MS)))
    store.run(Add(JOBS, b"small", [b"x"], Terms(DAY_MS)))
    for _ in range(3):
        store.run(Add(JOBS, b"large", [b"x"] * 500, Terms(DAY_MS)))
    store.commit()

    flushed = store.run(PurgeAll(JOBS))
    store.run(Add(JOBS, b"large", [b"later"], Terms(DAY_MS)))
    slices = 0
    while store.next_due_ms() <= store.now_ms():
        clock.advance(1)
        store.tick()
        slices += 1
        if slices == 2:
            store.run(Add(JOBS, b"small", [b"later"], Terms(DAY_MS)))
        store.commit()

    assert flushed.value() == 1_601
    assert slices > 3
    assert bodies_of(store, b"small") == bodies_of(store, b"large") == [b"later"]
    check_indexes(store)


@pytest.mark.parametrize("kind", [b"fifo", b"fifottl", b"utube"])
def test_taken_tasks_are_released_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock, kind: bytes
) -> None:
    begin(store, kind)
    for number in range(0, MANY, TOGETHER):
        store.run(PutTasks(TUBE, [b"x"] * TOGETHER, TaskTerms()))
        if kind == b"utube":
            store.run(PutTasks(TUBE, [b"x"], TaskTerms(lane=b"lane-%d" % number)))
    held = len(store.run(TakeTasks(TUBE, ANN, MANY))) + len(store.run(TakeTasks(TUBE, ANN, MANY)))
    answers: list[Any] = []

    lines = lines_run(lambda: answers.append(store.run(ReturnTasks(TUBE))))

    assert lines < LINES_MOST
    if kind == b"utube":
        assert answers == [held]
    else:
        [again] = store.run(TakeTasks(TUBE, ANN))
        assert tick_all(store, clock) < LINES_MOST
        # The one that was taken again since is not released from its new consumer.
        assert answers[0].value() == held == MANY
        assert store.run(AckTasks(TUBE, ANN, [again.message_id, b"7"])) == [
            TaskView(again.message_id, None, b"x"),
            None,
        ]
    check_indexes(store)


def test_buried_tasks_are_kicked_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    begin(store, b"fifottl")
    many(store, lambda bodies: PutTasks(TUBE, bodies, TaskTerms()))
    store.run(BuryTasks(TUBE, [b"%d" % number for number in range(5_000)]))
    answers: list[Any] = []

    lines = lines_run(lambda: answers.append(store.run(KickTasks(TUBE, 4_000))))
    store.run(DeleteTasks(TUBE, [b"3999"]))
    store.run(KickTasks(TUBE, message_ids=[b"3998"]))
    store.run(BuryTasks(TUBE, [b"0"]))

    assert lines < LINES_MOST // 3
    assert tick_all(store, clock) < LINES_MOST // 3
    assert answers[0].value() == 3_998
    assert [it.message_id for it in store.run(BrowseTasks(TUBE, State.DEAD, 2))] == [b"0", b"4000"]
    check_indexes(store)


def test_names_are_matched_with_patterns_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    terms = Terms(DAY_MS, retry_ms=DAY_MS)
    for number in range(1_000):
        store.run(Add(JOBS, b"%d-queue-%d" % (number, number), [b"x"], terms))
    store.commit()
    few, most = [b"*-queue-999"], [b"*-queue-999", *(b"*-none-%d*" % n for n in range(99))]

    [given] = store.run(Take(JOBS, [], 2, patterns=few))
    store.run(Requeue(JOBS, [given.message_id], is_nack=False))
    matched = store.run(Take(JOBS, [], 2, patterns=most))
    store.run(Add(JOBS, b"later-queue-999", [b"x"], Terms(DAY_MS)))
    ticks = 0
    while not matched.is_settled:
        store.tick()
        ticks += 1

    assert [it.queue for it in matched.value()] == [given.queue]
    assert ticks > 5
    assert [it.queue for it in store.run(Take(JOBS, [], 2, patterns=few))] == [b"later-queue-999"]


def test_a_flush_of_many_queues_costs_little_though_many_clients_wait(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    """Clients wait for the ends of jobs and for the names of queues."""
    ids = [store.run(Add(JOBS, b"q%d" % n, [b"x", b"y"], Terms(DAY_MS)))[0] for n in range(1_000)]
    store.commit()
    store.ready.clear()
    store.watched = dict.fromkeys([b"other-%d" % number for number in range(9_000)] + ids[::2])

    lines = lines_run(lambda: store.run(PurgeAll(JOBS)))

    assert max(lines, tick_all(store, clock)) < LINES_MOST // 3
    assert store.ready == set(ids[::2])
    check_indexes(store)


def test_a_take_by_pattern_goes_through_queues_that_give_nothing_a_little_at_a_time(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    terms = Terms(DAY_MS, retry_ms=DAY_MS)
    for number in range(4_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"], terms))
        if number < 3_995:
            store.run(Configure(JOBS, b"q%d" % number, is_paused_out=True))
    store.commit()
    answers: list[Any] = []

    lines = lines_run(lambda: answers.append(store.run(Take(JOBS, [], 9, patterns=[b"q*"]))))
    store.run(Purge(JOBS, b"q3999", forgets=True))
    store.run(Put(EVENTS, b"q3999", [b"event"]))

    assert max(lines, tick_all(store, clock)) < LINES_MOST // 10
    assert [it.queue for it in answers[0].value()] == [b"q%d" % n for n in range(3_995, 3_999)]
    check_indexes(store)


def test_a_take_by_pattern_that_has_enough_looks_at_no_more_queues(store: EmbeddedStore) -> None:
    for number in range(10_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"], Terms(DAY_MS, retry_ms=DAY_MS)))
    store.commit()
    given: list[Any] = []

    lines = lines_run(lambda: given.extend(store.run(Take(JOBS, [], 2, patterns=[b"q*"]))))

    assert [it.queue for it in given] == [b"q0", b"q1"]
    assert lines < 1_000


def test_a_take_by_pattern_that_finds_no_room_on_the_disk_says_that_nothing_was_done(
    store: EmbeddedStore, disk: Disk
) -> None:
    for number in range(6_000):
        store.run(Add(JOBS, b"q%d" % number, [b"x"], Terms(DAY_MS, retry_ms=DAY_MS)))
    store.commit()
    pending = store.run(Take(JOBS, [], 1, patterns=[b"*5999"]))

    store.journal._reserved = store.journal._at
    disk.fail("posix_fallocate", errno.ENOSPC)
    while not pending.is_settled:
        store.tick()

    with pytest.raises(DiskFull):
        pending.value()
    disk.heal()


def test_a_purge_that_finds_no_room_on_the_disk_later_says_that_a_part_was_done(
    store: EmbeddedStore, disk: Disk
) -> None:
    jobs_of(store, *[b"x"] * 2_000)
    store.commit()
    pending = store.run(Purge(JOBS, b"q", [State.READY]))
    store.commit()

    store.journal._reserved = store.journal._at
    disk.fail("posix_fallocate", errno.ENOSPC)
    store.tick()

    with pytest.raises(StoreUnavailable, match="only a part"):
        pending.value()
    disk.heal()


def test_subscriptions_that_lapse_together_are_released_some_with_each_tick(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    for number in range(100):
        queue = b"q%d" % number
        store.run(Add(JOBS, queue, [b"x"], Terms(DAY_MS)))
        store.run(OpenClaims(JOBS, queue, b"s", b"", 1_000, 1_000))
        store.run(FillClaim(queue, b"s", 1, 1, 1, seals=True))
    store.commit()
    clock.advance(1_000)
    ticks = 0

    while store.subscriptions.soonest_ms <= store.now_ms():
        assert lines_run(store.tick) < LINES_MOST
        ticks += 1

    assert 2 < ticks < 10
    assert sum(map(len, messages_of(store).values())) == 100
