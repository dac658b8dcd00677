"""The record of the embedded store: off and on, retention, a full disk, large changes."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import pytest

from quinque.model.claim_ops import FillClaim, OpenClaims, ReleaseClaims
from quinque.model.events import REMOVED
from quinque.model.families import EVENTS, JOBS, RELIABLE
from quinque.model.lifecycle import Entry, Kind
from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.model.ops import Flush, Op, Put, Release
from quinque.model.own_ops import RELIABLE_TERMS
from quinque.model.tube_ops import PutTasks, ReleaseTasks, TakeTasks, TaskTerms
from quinque.model.work_ops import Add, Finish, PurgeAll, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import record
from quinque.stores.embedded.changes import ROWS_MOST, Changes
from quinque.stores.embedded.record import Keeping
from quinque.stores.embedded.record_files import FILE_MS, RecordFiles
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.record_words import rows, rows_of
from tests.conformance.tube_words import ANN, TUBE, begin
from tests.store.random_claims import ClaimWorker
from tests.store.random_items import ItemWorker
from tests.store.random_reliable import ReliableWorker
from tests.store.random_tubes import TubeWorker
from tests.store.random_work import WORKERS, Worker
from tests.store.record_model import check_record
from tests.store.stage import Stage

HOUR_MS = 3_600_000


def run(store: EmbeddedStore, op: Op) -> Any:
    """The operation, and the end of its turn."""
    result = store.run(op)
    store.commit()
    return result


def put(store: EmbeddedStore, *bodies: bytes) -> list[bytes]:
    ids: list[bytes] = run(store, Put(EVENTS, b"q", bodies))
    return ids


def the_record(store: EmbeddedStore) -> Record:
    found: list[Record] = store.run(FindRecords())
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("kind", [*WORKERS, ClaimWorker, ItemWorker, ReliableWorker, TubeWorker])
@pytest.mark.parametrize("seed", range(4))
def test_the_record_tells_what_the_store_holds(
    folder: Path, clock: ManualClock, kind: type[Worker], seed: int
) -> None:
    store = EmbeddedStore(folder, clock=clock, fsync="no", segment_bytes=4096)
    worker = kind(store, clock, seed)
    for turn in range(150):
        worker.turn()
        if turn % 50 == 49:
            before = check_record(store)
            store.close()
            store = EmbeddedStore(folder, clock=clock, fsync="no", segment_bytes=4096)
            worker = kind(store, clock, seed + 100 * turn)
            assert check_record(store) == before
    store.close()


def bytes_in(note: Any) -> int:
    """All bytes that are kept because of the note."""
    if isinstance(note, bytes):
        return len(note)
    return sum(map(bytes_in, note)) if isinstance(note, list | tuple) else 0


def test_events_that_wait_for_a_large_queue_to_be_emptied_keep_no_bodies(
    folder: Path, clock: ManualClock
) -> None:
    """The record needs the sizes of bodies alone, and rows of one kind may wait for millions."""
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    for _ in range(4):
        store.run(Add(JOBS, b"large", [b"x"] * 5_000, Terms(HOUR_MS)))
    begin(store)
    store.commit()
    rows_before = the_record(store).next
    run(store, PurgeAll(JOBS))
    sizes = range(30_000, 30_020)

    for size in sizes:
        body = b"x" * size
        put(store, body, b"small")
        run(store, Add(JOBS, b"jobs", [body], Terms(HOUR_MS)))
        run(store, PutTasks(TUBE, [body], TaskTerms()))
        (task,) = run(store, TakeTasks(TUBE, ANN))
        run(store, ReleaseTasks(TUBE, ANN, [task.message_id], body=body + b"!"))

    assert store.leaving
    notes = store.journal.notes
    assert notes is not None
    assert sum(map(bytes_in, notes)) < 400_000 < 3 * sum(sizes)
    while store.next_due_ms() <= store.now_ms():
        store.tick()
        store.commit()
    told = [row for row in rows(store) if row.number >= rows_before + 20_000]
    assert [row.seen.size for row in told if row.seen.kind is Kind.ADDED] == [
        it for size in sizes for it in (size, 5, size, size)
    ]
    assert len(told) == 6 * len(sizes)
    store._lock.release()  # and nothing else: it was killed
    with closing(EmbeddedStore(folder, clock=clock)) as store:
        assert rows(store)[rows_before + 20_000 - 1 :] == told


def test_a_large_queue_is_emptied_faster_while_many_events_wait_for_it(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy broker has few ticks, and takes and acks bring no messages to remove others for."""
    monkeypatch.setattr(record, "WAITING_MOST", 100)
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    for _ in range(2):
        store.run(Add(JOBS, b"large", [b"x"] * 5_000, Terms(HOUR_MS)))
    ids = store.run(Add(RELIABLE, b"other", [b"x"] * 200, RELIABLE_TERMS))
    run(store, PurgeAll(JOBS))

    for _ in ids:
        run(store, Take(RELIABLE, [b"other"]))

    assert not store.leaving
    assert not store._record.is_behind
    store.close()


def test_numbers_go_on_when_recording_was_off_and_nothing_looks_lost(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"1")
    store.close()
    store = EmbeddedStore(folder, clock=clock, keeping=Keeping(is_on=False))
    put(store, b"2")
    assert len(rows(store)) == 1, "what is on record can be read"
    store.close()
    store = EmbeddedStore(folder, clock=clock, keeping=Keeping(is_on=False))
    put(store, b"3")
    store.close()

    store = EmbeddedStore(folder, clock=clock)
    (id,) = put(store, b"4")

    assert [(row.number, row.seen.size) for row in rows(store)] == [(1, 1), (2, 1)]
    assert rows(store)[-1].seen.id == id
    store.close()


def test_what_a_crash_left_is_recorded_before_recording_is_off(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"1", b"2")
    store._lock.release()  # and nothing else: it was killed

    store = EmbeddedStore(folder, clock=clock, keeping=Keeping(is_on=False))

    assert len(rows(store)) == 2
    store.close()


def test_a_folder_without_a_record_gets_none_while_it_is_off(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, keeping=Keeping(is_on=False))
    put(store, b"1")

    assert store.run(FindRecords()) == []
    assert store.run(ReadRecord(0, 1, 10)) == []
    assert not (folder / "lifecycle").exists()
    store.close()


def test_a_journal_that_is_older_than_the_record_is_not_told(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, keeping=Keeping(is_on=False))
    put(store, b"1")
    store.close()

    store = EmbeddedStore(folder, clock=clock)

    record = the_record(store)
    assert record == Record(0, 1, 1, clock.now_us() // 1000, record.log)
    store.close()


def test_the_oldest_files_go_by_size_and_numbers_go_on(folder: Path, clock: ManualClock) -> None:
    keeping = Keeping(max_bytes=40_000)
    store = EmbeddedStore(folder, clock=clock, fsync="no", keeping=keeping)
    for _ in range(300):
        put(store, *[b"x"] * 20)
        clock.advance(1_000)
        the_record(store)

    kept = the_record(store)
    assert kept.next == 6_001
    assert 1 < kept.first < 6_001
    size_bytes = sum(path.stat().st_size for path in (folder / "lifecycle").iterdir())
    assert 20_000 < size_bytes <= 40_000 + 5_000
    store.close()
    store = EmbeddedStore(folder, clock=clock, fsync="no", keeping=keeping)
    assert the_record(store) == kept
    assert rows(store)[0].number == kept.first
    store.close()


def test_the_oldest_files_go_by_age_but_not_the_newest(folder: Path, clock: ManualClock) -> None:
    keeping = Keeping(max_age_ms=3 * HOUR_MS)
    store = EmbeddedStore(folder, clock=clock, keeping=keeping)
    for _ in range(10):
        put(store, b"x")
        the_record(store)
        clock.advance(FILE_MS)

    assert the_record(store).first == 7
    clock.advance(100 * HOUR_MS)
    the_record(store)
    assert [row.number for row in rows(store)] == [10]
    store.close()


def test_a_record_that_finds_no_room_waits_for_it(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"1")
    assert len(rows(store)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(RecordFiles, "append", no_room)
        for _ in range(300):
            put(store, b"2")
        assert len(rows(store)) == 1
        assert store.info()["lifecycle_status"] == "failing"

    put(store, b"3")

    assert [row.number for row in rows(store)] == list(range(1, 303))
    assert store.info()["lifecycle_lost_rows"] == 0
    assert store.info()["lifecycle_status"] == "ok"
    store.close()


def test_what_finds_no_room_for_long_is_lost_and_that_can_be_seen(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "BACKLOG_BYTES", 50_000)
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    put(store, b"1")
    assert len(rows(store)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(RecordFiles, "append", no_room)
        for _ in range(2_000):
            put(store, b"2")
        the_record(store)

    put(store, b"3")

    kept = the_record(store)
    lost = store.info()["lifecycle_lost_rows"]
    assert isinstance(lost, int)
    assert 0 < lost < 2_000
    found = list(rows_of(0, store.run(ReadRecord(0, 2, 10_000))))
    assert found[0].number == 2 + lost
    assert found[-1].number == kept.next - 1 == 2_002
    store.close()


def test_a_full_disk_takes_the_oldest_file_first(
    folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    for _ in range(3):
        put(store, b"x")
        the_record(store)
        clock.advance(FILE_MS)
    real = os.fstatvfs

    def full(file: int) -> Any:
        is_full = len(list((folder / "lifecycle").iterdir())) > 2
        found = real(file)
        return os.statvfs_result((*found[:4], 0 if is_full else found[4], *found[5:]))

    monkeypatch.setattr(os, "fstatvfs", full)
    put(store, b"y")

    assert the_record(store).next == 5
    assert the_record(store).first == 3
    assert store.info()["lifecycle_lost_rows"] == 0
    store.close()


def test_a_change_of_many_messages_is_several_entries(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    ids = put(store, *[b"x"] * 2_500)
    run(store, Flush(EVENTS, b"q"))
    while store.leaving:
        store.tick()
        store.commit()

    found = rows(store)
    assert [row.seen.id for row in found] == ids * 2
    assert {row.seen.kind for row in found[2_500:]} == {Kind.REMOVED}
    store.close()
    changes = Changes(1)
    changes.tell((REMOVED, b"q", ids))
    entries = [Entry(*msgpack.unpackb(it, raw=True)) for it in changes.take()]
    assert [entry.number for entry in entries] == [1, 1 + ROWS_MOST, 1 + 2 * ROWS_MOST]
    assert [len(msgpack.unpackb(it.ids)) for it in entries] == [ROWS_MOST, ROWS_MOST, 500]


def test_a_record_of_before_there_was_a_reason_is_about_a_finished_message() -> None:
    changes = Changes(1)
    changes.tell((REMOVED, b"w", [b"id"]))

    assert [row.seen.kind for row in rows_of(0, changes.take())] == [Kind.ACKED]


def test_turns_in_which_nothing_happens_cost_nothing(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock)
    put(store, b"1")
    for _ in range(1_000):
        store.commit()

    assert len(store._record._notes) == 2, "what was put, and when"
    store.close()


def test_names_of_queues_that_are_gone_are_forgotten(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    for number in range(3_000):
        (id,) = store.run(Add(JOBS, b"%d" % number, [b""], Terms(60_000)))
        store.run(Finish(JOBS, [id]))
    store.commit()
    clock.advance(10 * 60_000)
    for _ in range(100):
        store.tick()
        store.commit()
    store.run(FindRecords())

    assert len(store._record._changes.families) < 1_100
    store.close()


def no_room(*args: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_rows_of_a_queue_that_came_back_from_a_claim_have_its_family_after_a_crash(
    stage: Stage,
) -> None:
    """The queue was purged, and the first that is read of it is that its claim was released."""
    store = stage.store
    store.run(Add(JOBS, b"q", [b"body"], Terms(3_600_000, 0, 60_000)))
    store.run(OpenClaims(JOBS, b"q", b"s", b"", 60_000))
    store.run(FillClaim(b"q", b"s", 1, 1, 10, seals=True))
    store.run(PurgeAll(JOBS))
    stage.turn()
    store = stage.reopened()
    store.run(ReleaseClaims(b"q", b"s", 1, 1))
    store.run(Take(JOBS, [b"q"]))
    stage.turn()

    with closing(EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")) as copied:
        assert {row.family for row in rows(copied)} == {JOBS.code}
        assert len(rows(copied)) == 4


def test_rows_of_events_that_were_flushed_while_held_have_their_family_after_a_crash(
    stage: Stage,
) -> None:
    """The first that is read of the queue is a lease, which does not name the family."""
    store = stage.store
    id = stage.put(b"body")
    stage.turn()
    stage.take()
    stage.turn()
    store.run(Flush(EVENTS, b"q"))
    stage.turn()
    for _ in stage.compact_first():
        stage.turn()
    assert store.run(Release(EVENTS, b"q", b"g", [id])) == [True]
    stage.turn()

    with closing(EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")) as copied:
        told = [(row.seen.kind, row.family) for row in rows(copied)]

    assert told[-1] == (Kind.RETURNED, EVENTS.code)
    assert {family for _, family in told} == {EVENTS.code}
