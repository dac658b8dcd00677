"""An operation of several records on a full disk, with names as long as can be: all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import DiskFull
from quinque.model.claim_ops import FillClaim, MarkClaim, OpenClaims, Outcome, ReleaseClaims
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE, Family
from quinque.model.ops import Ack, Op, Put, Reserve
from quinque.model.own_ops import RELIABLE_TERMS, AddItems
from quinque.model.queue_ops import DeleteQueues
from quinque.model.stage_ops import FindStages, Part, Publish
from quinque.model.tube_ops import PutTasks, ReleaseTasks, TakeTasks, TaskTerms
from quinque.model.work_ops import Add, Finish, PurgeAll, Requeue, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance import stage_words
from tests.conformance.tube_words import ANN, TUBE, begin
from tests.store.disk import Disk, leave_room, reopened
from tests.store.picture import check_indexes, picture_of

LONG = 1_000
ONE, TWO, GROUP, KEY = b"1" * LONG, b"2" * LONG, b"g" * LONG, b"k" * LONG
HOUR_MS = 3_600_000
TERMS = Terms(HOUR_MS, retry_ms=HOUR_MS)


def delete(store: EmbeddedStore) -> Op:
    for name in (ONE, TWO):
        store.run(Add(RELIABLE, name, [b"a", b"b"], RELIABLE_TERMS))
    return DeleteQueues(RELIABLE, [ONE, TWO])


def purge_all(store: EmbeddedStore) -> Op:
    for name in (ONE, TWO):
        store.run(Add(JOBS, name, [b"a", b"b"], TERMS))
    return PurgeAll(JOBS)


def finish(store: EmbeddedStore) -> Op:
    return Finish(JOBS, [*store.run(Add(JOBS, ONE, [b"a"], TERMS, KEY)), *_added(store, TWO)])


def nack(store: EmbeddedStore) -> Op:
    ids = [*_added(store, ONE), *_added(store, TWO)]
    store.run(Take(JOBS, [ONE, TWO], 9))
    return Requeue(JOBS, ids, True, 0, b"why" * 300)


def ack(store: EmbeddedStore) -> Op:
    ids = store.run(Put(EVENTS, ONE, [b"many"]))
    ids += store.run(Put(EVENTS, ONE, [b"single"], message_id=b"i" * LONG, is_single=True))
    store.run(Reserve(EVENTS, ONE, GROUP, HOUR_MS, 2))
    return Ack(EVENTS, ONE, GROUP, ids)


def reserve(store: EmbeddedStore) -> Op:
    store.run(Put(EVENTS, ONE, [b"single"], message_id=b"i" * LONG, is_single=True))
    return Reserve(EVENTS, ONE, GROUP, 0, 2)


def add_items(store: EmbeddedStore) -> Op:
    ids = [b"%d" % number * 900 for number in range(2)]
    store.run(AddItems(ITEMS, ONE, ids[:1], [b"a"]))
    return AddItems(ITEMS, ONE, ids, [b"b" * 70_000, b"c"])


def release_claim(store: EmbeddedStore) -> Op:
    ids = [id for _ in range(3) for id in _added(store, ONE)]
    store.run(OpenClaims(JOBS, ONE, GROUP, b"", HOUR_MS))
    store.run(FillClaim(ONE, GROUP, 1, 1, 3, seals=True))
    store.run(MarkClaim(ONE, GROUP, 1, Outcome.NACK, ids))
    return ReleaseClaims(ONE, GROUP, 1, 1)


def release_task(store: EmbeddedStore) -> Op:
    begin(store, b"fifottl")
    store.run(PutTasks(TUBE, [b"x" * 500, b"y" * 500], TaskTerms()))
    ids = [task.message_id for task in store.run(TakeTasks(TUBE, ANN, count=2))]
    return ReleaseTasks(TUBE, ANN, ids, pri=1)


def publish(store: EmbeddedStore, family: Family) -> Op:
    names = [b"%d" % number * LONG for number in range(4)]
    runs = [stage_words.run_of(b"body", ttl_ms=HOUR_MS, name=name) for name in names]
    for part in range(2):
        stage_words.stage(store, *runs[2 * part :][:2], part=part, family=family, queue=ONE)
    return Publish(family, ONE, b"k", b"r", 0, [Part(0, 0, 1), Part(1, 0, 1)], 9)


def publish_jobs(store: EmbeddedStore) -> Op:
    return publish(store, JOBS)


def publish_events(store: EmbeddedStore) -> Op:
    return publish(store, EVENTS)


def _added(store: EmbeddedStore, queue: bytes) -> list[bytes]:
    ids: list[bytes] = store.run(Add(JOBS, queue, [b"a"], TERMS))
    return ids


OPERATIONS: list[Callable[[EmbeddedStore], Op]] = [
    delete,
    purge_all,
    finish,
    nack,
    ack,
    reserve,
    add_items,
    release_claim,
    release_task,
    publish_jobs,
    publish_events,
]
ADDING = (add_items, release_task, publish_jobs, publish_events)


def all_of(store: EmbeddedStore) -> Any:
    return picture_of(store), store.run(FindStages()), store.bodies.total_bytes


@pytest.mark.parametrize("prepare", OPERATIONS, ids=lambda prepare: prepare.__name__)
def test_a_refused_operation_with_long_names_has_changed_nothing(
    folder: Path, clock: ManualClock, disk: Disk, prepare: Callable[[EmbeddedStore], Op]
) -> None:
    store = EmbeddedStore(folder / "live", clock=clock)
    op = prepare(store)
    refusals = 0
    # What takes room leaves the last of it to the others.
    least_bytes = SPARE_BYTES if prepare in ADDING else 0
    for room_bytes in range(least_bytes, least_bytes + 100_000, 150):
        leave_room(store, disk, room_bytes)
        before = all_of(store)
        try:
            store.run(op)
            break
        except DiskFull:
            refusals += 1
            assert all_of(store) == before
    else:
        pytest.fail("there was room in the end")

    assert refusals
    assert all_of(store) != before
    disk.heal()
    store.commit()
    check_indexes(store)
    assert picture_of(reopened(store)) == picture_of(store)
    store.close()
