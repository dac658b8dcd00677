"""A tube whose driver is not there is asleep: nothing is lost, and it wakes when the driver is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quinque.drivers import Driver
from quinque.errors import BadDriver, DriverMissing
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    KickTasks,
    LeaveSession,
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
from tests.drivers.odd_drivers import Timed
from tests.drivers.workshop import ME, TUBE, YOU, Workshop
from tests.store.stage import Stage

Workshops = Callable[..., Workshop]


@pytest.fixture
def asleep(workshop: Workshops) -> Workshop:
    """Its driver had a task that is ready, one of each session that is taken, one that is buried
    and one that is delayed."""
    shop = workshop(timed=Timed)
    shop.put_all(b"a", b"b", b"c", b"d")
    shop.put(b"e", delay=1)
    shop.take(ME)
    shop.take(YOU)
    shop.bury(2)
    shop.drivers.clear()
    shop.reopen()
    return shop


OPERATIONS: list[Op] = [
    PutTasks(TUBE, [b"new"], TaskTerms()),
    TakeTasks(TUBE, ME),
    AckTasks(TUBE, ME, [b"0"]),
    ReleaseTasks(TUBE, ME, [b"0"]),
    TouchTasks(TUBE, ME, [b"0"], 5),
    PeekTasks(TUBE, [b"3"]),
    BrowseTasks(TUBE, State.READY, 1),
    BuryTasks(TUBE, [b"3"]),
    DeleteTasks(TUBE, [b"3"]),
    KickTasks(TUBE),
    ReturnTasks(TUBE),
    TruncateTube(TUBE),
]


def test_whatever_is_asked_of_its_tasks_is_refused(asleep: Workshop) -> None:
    for op in OPERATIONS:
        with pytest.raises(DriverMissing, match="the driver 'timed' of tube 'tube' is not loaded"):
            asleep.store.run(op)

    view = asleep.look()
    assert view.is_asleep
    assert (view.ready, view.taken, view.delayed, view.buried) == (1, 2, 1, 1)
    assert asleep.store.run(FindTubes()) == [view]


def test_it_wakes_when_the_driver_is_registered_and_goes_on(asleep: Workshop) -> None:
    asleep.store.commit()
    asleep.clock.advance(500)
    assert asleep.store.next_due_ms() > asleep.store.now_ms()
    asleep.store.run(LeaveSession(YOU))
    asleep.store.ready.clear()

    asleep.store.register_driver("timed", Timed)

    assert asleep.store.ready == {TUBE}
    assert asleep.all() == [
        (0, "t", b"a"),
        (1, "r", b"b"),  # its session is gone
        (2, "!", b"c"),
        (3, "r", b"d"),
        (4, "~", b"e"),
    ]
    assert asleep.ack(0) == (0, "-", b"a")
    asleep.pass_time(500)
    assert asleep.peek(4) == (4, "r", b"e")
    assert asleep.put(b"f") == (5, "r", b"f")
    assert not asleep.look().is_asleep


def test_it_wakes_at_a_start_with_the_driver(asleep: Workshop) -> None:
    asleep.store.run(LeaveSession(ME))
    asleep.drivers["timed"] = Timed

    asleep.reopen()

    # That nobody has taken it was not on record: who has is said again, by LeaveSessions.
    assert [letter for _, letter, _ in asleep.all()] == ["t", "t", "!", "r", "~"]


def test_it_can_be_dropped_if_nobody_has_taken_anything(asleep: Workshop) -> None:
    asleep.store.run(LeaveSession(ME))
    asleep.store.run(LeaveSession(YOU))

    assert asleep.store.run(DropTube(TUBE)) is True

    asleep.reopen()
    assert asleep.store.run(FindTubes()) == []


def test_its_rows_are_kept_by_compaction(workshop: Workshops, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "stage")
    store = stage.store
    store.register_driver("timed", Timed)
    store.run(MakeTube(TUBE, b"timed", TubeSettings()))
    stage.turn()
    for body in (b"a", b"b", b"c", b"d"):
        store.run(PutTasks(TUBE, [body], TaskTerms()))
        stage.turn()
    store.run(TakeTasks(TUBE, ME, 2))
    store.run(BuryTasks(TUBE, [b"2"]))
    store.run(DeleteTasks(TUBE, [b"3"]))
    before = store.run(PeekTasks(TUBE, [b"0", b"1", b"2", b"3"]))
    stage.turn()
    store = stage.reopened()  # asleep

    stage.compact_all()
    store = stage.reopened()

    with pytest.raises(DriverMissing):
        store.run(TakeTasks(TUBE, ME))
    store.register_driver("timed", Timed)
    assert store.run(PeekTasks(TUBE, [b"0", b"1", b"2", b"3"])) == before
    (done,) = store.run(AckTasks(TUBE, ME, [b"1"]))
    assert done.body == b"b"
    (new,) = store.run(PutTasks(TUBE, [b"e"], TaskTerms()))
    assert new.message_id == b"4"
    store.close()


def test_a_driver_is_registered_once(asleep: Workshop) -> None:
    asleep.store.register_driver("timed", Timed)

    with pytest.raises(BadDriver, match='overriding registered driver "timed"'):
        asleep.store.register_driver("timed", Driver)
    with pytest.raises(BadDriver, match='overriding registered driver "fifo"'):
        asleep.store.register_driver("fifo", Driver)
