"""Faults of the disk while worklists are worked: all of an operation or nothing, and it is said."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quinque.errors import DiskFull, NotDone, StoreUnavailable
from quinque.model.claim_ops import FillClaim, OpenClaims, ReleaseClaims
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE, Family
from quinque.model.ops import Op, Put
from quinque.model.own_ops import RELIABLE_TERMS, AddItems
from quinque.model.queue_ops import SetExpiry
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    Configure,
    Extend,
    Finish,
    Hold,
    LookAt,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Show,
    Take,
    Terms,
    WorkView,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk, check_refused, leave_room, reopened, until_refused
from tests.store.picture import check_indexes, messages_of, picture_of
from tests.store.stage import Stage

DAY_MS = 86_400_000
MIB = 1 << 20
TERMS = Terms(DAY_MS, retry_ms=60_000)


class Filled:
    """A store with a megabyte of room, and in each of two worklists a message in every state."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=MIB)
        self.ids: dict[str, list[bytes]] = {"dead": [], "leased": [], "ready": [], "delayed": []}
        for queue in (b"v", b"w"):
            mortal = Terms(DAY_MS, retry_ms=60_000, max_deliveries=1)
            self.ids["dead"] += self.store.run(Add(JOBS, queue, [b"dead"], mortal))
            self.ids["leased"] += self.store.run(Add(JOBS, queue, [b"leased"], TERMS))
            self.store.run(Take(JOBS, [queue], 2))
            self.store.run(Requeue(JOBS, self.ids["dead"], True))
            self.ids["ready"] += self.store.run(Add(JOBS, queue, [b"ready"], TERMS))
            later = Terms(DAY_MS, 50_000, 60_000)
            self.ids["delayed"] += self.store.run(Add(JOBS, queue, [b"delayed"], later))
        self.store.commit()

    def writes(self) -> list[Op]:
        ids = self.ids
        return [
            Add(JOBS, b"w", [b"new"], TERMS),
            Add(JOBS, b"new", [b"new"], TERMS, key=b"k"),
            Take(JOBS, [b"w"]),
            Take(JOBS, [b"v", b"w"], 2),
            Take(JOBS, (), 2, patterns=[b"*"]),
            Finish(JOBS, ids["ready"] + ids["leased"]),
            Requeue(JOBS, ids["leased"], True, 0, b"why"),
            Requeue(JOBS, ids["delayed"], False),
            Hold(JOBS, ids["ready"]),
            Extend(JOBS, ids["leased"][0]),
            Redrive(JOBS, ids["dead"]),
            Redrive(JOBS, queue=b"w"),
            Configure(JOBS, b"w", is_paused_in=True),
            Configure(JOBS, b"new", is_paused_in=True),
            Purge(JOBS, b"w"),
            Purge(JOBS, b"w", [State.READY, State.DEAD]),
            PurgeAll(JOBS),
            SetNode(is_leaving=True),
        ]


@pytest.fixture
def filled(folder: Path, clock: ManualClock, disk: Disk) -> Iterator[Filled]:
    filled = Filled(folder, clock)
    yield filled
    disk.heal()
    try:
        filled.store.close()
    except StoreUnavailable:
        pass


@pytest.fixture
def store(filled: Filled) -> EmbeddedStore:
    return filled.store


def show(store: EmbeddedStore, id: bytes) -> WorkView:
    view: WorkView | None = store.run(Show(JOBS, id))
    assert view is not None
    return view


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_after_a_failed_write_or_sync_nothing_more_is_accepted_and_looking_works(
    filled: Filled, store: EmbeddedStore, disk: Disk, call: str
) -> None:
    before = picture_of(store)
    disk.fail(call, errno.EIO)
    store.run(Add(JOBS, b"unknown", [b"?"], TERMS))
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        store.commit()

    disk.heal()
    for op in filled.writes():
        check_refused(store, op, StoreUnavailable)

    assert [view.body for view in store.run(Browse(JOBS, b"w", State.DEAD, 9))] == [b"dead"]
    assert store.run(LookAt(JOBS, b"w")) is not None
    found = picture_of(reopened(store))
    assert {name: rows for name, rows in found.items() if name != b"unknown"} == before


def test_after_a_failed_sync_looking_still_works_whatever_time_does(
    filled: Filled, store: EmbeddedStore, disk: Disk, clock: ManualClock
) -> None:
    store.run(Add(JOBS, b"w", [b"short"], Terms(5, retry_ms=1_000)))
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(StoreUnavailable):
        store.commit()

    clock.advance(61_000)
    store.tick()

    view = store.run(LookAt(JOBS, b"w"))
    assert view is not None
    assert (view.ready, view.delayed, view.leased, view.dead) == (3, 0, 0, 1)
    check_indexes(store)


def test_without_room_additions_are_refused_and_the_rest_goes_on(
    filled: Filled, store: EmbeddedStore, disk: Disk
) -> None:
    disk.fail("posix_fallocate", errno.ENOSPC)
    big = Add(JOBS, b"big", [b"x" * 100_000], TERMS)
    accepted = until_refused(lambda _: store.run(big))
    store.commit()

    check_refused(store, big, DiskFull)
    check_refused(store, Add(JOBS, b"new", [b"x" * 100_000], TERMS), DiskFull)
    assert b"new" not in store.queues
    assert store.run(Finish(JOBS, filled.ids["leased"])) == [True, True]
    assert [it.body for it in store.run(Take(JOBS, [b"w"]))] == [b"ready"]
    assert store.run(Requeue(JOBS, filled.ids["ready"], True)) == [False, True]
    store.commit()
    assert picture_of(reopened(store)) == picture_of(store)

    disk.heal()
    store.run(Add(JOBS, b"new", [b"x" * 100_000], TERMS))
    store.commit()
    assert messages_of(reopened(store)) == messages_of(store)
    assert len(messages_of(store)[b"big"]) == accepted


def test_when_the_last_room_is_used_up_everything_is_refused_and_changes_nothing(
    filled: Filled, store: EmbeddedStore, disk: Disk
) -> None:
    disk.fail("posix_fallocate", errno.ENOSPC)
    until_refused(lambda _: store.run(Add(JOBS, b"big", [b"x" * 100_000], TERMS)))
    reason = b"r" * 500
    done = until_refused(
        lambda _: store.run(Requeue(JOBS, filled.ids["delayed"][:1], True, 1_000, reason))
    )

    assert done * 600 > SPARE_BYTES / 2, "the room was for them"
    store.journal._reserved = store.journal._at  # shorter records than the refused one, too
    for op in filled.writes():
        check_refused(store, op, DiskFull)
    store.commit()
    assert picture_of(reopened(store)) == picture_of(store)


WHOLE: dict[str, Callable[[Filled], Op]] = {
    "finish": lambda filled: Finish(JOBS, filled.ids["ready"] + filled.ids["dead"]),
    "nack": lambda filled: Requeue(JOBS, filled.ids["leased"], True, 0, b"r" * 300),
    "enqueue": lambda filled: Requeue(JOBS, filled.ids["leased"], False, 500),
    "nack that kills": lambda filled: Requeue(JOBS, filled.ids["leased"], True),
    "hold": lambda filled: Hold(JOBS, filled.ids["ready"]),
    "redrive": lambda filled: Redrive(JOBS, filled.ids["dead"]),
    "purge": lambda filled: Purge(JOBS, b"w"),
    "purge of states": lambda filled: Purge(JOBS, b"w", [State.READY, State.LEASED]),
    "purge of all": lambda filled: PurgeAll(JOBS),
    "add": lambda filled: Add(JOBS, b"w", [b"1", b"2"], TERMS),
    "extend": lambda filled: Extend(JOBS, filled.ids["ready"][0]),
    "configure": lambda filled: Configure(JOBS, b"w", max_deliveries=4),
}


@pytest.mark.parametrize("what", WHOLE)
def test_an_operation_on_several_queues_is_done_wholly_or_not_at_all(
    filled: Filled, store: EmbeddedStore, disk: Disk, what: str
) -> None:
    """With every bit of room there may be: what is refused changed nothing, on the disk neither."""
    if what == "nack that kills":
        store.run(Configure(JOBS, b"w", max_deliveries=1))
    op = WHOLE[what](filled)
    has_refused = False
    # Additions leave the last room to the others, so theirs begins beyond it.
    least_bytes = SPARE_BYTES - 50 if what == "add" else 0
    for room_bytes in range(least_bytes, least_bytes + 4_000, 7):
        leave_room(store, disk, room_bytes)
        before = picture_of(store)
        try:
            store.run(op)
        except DiskFull:
            has_refused = True
            assert picture_of(store) == before
            if room_bytes % 5 == 0:
                assert picture_of(reopened(store)) == before
        else:
            assert picture_of(store) != before
            store.commit()
            assert picture_of(reopened(store)) == picture_of(store)
            assert has_refused
            return
    pytest.fail("there was room in the end")


@pytest.mark.parametrize("names", [[b"v"], [b"v", b"w"]], ids=["one queue", "two queues"])
def test_when_room_ends_in_the_middle_of_a_delivery_what_was_leased_is_delivered(
    folder: Path, clock: ManualClock, disk: Disk, names: list[bytes]
) -> None:
    """Those whose leases end together are a record; an error for one must not hide another."""
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=MIB)
    for number in range(4):
        for name in names:
            terms = Terms(DAY_MS, retry_ms=60_000 + number)
            store.run(Add(JOBS, name, [b"%d" % number], terms))
    store.commit()
    most = 4 * len(names)
    had: set[int] = set()
    for room_bytes in range(0, 1_500, 13):
        leave_room(store, disk, room_bytes)
        before = picture_of(store)
        try:
            given = store.run(Take(JOBS, names, most))
        except DiskFull:
            assert picture_of(store) == before
            continue
        had.add(len(given))
        ids = [delivery.message_id for delivery in given]
        assert all(show(store, id).state is State.LEASED for id in ids)
        views = [store.run(LookAt(JOBS, name)) for name in names]
        assert sum(view.leased for view in views if view) == len(given)
        disk.heal()
        assert store.run(Requeue(JOBS, ids, False)) == [True] * len(given)
    assert {1, most} <= had
    disk.heal()
    store.close()


def test_leases_lapse_delays_end_and_messages_go_without_room_and_have_after_a_restart(
    filled: Filled, store: EmbeddedStore, disk: Disk, clock: ManualClock
) -> None:
    (mortal,) = store.run(Add(JOBS, b"u", [b"m"], Terms(DAY_MS, 0, 60_000, 1)))
    store.run(Take(JOBS, [b"u"]))
    (gone,) = store.run(Add(JOBS, b"u", [b"gone"], Terms(30_000, 0, 1_000)))
    store.commit()
    leave_room(store, disk, 0)

    clock.advance(61_000)
    store.tick()

    states = {name: [show(store, id).state for id in ids] for name, ids in filled.ids.items()}
    assert states == {
        "dead": [State.DEAD] * 2,
        "leased": [State.READY] * 2,
        "ready": [State.READY] * 2,
        "delayed": [State.READY] * 2,
    }
    assert (show(store, mortal).state, show(store, mortal).reason) == (State.DEAD, b"lapsed")
    assert store.run(Show(JOBS, gone)) is None
    with pytest.raises(DiskFull):
        store.run(Take(JOBS, [b"w"]))

    disk.heal()
    before = [show(store, id) for ids in filled.ids.values() for id in ids]
    given = store.run(Take(JOBS, [b"w"], 9))
    assert [it.body for it in given] == [b"leased", b"ready", b"delayed"]
    assert [it.requeues for it in given] == [1, 0, 0]
    store.run(Requeue(JOBS, [it.message_id for it in given], False))
    store.commit()
    folder = store.journal.folder
    store.close()
    again = EmbeddedStore(folder, clock=clock)
    filled.store = again
    assert [show(again, id).requeues for id in filled.ids["leased"]] == [1, 2]
    assert [show(again, id).requeues for id in filled.ids["delayed"]] == [0, 1]
    assert [view.state for view in before] == [
        show(again, id).state for ids in filled.ids.values() for id in ids
    ]
    assert show(again, mortal).state is State.DEAD
    assert again.run(Show(JOBS, gone)) is None
    check_indexes(again)


def test_a_claim_goes_back_to_a_queue_that_ended_while_the_disk_was_full(
    stage: Stage, disk: Disk
) -> None:
    store = stage.store
    store.run(Add(RELIABLE, b"rq", [b"claimed", b"left"], RELIABLE_TERMS))
    store.run(SetExpiry(RELIABLE, b"rq", store.now_ms() + 50))
    store.run(OpenClaims(RELIABLE, b"rq", b"s", b"", DAY_MS))
    store.run(FillClaim(b"rq", b"s", 1, 1, 1, seals=True))
    stage.fill(disk)
    stage.clock.advance(50)
    store.tick()
    disk.heal()

    assert store.run(ReleaseClaims(b"rq", b"s", 1, 1)) == 1
    stage.turn()
    stage.reopened()

    stage.store.tick()
    assert messages_of(stage.store) == {b"rq": [b"claimed"]}


def test_a_queue_that_ended_while_the_disk_was_full_does_not_come_back_with_its_name(
    stage: Stage, disk: Disk
) -> None:
    store = stage.store
    store.run(Add(RELIABLE, b"rq", [b"first"], RELIABLE_TERMS))
    store.run(SetExpiry(RELIABLE, b"rq", store.now_ms() + 50))
    stage.turn()
    store.run(Add(RELIABLE, b"rq", [b"old"], RELIABLE_TERMS))
    stage.fill(disk)
    stage.clock.advance(50)
    store.tick()
    disk.heal()
    store.run(Add(RELIABLE, b"rq", [b"new"], RELIABLE_TERMS))
    stage.turn()

    for _ in stage.compact_first():
        stage.turn()
    stage.reopened()

    assert messages_of(stage.store) == {b"rq": [b"new"]}


def test_a_job_that_died_while_the_disk_was_full_stays_dead_whatever_is_set_then(
    stage: Stage, disk: Disk
) -> None:
    store = stage.store
    store.run(Configure(JOBS, b"w", max_deliveries=1))
    (id,) = store.run(Add(JOBS, b"w", [b"1"], TERMS))
    store.run(Take(JOBS, [b"w"]))
    stage.fill(disk)
    stage.clock.advance(61_000)
    store.tick()
    disk.heal()

    store.run(Configure(JOBS, b"w", max_deliveries=0))
    stage.turn()
    stage.reopened()

    stage.store.tick()
    assert show(stage.store, id).state is State.DEAD


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("family", [JOBS, ITEMS], ids=lambda family: family.name)
def test_a_lease_that_lapsed_while_the_disk_was_full_is_counted_once_when_it_is_compacted(
    stage: Stage, disk: Disk, family: Family, is_whole: bool
) -> None:
    """Compaction writes the counts of the queue again, and the message only if it comes so far."""
    store = stage.store
    store.run(Add(JOBS, b"other", [b"0"], TERMS))
    stage.turn()
    if family is JOBS:
        store.run(Add(JOBS, b"w", [b"1"], TERMS))
    else:
        store.run(AddItems(ITEMS, b"w", [b"x"], [b"1"]))
    store.run(Take(family, [b"w"], lease_ms=60_000))
    stage.fill(disk)
    stage.clock.advance(61_000)
    store.tick()
    before = picture_of(store)
    disk.heal()

    if is_whole:
        stage.compact_all()
    else:
        for _ in stage.compact_first():
            stage.turn()
    store.run(Add(JOBS, b"other", [b"2"], TERMS))
    stage.turn()

    after = picture_of(stage.reopened())
    assert after[b"w"][1:3] == before[b"w"][1:3]


def test_while_something_is_owed_to_the_journal_nothing_else_is_accepted(
    stage: Stage, disk: Disk
) -> None:
    """An ack would have room where what time did has none; and after a restart it would be for
    another message, or for none."""
    store = stage.store
    ids = store.run(Add(JOBS, b"w", [b"%d" % number for number in range(50)], TERMS))
    store.run(Take(JOBS, [b"w"], 50))
    (held,) = store.run(Add(JOBS, b"u", [b"held"], Terms(DAY_MS, retry_ms=DAY_MS)))
    store.run(Take(JOBS, [b"u"]))
    stage.turn()
    leave_room(store, disk, 300)
    stage.clock.advance(61_000)
    store.tick()
    assert show(store, ids[0]).state is State.READY

    check_refused(store, Finish(JOBS, [held]), DiskFull)
    disk.heal()

    assert store.run(Finish(JOBS, [held])) == [True]
    stage.turn()
    stage.reopened()
    assert [show(stage.store, id).state for id in ids] == [State.READY] * 50


def test_a_name_that_went_to_another_family_while_nothing_could_be_recorded_is_there(
    folder: Path, clock: ManualClock, disk: Disk
) -> None:
    """No record says that the messages expired and the queue was forgotten."""
    store = EmbeddedStore(folder / "live", clock=clock, segment_bytes=MIB)
    (id,) = store.run(Add(JOBS, b"w", [b"job"], Terms(1_000, retry_ms=60_000)))
    store.commit()
    leave_room(store, disk, 0)
    clock.advance(400_000)
    store.tick()
    assert b"w" not in store.queues
    disk.heal()

    store.run(Put(EVENTS, b"w", [b"event"]))
    store.commit()
    store.close()

    again = EmbeddedStore(folder / "live", clock=clock)
    assert messages_of(again) == {b"w": [b"event"]}
    assert again.run(Show(JOBS, id)) is None
    check_indexes(again)
    again.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_body_that_cannot_be_read_is_an_error_and_nothing_changes(
    folder: Path, disk: Disk, number: int
) -> None:
    store = EmbeddedStore(folder / "live", clock=ManualClock(), maxmemory=1)
    store.run(Add(JOBS, b"w", [b"body"], TERMS))
    store.commit()
    disk.fail("pread", number)

    for op in (Take(JOBS, [b"w"]), Take(JOBS, [b"v", b"w"], 2), Browse(JOBS, b"w", State.READY, 1)):
        with pytest.raises(NotDone, match="cannot read"):
            store.run(op)

    disk.heal()
    assert [it.body for it in store.run(Take(JOBS, [b"w"]))] == [b"body"]
    store.close()
