"""Compaction: what lives is written again, the rest goes; nothing is lost, nothing comes back."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from random import Random

import pytest

from quinque.engine.work.worklist import Worklist
from quinque.model.claim_ops import (
    FillClaim,
    OpenClaims,
    PurgeClaims,
    SettleClaims,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import QUEUE_IDLE_MOST_MS
from quinque.model.ops import Ack, Count, Flush, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.model.queue_ops import DeleteQueues
from quinque.model.work_ops import Add, Configure, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import compact
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk
from tests.store.picture import check_indexes, feed_of, messages_of, picture_of
from tests.store.random_claims import ClaimWorker
from tests.store.random_reliable import ReliableWorker
from tests.store.random_tubes import TubeWorker
from tests.store.random_work import WORKERS, Worker
from tests.store.stage import Stage, watch_compaction

HOUR_MS = 3_600_000

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


def test_what_lives_is_written_again_and_the_segment_goes(stage: Stage, folder: Path) -> None:
    ids = [stage.put(b"%d" % number) for number in range(4)]
    stage.turn()
    assert stage.take(count=3) == [b"0", b"1", b"2"]
    stage.ack(ids[0])
    stage.turn()
    before = picture_of(stage.store)

    stage.compact_all()

    assert not (folder / "0000000001.journal").exists()
    assert picture_of(stage.store) == before
    assert picture_of(stage.reopened()) == before


def test_a_group_that_was_past_a_message_stays_past_it(stage: Stage) -> None:
    """Its last lease is of an older message: how far it has come must not be read from that."""
    first, second = stage.put(b"1"), stage.put(b"2")
    stage.take(lease_ms=10, count=2)
    stage.ack(second)
    stage.turn()
    stage.clock.advance(10)
    assert stage.take() == [b"1"]
    stage.turn()

    for _ in stage.compact_first():
        stage.turn()
    stage.reopened()

    assert stage.take() == []
    assert stage.ack(first) == [True]


def test_a_lease_is_remembered_when_the_queue_is_on_record_only_after_it(stage: Stage) -> None:
    """The message's first record went with its segment; that of the lease stands before the new."""
    stage.put(b"1")
    stage.turn()
    stage.take(lease_ms=0)
    stage.turn()

    for _ in stage.compact_first():
        stage.turn()
    stage.reopened()

    assert stage.take() == []


def test_a_message_put_before_all_is_not_lost_to_a_group_that_had_come_further(
    stage: Stage,
) -> None:
    """How far the group had come is on record in a segment that goes."""
    done = stage.put(b"done")
    stage.take()
    stage.ack(done)
    stage.turn()
    stage.put(b"front", message_id=b"x", to_front=True)
    stage.turn()

    for _ in stage.compact_first():
        stage.turn()
    stage.reopened()

    assert stage.take() == [b"front"]
    assert stage.take() == []


def test_a_message_put_before_all_does_not_make_the_records_of_others_longer(stage: Stage) -> None:
    """Of the others, the cursor of a group says whether it is past them."""
    for number in range(10):
        stage.put(b"%d" % number)
    for number in range(100):
        stage.take(group=b"group %d" % number, lease_ms=0, count=10)
    stage.put(b"front", message_id=b"front", to_front=True)
    stage.put(b"last", message_id=b"last")
    stage.turn()
    before = picture_of(stage.store)

    stage.compact_all()

    sizes = stage.store.journal.sizes.values()
    assert len([size for size in sizes if size > 1_000]) == 1, "one record names all groups"
    assert picture_of(stage.reopened()) == before
    stage.compact_all()
    assert picture_of(stage.reopened()) == before
    assert stage.take(group=b"group 7", count=20) == [b"front", b"last"]


def test_a_message_put_before_all_is_not_lost_to_a_group_that_ended_and_came_back(
    stage: Stage,
) -> None:
    """The records of its leases, which are later than the message in the order of places, stay."""
    gone = stage.put(b"gone", is_single=True)
    stage.put(b"stays")
    stage.turn()
    stage.take()
    stage.ack(gone)
    stage.put(b"front", message_id=b"front", to_front=True)
    stage.turn()

    for _ in range(3):
        stage.compact_all()
        stage.turn()
        stage.reopened()

    assert stage.take(count=5) == [b"front", b"stays"]


def test_a_message_put_before_all_while_compaction_is_under_way_is_not_lost(stage: Stage) -> None:
    for number in range(3):
        stage.put(b"%d" % number)
    stage.take(count=3)
    stage.turn()

    for step, _ in enumerate(stage.compact_first()):
        stage.put(b"front", message_id=b"%d" % step, to_front=True, is_single=True)
        stage.turn()
    stage.reopened()

    assert stage.take(count=10) == [b"front"] * (step + 1)


def test_a_message_is_not_lost_beside_a_lease_on_a_flushed_one_of_its_id(stage: Stage) -> None:
    stage.put(b"old", message_id=b"x")
    stage.take()
    stage.store.run(Flush(EVENTS, b"q"))
    stage.put(b"behind")
    stage.put(b"new", message_id=b"x", to_front=True)
    assert feed_of(stage.store, b"q").groups[b"g"].fresh == 1
    stage.turn()

    stage.compact_all()
    stage.reopened()

    assert stage.take(count=5) == [b"new", b"behind"]


@pytest.mark.parametrize("is_claimed", [False, True], ids=["leased", "claimed"])
def test_the_ack_of_a_flushed_message_does_not_end_a_later_one_of_its_id(
    stage: Stage, *, is_claimed: bool
) -> None:
    store = stage.store
    stage.put(b"old", message_id=b"y", is_single=True)
    if is_claimed:
        store.run(OpenClaims(EVENTS, b"q", b"s", b"g", HOUR_MS))
        store.run(FillClaim(b"q", b"s", 1, 1, 1, seals=True))
    else:
        stage.take()
    store.run(Flush(EVENTS, b"q"))
    stage.put(b"behind")
    stage.put(b"new", message_id=b"y", to_front=True, is_single=True)
    stage.turn()
    stage.compact_all()

    if is_claimed:
        assert store.run(SettleClaims(b"q", b"s", 1, 1)) == 1
    else:
        assert stage.ack(b"y") == [True]
    stage.reopened()

    assert stage.take(count=5) == [b"new", b"behind"]


def test_what_ends_after_it_was_written_again_does_not_come_back(stage: Stage) -> None:
    """A lease and a message that is to be had again: both are kept, then removed, and only then
    is it on record how far their group has come."""
    held = stage.put(b"held", is_single=True)
    back = stage.put(b"back", is_single=True)
    stage.put(b"left")
    stage.take(count=2)
    stage.store.run(Release(EVENTS, b"q", b"g", [back]))
    stage.turn()

    compaction = stage.compact_first()
    next(compaction)
    stage.store.run(Ack(EVENTS, b"q", b"g", [held, back], held_only=False))
    stage.turn()
    for _ in compaction:
        stage.turn()
    stage.reopened()

    assert stage.take(count=5) == [b"left"]
    (row,) = stage.store.run(Count(EVENTS))
    assert (row.total, row.groups[0].leased, row.groups[0].redo) == (1, 1, 0)


def test_a_lease_that_is_extended_before_and_after_it_was_written_again_ends_as_said_last(
    stage: Stage,
) -> None:
    early = stage.put(b"early")
    late = stage.put(b"late")
    stage.take(count=2, lease_ms=1_000)
    stage.turn()
    stage.store.run(ExtendLeases(EVENTS, b"q", [early], 2_000, b"g"))
    stage.turn()

    compaction = stage.compact_first()
    next(compaction)
    stage.store.run(ExtendLeases(EVENTS, b"q", [late], 3_000, b"g"))
    stage.turn()
    for _ in compaction:
        stage.turn()
    stage.reopened()

    stage.clock.advance(1_990)
    assert stage.take(count=5) == []
    stage.clock.advance(10)
    assert stage.take(count=5) == [b"early"]
    stage.clock.advance(1_000)
    assert stage.take(count=5) == [b"late"]


def test_a_queue_that_was_flushed_meanwhile_stays_flushed(stage: Stage) -> None:
    for number in range(3):
        stage.put(b"%d" % number)
    stage.take()
    stage.turn()

    for _ in stage.compact_first():
        stage.store.run(Flush(EVENTS, b"q"))
        stage.turn()
    stage.reopened()

    assert stage.take() == []
    assert messages_of(stage.store).get(b"q", []) == []


@pytest.mark.parametrize(
    ("kind", "seed"),
    [*product(WORKERS, range(10, 13)), (ReliableWorker, 12), (TubeWorker, 12)],
)
def test_a_crash_at_any_step_leaves_everything_as_it_was(
    folder: Path, seed: int, kind: type[Worker]
) -> None:
    clock = ManualClock()
    store = EmbeddedStore(
        folder / "live",
        clock=clock,
        segment_bytes=3_000,
        maxmemory=500,
        chance=Random(seed).randbytes,
    )
    worker = kind(store, clock, seed)
    steps = count()

    def look() -> None:
        next(steps)
        check_copy(folder, store)

    watch_compaction(store, 2, look)
    while store._compactor.is_working:
        worker.work(2)
        store.commit()

    assert next(steps) > 20
    store.close()


def test_bodies_that_are_only_on_disk_move_with_their_messages(stage: Stage) -> None:
    bodies = [b"%d" % number * 50 for number in range(5)]
    stage.reopened(maxmemory=1)
    for body in bodies:
        stage.put(body)
        stage.turn()

    compaction = stage.compact_first()
    for step, _ in enumerate(compaction):
        assert messages_of(stage.store) == {b"q": bodies}, f"after step {step}, before its commit"
        stage.turn()
        assert messages_of(stage.store) == {b"q": bodies}, f"after step {step}"
    stage.compact_all()

    assert stage.store.info()["bodies_on_disk"] == 5
    assert messages_of(stage.reopened(maxmemory=1)) == {b"q": bodies}
    assert messages_of(stage.reopened(maxmemory=0)) == {b"q": bodies}


def test_a_body_in_two_places_after_a_crash_can_be_read(stage: Stage, folder: Path) -> None:
    """The message is there twice: as it was stored, and as compaction wrote it again."""
    stage.reopened(maxmemory=1)
    stage.put(b"body" * 20)
    stage.turn()
    next(stage.compact_first())
    stage.turn()
    shutil.copytree(folder, folder / "copy", ignore=shutil.ignore_patterns("copy", "lock"))

    store = EmbeddedStore(folder / "copy", clock=ManualClock(), maxmemory=1)

    assert len(list((folder / "copy").glob("*.journal"))) == 3
    assert messages_of(store) == {b"q": [b"body" * 20]}
    assert store.info()["bodies_on_disk"] == store.info()["messages"] == 1
    store.close()


@pytest.mark.parametrize("maxmemory", [0, 2_000])
def test_under_steady_work_the_journal_does_not_grow(folder: Path, maxmemory: int) -> None:
    """Some 200 bytes of bodies live at a time; the rest is put, leased, acked, expired."""
    segment_bytes = 8_192
    clock = ManualClock()
    store = EmbeddedStore(
        folder, clock=clock, segment_bytes=segment_bytes, fsync="no", maxmemory=maxmemory
    )
    most_bytes = 0

    for round in range(1_500):
        clock.advance(1)
        store.run(Put(EVENTS, b"events", [b"e" * 40], ttl_ms=5))
        store.run(Put(EVENTS, b"jobs", [b"j" * 40], 0, b"%d" % round, round % 3 == 0, True))
        for delivery in store.run(Reserve(EVENTS, b"events", b"g", 2, count=2)):
            if round % 2:
                store.run(Ack(EVENTS, b"events", b"g", [delivery.message_id]))
        for delivery in store.run(Reserve(EVENTS, b"jobs", b"okq", HOUR_MS, count=2)):
            store.run(Ack(EVENTS, b"jobs", b"okq", [delivery.message_id]))
        store.tick()
        store.commit()
        most_bytes = max(most_bytes, int(store.info()["journal_bytes"]))

    # Compaction begins past two segments and twice what lives; meanwhile another one may fill.
    assert most_bytes < 5 * segment_bytes
    on_disk = sum(path.stat().st_size for path in folder.glob("*.journal"))
    assert on_disk < 5 * segment_bytes + SPARE_BYTES + (4 << 20), "with the room reserved ahead"
    assert int(store.info()["compacted_segments"]) > 30
    store.close()


@pytest.mark.parametrize("is_message", [True, False])
def test_compaction_ends_where_records_are_small_and_names_long(
    folder: Path, is_message: bool
) -> None:
    """What lives are messages of one byte, or the settings of empty queues."""
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=8_192, fsync="no")
    names = [b"%d" % number + b"n" * 900 for number in range(400)]
    for name in names:
        if is_message:
            store.run(Put(EVENTS, name, [b"1"]))
        else:
            store.run(Configure(JOBS, name, is_paused_in=True))
        store.commit()
    segments = len(store.journal.sizes)

    for _ in range(20 * segments):
        store.commit()
    dropped = store.info()["compacted_segments"]
    for _ in range(20 * segments):
        store.commit()

    assert store.info()["compacted_segments"] == dropped, "without work it does nothing"
    for name in names if is_message else ():
        store.run(Flush(EVENTS, name))
        store.commit()
    for _ in range(20 * segments):
        store.commit()
    if is_message:
        assert len(store.journal.sizes) < 8, "what is gone gives its room back"
    store.close()


@pytest.mark.parametrize("name", [b"q", b"q" * 400])
def test_a_backlog_that_is_gone_leaves_no_journal_behind(folder: Path, name: bytes) -> None:
    """It was written again and acked before compaction had gone through all segments."""
    segment_bytes = 8_192
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=segment_bytes, fsync="no")

    def put() -> bytes:
        ids: list[bytes] = store.run(Put(EVENTS, name, [b"x" * 500], is_single=True))
        store.commit()
        return ids[0]

    def ack(*ids: bytes) -> None:
        store.run(Ack(EVENTS, name, b"", ids, held_only=False))
        store.commit()

    backlog = [put() for _ in range(100)]
    compactor = store._compactor
    while compactor.dropped < 3 or min(store.journal.sizes) < compactor._round_end:
        store.compact()
        ack(put())
    ack(*backlog)
    while compactor.is_working:
        store.commit()

    most_bytes = 0
    for _ in range(200):
        ack(put())
        most_bytes = max(most_bytes, store.journal.total_bytes)

    assert most_bytes < 5 * segment_bytes
    store.close()


def test_a_message_that_lives_long_is_moved_and_moved_and_stays_the_same(folder: Path) -> None:
    clock = ManualClock()
    store = EmbeddedStore(folder, clock=clock, segment_bytes=2_000, fsync="no")
    (id,) = store.run(Put(EVENTS, b"long", [b"lived"]))
    for _ in range(3):
        store.run(Reserve(EVENTS, b"long", b"g", 1))
        clock.advance(1)
    store.run(Reserve(EVENTS, b"long", b"g", HOUR_MS))

    while int(store.info()["compacted_segments"]) < 20:
        clock.advance(1)
        store.run(Put(EVENTS, b"short", [b"x" * 200], ttl_ms=1))
        store.tick()
        store.commit()
    store.close()
    store = EmbeddedStore(folder, clock=clock, segment_bytes=2_000)

    lease = feed_of(store, b"long").groups[b"g"].held[id]
    assert lease.deliveries == 4
    assert lease.deadline_ms == ManualClock().now_us() // 1000 + 3 + HOUR_MS
    assert messages_of(store)[b"long"] == [b"lived"]
    store.close()


@pytest.mark.parametrize("kind", [*WORKERS, ReliableWorker, TubeWorker, ClaimWorker])
def test_a_segment_that_was_damaged_meanwhile_is_written_again_from_memory(
    folder: Path, kind: type[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    live = folder / "live"
    store = EmbeddedStore(live, clock=clock, segment_bytes=3_000, chance=Random(5).randbytes)
    worker = kind(store, clock, 5)
    while len(store.journal.sizes) < 4:
        worker.turn()
    first = live / f"{min(store.journal.sizes):010d}.journal"
    with open(first, "r+b") as file:  # the same file: what the store has open
        file.seek(store.journal.sizes[int(first.stem)] // 3)
        file.write(b"damage")

    for _ in store._compactor._compact(int(first.stem)):
        store.journal.commit(store.at_ms)
        store.bodies.committed()
        store.journal.rotate(store.stamp_us, store.at_ms)

    assert not first.exists()
    assert caplog.text.count(f"{first} at byte ") == 1
    check_copy(folder, store)
    store.close()


def cut_while_compacted(folder: Path) -> None:
    """A segment is cut off while compaction reads it. SIGBUS would end the process."""
    store = EmbeddedStore(folder / "live", clock=ManualClock(), segment_bytes=400_000)
    while len(store.journal.sizes) < 2:
        store.run(Put(EVENTS, b"q", [b"x" * 1_000]))
        store.commit()
    steps = store._compactor._compact(1)
    next(steps)
    os.truncate(folder / "live" / "0000000001.journal", 8_192)
    for _ in steps:
        store.journal.commit(store.at_ms)
        store.bodies.committed()
    check_copy(folder, store)
    os._exit(0)


def test_a_segment_that_is_cut_off_while_it_is_read_is_written_again_from_memory(
    folder: Path,
) -> None:
    child = multiprocessing.get_context("fork").Process(target=cut_while_compacted, args=(folder,))
    child.start()
    child.join()

    assert child.exitcode == 0


def test_a_segment_that_the_disk_cannot_read_is_written_again_from_memory(
    stage: Stage, folder: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        stage.put(b"%d" % number)
    stage.turn()
    path = folder / f"{min(stage.store.journal.sizes):010d}.journal"
    disk.fail("pread", errno.EIO)

    for _ in stage.compact_first():
        stage.turn()

    disk.heal()
    assert not path.exists()
    assert caplog.text.count("it cannot be read (Input/output error)") == 1
    stage.reopened()
    assert stage.take(count=5) == [b"0", b"1", b"2"]


def test_a_body_that_the_disk_cannot_read_is_set_aside_and_does_not_stop_compaction(
    stage: Stage, folder: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    stage.reopened(maxmemory=1)
    stage.put(b"first")
    stage.put(b"second")
    stage.turn()
    path = folder / f"{min(stage.store.journal.sizes):010d}.journal"
    disk.fail("pread", errno.EIO)

    turns = 0
    for _ in stage.compact_first():
        stage.turn()
        turns += 1

    disk.heal()
    assert not path.exists()
    assert turns >= 2 * (compact.READS_MOST - 1)  # it may pass
    assert len([it for it in caplog.records if "moved message" in it.message]) == 2
    stage.put(b"third")
    stage.turn()
    stage.reopened()
    assert stage.take(count=5) == [b"third"]


def test_a_batch_that_is_longer_than_what_is_read_at_a_time_is_compacted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "READ_BYTES", 100)
    bodies = [b"%d" % number * 50 * (number % 3) for number in range(20)]
    for body in bodies:
        stage.put(body)
    stage.turn()
    for body in bodies:
        stage.put(body)
        stage.turn()

    stage.compact_all()
    stage.reopened()

    assert stage.take(count=50) == bodies * 2


def test_a_damaged_body_does_not_stop_compaction(
    stage: Stage, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage.reopened(maxmemory=1)
    stage.put(b"first")
    stage.put(b"rotten")
    stage.put(b"third")
    stage.turn()
    path = folder / f"{min(stage.store.journal.sizes):010d}.journal"
    data = path.read_bytes()
    with open(path, "r+b") as file:  # the same file: what the store has open
        file.write(data.replace(b"rotten", b"r0tten"))

    for _ in stage.compact_first():
        stage.turn()
    stage.turn()

    assert not path.exists()
    assert len([it for it in caplog.records if "moved message" in it.message]) == 1
    (aside,) = folder.glob("damaged-*.bin")
    assert b"r0tten" in aside.read_bytes()
    assert messages_of(stage.reopened(maxmemory=1)) == {b"q": [b"first", b"third"]}


def test_a_group_that_ended_while_positions_are_written_is_not_written(stage: Stage) -> None:
    """Of many groups, one vanishes in a pause: it would come back further than it is."""
    stage.put(b"1", is_single=True)
    stage.put(b"2", is_single=True)
    for number in range(600):
        stage.take(group=b"%d" % number)
    stage.turn()
    positions = stage.store._compactor._positions(min(stage.store.journal.sizes))
    next(positions)

    stage.store.run(Flush(EVENTS, b"q"))
    stage.clock.advance(HOUR_MS)
    stage.store.tick()

    assert [it for it in positions if it is not None and it[1]() is not None] == []


def test_many_queues_that_need_no_record_are_passed_a_few_at_a_time(stage: Stage) -> None:
    stage.put(b"event")
    stage.turn()
    stage.store.run(Flush(EVENTS, b"q"))
    stage.turn()
    queue = Worklist(b"w", JOBS, stage.store.directory, 0)
    queue.segment = stage.store.journal.segment
    stage.store.queues.update((b"%d" % number, queue) for number in range(25_000))

    pauses = sum(1 for _ in stage.compact_first())

    stage.store.queues.clear()
    assert pauses >= 2


def test_a_group_that_waited_for_room_is_not_written_when_its_name_is_of_another_family(
    stage: Stage, disk: Disk
) -> None:
    """After the records of the jobs, recovery would make an events queue of the name."""
    stage.put(b"event")
    stage.take(lease_ms=0)
    stage.turn()
    compaction = stage.compact_first()
    while not stage.store.journal.has_pending:  # the event is written again
        next(compaction)
    go_on_until_stuck(stage, disk, compaction)

    stage.store.run(Flush(EVENTS, b"q"))
    disk.heal()
    stage.store.run(Add(JOBS, b"q", [b"job"], Terms(HOUR_MS)))
    stage.turn()
    for _ in compaction:
        stage.turn()

    assert messages_of(stage.reopened()) == {b"q": [b"job"]}


def test_a_worklist_that_waited_for_room_is_not_written_when_its_name_is_of_another_family(
    stage: Stage, disk: Disk
) -> None:
    stage.store.run(Configure(JOBS, b"q", max_deliveries=3))
    stage.turn()
    compaction = stage.compact_first()
    go_on_until_stuck(stage, disk, compaction)

    stage.clock.advance(QUEUE_IDLE_MOST_MS)
    stage.store.run(DeleteQueues(JOBS, [b"q"]))
    disk.heal()
    stage.put(b"event")
    stage.turn()
    for _ in compaction:
        stage.turn()

    assert messages_of(stage.reopened()) == {b"q": [b"event"]}


def test_a_chunk_that_waited_for_room_is_not_written_when_its_claim_has_ended(
    stage: Stage, disk: Disk, folder: Path
) -> None:
    store = stage.store
    store.run(Add(JOBS, b"q", [b"job"], Terms(HOUR_MS)))
    store.run(OpenClaims(JOBS, b"q", b"s", b"", HOUR_MS))
    store.run(FillClaim(b"q", b"s", 1, 1, 1, seals=True))
    stage.turn()
    store.run(Configure(JOBS, b"q", max_deliveries=3))
    stage.turn()
    first = min(store.journal.sizes)
    with open(folder / f"{first:010d}.journal", "r+b") as file:
        file.seek(store.journal.sizes[first] // 3)
        file.write(b"damage")
    compaction = stage.compact_first()
    go_on_until_stuck(stage, disk, compaction)

    store.run(SettleClaims(b"q", b"s", 1, 1))
    store.run(PurgeClaims(b"q", b"s", 1))
    disk.heal()
    stage.turn()
    for _ in compaction:
        stage.turn()

    before = picture_of(store)
    assert picture_of(stage.reopened()) == before


@pytest.mark.parametrize("is_damaged", [False, True])
def test_one_step_writes_few_small_messages_again_and_fewer_if_there_are_many_groups(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, folder: Path, *, is_damaged: bool
) -> None:
    """Their bodies take next to nothing, and each is looked up in every group."""
    monkeypatch.setattr(compact, "STEP_BYTES", 64 << 10)
    stage.store.run(Put(EVENTS, b"alone", [b"x"] * 3_000))
    stage.store.run(Put(EVENTS, b"q", [b"x"] * 3_000))
    for number in range(980):
        stage.take(group=b"%d" % number)
    stage.turn()
    before = picture_of(stage.store)
    first = folder / f"{min(stage.store.journal.sizes):010d}.journal"
    if is_damaged:
        with open(first, "r+b") as file:  # the same file: what the store has open
            file.seek(stage.store.journal.sizes[1] // 2)
            file.write(b"damage")

    written: list[int] = []
    steps = stage.store.journal.steps
    for _ in stage.compact_first():
        written.append(stage.store.journal.steps - steps)
        stage.turn()
        steps = stage.store.journal.steps

    assert sum(written) >= 6_000
    assert max(written) <= 500
    assert sum(1 for number in written if number <= 10) >= 290, "a step looks at 10,000 groups"
    assert not first.exists()
    assert picture_of(stage.reopened()) == before


def test_a_large_message_does_not_make_one_turn_of_compaction_long(folder: Path) -> None:
    """The compactor has to go through more than the message takes, but not at once."""
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=400_000, fsync="no")
    while len(store.journal.sizes) < 2:
        store.run(Put(EVENTS, b"q", [b"x" * 100]))
        store.commit()
    before = messages_of(store)
    steps = 0

    def work() -> Iterator[None]:
        nonlocal steps
        for _ in store._compactor._compact(1):
            steps += 1
            yield
        assert 1 not in store.journal.sizes

    store._compactor._work = work()
    store.run(Put(EVENTS, b"large", [b"x" * compact.STEP_BYTES * 1_000]))
    turns: list[int] = []
    while 1 in store.journal.sizes and len(turns) < 5_000:
        steps = 0
        store.commit()
        turns.append(steps)

    assert max(turns) <= 1 + 8 + 3 * 1_000 // 64 + 1
    assert min(turns[:20]) >= 9, "the rest is not forgotten"
    assert 1 not in store.journal.sizes
    assert messages_of(store) == {**before, b"large": [b"x" * compact.STEP_BYTES * 1_000]}
    store.close()


def go_on_until_stuck(stage: Stage, disk: Disk, compaction: Iterator[None]) -> None:
    """There is room for acks and no more, until the disk is healed; compaction waits for some."""
    stage.fill(disk)
    stage.store.journal._reserved += 1_000
    while not stage.store._compactor.is_stuck:
        next(compaction)


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
