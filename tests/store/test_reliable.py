"""Reliable queues in a folder: compaction, restarts and copies keep order, ids, names and ends."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import DiskFull, LimitReached
from quinque.model.claim_ops import FillClaim, OpenClaims, ReleaseClaims
from quinque.model.families import EVENTS, ITEMS, RELIABLE, TUBES, Family
from quinque.model.lifecycle import Kind, Reason
from quinque.model.limits import RENAME_MOST
from quinque.model.own_ops import RELIABLE_TERMS, AddItems, Complete, Inspect, Recover
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.tube_ops import MakeTube, PutTasks, TaskTerms, TubeSettings
from quinque.model.work_ops import Add, ScanMessages, Take
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.numbers import Numbers
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.record_words import rows
from tests.copying.places import FolderPlace, copy
from tests.servers.steps import lines_run
from tests.store.disk import Disk
from tests.store.picture import check_indexes, picture_of
from tests.store.random_reliable import ReliableWorker
from tests.store.stage import Stage

Q, R = b"q", b"r"

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


def push(store: EmbeddedStore, *bodies: bytes, queue: bytes = Q) -> list[bytes]:
    ids: list[bytes] = store.run(Add(RELIABLE, queue, bodies, RELIABLE_TERMS))
    return ids


def pop(store: EmbeddedStore, count: int = 1, queue: bytes = Q) -> list[bytes]:
    return [given.body for given in store.run(Take(RELIABLE, [queue], count))]


def seen(store: EmbeddedStore, queue: bytes = Q) -> tuple[list[bytes], list[tuple[bytes, int]]]:
    """Bodies that wait; and of those that are delivered, with how often, in their order."""
    waiting = store.run(Inspect(RELIABLE, queue, False, 0, 100))
    delivered = store.run(Inspect(RELIABLE, queue, True, 0, 100))
    assert waiting is not None
    assert delivered is not None
    return [it.body for it in waiting], [(it.body, it.deliveries) for it in delivered]


def spread(stage: Stage) -> None:
    """Four messages, three of them delivered in one millisecond, out of their order, and each
    record in a segment of its own."""
    for body in (b"a", b"b", b"c", b"d"):
        push(stage.store, body)
        stage.turn()
    for _ in range(3):
        pop(stage.store)
        stage.turn()
    stage.store.run(Recover(RELIABLE, Q, 1, 0))
    stage.turn()


def test_the_order_of_deliveries_is_the_same_after_compaction(stage: Stage) -> None:
    spread(stage)
    before = picture_of(stage.store)

    stage.compact_all()

    assert picture_of(stage.reopened()) == before
    assert seen(stage.store) == ([b"d"], [(b"b", 1), (b"c", 1), (b"a", 2)])


def test_a_crash_in_compaction_leaves_the_order_as_it_was(stage: Stage) -> None:
    spread(stage)
    before = picture_of(stage.store)

    for _ in range(6):
        for _ in stage.compact_first():
            stage.turn()
            copied = EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")
            with closing(copied):
                assert picture_of(copied) == before
                check_indexes(copied)


def test_ids_go_on_when_nothing_of_what_had_them_is_left(stage: Stage) -> None:
    ids = push(stage.store, *[b"x"] * 5)
    stage.turn()
    pop(stage.store, 5)
    stage.store.run(Complete(RELIABLE, Q, ids, is_leased=True))
    stage.store.run(DeleteQueues(RELIABLE, [Q]))
    stage.turn()
    stage.compact_all()
    stage.compact_all()

    stage.reopened()

    at_ms = ids[0].partition(b"-")[0]
    assert push(stage.store, b"y") == [at_ms + b"-6"]


def test_an_empty_queue_is_there_after_compaction_with_its_end(stage: Stage) -> None:
    ends_ms = stage.store.now_ms() + 60_000
    ids = push(stage.store, b"x")
    pop(stage.store)
    stage.store.run(SetExpiry(RELIABLE, Q, ends_ms))
    stage.turn()
    stage.store.run(Complete(RELIABLE, Q, ids, is_leased=True))
    stage.turn()

    stage.compact_all()
    stage.reopened()

    assert stage.store.run(FindFamilies([Q])) == [RELIABLE]
    assert stage.store.run(LookAtExpiry(RELIABLE, Q)) == ends_ms
    stage.clock.advance(60_000)
    stage.store.tick()
    assert stage.store.queues == {}


def test_a_queue_that_ended_while_nobody_was_there_is_gone(stage: Stage) -> None:
    push(stage.store, b"x")
    stage.store.run(SetExpiry(RELIABLE, Q, stage.store.now_ms() + 1))
    stage.turn()

    stage.clock.advance(1)
    stage.reopened()

    assert stage.store.run(FindFamilies([Q])) == [None]
    check_indexes(stage.store)


def test_what_finds_no_room_in_the_journal_changes_nothing(stage: Stage, disk: Disk) -> None:
    spread(stage)
    push(stage.store, b"x", queue=R)
    stage.turn()
    before = picture_of(stage.store)
    delivered = stage.store.run(Inspect(RELIABLE, Q, True, 0, 9))

    stage.fill(disk)
    for op in (
        Add(RELIABLE, Q, [b"y"], RELIABLE_TERMS),
        Add(RELIABLE, b"other", [b"y"], RELIABLE_TERMS),
        Take(RELIABLE, [Q, R], 5, is_drained=True),
        Complete(RELIABLE, Q, [it.message_id for it in delivered], is_leased=True),
        Recover(RELIABLE, Q, 5, 0),
        DeleteQueues(RELIABLE, [Q, R]),
        RenameQueue(RELIABLE, Q, R),
        SetExpiry(RELIABLE, Q, stage.store.now_ms() + 5),
        SetExpiry(RELIABLE, Q, 1),
    ):
        with pytest.raises(DiskFull):
            stage.store.run(op)

        assert picture_of(stage.store) == before
        check_indexes(stage.store)


def test_what_comes_after_an_end_that_found_no_room_in_the_journal_is_kept(
    stage: Stage, disk: Disk
) -> None:
    push(stage.store, b"old")
    stage.store.run(SetExpiry(RELIABLE, Q, stage.store.now_ms() + 1))
    stage.turn()
    stage.fill(disk)
    stage.clock.advance(1)
    stage.store.tick()
    disk.heal()
    push(stage.store, b"new")
    stage.turn()
    assert seen(stage.store) == ([b"new"], [])

    stage.reopened()

    assert seen(stage.store) == ([b"new"], [])
    assert stage.store.run(LookAtExpiry(RELIABLE, Q)) == 0


def test_what_was_renamed_is_written_again_under_its_new_name(stage: Stage) -> None:
    spread(stage)
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    push(stage.store, b"new")  # under the old name
    stage.turn()
    stage.store.run(RenameQueue(RELIABLE, R, b"s"))
    stage.turn()
    before = picture_of(stage.store)
    assert len(stage.store.former_names) == 1

    for _ in range(12):
        for _ in stage.compact_first():
            stage.turn()
            with closing(EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")) as copied:
                assert picture_of(copied) == before

    assert picture_of(stage.reopened()) == before
    assert seen(stage.store, b"s") == ([b"d"], [(b"b", 1), (b"c", 1), (b"a", 2)])
    assert seen(stage.store) == ([b"new"], [])
    assert len(stage.store.former_names) == 0


def test_what_is_renamed_while_its_segment_is_compacted_is_written_again(stage: Stage) -> None:
    push(stage.store, b"a", b"b", b"c")
    stage.turn()
    steps = stage.compact_first()
    next(steps)
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    push(stage.store, b"new")  # under the old name
    stage.turn()

    for _ in steps:
        stage.turn()
    stage.reopened()

    assert seen(stage.store, R) == ([b"a", b"b", b"c"], [])
    assert seen(stage.store) == ([b"new"], [])


def test_compaction_after_many_renamings_from_one_name_takes_little_for_each(
    folder: Path, clock: ManualClock
) -> None:
    """Each queue had the name when its element came, so each could be the one of a record."""
    store = EmbeddedStore(folder / "many", clock=clock, fsync="no")
    for number in range(1_000):
        push(store, b"x")
        store.run(RenameQueue(RELIABLE, Q, b"batch %d" % number))
    store.commit()
    store.compact()

    def compact() -> None:
        for _ in range(5_000):
            store.commit()
            if store._compactor.dropped:
                break

    assert lines_run(compact) < 1_500_000  # to look at each for each takes five million
    assert store._compactor.dropped
    store.close()


def test_compaction_looks_for_no_elements_that_came_after_a_renaming(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder / "many", clock=clock, fsync="no")
    push(store, b"x")
    store.run(RenameQueue(RELIABLE, Q, R))
    push(store, *[b"y"] * 20_000, queue=R)
    store.commit()

    assert lines_run(lambda: list(store.former_names.begin(1))) < 1_000
    store.close()


def test_a_queue_that_is_renamed_to_and_fro_is_remembered_once(stage: Stage) -> None:
    push(stage.store, b"x")

    for _ in range(50):
        stage.store.run(RenameQueue(RELIABLE, Q, R))
        stage.store.run(RenameQueue(RELIABLE, R, Q))
    stage.turn()

    assert len(stage.store.former_names) == 1
    assert len(stage.reopened().former_names) == 1
    stage.store.run(DeleteQueues(RELIABLE, [Q]))
    assert len(stage.store.former_names) == 0
    assert len(stage.reopened().former_names) == 0


@pytest.mark.parametrize("family", [EVENTS, ITEMS, TUBES], ids=lambda family: family.name)
def test_a_renamed_queue_keeps_its_elements_when_another_family_has_its_old_name(
    stage: Stage, family: Family
) -> None:
    push(stage.store, b"a", b"b", b"c")
    stage.turn()
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    if family is EVENTS:
        stage.put(b"event")
    elif family is ITEMS:
        stage.store.run(AddItems(ITEMS, Q, [b"x"], [b"item"]))
    else:
        stage.store.run(MakeTube(Q, b"fifo", TubeSettings()))
        stage.store.run(PutTasks(Q, [b"task"], TaskTerms()))
    stage.turn()

    stage.compact_all()
    stage.reopened()

    assert seen(stage.store, R) == ([b"a", b"b", b"c"], [])
    assert stage.store.queues[Q].family is family


def test_former_names_are_known_after_a_restart(stage: Stage) -> None:
    spread(stage)
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    stage.turn()
    before = picture_of(stage.store)
    stage.reopened(maxmemory=1)

    stage.compact_all()

    assert picture_of(stage.reopened()) == before


def test_a_queue_that_is_renamed_while_compaction_waits_for_room_keeps_its_counts(
    stage: Stage, disk: Disk
) -> None:
    ids = push(stage.store, b"x")
    pop(stage.store)
    stage.store.run(Complete(RELIABLE, Q, ids, is_leased=True))
    stage.fill(disk)
    steps = stage.compact_first()
    next(steps)
    next(steps)
    disk.heal()
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    for _ in steps:
        stage.turn()
    before = picture_of(stage.store)

    assert list(before) == [R]
    assert picture_of(stage.reopened()) == before


def test_the_end_of_a_queue_on_a_full_disk_is_on_record_once_however_the_process_ended(
    stage: Stage, disk: Disk
) -> None:
    push(stage.store, b"a", b"b")
    stage.store.run(SetExpiry(RELIABLE, Q, stage.store.now_ms() + 50))
    stage.fill(disk)
    stage.clock.advance(50)
    stage.store.tick()
    disk.heal()
    push(stage.store, b"c", queue=R)
    stage.turn()

    copy = stage.copied()

    seen_rows = rows(stage.store)
    kinds = [(row.queue, row.seen.kind) for row in seen_rows]
    assert kinds == [(Q, Kind.ADDED)] * 2 + [(Q, Kind.REMOVED)] * 2 + [(R, Kind.ADDED)]
    with closing(EmbeddedStore(copy, clock=stage.clock, fsync="no")) as copied:
        assert rows(copied) == seen_rows


def test_a_rename_is_on_record_once_however_the_process_ended(stage: Stage) -> None:
    spread(stage)
    push(stage.store, b"gone", queue=R)
    stage.turn()
    stage.store.run(RenameQueue(RELIABLE, Q, R))
    stage.turn()
    with closing(EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")) as crashed:
        told = rows(crashed)

    assert told == rows(stage.store)
    last = [(row.queue, row.seen.kind, row.seen.reason) for row in told[-12:]]
    assert last == [
        (R, Kind.REMOVED, Reason.PURGED),
        *[(Q, Kind.REMOVED, Reason.RENAMED)] * 4,
        *[(R, Kind.ADDED, Reason.RENAMED)] * 4,
        *[(R, Kind.DELIVERED, Reason.RENAMED)] * 3,
    ]
    assert [row.seen.size for row in told if row.seen.reason == Reason.RENAMED][4:8] == [1] * 4


def test_a_queue_that_is_too_long_keeps_its_name(stage: Stage) -> None:
    push(stage.store, b"1", b"2", *[b""] * (RENAME_MOST - 1))

    with pytest.raises(LimitReached, match="100001 messages: the limit is 1000"):
        stage.store.run(RenameQueue(RELIABLE, Q, R))

    assert pop(stage.store, 2) == [b"1", b"2"]


def test_a_queue_that_is_deleted_while_some_of_it_is_claimed_gets_that_back(stage: Stage) -> None:
    store = stage.store
    push(store, b"1", b"2", b"3")
    epoch = store.run(OpenClaims(RELIABLE, Q, b"s", b"", 60_000, 0)).epoch
    store.run(FillClaim(Q, b"s", epoch, 1, 2, seals=True))

    with pytest.raises(LimitReached, match="open claims"):
        store.run(RenameQueue(RELIABLE, Q, R))
    assert store.run(DeleteQueues(RELIABLE, [Q])) == 1
    assert seen(store) == ([], [])
    stage.turn()
    store = stage.reopened()
    assert store.run(ReleaseClaims(Q, b"s", epoch, 1)) == 2

    assert seen(store) == ([b"1", b"2"], [])
    check_indexes(store)


def test_all_of_a_queue_is_scanned(stage: Stage) -> None:
    spread(stage)

    cursor, views = stage.store.run(ScanMessages(RELIABLE, 0, 3, Q, with_bodies=True))
    end, more = stage.store.run(ScanMessages(RELIABLE, cursor, 3, Q))

    assert [view.body for view in views] == [b"a", b"b", b"c"]
    assert (end, len(more)) == (0, 1)


def test_a_copy_has_the_same_order_and_later_ids(folder: Path, clock: ManualClock) -> None:
    first, second = FolderPlace(folder / "a"), FolderPlace(folder / "b")
    with closing(first.open(clock)) as store:
        worker = ReliableWorker(store, clock, seed=8)
        for _ in range(60):
            worker.turn()
        before = picture_of(store)
        newest = max(_numbers(id) for id in [*worker.ids] if b"-" in id)

    copy(first, second)

    with closing(second.open(ManualClock(0))) as store:
        assert picture_of(store) == before
        check_indexes(store)
        assert min(map(_numbers, push(store, b"x", b"y"))) > newest


def test_a_number_that_is_none_is_passed_over() -> None:
    numbers = Numbers()

    for id in (b"", b"-", b"7", b"7-", b"-7", b"7-x", b"D-dcb833cf-8YL1", b"\xb2-1"):
        numbers.note(id)

    assert numbers.new_ids(0, 1) == [b"0-1"]


def _numbers(id: bytes) -> tuple[int, int]:
    at_ms, _, number = id.partition(b"-")
    return int(at_ms), int(number)


def test_a_push_of_more_than_a_record_holds_can_be_read_back_from_the_disk(folder: Path) -> None:
    bodies = [b"%d" % number for number in range(70_000)]
    store = EmbeddedStore(folder, clock=ManualClock(), maxmemory=1)
    store.run(Add(RELIABLE, b"q", bodies, RELIABLE_TERMS))
    store.commit()
    store.close()

    again = EmbeddedStore(folder, clock=ManualClock(), maxmemory=1)
    inspected = again.run(Inspect(RELIABLE, b"q", False, 65_530, 10))
    again.close()

    assert inspected is not None
    assert [element.body for element in inspected] == bodies[65_530:65_540]
