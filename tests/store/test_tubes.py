"""Tubes in a folder: compaction, a small memory and a full disk keep tasks, ids and holders."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from quinque.errors import (
    DiskFull,
    JournalDamaged,
    NotDone,
)
from quinque.model.families import EVENTS
from quinque.model.ops import Put
from quinque.model.queue_ops import FindFamilies
from quinque.model.tube_ops import (
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    KickTasks,
    LeaveSession,
    LeaveSessions,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
    TruncateTube,
    TubeSettings,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import segment_of
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.record_words import rows
from tests.conformance.tube_words import (
    ANN,
    TUBE,
    begin,
    counts,
    look,
    put,
    take_views,
)
from tests.store.disk import Disk
from tests.store.picture import check_indexes, picture_of
from tests.store.stage import Stage
from tests.store.tube_stage import body, spread, taken

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


# -- compaction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"fifottl", b"utubettl"])
def test_tasks_are_the_same_after_compaction(stage: Stage, kind: bytes) -> None:
    spread(stage, kind)
    before = picture_of(stage.store)

    stage.compact_all()
    stage.turn()

    assert picture_of(stage.store) == before
    assert picture_of(stage.reopened()) == before
    assert counts(stage.store) == (1, 2, 1, 1, 0)
    assert body(stage.store, b"3") == b"other"


def test_a_crash_in_compaction_leaves_tubes_as_they_were(stage: Stage) -> None:
    spread(stage)
    before = picture_of(stage.store)

    for _ in range(len(stage.store.journal.sizes) - 1):
        for _ in stage.compact_first():
            stage.turn()
        with closing(EmbeddedStore(stage.copied(), clock=ManualClock(), fsync="no")) as copied:
            assert picture_of(copied) == before
            check_indexes(copied)


def test_ids_go_on_when_nothing_of_what_had_them_is_left(stage: Stage) -> None:
    begin(stage.store)
    put(stage.store, *[b"x"] * 5)
    stage.turn()
    stage.store.run(AckTasks(TUBE, ANN, taken(stage.store)))
    stage.turn()
    stage.compact_all()
    stage.compact_all()

    stage.reopened()

    assert put(stage.store, b"y") == [b"5"]


def test_ids_of_an_emptied_tube_begin_anew_also_after_compaction(stage: Stage) -> None:
    begin(stage.store)
    put(stage.store, b"a", b"b", b"c")
    stage.turn()
    stage.store.run(TruncateTube(TUBE))
    stage.turn()
    assert put(stage.store, b"new") == [b"0"]
    stage.turn()
    before = picture_of(stage.store)

    stage.compact_all()

    assert picture_of(stage.reopened()) == before
    assert (body(stage.store, b"0"), body(stage.store, b"1")) == (b"new", None)
    assert put(stage.store, b"next") == [b"1"]


def test_a_dropped_tube_does_not_come_back(stage: Stage) -> None:
    begin(stage.store)
    put(stage.store, b"old", b"old")
    stage.turn()
    stage.store.run(DropTube(TUBE))
    stage.turn()
    begin(stage.store, b"utube")
    put(stage.store, b"new")
    stage.turn()

    stage.compact_all()
    stage.reopened()

    assert look(stage.store).kind == b"utube"
    assert (body(stage.store, b"0"), body(stage.store, b"1")) == (b"new", None)


# -- memory and disk -----------------------------------------------------------------------------


def test_bodies_that_are_only_on_disk_are_there_for_every_word(stage: Stage) -> None:
    stage.reopened(maxmemory=1)
    begin(stage.store, b"fifottl")
    bodies = [b"%d" % number * 60 for number in range(5)]
    put(stage.store, *bodies[:3])
    put(stage.store, *bodies[3:])
    stage.turn()
    assert stage.store.info()["bodies_on_disk"] == 5

    first = take_views(stage.store, 3)
    stage.store.run(ReleaseTasks(TUBE, ANN, [b"1"], pri=7))
    (acked,) = stage.store.run(AckTasks(TUBE, ANN, [b"0"]))
    (buried,) = stage.store.run(BuryTasks(TUBE, [b"3"]))
    (deleted,) = stage.store.run(DeleteTasks(TUBE, [b"4"]))
    stage.turn()
    stage.compact_all()
    stage.reopened(maxmemory=1)

    assert [view.body for view in first] == bodies[:3]
    assert [acked.body, buried.body, deleted.body] == [bodies[0], bodies[3], bodies[4]]
    assert [body(stage.store, b"%d" % id) for id in (1, 2, 3)] == bodies[1:4]
    assert stage.store.info()["bodies_on_disk"] == 3


def test_a_task_whose_data_is_damaged_can_still_be_got_rid_of(stage: Stage) -> None:
    stage.reopened(maxmemory=1)
    begin(stage.store)
    put(stage.store, b"good " * 20, b"bad " * 20)
    stage.turn()
    task = stage.store._tubes.known(TUBE, stage.store.now_ms()).find(b"1")
    assert task is not None
    path = stage.folder / f"{segment_of(task.home):010d}.journal"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"bad " * 20, b"BAD " * 20))

    with pytest.raises(JournalDamaged):
        stage.store.run(PeekTasks(TUBE, [b"1"]))
    assert taken(stage.store) == [b"0"], "what is before it is handed out"
    assert stage.store.run(BuryTasks(TUBE, [b"1"]))[0].body == b""
    assert stage.store.run(DeleteTasks(TUBE, [b"1"]))[0].body == b""

    assert counts(stage.store) == (0, 1, 0, 0, 1)
    path.write_bytes(data)


@pytest.mark.parametrize("change", [{"pri": 1}, {"ttl_ms": 60_000}], ids=["pri", "ttl"])
def test_a_release_that_cannot_read_the_data_for_a_moment_is_refused_and_loses_nothing(
    stage: Stage, disk: Disk, change: dict[str, Any]
) -> None:
    stage.reopened(maxmemory=1)
    begin(stage.store, b"fifottl")
    put(stage.store, b"precious")
    stage.turn()
    assert taken(stage.store) == [b"0"]
    stage.turn()
    disk.fail("pread", errno.EIO)

    with pytest.raises(NotDone):
        stage.store.run(ReleaseTasks(TUBE, ANN, [b"0"], **change))

    disk.heal()
    (released,) = stage.store.run(ReleaseTasks(TUBE, ANN, [b"0"], **change))
    assert released.body == b"precious"
    stage.turn()
    stage.reopened()
    assert body(stage.store, b"0") == b"precious"


def test_what_finds_no_room_in_the_journal_changes_nothing(stage: Stage, disk: Disk) -> None:
    spread(stage)
    before = picture_of(stage.store)

    operations: Sequence[Any] = (
        MakeTube(b"other", b"fifo", TubeSettings()),
        PutTasks(TUBE, [b"y"], TaskTerms()),
        PutTasks(TUBE, [b"y" * 1_000] * 500, TaskTerms()),
        TakeTasks(TUBE, ANN),
        AckTasks(TUBE, ANN, [b"1"]),
        ReleaseTasks(TUBE, ANN, [b"1"], pri=4, body=b"z"),
        TouchTasks(TUBE, ANN, [b"1"], 5),
        BuryTasks(TUBE, [b"1", b"3"]),
        DeleteTasks(TUBE, [b"1", b"3"]),
        KickTasks(TUBE),
        ReturnTasks(TUBE),
        TruncateTube(TUBE),
    )
    stage.fill(disk)
    for op in operations:
        with pytest.raises(DiskFull):
            stage.store.run(op)

        assert picture_of(stage.store) == before, op
        check_indexes(stage.store)
    # A session ends whether there is room or not: after a restart nobody is of it either.
    stage.store.run(LeaveSession(ANN))
    disk.heal()
    assert counts(stage.store) == (2, 1, 1, 1, 0)

    stage.reopened()

    assert stage.store.run(LeaveSessions()) == 2
    assert counts(stage.store) == (3, 0, 1, 1, 0)


# -- temporary tubes -----------------------------------------------------------------------------


def test_of_a_temporary_tube_only_the_definition_is_on_record(stage: Stage) -> None:
    stage.reopened(maxmemory=1)
    begin(stage.store, b"fifottl", is_temporary=True, ttr_ms=9)
    stage.turn()
    commits = stage.store.info()["journal_commits"]

    put(stage.store, *[b"x" * 100] * 5, delay_ms=0, ttl_ms=50)
    stage.store.run(AckTasks(TUBE, ANN, taken(stage.store, 1)))
    assert taken(stage.store, 2) == [b"1", b"2"]
    stage.store.run(ReleaseTasks(TUBE, ANN, [b"1"], pri=5, body=b"y"))
    stage.store.run(BuryTasks(TUBE, [b"3"]))
    stage.turn()

    info = stage.store.info()
    assert (info["messages"], info["body_bytes_in_memory"], info["bodies_on_disk"]) == (4, 0, 0)
    assert info["journal_commits"] == commits
    assert [body(stage.store, id) for id in (b"1", b"2")] == [b"y", b"x" * 100]
    assert rows(stage.store) == []
    check_indexes(stage.store)
    stage.clock.advance(50)
    assert (counts(stage.store), stage.store.info()["messages"]) == ((0, 0, 0, 0, 5), 0)
    stage.turn()
    assert stage.store.info()["journal_commits"] == commits


def test_a_temporary_tube_is_empty_after_a_restart_and_ids_begin_anew(stage: Stage) -> None:
    begin(stage.store, b"utubettl", is_temporary=True, width=3)
    put(stage.store, b"a", b"b")
    taken(stage.store, 1)
    stage.turn()
    stage.store.run(Put(EVENTS, b"q", [b"turn"]))
    stage.turn()
    stage.compact_all()

    stage.reopened()

    view = look(stage.store)
    assert (view.kind, view.settings) == (b"utubettl", TubeSettings(is_temporary=True, width=3))
    assert counts(stage.store) == (0, 0, 0, 0, 0)
    assert stage.store.run(LeaveSessions()) == 0
    assert put(stage.store, b"c") == [b"0"]
    stage.store.run(DropTube(TUBE))
    stage.turn()
    assert stage.reopened().run(FindFamilies([TUBE])) == [None]
