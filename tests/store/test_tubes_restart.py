"""Tubes after a restart, on record and in copies: sessions, changes, records that are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import (
    BadRequest,
    DriverMissing,
    NoKind,
    NoSession,
    WrongType,
)
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import EVENTS, JOBS, TUBES
from quinque.model.lifecycle import Kind, Reason
from quinque.model.limits import NEVER_MS, SETTLE_MOST
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.ops import Put
from quinque.model.queue_ops import FindFamilies
from quinque.model.stage_ops import Publish
from quinque.model.tube_events import TASKS_PUT, TUBE_KEPT, TasksPut, TubeKept
from quinque.model.tube_ops import (
    FOREVER_MS,
    NO_LANE,
    RETURNED_AT_ONCE_MOST,
    AckTasks,
    DeleteTasks,
    DropTube,
    JoinSession,
    KickTasks,
    LeaveSession,
    LeaveSessions,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TruncateTube,
    TubeSettings,
)
from quinque.model.work_ops import Add, LookAt, ScanMessages, ScanQueues, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.survey import survey
from tests.conformance.record_words import rows
from tests.conformance.tube_words import (
    ANN,
    BEN,
    TUBE,
    begin,
    counts,
    look,
    make,
    put,
    take_views,
)
from tests.copying.places import FolderPlace, copy
from tests.servers.steps import lines_run
from tests.store.picture import check_indexes, picture_of
from tests.store.random_tubes import TubeWorker
from tests.store.stage import Stage
from tests.store.tube_stage import HOUR_MS, body, spread, taken

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


# -- sessions ------------------------------------------------------------------------------------


def test_a_session_outlives_a_restart_with_what_it_has_taken(stage: Stage) -> None:
    spread(stage)
    stage.turn()
    stage.compact_all()
    stage.reopened()

    assert stage.store.run(LeaveSessions(1_000)) == 2
    stage.clock.advance(999)
    stage.store.run(JoinSession(ANN))
    stage.clock.advance(1)
    stage.store.tick()

    assert counts(stage.store) == (2, 1, 1, 1, 0), "Ben did not come back"
    assert stage.store.run(AckTasks(TUBE, ANN, [b"1"]))[0].state is None
    with pytest.raises(NoSession):
        stage.store.run(JoinSession(BEN))
    check_indexes(stage.store)


def test_a_session_that_has_taken_nothing_does_not_outlive_a_restart(stage: Stage) -> None:
    begin(stage.store)
    put(stage.store, b"x")
    stage.store.run(AckTasks(TUBE, ANN, taken(stage.store)))
    stage.turn()

    stage.reopened()

    with pytest.raises(NoSession):
        stage.store.run(JoinSession(ANN))
    assert stage.store.run(LeaveSessions()) == 0


def test_what_a_session_has_taken_comes_back_in_slices(stage: Stage) -> None:
    begin(stage.store)
    make(stage.store, queue=b"second")
    put(stage.store, *[b"x"] * (RETURNED_AT_ONCE_MOST - SETTLE_MOST))
    put(stage.store, *[b"x"] * (4 * SETTLE_MOST + 1), queue=b"second")
    taken(stage.store, RETURNED_AT_ONCE_MOST)
    take_views(stage.store, RETURNED_AT_ONCE_MOST, queue=b"second")
    tubes = [stage.store._tubes.known(name, 0) for name in (TUBE, b"second")]

    stage.store.run(LeaveSession(ANN))
    left = [sum(tube.leased for tube in tubes)]
    while stage.store.next_due_ms() <= stage.store.now_ms():
        stage.store.tick()
        stage.store.commit()
        left.append(sum(tube.leased for tube in tubes))

    assert left == [1_501, 1_001, 501, 1, 0]
    assert stage.store.next_due_ms() == NEVER_MS
    assert stage.store.ready == {TUBE, b"second"}
    check_indexes(stage.store)


def test_a_session_of_the_same_name_begins_with_nothing(stage: Stage) -> None:
    held = RETURNED_AT_ONCE_MOST + 1_200
    begin(stage.store)
    put(stage.store, *[b"x"] * held)
    assert len(taken(stage.store, held) + taken(stage.store, held)) == held
    stage.store.run(LeaveSession(ANN))

    stage.store.run(JoinSession(ANN, is_new=True))
    [mine] = take_views(stage.store)

    # All but the ticks' share is back by now, and none of it is the new session's.
    left = [b"%d" % number for number in range(RETURNED_AT_ONCE_MOST, held)]
    assert stage.store.run(AckTasks(TUBE, ANN, left)) == [None] * len(left)
    assert stage.store.run(ReturnTasks(TUBE)) == 1
    taken(stage.store, 1)
    while stage.store.next_due_ms() <= stage.store.now_ms():
        stage.store.tick()
        stage.store.commit()
    assert counts(stage.store)[:2] == (held - 1, 1)
    assert stage.store.run(AckTasks(TUBE, ANN, [mine.message_id]))[0] is not None
    check_indexes(stage.store)


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("is_joined", [True, False])
def test_a_session_that_had_ended_has_ended_after_a_crash(
    stage: Stage, is_joined: bool, is_compacted: bool
) -> None:
    """Its tasks are not those of a session of the same name, which may be kept."""
    held = RETURNED_AT_ONCE_MOST + SETTLE_MOST + 2
    begin(stage.store)
    put(stage.store, *[b"x"] * held)
    assert len(taken(stage.store, held) + taken(stage.store, held)) == held
    stage.store.run(LeaveSession(ANN))
    left = [b"%d" % number for number in range(RETURNED_AT_ONCE_MOST, held)]
    mine: list[bytes] = []
    if is_joined:
        stage.store.run(JoinSession(ANN, is_new=True))
        mine = taken(stage.store, 1)
    stage.turn()
    if is_compacted:
        stage.compact_all()

    stage.reopened()
    stage.store.run(LeaveSessions(HOUR_MS))
    stage.store.run(JoinSession(ANN, is_new=True))
    assert stage.store.run(AckTasks(TUBE, ANN, left)) == [None] * len(left)
    while stage.store.next_due_ms() <= stage.store.now_ms():
        stage.store.tick()
        stage.store.commit()

    assert counts(stage.store)[:2] == (held - len(mine), len(mine))
    assert all(stage.store.run(AckTasks(TUBE, ANN, mine)))
    check_indexes(stage.store)


def test_a_session_that_ended_before_all_of_many_has_ended_after_a_crash(stage: Stage) -> None:
    """A client has used its name again before the broker came to its tasks."""
    begin(stage.store)
    put(stage.store, *[b"x"] * 3)
    stage.store.run(JoinSession(b"cleo", is_new=True))
    [first] = taken(stage.store, 1, b"cleo")
    put(stage.store, *[b"x"] * (SETTLE_MOST - 1))
    stage.store.run(JoinSession(b"many", is_new=True))
    taken(stage.store, SETTLE_MOST, b"many")
    stage.store.run(LeaveSession(b"many", 999))
    stage.store.run(LeaveSession(b"cleo", 1_000))
    stage.clock.advance(1_000)

    stage.store.run(JoinSession(b"cleo", is_new=True))
    stage.turn()
    stage.reopened()
    stage.store.run(LeaveSessions(HOUR_MS))
    stage.store.run(JoinSession(b"cleo", is_new=True))

    assert stage.store.run(AckTasks(TUBE, b"cleo", [first])) == [None]
    check_indexes(stage.store)


def test_many_sessions_that_end_together_cost_an_operation_little(stage: Stage) -> None:
    begin(stage.store)
    sessions = [b"session-%d" % number for number in range(3_000)]
    put(stage.store, *[b"x"] * len(sessions))
    for session in sessions:
        stage.store.run(JoinSession(session, is_new=True))
        stage.store.run(TakeTasks(TUBE, session))
    for session in sessions:
        stage.store.run(LeaveSession(session, 1_000))

    stage.clock.advance(1_000)
    lines = lines_run(lambda: stage.store.run(TakeTasks(TUBE, ANN)))

    assert counts(stage.store)[1] > 1
    while stage.store.next_due_ms() <= stage.store.now_ms():
        lines = max(lines, lines_run(stage.store.tick))
        stage.store.commit()
    assert lines < 200 * SETTLE_MOST
    assert counts(stage.store)[:2] == (len(sessions) - 1, 1)
    assert list(stage.store.sessions.by_id) == [ANN, BEN]
    check_indexes(stage.store)


# -- other words ---------------------------------------------------------------------------------


def test_a_tube_is_no_queue_of_another_family(stage: Stage) -> None:
    store = stage.store
    begin(store)
    store.run(Add(JOBS, b"jobs", [b"x"], Terms(HOUR_MS)))
    store.run(Put(EVENTS, b"events", [b"x"]))

    refused: Sequence[Any] = (
        Add(JOBS, TUBE, [b"x"], Terms(HOUR_MS)),
        Put(EVENTS, TUBE, [b"x"]),
        MakeTube(b"jobs", b"fifo", TubeSettings()),
        MakeTube(b"events", b"fifo", TubeSettings(), is_idempotent=True),
        PutTasks(b"jobs", [b"x"], TaskTerms()),
        TakeTasks(b"events", ANN),
    )
    for op in refused:
        with pytest.raises(WrongType):
            store.run(op)

    assert store.run(FindFamilies([TUBE, b"jobs"])) == [TUBES, JOBS]
    assert store.run(ScanQueues(TUBES, 0, 10_000)) == (0, [TUBE])
    check_indexes(store)


def test_claims_batches_and_pages_of_tubes_are_refused(stage: Stage) -> None:
    begin(stage.store)
    refused: Sequence[Any] = (
        OpenClaims(TUBES, TUBE, b"s", b"", 60_000, 0),
        Publish(TUBES, TUBE, b"sink", b"run", 1, [], 10),
        BrowsePlaces(TUBES, TUBE, 0, 0, 10),
        DividePlaces(TUBES, TUBE, 2),
    )
    for op in refused:
        with pytest.raises(BadRequest, match="tubes do not support claims"):
            stage.store.run(op)


def test_tasks_are_seen_by_looks_at_all_worklists(stage: Stage) -> None:
    spread(stage)

    view = stage.store.run(LookAt(TUBES, TUBE))
    _, tasks = stage.store.run(ScanMessages(TUBES, 0, 10, TUBE, with_bodies=True))

    assert view is not None
    assert (view.ready, view.leased, view.delayed, view.dead) == (1, 2, 1, 1)
    assert sorted(task.body for task in tasks) == [
        *[b"body %d" % number for number in (0, 1, 2, 4)],
        b"other",
    ]


def test_every_change_of_a_task_is_on_record(stage: Stage) -> None:
    spread(stage)
    stage.store.run(LeaveSession(BEN))
    stage.store.run(KickTasks(TUBE))
    stage.clock.advance(63_000)
    stage.store.tick()
    stage.store.run(DeleteTasks(TUBE, [b"0"]))
    stage.store.run(AckTasks(TUBE, ANN, taken(stage.store, 1)))
    stage.store.run(TruncateTube(TUBE))

    told: dict[bytes, list[tuple[Kind, Reason]]] = {}
    for row in rows(stage.store):
        told.setdefault(row.seen.id, []).append((row.seen.kind, row.seen.reason))
    assert all(row.family == TUBES.code for row in rows(stage.store))
    came, given = (Kind.ADDED, Reason.NONE), (Kind.DELIVERED, Reason.NONE)
    back, emptied = (Kind.RETURNED, Reason.NACKED), (Kind.REMOVED, Reason.PURGED)
    assert told == {
        b"0": [
            came,
            (Kind.DEAD, Reason.ASKED),
            (Kind.RETURNED, Reason.REDRIVEN),
            (Kind.REMOVED, Reason.DELETED),
        ],
        b"1": [came, given, (Kind.RETURNED, Reason.LAPSED), given, (Kind.ACKED, Reason.NONE)],
        b"2": [
            *(came, given, (Kind.DELAYED, Reason.NACKED), (Kind.RETURNED, Reason.DELAY_OVER)),
            emptied,
        ],
        b"3": [came, given, back, given, back, (Kind.EXPIRED, Reason.NONE)],
        b"4": [came, given, (Kind.RETURNED, Reason.SESSION_OVER), emptied],
    }


# -- records that are not as they were -----------------------------------------------------------


def test_a_tube_of_an_unknown_kind_is_asleep_and_its_tasks_are_kept(stage: Stage) -> None:
    begin(stage.store, queue=b"awake")
    kept = TubeKept(TUBE_KEPT, TUBE, TUBES.code, b"mine", 7, 5, 0, (FOREVER_MS,) * 2)
    came = TasksPut(
        *(TASKS_PUT, TUBE, TUBES.code, 0, 0, 5, FOREVER_MS, FOREVER_MS, 0, NO_LANE, [b"row"])
    )
    stage.store.journal.append(kept)
    stage.store.journal.append(came)
    stage.turn()
    stage.store.run(Put(EVENTS, b"q", [b"turn"]))
    stage.turn()
    stage.reopened()
    before = picture_of(stage.store)
    stage.compact_all()
    assert picture_of(stage.reopened()) == before

    assert look(stage.store).is_asleep
    assert counts(stage.store)[0] == 1
    for op in (PutTasks(TUBE, [b"x"], TaskTerms()), PeekTasks(TUBE, [b"0"]), TruncateTube(TUBE)):
        with pytest.raises(DriverMissing, match=r"the driver 'mine' of tube .* is not loaded"):
            stage.store.run(op)
    with pytest.raises(NoKind):
        stage.store.run(MakeTube(b"another", b"mine", TubeSettings()))
    assert stage.store.run(DropTube(TUBE)) is True


def test_a_tube_whose_definition_is_lost_is_made_again_with_its_tasks(stage: Stage) -> None:
    put_again = TasksPut(
        *(TASKS_PUT, TUBE, TUBES.code, 3, 2, 5, FOREVER_MS, FOREVER_MS, 0, b"a", [b"x", b"y"])
    )
    stage.store.journal.append(put_again)
    stage.turn()
    stage.reopened()
    assert look(stage.store).is_asleep

    assert stage.store.run(MakeTube(TUBE, b"utube", TubeSettings(), is_idempotent=True))
    stage.turn()
    stage.reopened()

    stage.store.run(JoinSession(ANN, is_new=True))
    assert taken(stage.store) == [b"3"], "they are of one lane"
    assert put(stage.store, b"z", lane=b"b") == [b"5"]


def test_a_number_that_comes_again_is_of_the_later_task(stage: Stage) -> None:
    """That the tube was emptied in between was on record, and is lost."""
    begin(stage.store)
    put(stage.store, b"a", b"b", b"c")
    again = TasksPut(
        *(TASKS_PUT, TUBE, TUBES.code, 0, 0, 5, FOREVER_MS, FOREVER_MS, 0, NO_LANE, [b"A", b"B"])
    )
    stage.store.journal.append(again)
    stage.turn()

    stage.reopened()

    bodies = [body(stage.store, id) for id in (b"0", b"1", b"2")]
    assert bodies == [b"A", b"B", b"c"]
    assert put(stage.store, b"d") == [b"3"]


def test_a_look_at_a_folder_counts_tubes_and_what_is_taken(stage: Stage) -> None:
    spread(stage)
    stage.store.close()

    found = survey(stage.folder)

    assert (found.damaged, len(found.holds.queues)) == ([], 1)
    assert (found.holds.messages, found.leases) == (5, 2)
    stage.open()


def test_a_copy_has_the_same_tubes(folder: Path, clock: ManualClock) -> None:
    first, second = FolderPlace(folder / "a"), FolderPlace(folder / "b")
    with closing(first.open(clock)) as store:
        worker = TubeWorker(store, clock, seed=3)
        for _ in range(80):
            worker.turn()
        before = picture_of(store)
    assert len(before) > 3

    copy(first, second)

    with closing(second.open(ManualClock(0))) as store:
        assert picture_of(store) == before
        check_indexes(store)


def test_tasks_that_several_took_at_once_are_each_its_own_after_a_restart(stage: Stage) -> None:
    store = stage.store
    begin(store, b"utube")
    for number in range(3):
        store.run(PutTasks(TUBE, [b"%d" % number], TaskTerms(lane=b"%d" % number)))
    given = store.run(TakeTasks(TUBE, b"", sessions=[ANN, BEN, ANN, BEN]))
    assert [view.message_id for view in given] == [b"0", b"1", b"2"]
    stage.turn()

    store = stage.reopened()
    check_indexes(store)
    done = store.run(AckTasks(TUBE, b"", [b"0", b"0", b"1", b"1"], [BEN, ANN, BEN, BEN]))
    assert [view and view.message_id for view in done] == [None, b"0", b"1", None]
    assert store.run(AckTasks(TUBE, ANN, [b"2"]))[0] is not None
    check_indexes(store)
