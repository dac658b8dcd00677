"""A driver that fails: whoever asked gets one error, nothing changed, and the broker goes on."""

from __future__ import annotations

import errno
import gc
import logging
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import pytest

from quinque.drivers import Driver, Row
from quinque.drivers.driver import Options
from quinque.errors import BadArgument, BadDriver, DiskFull, DriverFailed, NoTube
from quinque.model.tube_ops import DropTube, FindTubes, LeaveSession, PutTasks, TaskTerms
from quinque.stores.embedded import driver_seat
from tests.drivers.odd_drivers import Clumsy, Deaf, Late, Timed
from tests.drivers.workshop import ME, TUBE, YOU, Workshop

Workshops = Callable[..., Workshop]


@pytest.fixture
def clumsy(workshop: Workshops) -> Workshop:
    class Mine(Clumsy):
        """Of this test alone."""

    return workshop(clumsy=Mine)


def _made(clumsy: Workshop) -> int:
    made: int = clumsy.drivers["clumsy"].made
    return made


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"raise", "put: KeyError: 'nothing'"),
        (b"exit", "put: SystemExit: enough"),
        (b"taken", "task 1 has no session"),
        (b"no state", "'x' is not a state of a row"),
        (b"unkeepable", "put: TypeError"),
        (b"large", "put: OverflowError"),
        (b"no event", "unknown event 'blink'"),
        (b"no task", "is not a task"),
    ],
)
def test_nothing_stays_of_a_call_that_fails(
    clumsy: Workshop, caplog: pytest.LogCaptureFixture, data: bytes, why: str
) -> None:
    clumsy.put(b"before")
    clumsy.store.commit()
    written = clumsy.store.journal.total_bytes

    with pytest.raises(DriverFailed, match=f"^driver 'clumsy' failed: .*{why}"):
        clumsy.put(data)

    clumsy.store.commit()
    assert clumsy.store.journal.total_bytes == written
    assert clumsy.all() == [(0, "r", b"before")]
    assert clumsy.calls() == {"put": 1}
    assert "Traceback" in caplog.text
    assert clumsy.put(b"after") == (1, "r", b"after")


def test_an_instance_that_failed_is_replaced_and_one_that_refused_is_not(
    clumsy: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    made = _made(clumsy)

    with pytest.raises(BadArgument, match="not that"):
        clumsy.put(b"refuse")

    assert _made(clumsy) == made
    assert caplog.text == ""
    with pytest.raises(DriverFailed):
        clumsy.put(b"raise")
    assert _made(clumsy) == made + 1
    assert clumsy.all() == []


def test_of_several_bodies_all_are_put_or_none(clumsy: Workshop) -> None:
    with pytest.raises(DriverFailed):
        clumsy.put_all(b"a", b"b", b"raise", b"c")

    assert clumsy.all() == []
    assert clumsy.put_all(b"a", b"b") == [(0, "r", b"a"), (1, "r", b"b")]


def test_a_task_that_is_not_given_is_not_taken(clumsy: Workshop) -> None:
    clumsy.put_all(b"a", b"untakeable")

    with pytest.raises(DriverFailed, match="take: ZeroDivisionError"):
        clumsy.take_all(2)

    assert clumsy.look().taken == 0
    assert clumsy.take() == (0, "t", b"a")
    clumsy.delete(1)
    clumsy.put(b"not taken")
    with pytest.raises(DriverFailed, match="returned task 2, which is not taken"):
        clumsy.take()


def test_a_full_disk_leaves_rows_and_tasks_as_they_were(
    clumsy: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    clumsy.put(b"before")
    clumsy.store.commit()

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskFull):
        clumsy.put(b"x" * (8 << 20))

    assert clumsy.all() == [(0, "r", b"before")]
    assert clumsy.take() == (0, "t", b"before")  # there is room for that
    assert clumsy.ack(0) == (0, "-", b"before")
    monkeypatch.undo()
    assert clumsy.put(b"after") == (1, "r", b"after")
    clumsy.reopen()
    assert clumsy.all() == [(1, "r", b"after")]


def test_a_tube_whose_options_are_refused_is_not_made(workshop: Workshops) -> None:
    shop = workshop(plain=Driver, clumsy=Clumsy)
    shop.store.run(DropTube(TUBE))

    with pytest.raises(BadArgument, match="no tube like that"):
        shop.make("clumsy", refuse=1)
    with pytest.raises(DriverFailed, match="new: LookupError: no tube at all"):
        shop.make("clumsy", fail=1)

    assert shop.store.run(FindTubes()) == []
    shop.reopen()
    assert shop.store.run(FindTubes()) == []
    with pytest.raises(NoTube):
        shop.put(b"a")


def test_a_session_ends_though_the_driver_fails_and_its_tasks_come_back_later(
    clumsy: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    clumsy.put_all(b"unreleasable", b"a")
    clumsy.take_all(2, YOU)

    clumsy.store.run(LeaveSession(YOU))

    assert clumsy.all() == [(0, "t", b"unreleasable"), (1, "r", b"a")]
    assert clumsy.ack(0, YOU) is None  # it is nobody's
    clumsy.store.commit()
    assert clumsy.store.next_due_ms() > clumsy.store.now_ms()
    clumsy.pass_time(driver_seat.REST_MS)
    assert clumsy.look().taken == 1
    clumsy.drivers["clumsy"].is_mended = True
    clumsy.pass_time(driver_seat.REST_MS)
    assert clumsy.all() == [(0, "r", b"unreleasable"), (1, "r", b"a")]
    assert "not this one either" in caplog.text


def test_a_driver_whose_time_is_always_past_does_not_keep_the_broker_busy(
    workshop: Workshops, caplog: pytest.LogCaptureFixture
) -> None:
    shop = workshop(late=Late)
    shop.put(b"a")

    shop.store.commit()
    assert shop.store.next_due_ms() >= shop.store.now_ms() + driver_seat.REST_MS - 1
    assert shop.take() == (0, "t", b"a")
    assert "changed nothing, and next_event_ms() is in the past" in caplog.text


def test_a_driver_that_fails_when_its_time_comes_is_asked_again(
    workshop: Workshops, caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(Timed):
        is_well = False

        def on_time(self, now_ms: int) -> None:
            super().on_time(now_ms)
            if not self.is_well:
                raise OSError("not today")

    shop = workshop(moody=Moody)
    shop.put(b"a", delay=1)
    shop.pass_time(1000)
    assert shop.all() == [(0, "~", b"a")]
    assert "not today" in caplog.text

    Moody.is_well = True
    shop.pass_time(driver_seat.REST_MS)

    assert shop.all() == [(0, "r", b"a")]


def test_a_driver_that_cannot_begin_says_why_and_its_tasks_are_kept(workshop: Workshops) -> None:
    class Picky(Driver):
        is_well = True

        def start(self) -> None:
            if not self.is_well:
                raise ValueError("not with these rows")

    shop = workshop(picky=Picky)
    shop.put_all(b"a", b"b")
    shop.take()
    Picky.is_well = False
    shop.reopen()

    with pytest.raises(DriverFailed, match="start: ValueError: not with these rows"):
        shop.put(b"c")
    view = shop.look()
    assert (view.ready, view.taken) == (1, 1)
    shop.store.run(LeaveSession(ME))

    Picky.is_well = True
    shop.clock.advance(driver_seat.REST_MS)
    assert shop.all() == [(0, "r", b"a"), (1, "r", b"b")]
    shop.reopen()
    assert shop.all() == [(0, "r", b"a"), (1, "r", b"b")]


def test_a_driver_that_refuses_to_begin_is_not_at_work(workshop: Workshops) -> None:
    class Shy(Driver):
        is_well = True

        def start(self) -> None:
            if not self.is_well:
                raise BadArgument("not now")

    shop = workshop(shy=Shy)
    shop.put(b"a")
    Shy.is_well = False
    shop.reopen()

    for _ in range(2):
        with pytest.raises(BadArgument, match="not now"):
            shop.put(b"b")

    Shy.is_well = True
    shop.clock.advance(driver_seat.REST_MS)
    assert shop.all() == [(0, "r", b"a")]


def test_options_that_are_no_map_are_refused(workshop: Workshops) -> None:
    shop = workshop(plain=Driver)

    for options in (b"\xc1", msgpack.packb([1])):
        with pytest.raises(BadArgument, match="options of a driver must be a map"):
            shop.store.run(PutTasks(TUBE, [b"a"], TaskTerms(options=options)))
    assert shop.all() == []


def test_rows_that_an_index_refuses_keep_the_tube_from_waking(workshop: Workshops) -> None:
    shop = workshop(plain=Driver)
    shop.put_all(b"a", b"a")

    class Only(Driver):
        @classmethod
        def create_space(cls, name: str, options: Options) -> Any:
            space = super().create_space(name, options)
            space.create_index("data", (2,), is_unique=True)
            return space

    shop.drivers["plain"] = Only
    shop.reopen()
    with pytest.raises(DriverFailed, match="'data' is unique"):
        shop.peek(0)

    shop.drivers["plain"] = Driver
    shop.reopen()
    assert shop.all() == [(0, "r", b"a"), (1, "r", b"a")]


def test_what_a_driver_says_when_it_stops_or_goes_is_in_the_log(
    workshop: Workshops, caplog: pytest.LogCaptureFixture
) -> None:
    class Loud(Driver):
        def stop(self) -> None:
            raise OSError("I do not stop")

        def drop(self) -> None:
            self.space.truncate()
            raise OSError("I do not go")

    shop = workshop(loud=Loud)
    shop.put(b"a")
    shop.reopen()
    assert "I do not stop" in caplog.text
    shop.store.run(DropTube(TUBE))
    assert "I do not go" in caplog.text
    assert shop.store.run(FindTubes()) == []


def test_a_maker_whose_drivers_lack_something_is_found_out_when_a_tube_is_made(
    workshop: Workshops,
) -> None:
    class Factory:
        def create_space(self, name: str, options: Options) -> Any:
            return Driver.create_space(name, options)

        def new(self, *args: Any) -> Any:
            return Deaf()

    shop = workshop(plain=Driver, factory=Factory())
    shop.store.run(DropTube(TUBE))

    with pytest.raises(
        BadDriver, match='The "factory" driver does not have an implementation of method "norm'
    ):
        shop.make("factory")


def test_what_normalize_task_gives_is_checked(workshop: Workshops) -> None:
    class Terse(Driver):
        def normalize_task(self, task: Row) -> Any:
            return task[:2]

    shop = workshop(terse=Terse)

    with pytest.raises(DriverFailed, match=r"instead of \(id, state, bytes"):
        shop.put(b"a")

    assert shop.look().ready == 0


def test_the_log_names_the_driver_once_per_failure(
    clumsy: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DriverFailed):
        clumsy.put(b"raise")

    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == ["driver clumsy failed in put"]


def test_requests_for_a_driver_that_cannot_begin_are_not_kept(workshop: Workshops) -> None:
    """The cycle collector of a broker is off. The last of them may still be known."""

    class Picky(Driver):
        is_well = True

        def start(self) -> None:
            if not self.is_well:
                raise ValueError("not with these rows")

    shop = workshop(picky=Picky)
    Picky.is_well = False
    shop.reopen()
    asked = []
    gc.disable()
    try:
        for _ in range(5):
            op = PutTasks(TUBE, [b"a"], TaskTerms())
            asked.append(weakref.ref(op))
            with suppress(DriverFailed):
                shop.store.run(op)
            del op

        assert [known() for known in asked[:-1]] == [None] * 4
    finally:
        gc.enable()
