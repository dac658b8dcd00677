"""Operations on tubes whose kinds are drivers', as calls of these.

Called by   tube_operations.py, tube_looks.py (every operation on such a tube), tubes.py (its time,
            its sessions), store.py (opens, registers, closes).
Calls       driver_seat.py (one driver at work), drivers/registry.py (which there are).

The store knows which session has taken a task, and drivers do not: an ack, a release or a touch by
another session never reaches the driver. Nor does an id that does not exist.

A tube whose driver is not registered is asleep: it is not asked anything, and its tasks are kept.
The same holds if the driver could not begin, but then the error says why.

Not here: what becomes of a driver's rows (driver_events.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quinque.drivers.registry import Drivers
from quinque.drivers.space import BURIED, ID, STATE, TAKEN, Row
from quinque.engine.tubes import decide
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube, let_go
from quinque.errors import BadRequest, DriverMissing, QuinqueError
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.tube_ops import (
    NO_LANE,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    KickTasks,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskView,
    TouchTasks,
    TruncateTube,
    TubeSettings,
)
from quinque.stores.embedded.driver_events import Call
from quinque.stores.embedded.driver_seat import REST_MS, Seat, unpacked
from quinque.stores.embedded.tubes import Tubes

log = logging.getLogger("quinque.drivers")

Runner = Callable[[Seat, Any, int], Any]


class DriverOperations:
    def __init__(self, tubes: Tubes, drivers: Drivers) -> None:
        self._tubes = tubes
        self._drivers = drivers
        self._seats: dict[bytes, Seat] = {}
        # When a driver last could not begin, and why: reading its rows again may take long.
        self._refused: dict[bytes, tuple[int, QuinqueError]] = {}
        self._runners: dict[type, Runner] = {
            PutTasks: _put,
            TakeTasks: _take,
            AckTasks: _ack,
            ReleaseTasks: _release,
            TouchTasks: _touch,
            PeekTasks: _peek,
            BuryTasks: _bury,
            DeleteTasks: _delete,
            KickTasks: _kick,
            ReturnTasks: _taken,
            TruncateTube: _truncate,
        }

    # -- drivers come and go -------------------------------------------------------------------

    def knows(self, kind: bytes) -> bool:
        """Whether a driver has that name."""
        return self._drivers.get(kind) is not None

    def register(self, name: str, driver: Any) -> None:
        """Tubes of that kind have a driver, and begin to work. Raises BadDriver."""
        self._drivers.register(name, driver)
        self.wake_all()

    def wake_all(self) -> None:
        """All tubes whose drivers are there are at work; what keeps one from it is in the log."""
        now_ms = self._tubes.begin()
        for tube in self._tubes.all():
            if tube.is_driven and self.knows(tube.kind.name) and tube.name not in self._seats:
                try:
                    self._seat(tube, now_ms)
                except QuinqueError as exc:
                    log.error(
                        "cannot start the driver of tube %s: %s",
                        tube.name.decode("utf-8", "replace"),
                        exc,
                    )
                else:
                    self._tubes.books.ready.add(tube.name)
                self._tubes.books.set_alarm(tube)

    def close(self) -> None:
        """Tell the drivers that the broker stops."""
        for seat in self._seats.values():
            seat.stop()

    def make(self, tube: Tube, kind: bytes, settings: TubeSettings) -> None:
        """Give the tube, which is not yet journaled, a driver of that kind, which has not begun.

        Raises DriverFailed, and whatever the driver refuses the tube's options with.
        """
        maker = self._drivers.get(kind)
        assert maker is not None, "tubes are made of kinds that are there"
        self._refused.pop(tube.name, None)
        seat = Seat(self._tubes, tube, maker, kind, settings)
        seat.sit_down()
        self._seats[tube.name] = seat

    def start(self, tube: Tube, now_ms: int) -> None:
        """Start the driver of the tube, which is journaled. Its failure is logged."""
        try:
            self._seats[tube.name].start(now_ms)
        except QuinqueError as exc:
            log.error(
                "cannot start the driver of tube %s: %s", tube.name.decode("utf-8", "replace"), exc
            )

    def drop(self, tube: Tube) -> None:
        """The tube is about to go."""
        self._refused.pop(tube.name, None)
        seat = self._seats.pop(tube.name, None)
        if seat is not None:
            seat.drop(self._tubes.books.at_ms)

    # -- drivers work ----------------------------------------------------------------------------

    def run(self, tube: Tube, op: Op, now_ms: int) -> Any:
        """As the operation says. Raises DriverFailed too."""
        return self._run(self._runners[type(op)], tube, op, now_ms)

    def give_back(self, tube: Tube, tasks: Sequence[Task], now_ms: int) -> None:
        """Make the tasks, which are taken, ready. Raises DriverFailed."""
        self._run(_give_back, tube, tasks, now_ms)

    def _run(self, work: Runner, tube: Tube, what: Any, now_ms: int) -> Any:
        seat = self._seat(tube, now_ms)
        try:
            return work(seat, what, now_ms)
        finally:
            seat.set_soonest()
            self._tubes.books.set_alarm(tube)

    def settle(self, tube: Tube, now_ms: int, most: int) -> None:
        """Carry out what is due, and set `tube.soonest_ms` to when something is due next."""
        try:
            seat = self._seat(tube, now_ms)
        except QuinqueError:
            tube.set_soonest()
        else:
            seat.settle(now_ms)

    def release(self, tube: Tube, tasks: Sequence[Task], now_ms: int) -> None:
        """Make the tasks of ended sessions ready. If the driver cannot be asked now, they stay
        taken without a session until it can."""
        seat = self._seats.get(tube.name)
        if seat is None or seat.driver is None:
            for task in tasks:
                let_go(task)
        else:
            seat.release(tasks, now_ms)
            self._tubes.books.set_alarm(tube)

    def _seat(self, tube: Tube, now_ms: int) -> Seat:
        """The driver of the tube, at work. Raises DriverMissing, DriverFailed."""
        seat = self._seats.get(tube.name)
        if seat is not None and seat.tube is tube and seat.driver is not None:
            return seat
        failed_ms, refusal = self._refused.get(tube.name, (0, None))
        if refusal is not None and failed_ms <= now_ms < failed_ms + REST_MS:
            try:
                # Each raise would add its frames, with all they hold, to those of the last.
                raise refusal.with_traceback(None)
            finally:
                del refusal  # or the frame would hold the error, and the error the frame
        try:
            if seat is None or seat.tube is not tube:
                seat = self._sit_down(tube)
            seat.start(now_ms)
        except QuinqueError as exc:
            self._refused[tube.name] = now_ms, exc
            raise
        self._refused.pop(tube.name, None)
        return seat

    def _sit_down(self, tube: Tube) -> Seat:
        maker = self._drivers.get(tube.kind.name)
        if maker is None:
            raise DriverMissing(tube.name, tube.kind.name)
        seat = Seat(self._tubes, tube, maker, tube.kind.name, tube.settings)
        self._seats[tube.name] = seat
        return seat


# -- one function per operation ------------------------------------------------------------------


def _put(seat: Seat, op: PutTasks, now_ms: int) -> list[TaskView]:
    terms = op.terms
    options = dict(unpacked(terms.options))
    _add_spans(options, ttl=terms.ttl_ms, ttr=terms.ttr_ms, delay=terms.delay_ms or None)
    if terms.pri is not None:
        options.setdefault("pri", terms.pri)
    if terms.lane != NO_LANE:
        options.setdefault("utube", terms.lane)

    def work() -> list[TaskView]:
        views: list[TaskView] = []
        for body in op.bodies:
            task = seat.driver.put(body, options)
            if task is None:
                break
            views.append(seat.view(task))
        return views

    return seat.call("put", now_ms, work)


def _take(seat: Seat, op: TakeTasks, now_ms: int) -> list[TaskView]:
    if op.lane is not None:
        raise BadRequest("the driver chooses the tasks to take: its tubes have no lanes")
    call = Call(session=op.session)

    def work() -> list[TaskView]:
        views: list[TaskView] = []
        room_bytes = RESERVE_MOST_BYTES
        while len(views) < min(op.count, RESERVE_MOST) and room_bytes > 0:
            task = seat.driver.take()
            if task is None:
                break
            view = seat.view(task)
            if view.state != State.LEASED:
                raise ValueError(f"take() returned task {task[ID]}, which is not taken")
            call.taken.append(task[ID])
            views.append(view)
            room_bytes -= len(view.body)
        return views

    return seat.call("take", now_ms, work, call)


def _ack(seat: Seat, op: AckTasks, now_ms: int) -> list[TaskView | None]:
    ids = [_held(seat, id, op.session, now_ms) for id in op.message_ids]
    return _remove(seat, ids, now_ms, Call(is_ack=True), is_taken=True)


def _delete(seat: Seat, op: DeleteTasks, now_ms: int) -> list[TaskView | None]:
    ids = [_there(seat, id) for id in op.message_ids]
    return _remove(seat, ids, now_ms, Call(), is_taken=False)


def _remove(
    seat: Seat, ids: Sequence[int | None], now_ms: int, call: Call, *, is_taken: bool
) -> list[TaskView | None]:
    def remove(id: int, was: Row) -> TaskView:
        task = seat.driver.delete(id)
        return seat.view((id,) if task is None else task, was)

    return _each(seat, "delete", ids, now_ms, remove, call, is_taken=is_taken)


def _release(seat: Seat, op: ReleaseTasks, now_ms: int) -> list[TaskView | None]:
    options = dict(unpacked(op.options))
    _add_spans(options, ttl=op.ttl_ms, delay=op.delay_ms or None)
    if op.pri is not None:
        options.setdefault("pri", op.pri)
    if op.body is not None:
        options.setdefault("data", op.body)
    ids = [_held(seat, id, op.session, now_ms) for id in op.message_ids]
    return _each(
        seat,
        "release",
        ids,
        now_ms,
        lambda id, was: seat.view(seat.driver.release(id, options) or was, was),
        is_taken=True,
    )


def _touch(seat: Seat, op: TouchTasks, now_ms: int) -> list[TaskView | None]:
    if op.by_ms <= 0:
        return [None] * len(op.message_ids)
    ids = [_held(seat, id, op.session, now_ms) for id in op.message_ids]
    return _each(
        seat,
        "touch",
        ids,
        now_ms,
        lambda id, was: seat.view(seat.driver.touch(id, op.by_ms) or was, was),
        is_taken=True,
    )


def _peek(seat: Seat, op: PeekTasks, now_ms: int) -> list[TaskView | None]:
    def peek(id: int, was: Row) -> TaskView | None:
        task = seat.driver.peek(id)
        return None if task is None else seat.view(task, was)

    ids = [_there(seat, id) for id in op.message_ids]
    return _each(seat, "peek", ids, now_ms, peek)


def _bury(seat: Seat, op: BuryTasks, now_ms: int) -> list[TaskView | None]:
    def bury(id: int, was: Row) -> TaskView:
        if was[STATE] == BURIED:
            return seat.view(was)
        return seat.view(seat.driver.bury(id) or was, was)

    ids = [_there(seat, id) for id in op.message_ids]
    return _each(seat, "bury", ids, now_ms, bury)


def _kick(seat: Seat, op: KickTasks, now_ms: int) -> int:
    ids = op.message_ids
    if ids is not None:
        return _kick_each(seat, [_there(seat, id) for id in dict.fromkeys(ids)], now_ms)
    return seat.call("kick", now_ms, lambda: int(seat.driver.kick(max(0, op.count))))


def _kick_each(seat: Seat, ids: Sequence[int | None], now_ms: int) -> int:
    if not callable(getattr(seat.driver, "kick_task", None)):
        raise BadRequest("the driver of this tube has no kick_task: it can kick only by count")

    def kick(id: int, was: Row) -> TaskView | None:
        task = seat.driver.kick_task(id) if was[STATE] == BURIED else None
        return None if task is None else seat.view(task, was)

    return sum(view is not None for view in _each(seat, "kick", ids, now_ms, kick))


def _taken(seat: Seat, op: ReturnTasks, now_ms: int) -> list[Any]:
    """The tasks that the driver says are taken."""
    by_id = seat.tube.directory.by_id

    def work() -> list[Any]:
        return [by_id[b"%d" % row[ID]] for row in seat.driver.tasks_by_state(TAKEN)]

    return seat.call("tasks_by_state", now_ms, work)


def _give_back(seat: Seat, tasks: Sequence[Task], now_ms: int) -> None:
    def work() -> None:
        for task in tasks:
            seat.driver.release(int(task.id), {})

    seat.call("release", now_ms, work, Call(is_session_over=True))


def _truncate(seat: Seat, op: TruncateTube, now_ms: int) -> int:
    def work() -> int:
        count = len(seat.space)
        seat.driver.truncate()
        return count - len(seat.space)

    return seat.call("truncate", now_ms, work, Call(is_truncation=True))


# -- shared steps --------------------------------------------------------------------------------


def _each(
    seat: Seat,
    word: str,
    ids: Sequence[int | None],
    now_ms: int,
    work: Callable[[int, Row], TaskView | None],
    call: Call | None = None,
    *,
    is_taken: bool = False,
) -> list[TaskView | None]:
    """For each id that is there, and is taken if it must be, what `work` makes of it. All of them
    are one call."""
    work_on = partial(_work_on, seat, work, is_taken)
    return seat.call(word, now_ms, lambda: [work_on(id) for id in ids], call)


def _work_on(
    seat: Seat, work: Callable[[int, Row], TaskView | None], is_taken: bool, id: int | None
) -> TaskView | None:
    row = None if id is None else seat.space.get(id)
    if id is None or row is None or (is_taken and row[STATE] != TAKEN):
        return None
    return work(id, row)


def _there(seat: Seat, id: bytes) -> int | None:
    return int(id) if id in seat.tube.directory.by_id else None


def _held(seat: Seat, id: bytes, session: bytes, now_ms: int) -> int | None:
    """The task's number, if the session has taken it."""
    return None if decide.held(seat.tube, session, id, now_ms) is None else int(id)


def _add_spans(options: dict[str, Any], **spans_ms: int | None) -> None:
    """Spans that were said, in seconds, as in Tarantool, where the options do not have them."""
    for name, span_ms in spans_ms.items():
        if span_ms is not None:
            options.setdefault(name, span_ms / 1000)
