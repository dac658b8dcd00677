"""Faults of the disk, made in the process: the journal says so, and never pretends.

The functions of `os` that the journal calls fail here on demand. What a real disk does is tried in
tests/faults, with processes that are killed and disks that are full.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from quinque.errors import DiskFull, NotDone, StoreUnavailable
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Count, FindReady, Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import compact, journal
from quinque.stores.embedded.journal import ACK_BYTES, SPARE_BYTES
from quinque.stores.embedded.records import Batch, read_batches
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk, check_refused, leave_room, reopened, until_refused
from tests.store.picture import feed_of, messages_of, picture_of

HOUR_MS = 3_600_000
MIB = 1 << 20


@pytest.fixture
def store(folder: Path, clock: ManualClock, disk: Disk) -> Iterator[EmbeddedStore]:
    """A store with a megabyte of room, and two messages, one of them held by the group g."""
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=MIB)
    store.run(Put(EVENTS, b"q", [b"held", b"free"]))
    store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))
    store.commit()
    yield store
    disk.heal()
    try:
        store.close()
    except StoreUnavailable:
        pass


def held_id(store: EmbeddedStore) -> bytes:
    return next(iter(feed_of(store, b"q").groups[b"g"].held))


def writes(store: EmbeddedStore) -> list[Op]:
    return [
        Put(EVENTS, b"q", [b"new"]),
        Put(EVENTS, b"another", [b"new"], message_id=b"x"),
        Reserve(EVENTS, b"q", b"g", HOUR_MS),
        Reserve(EVENTS, b"q", b"h", 0),
        Ack(EVENTS, b"q", b"g", [held_id(store)]),
        Release(EVENTS, b"q", b"g", [held_id(store)]),
        ExtendLeases(EVENTS, b"q", [held_id(store)], HOUR_MS, b"g"),
        Flush(EVENTS, b"q"),
    ]


def check_reads(store: EmbeddedStore) -> None:
    (row,) = store.run(Count(EVENTS))
    assert row.total == 2
    assert store.run(FindReady(EVENTS, b"h", [b"q"])) == b"q"
    assert store.run(Peek(EVENTS, b"q", b"h")) is not None


@pytest.mark.parametrize(("call", "number"), [("fdatasync", errno.EIO), ("pwrite", errno.EIO)])
def test_after_a_failed_write_or_sync_nothing_more_is_accepted(
    store: EmbeddedStore, disk: Disk, call: str, number: int
) -> None:
    before = picture_of(store)
    disk.fail(call, number)
    store.run(Put(EVENTS, b"unknown", [b"?"]))

    with pytest.raises(StoreUnavailable, match="Input/output error"):
        store.commit()

    disk.heal()  # asking again does not tell what is on the disk
    for op in writes(store):
        check_refused(store, op, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        store.commit()
    assert store.info()["journal_status"] == "failed"
    found = picture_of(reopened(store))
    assert {name: rows for name, rows in found.items() if name != b"unknown"} == before


def test_after_a_failed_sync_looking_still_works_whatever_time_does(
    store: EmbeddedStore, disk: Disk, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"short"], ttl_ms=5))
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(StoreUnavailable):
        store.commit()

    clock.advance(HOUR_MS)
    store.tick()

    check_reads(store)
    (row,) = store.run(Count(EVENTS))
    assert (row.groups[0].leased, row.groups[0].redo) == (0, 1)


@pytest.mark.parametrize("size_bytes", [1, 7, 100])
def test_short_writes_are_gone_on_with(store: EmbeddedStore, disk: Disk, size_bytes: int) -> None:
    disk.write_at_most(size_bytes)

    store.run(Put(EVENTS, b"q", [b"x" * 250]))
    store.commit()

    assert messages_of(reopened(store)) == {b"q": [b"held", b"free", b"x" * 250]}


def test_a_write_for_which_there_was_no_room_is_made_when_there_is(
    store: EmbeddedStore, disk: Disk
) -> None:
    before = picture_of(store)
    store.run(Put(EVENTS, b"q", [b"x" * 2_000]))
    disk.write_at_most(512, then=errno.ENOSPC)

    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="takes effect when there is space again"):
            store.commit()
        for op in writes(store):
            check_refused(store, op, DiskFull)
        assert picture_of(reopened(store)) == before
    assert store.next_due_ms() <= store.now_ms() + 1_000, "it is tried again soon"

    disk.heal()
    store.commit()
    store.run(Put(EVENTS, b"q", [b"more"]))
    store.commit()
    assert messages_of(reopened(store)) == {b"q": [b"held", b"free", b"x" * 2_000, b"more"]}


def test_without_room_additions_are_refused_and_the_rest_goes_on(
    store: EmbeddedStore, disk: Disk
) -> None:
    disk.fail("posix_fallocate", errno.ENOSPC)
    accepted = fill(store)

    check_refused(store, Put(EVENTS, b"q", [b"x" * 100_000]), DiskFull)
    check_refused(store, Put(EVENTS, b"new", [b"x" * 100_000]), DiskFull)
    assert b"new" not in store.queues
    assert store.run(Ack(EVENTS, b"q", b"g", [held_id(store)])) == [True]
    assert [it.body for it in store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))] == [b"free"]
    store.commit()
    bodies = {b"q": [b"held", b"free"], b"big": [b"x" * 100_000] * accepted}
    assert messages_of(reopened(store)) == bodies

    disk.heal()
    store.run(Put(EVENTS, b"new", [b"x" * 100_000]))
    store.commit()
    assert messages_of(reopened(store)) == {**bodies, b"new": [b"x" * 100_000]}


def test_when_the_last_room_is_used_up_acks_are_refused_too_and_change_nothing(
    store: EmbeddedStore, disk: Disk
) -> None:
    disk.fail("posix_fallocate", errno.ENOSPC)
    fill(store)
    done = until_refused(lambda number: store.run(Reserve(EVENTS, b"q", b"%d" % number, 0)))

    assert done * 40 > SPARE_BYTES / 2, "the room was for them"
    store.journal._reserved = store.journal._at  # shorter records than the refused one, too
    for op in writes(store):
        check_refused(store, op, DiskFull)
    store.commit()
    assert picture_of(reopened(store)) == picture_of(store)


def test_leases_lapse_and_messages_expire_without_room_and_still_have_after_a_restart(
    store: EmbeddedStore, disk: Disk, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"short"], ttl_ms=5, message_id=b"x"))
    store.run(Reserve(EVENTS, b"q", b"g", 5, count=2))
    store.commit()
    leave_room(store, disk, 0)

    clock.advance(10)

    (row,) = store.run(Count(EVENTS, [b"q"]))
    assert (row.total, row.groups[0].leased, row.groups[0].redo) == (2, 1, 1)
    disk.heal()
    store.run(Put(EVENTS, b"q", [b"again"], message_id=b"x"))
    given = store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS, count=5))
    assert [(it.body, it.deliveries) for it in given] == [(b"free", 2), (b"again", 1)]
    store.commit()
    again = reopened(store)
    assert picture_of(again) == picture_of(store)
    assert again.bodies.count == store.bodies.count
    assert again.bodies.total_bytes == store.bodies.total_bytes


def test_when_room_ends_in_the_middle_of_a_delivery_what_was_leased_is_delivered(
    store: EmbeddedStore, disk: Disk
) -> None:
    """Those to be had again and those that are new are two records; an error for the second must
    not hide the first."""
    ids = store.run(Put(EVENTS, b"r", [b"%d" % number for number in range(9)]))
    store.run(Reserve(EVENTS, b"r", b"g", HOUR_MS, count=3))
    store.run(Release(EVENTS, b"r", b"g", ids[:3]))
    store.commit()
    leave_room(store, disk, 150)  # for three of them and not for six more

    given = store.run(Reserve(EVENTS, b"r", b"g", HOUR_MS, count=9))

    assert [it.message_id for it in given] == ids[:3]
    assert store.run(Count(EVENTS, [b"r"]))[0].groups[0].leased == len(given)
    check_refused(store, Reserve(EVENTS, b"r", b"g", HOUR_MS, count=9), DiskFull)


def test_a_message_that_is_done_at_once_is_not_lost_for_want_of_room(
    store: EmbeddedStore, disk: Disk
) -> None:
    """Two records say that it was delivered and that it is gone: there is room for both or none."""
    store.run(Put(EVENTS, b"r", [b"single"], message_id=b"x" * 40, is_single=True))
    store.commit()

    for room_bytes in range(0, 200, 10):
        leave_room(store, disk, room_bytes)
        before = picture_of(store)
        try:
            given = store.run(Reserve(EVENTS, b"r", b"g", 0))
        except DiskFull:
            assert picture_of(store) == before
        else:
            assert [it.body for it in given] == [b"single"]
            assert b"r" not in picture_of(store)
            return
    pytest.fail("there was room in the end")


def test_an_ack_of_both_kinds_is_done_wholly_or_not_at_all(
    store: EmbeddedStore, disk: Disk
) -> None:
    """What lives on and what goes are two records."""
    store.run(Put(EVENTS, b"q", [b"single"], message_id=b"x" * 40, is_single=True))
    store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS, count=5))
    store.commit()
    ids = list(feed_of(store, b"q").groups[b"g"].held)
    assert len(ids) == 3

    for room_bytes in range(0, 300, 10):
        leave_room(store, disk, room_bytes)
        before = picture_of(store)
        try:
            results = store.run(Ack(EVENTS, b"q", b"g", ids))
        except DiskFull:
            assert picture_of(store) == before
        else:
            assert results == [True] * 3
            return
    pytest.fail("there was room in the end")


def test_without_room_for_a_new_segment_the_old_one_goes_on(folder: Path, disk: Disk) -> None:
    store = EmbeddedStore(folder / "live", clock=ManualClock(), segment_bytes=200)
    store.journal._reserved = MIB
    os.posix_fallocate(store.journal.files[1], 0, MIB)
    disk.fail("posix_fallocate", errno.ENOSPC)

    for number in range(20):
        store.run(Put(EVENTS, b"q", [b"%d" % number]))
        store.commit()

    assert store.info()["journal_segments"] == 1
    disk.heal()
    for number in range(20, 40):
        store.run(Put(EVENTS, b"q", [b"%d" % number]))
        store.commit()
    assert int(store.info()["journal_segments"]) > 3
    assert messages_of(reopened(store)) == {b"q": [b"%d" % number for number in range(40)]}
    store.close()


def test_compaction_waits_for_room_and_leaves_the_last_to_acks(
    folder: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs room to make room; meanwhile what is acked stays acked."""
    monkeypatch.setattr(compact, "STEP_BYTES", 60)
    clock = ManualClock()
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=20_000)
    ids = store.run(Put(EVENTS, b"q", [b"x" * 6_000] * 3, is_single=True))
    store.run(Put(EVENTS, b"dead", [b"x" * 6_000], ttl_ms=1))
    store.commit()
    clock.advance(1)
    for _ in range(3):
        store.run(Put(EVENTS, b"dead", [b"x" * 21_000], ttl_ms=1))
        clock.advance(1)
        store.tick()
        store.commit()
    assert store._compactor.is_working
    assert store.info()["compacted_segments"] == 0
    leave_room(store, disk, 1_000)

    for _ in range(10):
        store.commit()
    assert store.run(Ack(EVENTS, b"q", b"okq", [ids[-1]], held_only=False)) == [True]
    store.commit()
    assert messages_of(reopened(store)) == {b"q": [b"x" * 6_000] * 2}

    disk.heal()
    for _ in range(200):
        store.commit()
    assert int(store.info()["compacted_segments"]) > 0
    assert messages_of(store) == messages_of(reopened(store)) == {b"q": [b"x" * 6_000] * 2}
    store.close()


def test_compaction_does_not_use_the_room_that_a_full_disk_keeps_for_acks(
    folder: Path, disk: Disk
) -> None:
    clock = ManualClock()
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=100_000)
    ids = [b"%d" % number + b"i" * 1_000 for number in range(50)]
    for id in ids:
        store.run(Put(EVENTS, b"q", [b"x" * 1_000], message_id=id, is_single=True))
    for _ in range(8):
        store.run(Put(EVENTS, b"dead", [b"x" * 100_000], ttl_ms=1))
        clock.advance(1)
        store.tick()
        store.journal.commit(store.at_ms)
        store.journal.rotate(store.stamp_us, store.at_ms)
    leave_room(store, disk, ACK_BYTES)

    for _ in range(20):
        store.commit()
    acked = [store.run(Ack(EVENTS, b"q", b"okq", [id], held_only=False)) for id in ids]
    for _ in range(200):
        store.commit()

    assert acked == [[True]] * len(ids)
    assert int(store.info()["compacted_segments"]) > 4
    store.close()


@pytest.mark.parametrize(
    "break_it",
    [
        lambda disk: disk.fail("pread", errno.EIO),
        lambda disk: disk.fail("pread", errno.ESTALE),
    ],
)
def test_a_body_that_cannot_be_read_is_an_error_and_nothing_changes(
    folder: Path, disk: Disk, break_it: Callable[[Disk], None]
) -> None:
    store = EmbeddedStore(folder / "live", clock=ManualClock(), maxmemory=1)
    store.run(Put(EVENTS, b"q", [b"body"]))
    store.commit()
    break_it(disk)

    with pytest.raises(NotDone, match="cannot read"):
        store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))

    disk.heal()
    assert [it.body for it in store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))] == [b"body"]
    store.close()


def test_a_segment_that_cannot_be_removed_is_a_failure_that_is_told(
    folder: Path, disk: Disk
) -> None:
    clock = ManualClock()
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=100)
    disk.fail("unlink", errno.EROFS)

    def work() -> None:
        for _ in range(50):
            store.run(Put(EVENTS, b"q", [b"x" * 100], ttl_ms=1))
            clock.advance(1)
            store.tick()
            store.commit()

    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        work()

    assert messages_of(reopened(store)) == messages_of(store)
    with pytest.raises(StoreUnavailable):
        store.close()


def test_the_tail_that_was_read_back_is_synced_before_it_counts_as_synced(
    folder: Path, disk: Disk
) -> None:
    """A process that died left it in the system's memory; a power cut may still take it."""
    EmbeddedStore(folder / "live", clock=ManualClock()).close()
    disk.fail("fdatasync", errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        EmbeddedStore(folder / "live", clock=ManualClock())


def test_a_sync_of_another_thread_never_says_more_of_a_segment_than_was_written(
    folder: Path,
) -> None:
    """A new segment begins at any step of the other thread: the batches after it must not say that
    they themselves were on the disk, or a torn end would pass for damage."""
    for step in range(200):
        store = EmbeddedStore(
            folder / str(step), clock=ManualClock(), fsync="no", segment_bytes=500
        )
        store.run(Put(EVENTS, b"q", [b"x" * 600]))
        store.journal.commit(store.at_ms)
        steps = count()

        def trace(frame: FrameType, event: str, _arg: object) -> Any:
            frame.f_trace_opcodes = frame.f_code.co_filename == journal.__file__
            if event == "opcode" and next(steps) == step:  # noqa: B023
                sys.settrace(None)
                store.commit()  # noqa: B023
                assert store.journal.segment == 2  # noqa: B023
                sys.settrace(trace)
            return trace

        sys.settrace(trace)
        try:
            store.journal._sync_written()
        finally:
            sys.settrace(None)
        store.commit()
        store.run(Put(EVENTS, b"q", [b"last"]))
        store.commit()

        assert store.journal.segment == 2
        for batch in read_batches((folder / str(step) / "0000000002.journal").read_bytes()):
            assert isinstance(batch, Batch)
            assert batch.synced <= batch.start
        store.close()
        shutil.rmtree(folder / str(step))
        if next(steps) <= step:
            return
    pytest.fail("the sync has more steps than were tried")


def test_an_id_made_for_a_message_at_the_front_is_not_made_again_after_a_restart(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    ids: list[bytes] = store.run(Put(EVENTS, b"q", [b"behind"]))
    for number in range(3):
        ids += store.run(Put(EVENTS, b"q", [b"%d" % number], to_front=True, is_single=True))
    store.run(Ack(EVENTS, b"q", b"g", ids[1:], held_only=False))
    store.run(Put(EVENTS, b"q", [b"far"], message_id=b"9" * 18, to_front=True))
    store.close()

    store = EmbeddedStore(folder, clock=ManualClock(clock.now_us()))
    ids += store.run(Put(EVENTS, b"q", [b"last"]))
    store.close()

    assert len({*ids}) == 5
    assert int(ids[-1]) < clock.now_us() + 1_000, "a number that a client chose counts for nothing"


def test_closing_gives_back_the_reserved_room(folder: Path) -> None:
    store = EmbeddedStore(folder / "live", clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"x"]))
    store.commit()
    (path,) = (folder / "live").glob("*.journal")
    assert path.stat().st_size == 4 * MIB

    store.close()

    assert path.stat().st_size == store.journal.sizes[1]


def fill(store: EmbeddedStore) -> int:
    """Add messages until one is refused; how many were accepted."""
    accepted = until_refused(lambda _: store.run(Put(EVENTS, b"big", [b"x" * 100_000])))
    store.commit()
    assert accepted
    return accepted
