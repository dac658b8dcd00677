"""Operations that change tubes and their tasks: settle, decide, append, apply.

Called by   store.py.
Calls       tubes.py (finds, settles, changes), engine/tubes/ (rules).

Operations on tubes of drivers are passed to them.

Not here: operations that only look (tube_looks.py), sessions (session_operations.py), drivers
(driver_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from typing import Any, Final

from quinque.engine.tubes import decide
from quinque.engine.tubes.apply import APPLY, apply_taken
from quinque.engine.tubes.due import is_due, is_over
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.errors import BadRequest, NoKind, TubeBusy, TubeExists
from quinque.model.events import FLUSHED, FORGOTTEN, Flushed, Forgotten, WorkEvent
from quinque.model.limits import (
    RESERVE_MOST,
    RESERVE_MOST_BYTES,
    SETTLE_MOST,
    SETTLE_MOST_COUNTING,
)
from quinque.model.states import State
from quinque.model.tube_events import BY_KICK, BY_RELEASE, BY_SESSION
from quinque.model.tube_ops import (
    KIND_NAMES,
    KINDS,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    KickTasks,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskView,
    TouchTasks,
    TruncateTube,
)
from quinque.model.tube_terms import refuse_unknown_terms
from quinque.stores.embedded.books import ASIDE_MOST
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.tubes import Tubes
from quinque.stores.pending import Pending

_READY: Final = State.READY
_LEASED: Final = State.LEASED


class TubeOperations:
    def __init__(self, tubes: Tubes) -> None:
        self._books = tubes.books
        self._tubes = tubes
        self.runners: dict[type, Callable[[Any], Any]] = {
            MakeTube: self._make,
            DropTube: self._drop,
            PutTasks: self._put,
            TakeTasks: self._take,
            AckTasks: self._ack,
            ReleaseTasks: self._release,
            TouchTasks: self._touch,
            BuryTasks: self._bury,
            DeleteTasks: self._delete,
            KickTasks: self._kick,
            ReturnTasks: self._return,
            TruncateTube: self._truncate,
        }

    # -- tubes -------------------------------------------------------------------------------

    def _make(self, op: MakeTube) -> bool:
        tubes = self._tubes
        now_ms = tubes.begin()
        found = tubes.find(op.queue, now_ms)
        if found is not None and op.is_idempotent and found.kind.name:
            return False
        drivers = tubes.drivers
        if op.kind not in KINDS and (drivers is None or not drivers.knows(op.kind)):
            raise NoKind(op.kind, KIND_NAMES)
        if found is not None and found.kind.name:
            raise TubeExists(op.queue)
        # One without a kind is what is left where the record of it was damaged: it has its tasks.
        tube = found or Tube(op.queue, tubes.sessions, now_ms)
        tube.order = tubes.newest_order + 1
        if drivers is not None and op.kind not in KINDS:
            drivers.make(tube, op.kind, op.settings)
        event = decide.tube_kept(tube)._replace(tube_kind=op.kind, settings=astuple(op.settings))
        tubes.journal.append(event, SPARE_BYTES)
        APPLY[event.kind](tube, event)
        tubes.newest_order = tube.order
        tube.segment = tubes.journal.segment
        if found is None:
            self._books.keep(tube)
        tube.set_soonest()
        if drivers is not None and tube.is_driven:
            drivers.start(tube, now_ms)
        self._books.set_alarm(tube)
        return True

    def _drop(self, op: DropTube) -> bool:
        tubes = self._tubes
        now_ms = tubes.begin()
        tube = tubes.known(op.queue, now_ms, SETTLE_MOST_COUNTING)
        if next(self._taken(tube, now_ms), None) is not None:
            raise TubeBusy("There are taken tasks in the tube")
        if tubes.drivers is not None and tube.is_driven and not tubes.is_asleep(tube):
            tubes.drivers.drop(tube)
        self._forget(tube)
        self._books.wake_all(op.queue)  # also puts that wait for room
        return True

    def _truncate(self, op: TruncateTube) -> int:
        tube, now_ms = self._find(op.queue, SETTLE_MOST_COUNTING)
        if tube.is_driven:
            count: int = self._tubes.driver_of(tube).run(tube, op, now_ms)
            return count
        living = 0
        if tube.size or tube.number:
            living = self._tubes.carry(tube, [Flushed(FLUSHED, tube.name)])
            tube.set_soonest()
        return living

    # -- tasks -------------------------------------------------------------------------------

    def _put(self, op: PutTasks) -> list[TaskView]:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        if op.is_strict:
            refuse_unknown_terms(op, tube.kind.name)
        while tube.is_full and tube.expiries.next_ms <= now_ms:  # what is over is not counted
            self._tubes.settle(tube, now_ms, SETTLE_MOST_COUNTING)
        number = tube.number
        events = decide.put(tube, op.bodies, op.terms, now_ms)
        if not events:
            return []
        self._tubes.put(tube, events, SPARE_BYTES)
        state = State.DELAYED if events[0].delay_ms else _READY
        count = tube.number - number
        bodies = op.bodies if count == len(op.bodies) else op.bodies[:count]
        return [TaskView(b"%d" % at, state, body) for at, body in enumerate(bodies, number)]

    def _take(self, op: TakeTasks) -> list[TaskView]:
        books, name = self._books, op.queue
        was_ready = name in books.ready
        tube, now_ms = self._find(name)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        if op.is_strict:
            refuse_unknown_terms(op, tube.kind.name)
        count = len(op.sessions) or op.count
        for _ in range(ASIDE_MOST):
            tasks = self._tubes.to_take(tube, min(count, RESERVE_MOST), op.lane, now_ms)
            if not tasks or books.is_for_others(name, was_ready, op.lane):
                break
            bodies = self._books.read_or_set_aside(tube, tasks, RESERVE_MOST_BYTES)
            if not bodies:
                continue
            tasks = tasks[: len(bodies)]
            sessions = list(op.sessions[: len(tasks)]) or [op.session]
            event = decide.take(tube, sessions, tasks, now_ms)
            self._tubes.append(tube, event)
            apply_taken(tube, event)
            self._books.set_alarm(tube)
            return [
                TaskView(task.id, _LEASED, body) for task, body in zip(tasks, bodies, strict=True)
            ]
        self._books.set_alarm(tube)
        return []

    def _ack(self, op: AckTasks) -> list[TaskView | None]:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        sessions = op.sessions or [op.session] * len(op.message_ids)
        done: dict[bytes, None] = {}
        views: list[TaskView | None] = []
        for id, session in zip(op.message_ids, sessions, strict=True):
            task = decide.held(tube, session, id, now_ms)
            if task is None or id in done:
                views.append(None)
            else:
                done[id] = None
                body = task.body
                views.append(
                    TaskView(id, None, body if body is not None else self._tubes.body_of(task))
                )
        if done:
            self._tubes.carry(tube, [decide.ack(tube, list(done))])
        return views

    def _release(self, op: ReleaseTasks) -> list[TaskView | None]:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        if op.is_strict:
            refuse_unknown_terms(op, tube.kind.name)
        tasks = self._held(tube, op.session, op.message_ids, now_ms)
        if not tasks:
            return [None] * len(op.message_ids)
        views = self._views(tasks, _READY)
        events: list[WorkEvent] = []
        if op.body is not None or tube.kind.has_times:
            for task in tasks:
                event = decide.change(tube, op, task, views[task.id].body, now_ms)
                if event is not None:
                    if op.body is None:  # its data is written again, and must not be a stand-in
                        event = event._replace(body=self._books.bodies.of(task))
                    events.append(event)
                    views[task.id].body = event.body
        returned = decide.come_back(tube, list(views), BY_RELEASE, now_ms, op.delay_ms)
        self._tubes.carry(tube, [*events, returned])
        if tube.soonest_ms <= now_ms:  # what returns when its time to live is over is gone at once
            self._tubes.settle(tube, now_ms, SETTLE_MOST_COUNTING)
        for view in views.values():
            if view.message_id not in tube.directory.by_id:
                view.state = None
            elif returned.delay_ms:
                view.state = State.DELAYED
        return _each_once(op.message_ids, views)

    def _touch(self, op: TouchTasks) -> list[TaskView | None]:
        tube, now_ms = self._find(op.queue)
        if op.by_ms <= 0:
            return [None] * len(op.message_ids)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        tasks = self._held(tube, op.session, op.message_ids, now_ms)
        views = self._views(tasks, _LEASED)
        if views:
            self._tubes.carry(tube, [decide.touch(tube, list(views), op.by_ms)])
        return _each_once(op.message_ids, views)

    def _bury(self, op: BuryTasks) -> list[TaskView | None]:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        views = self._views(self._living(tube, op.message_ids, now_ms), State.DEAD)
        event = decide.bury(tube, list(views), now_ms)
        if event is not None:
            self._tubes.carry(tube, [event])
        return [views.get(id) for id in op.message_ids]

    def _delete(self, op: DeleteTasks) -> list[TaskView | None]:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            return self._driven(tube, op, now_ms)
        views = self._views(self._living(tube, op.message_ids, now_ms), None)
        if views:
            self._tubes.carry(tube, [decide.delete(tube, list(views))])
        return _each_once(op.message_ids, views)

    def _kick(self, op: KickTasks) -> int | Pending:
        tube, now_ms = self._find(op.queue)
        if tube.is_driven:
            kicked: int = self._tubes.driver_of(tube).run(tube, op, now_ms)
            return kicked
        if op.message_ids is not None:
            living = self._living(tube, op.message_ids, now_ms)
            ids = [task.id for task in living if task.state == State.DEAD]
            if ids:
                self._tubes.carry(tube, [decide.come_back(tube, ids, BY_KICK, now_ms)])
            return len(ids)
        buried = tube.dead.living(min(max(0, op.count), tube.dead.size), now_ms)
        return self._books.sliced.do(buried, lambda some: self._kick_some(tube, some))

    def _kick_some(self, tube: Tube, tasks: list[WorkMessage]) -> int:
        """Make those of the tasks that are buried still ready; return how many these are."""
        now_ms = self._books.at_ms
        ids = [
            task.id
            for task in tasks
            if task.state == State.DEAD
            and tube.find(task.id) is task
            and not is_over(tube, task, now_ms)
        ]
        if ids:
            self._tubes.carry(tube, [decide.come_back(tube, ids, BY_KICK, now_ms)])
        return len(ids)

    def _return(self, op: ReturnTasks) -> int | Pending:
        tube, now_ms = self._find(op.queue, SETTLE_MOST_COUNTING)
        if tube.is_driven:
            taken: list[Task] = self._tubes.driver_of(tube).run(tube, op, now_ms)
        else:
            taken = [task for held in self._tubes.held() for task in held if task.queue is tube]
        times = [(task, task.deliveries) for task in taken]
        return self._books.sliced.do(times, lambda some: self._return_some(tube, some))

    def _return_some(self, tube: Tube, taken: list[tuple[Task, int]]) -> int:
        """Make those of the tasks ready that are taken still, and were not taken again since that
        many deliveries; return how many these are."""
        now_ms = self._books.at_ms
        still = [
            task
            for task, deliveries in taken
            if task.state == _LEASED
            and task.deliveries == deliveries
            and tube.find(task.id) is task
            and not is_due(tube, task, now_ms)
            and not is_over(tube, task, now_ms)
        ]
        still.sort(key=lambda task: task.place)
        if still and tube.is_driven:
            self._tubes.driver_of(tube).give_back(tube, still, now_ms)
        elif still:
            ids = [task.id for task in still]
            self._tubes.carry(tube, [decide.come_back(tube, ids, BY_SESSION, now_ms)])
            if tube.soonest_ms <= now_ms:
                self._tubes.settle(tube, now_ms, SETTLE_MOST)
        return len(still)

    # -- shared steps ------------------------------------------------------------------------

    def _forget(self, tube: Tube) -> None:
        """Remove the tube, and journal that, also for a temporary tube."""
        event = Forgotten(FORGOTTEN, tube.name)
        self._tubes.journal.append(event)
        self._tubes.apply(tube, event)
        self._books.drop(tube)

    def _find(self, name: bytes, most: int = 0) -> tuple[Tube, int]:
        """The tube as it is now, and the time. Raises NoTube, WrongType."""
        now_ms = self._tubes.begin()
        if most:
            return self._tubes.known(name, now_ms, most), now_ms
        return self._tubes.known(name, now_ms), now_ms

    def _driven(self, tube: Tube, op: Any, now_ms: int) -> list[Any]:
        """The result of the tube's driver for the operation. Raises DriverMissing."""
        if isinstance(op, TakeTasks | AckTasks) and op.sessions:
            raise BadRequest("a driver hands out and is acked for one session at a time")
        done: list[Any] = self._tubes.driver_of(tube).run(tube, op, now_ms)
        return done

    def _held(
        self, tube: Tube, session: bytes, ids: Sequence[bytes], now_ms: int
    ) -> Sequence[Task]:
        """Return those of the tasks that the session has taken, each once."""
        found: list[Task] = []
        for id in ids if len(ids) == 1 else dict.fromkeys(ids):
            task = decide.held(tube, session, id, now_ms)
            if task is not None:
                found.append(task)
        return found

    def _living(self, tube: Tube, ids: Sequence[bytes], now_ms: int) -> Sequence[Task]:
        """Return those of the tasks that are not over, each once."""
        found = [self._tubes.living(tube, id, now_ms) for id in dict.fromkeys(ids)]
        return [task for task in found if task is not None]

    def _taken(self, tube: Tube, now_ms: int) -> Iterator[Task]:
        """The tasks that are taken, in no order."""
        if not tube.leased:
            return
        for held in self._tubes.held():
            for task in held:
                if (
                    task.queue is tube
                    and not task.is_gone
                    and not is_due(tube, task, now_ms)
                    and not is_over(tube, task, now_ms)
                ):
                    yield task

    def _views(self, tasks: Sequence[Task], state: State | None) -> dict[bytes, TaskView]:
        """The tasks as they are about to be, by id."""
        body_of = self._tubes.body_of
        return {
            task.id: TaskView(task.id, state, task.body if task.body is not None else body_of(task))
            for task in tasks
        }


def _each_once(ids: Sequence[bytes], views: dict[bytes, TaskView]) -> list[TaskView | None]:
    """For each id its view, the first time it is named; the views are used up."""
    if len(ids) == len(views):  # as nearly always
        return list(views.values())
    return [views.pop(id, None) for id in ids]
