"""Items in a journal: what was moved back, or has other data, after compaction and crashes."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull
from quinque.model.claim_ops import Outcome
from quinque.model.families import ITEMS
from quinque.model.look_ops import BrowsePlaces
from quinque.model.own_ops import AddItems
from quinque.model.states import State
from quinque.model.work_ops import Browse, Purge
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.claim_words import subscribe
from tests.conformance.item_words import (
    ITEMS_QUEUE,
    add,
    add_data,
    complete,
    extend,
    lease,
    lease_data,
    lengths,
)
from tests.conformance.stage_words import publish_all, run_of
from tests.conformance.stage_words import stage as stage_chunk
from tests.conformance.words import tick
from tests.store.disk import Disk, check_refused, leave_room
from tests.store.picture import check_indexes, picture_of
from tests.store.random_items import ItemWorker
from tests.store.stage import Stage, watch_compaction

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


def ready(store: EmbeddedStore) -> list[tuple[bytes, bytes | None]]:
    """Ids and data of what is queued, in order."""
    views = store.run(Browse(ITEMS, ITEMS_QUEUE, State.READY, 100))
    return [(view.message_id, view.body) for view in views]


# -- compaction and crashes -------------------------------------------------------------------


def fill(stage: Stage) -> None:
    """Items of every kind, each event in a segment of its own."""
    store = stage.store
    add(store, b"lapsed", b"leased", b"better", b"better leased", b"done", b"ready")
    stage.turn()
    lease(store, 2, lease_ms=1_000)
    stage.turn()
    extend(store, b"leased", lease_ms=60_000)
    stage.turn()
    stage.clock.advance(1_000)
    tick(store)
    stage.turn()
    lease(store, 3)
    add_data(store, b"better leased", b"new", is_known_new=True)
    stage.turn()
    complete(store, b"done")
    add_data(store, b"better", b"newer", is_known_new=True)
    add_data(store, b"ready", b"new", is_known_new=True)
    stage.turn()


def test_what_lives_is_written_again_as_it_is_and_the_segments_go(stage: Stage) -> None:
    fill(stage)
    before = picture_of(stage.store)
    assert ready(stage.store) == [(b"ready", b"new"), (b"lapsed", b"lapsed")]

    for maxmemory in (0, 1, 1):
        stage.compact_all()
        assert picture_of(stage.store) == before
        assert picture_of(stage.reopened(maxmemory)) == before
    assert min(stage.store.journal.sizes) > 14, "nothing of what was first written is left"


def test_a_crash_at_any_step_of_compaction_leaves_everything_as_it_was(stage: Stage) -> None:
    fill(stage)
    before = picture_of(stage.store)

    for _ in range(len(stage.store.journal.sizes) - 1):
        for step, _ in enumerate(stage.compact_first()):
            stage.turn()
            copy = EmbeddedStore(stage.copied(), clock=ManualClock())
            assert picture_of(copy) == before, f"after step {step}"
            copy.close()


def test_data_that_are_replaced_while_the_item_is_written_again_are_the_new_ones(
    stage: Stage,
) -> None:
    """In the same turn, when where the old ones are is not yet noted."""
    stage.reopened(maxmemory=1)
    add(stage.store, b"1", b"2")
    stage.turn()

    for number, _ in enumerate(stage.compact_first()):
        add_data(stage.store, b"1", b"new %d" % number, is_known_new=True)
        stage.turn()

    assert ready(stage.store) == [(b"1", b"new %d" % number), (b"2", b"2")]
    assert ready(stage.reopened()) == [(b"1", b"new %d" % number), (b"2", b"2")]


def test_what_comes_after_a_restart_is_behind_what_was_moved_back(stage: Stage) -> None:
    """Also if the clock was set back, and the record of the move is gone."""
    add(stage.store, b"1", b"2")
    lease(stage.store, lease_ms=1_000)
    stage.clock.advance(1_000)
    tick(stage.store)
    stage.turn()
    stage.compact_all()

    stage.store.close()
    stage.clock = ManualClock()
    add(stage.open(), b"3")

    assert lease(stage.store, 9) == [b"2", b"1", b"3"]


def test_leases_that_ended_when_the_disk_was_full_have_ended_after_a_crash_too(
    folder: Path, clock: ManualClock, disk: Disk
) -> None:
    store = EmbeddedStore(folder / "full", clock=clock)
    add(store, b"1", b"2")
    lease(store, lease_ms=1_000)
    store.commit()
    leave_room(store, disk, 0)
    clock.advance(1_000)
    store.tick()
    assert lengths(store) == (2, 0)
    with pytest.raises(DiskFull):
        lease(store)

    disk.heal()
    copy = folder / "copy"
    shutil.copytree(folder / "full", copy, ignore=shutil.ignore_patterns("lock"))
    again = EmbeddedStore(copy, clock=clock)

    assert lengths(again) == (2, 0)
    assert lease(again, 9) == [b"2", b"1"]
    again.close()
    store.close()


def test_items_for_which_there_is_no_room_are_all_refused(
    folder: Path, clock: ManualClock, disk: Disk
) -> None:
    """However many records they would be, and whichever are new."""
    store = EmbeddedStore(folder, clock=clock)
    add(store, b"there")
    ids = [b"there", *(b"%d" % number for number in range(600))]
    op = AddItems(ITEMS, ITEMS_QUEUE, ids, [b"x" * 100] * len(ids), is_known_new=True)

    leave_room(store, disk, SPARE_BYTES + 60_000)

    check_refused(store, op, DiskFull)
    disk.heal()
    assert sum(store.run(op)) == 600
    store.close()


@pytest.mark.parametrize("seed", range(2))
def test_random_work_is_as_it_was_after_a_crash_at_any_step_of_compaction(
    folder: Path, clock: ManualClock, seed: int
) -> None:
    chance = Random(seed).randbytes
    store = EmbeddedStore(
        folder / "live", clock=clock, segment_bytes=3_000, maxmemory=500, chance=chance
    )
    worker = ItemWorker(store, clock, seed)
    steps = count()

    def look() -> None:
        if next(steps) % 7 == 0:
            check_copy(folder, store)

    watch_compaction(store, 4, look)
    while store._compactor.is_working:
        worker.work(2)
        store.commit()
    check_copy(folder, store)

    assert next(steps) > 50
    store.close()


def check_copy(folder: Path, store: EmbeddedStore) -> None:
    """A copy of the folder, as a crash would leave it, opens and holds the same."""
    copy = folder / "copy"
    shutil.copytree(folder / "live", copy)
    opened = EmbeddedStore(copy, clock=ManualClock(), maxmemory=500)
    # The store has settled nothing since its commit, and the one that opens settles nothing.
    assert picture_of(opened) == picture_of(store)
    check_indexes(opened)
    opened.close()
    shutil.rmtree(copy)


def test_many_are_added_together_and_each_body_is_read_back_alone(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, maxmemory=1)
    ids = [b"%d" % number for number in range(1_000)]
    assert all(add(store, *ids, prefix=b"data of "))
    store.commit()

    store.close()
    store = EmbeddedStore(folder, clock=clock, maxmemory=1)

    assert lease_data(store, 1_000) == [(id, b"data of " + id) for id in ids]
    store.close()


def test_a_lease_that_is_extended_all_the_time_leaves_no_trail_of_reminders(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    add(store, b"1")
    lease(store)
    for _ in range(10_000):
        clock.advance(1)
        assert extend(store, b"1") == [True]
        if clock.now_us() % 100_000 == 0:
            store.commit()

    queue = store.queues[ITEMS_QUEUE]
    assert isinstance(queue, Worklist)
    assert queue.dues.size < 5_000
    store.close()


# -- claims, stages, pages --------------------------------------------------------------------


def test_an_item_in_a_claim_is_still_of_its_queue(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock)
    add(store, b"1", b"2", b"3")
    reader = subscribe(store, queue=ITEMS_QUEUE, family=ITEMS)
    assert reader.claim(1, 2) == [b"1", b"2"]

    assert add(store, b"1", b"4") == [False, True]
    assert not add_data(store, b"2", b"better", is_known_new=True)
    assert complete(store, b"1") == [False], "it is the claim's"
    assert lease(store, 9) == [b"3", b"4"]

    store.commit()
    store.close()
    store = EmbeddedStore(folder, clock=clock)
    assert add(store, b"1") == [False]
    reader = subscribe(store, queue=ITEMS_QUEUE, family=ITEMS)
    reader.play(1)
    reader.mark(1, Outcome.NACK, b"2")
    assert reader.settle(1) == 1
    assert lease_data(store, 9) == [(b"2", b"2")]
    assert add(store, b"1") == [True]
    store.close()


def test_a_claim_that_is_released_puts_items_back(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock)
    add(store, b"1", b"2", b"3")
    reader = subscribe(store, queue=ITEMS_QUEUE, family=ITEMS)
    assert reader.claim(1, 2) == [b"1", b"2"]

    assert reader.release(1) == 2

    assert lease(store, 9) == [b"1", b"2", b"3"]
    check_indexes(store)
    store.close()


def test_an_item_that_left_a_claim_and_is_done_can_be_added_again(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    add(store, b"1", b"2")
    reader = subscribe(store, queue=ITEMS_QUEUE, family=ITEMS)
    reader.claim(1)
    assert add(store, b"1", b"2") == [False, False]

    reader.play(1, keep=1)
    complete(store, b"2")

    assert add(store, b"1", b"2") == [False, True]
    assert lease(store, 9) == [b"2"]
    store.close()


def test_items_are_published_once_under_the_ids_they_were_staged_with(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, chance=Random(1).randbytes)
    add(store, b"there")
    words: dict[str, Any] = {"family": ITEMS, "queue": ITEMS_QUEUE}
    runs = [
        run_of(b"a", name=b"1"),
        run_of(b"b", name=b"there"),
        run_of(b"c", name=b"1"),
        run_of(b"d", b"e", ttl_ms=1, delay_ms=5, retry_ms=7),
    ]
    stage_chunk(store, *runs, **words)

    assert publish_all(store, (0, 0, 1), **words) == 3
    assert publish_all(store, (0, 0, 1), **words) == 0

    found = lease_data(store, 9)
    assert [data for _, data in found] == [b"there", b"a", b"d", b"e"]
    assert [id for id, _ in found[:2]] == [b"there", b"1"]
    assert {len(id) for id, _ in found[2:]} == {32}, "drawn, as a client would"
    check_indexes(store)
    store.close()


def test_pages_and_purges_are_as_for_all_worklists(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock)
    add(store, b"1", b"2", b"3")
    lease(store)

    page = store.run(BrowsePlaces(ITEMS, ITEMS_QUEUE, 0, 0, 100, [State.READY, State.LEASED]))
    assert page.count == 3

    assert store.run(Purge(ITEMS, ITEMS_QUEUE, [State.READY])) == 2
    assert lengths(store) == (0, 1)
    assert add(store, b"2", b"1") == [True, False]
    store.close()
