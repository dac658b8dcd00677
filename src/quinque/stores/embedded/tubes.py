"""Tubes, kept: found by name, settled, changed, watched; and the sessions that end.

Called by   tube_operations.py, tube_looks.py, session_operations.py, driver_operations.py;
            worklists.py when time has come in a tube, store.py when a session has ended.
Calls       engine/tubes/ (rules), books.py (queues, journal, time), worklists.py (names).

A temporary tube is on record, and nothing that happens in it: events are applied, counted and not
appended, and its bodies are always in memory, where the store does not count them.

Readers are woken when a task of the tube becomes takeable. Writers of a full tube are woken when
there is room.

Not here: what each operation does, tubes of drivers (driver_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Protocol

from quinque.engine.tubes import decide
from quinque.engine.tubes.apply import APPLY, apply_put, apply_task_replaced
from quinque.engine.tubes.due import come_back, is_due, is_over, settle
from quinque.engine.tubes.lanes import Lanes
from quinque.engine.tubes.task import Session, Task
from quinque.engine.tubes.tube import Tube, let_go
from quinque.engine.work.message import WorkMessage
from quinque.errors import DriverMissing, JournalDamaged, NotDone, NoTube
from quinque.model.events import EXPIRED, FLUSHED, FORGOTTEN, Expired, WorkEvent
from quinque.model.families import TUBES
from quinque.model.limits import SETTLE_MOST, SETTLE_MOST_COUNTING
from quinque.model.ops import Op
from quinque.model.tube_events import (
    BY_SESSION,
    SESSION_ENDED,
    TASKS_RETURNED,
    SessionEnded,
    TaskKept,
    TasksPut,
)
from quinque.model.tube_ops import TubeSettings
from quinque.stores.embedded.changes import purged_unnamed, task_replaced
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.worklists import Worklists


class Drivers(Protocol):
    """Carries out the operations on tubes of drivers."""

    def knows(self, kind: bytes) -> bool:
        """Whether a driver has that name."""

    def make(self, tube: Tube, kind: bytes, settings: TubeSettings) -> None:
        """The tube, which is new and not on record yet, is the driver's. Raises DriverFailed, and
        what the driver refuses the tube's options with."""

    def start(self, tube: Tube, now_ms: int) -> None:
        """The driver of the tube, which is on record, begins."""

    def run(self, tube: Tube, op: Op, now_ms: int) -> Any:
        """As the operation says. ReturnTasks gives the tasks that are taken, as they are."""

    def give_back(self, tube: Tube, tasks: Sequence[Task], now_ms: int) -> None:
        """Make the tasks, which are taken, ready. Raises DriverFailed."""

    def settle(self, tube: Tube, now_ms: int, most: int) -> None:
        """Carry out what is due, and set `tube.soonest_ms` to when something is due next."""

    def release(self, tube: Tube, tasks: Sequence[Task], now_ms: int) -> None:
        """The tasks, which were taken, are ready."""

    def drop(self, tube: Tube) -> None:
        """The tube is about to go."""


class Tubes:
    def __init__(self, lists: Worklists, count: Callable[[Any], None]) -> None:
        """`count` gets the changes that are not journaled."""
        self._count = count
        self.books = lists.books
        self.lists = lists
        self.journal = lists.journal
        self.bodies = lists.bodies
        self.sessions = lists.books.sessions
        self.drivers: Drivers | None = None
        self.unkept = 0  # tasks of temporary tubes, which `bodies` does not count
        self._queues = lists.queues
        self.newest_order = max((tube.order for tube in self.books.tubes.values()), default=0)
        lists.settle_tube = self.settle

    # -- finding -----------------------------------------------------------------------------

    def begin(self) -> int:
        """Begin an operation: set the time, and make the tasks of ended sessions ready."""
        books = self.books
        books.at_ms = now_ms = books.clock.now_us() // 1000
        if self.sessions.soonest_ms <= now_ms:
            self.end_sessions(now_ms, SETTLE_MOST)
        return now_ms

    def find(self, name: bytes, now_ms: int, most: int = SETTLE_MOST) -> Tube | None:
        """The tube as it is now. Raises WrongType when another family has the name."""
        queue = self._queues.get(name)
        if type(queue) is Tube and queue.soonest_ms > now_ms:  # as nearly always
            return queue
        found = self.lists.settled(TUBES, name, now_ms, most)
        assert found is None or isinstance(found, Tube)
        return found

    def known(self, name: bytes, now_ms: int, most: int = SETTLE_MOST) -> Tube:
        """The tube as it is now. Raises NoTube, WrongType."""
        tube = self.find(name, now_ms, most)
        if tube is None:
            raise NoTube(name)
        return tube

    def all(self, most: int = 0, sees: Callable[[bytes], bool] | None = None) -> list[Tube]:
        """Every tube that `sees` is true for, in the order they were made; if there are more than
        `most`, one more than that, in any order."""
        found: list[Tube] = []
        for name, tube in self.books.tubes.items():
            if sees is None or sees(name):
                found.append(tube)
                if 0 < most < len(found):
                    return found
        return sorted(found, key=lambda tube: tube.order)

    def held(self) -> list[dict[Task, None]]:
        """Return the tasks that each session has taken, of all tubes."""
        return [session.held for session in self.sessions.by_id.values() if session.held]

    def living(self, tube: Tube, id: bytes, now_ms: int) -> Task | None:
        """The task as it is now, if it lives: more may be due in its tube than was settled."""
        task = tube.directory.by_id.get(id)
        if task is None or is_over(tube, task, now_ms):
            return None
        assert isinstance(task, Task)
        if is_due(tube, task, now_ms):
            for event in come_back(tube, [task], now_ms):
                self.carry_due(tube, event)
        return task

    def driver_of(self, tube: Tube) -> Drivers:
        """Return the object that carries out the operations on the tube. Raises DriverMissing."""
        if self.is_asleep(tube) or self.drivers is None:
            raise DriverMissing(tube.name, tube.kind.name)
        return self.drivers

    def is_asleep(self, tube: Tube) -> bool:
        """Whether the tube's driver is not there."""
        if not tube.is_driven:
            return False
        return self.drivers is None or not self.drivers.knows(tube.kind.name)

    # -- time --------------------------------------------------------------------------------

    def settle(self, tube: Tube, now_ms: int, most: int) -> None:
        """Carry out what time made due, `most` of each kind."""
        if tube.is_driven:
            if self.drivers is not None and not self.is_asleep(tube):
                self.drivers.settle(tube, now_ms, most)
            else:
                tube.set_soonest()
        else:
            for event in settle(tube, now_ms, most):
                self.carry_due(tube, event)
            tube.set_soonest()
        self.books.settled(tube, now_ms)

    def to_take(
        self, tube: Tube, most: int, lane: bytes | None, now_ms: int
    ) -> Sequence[WorkMessage]:
        """The tasks that may be taken now, in their order, at most `most`."""
        if not tube.kind.has_times:
            return tube.first(most, lane)
        if tube.dues.next_ms <= now_ms:
            # More came back than was settled at once: as much as is taken now, in its order.
            self.settle(tube, now_ms, max(SETTLE_MOST, min(most, SETTLE_MOST_COUNTING)))
        if tube.lanes is None:
            return tube.ready.living(most, now_ms) if lane is None else ()
        # A lane shows its first tasks. Expired tasks are removed, so that it shows the next ones;
        # when there are more than one operation removes, the ticker goes on.
        left = SETTLE_MOST
        while True:
            tasks = tube.first(max(most, left), lane)
            over = [task.id for task in tasks if is_over(tube, task, now_ms)]
            if not over or left <= 0:
                return [task for task in tasks if not is_over(tube, task, now_ms)][:most]
            left -= len(over)
            self.carry_due(tube, Expired(EXPIRED, tube.name, over))

    def end_sessions(self, now_ms: int, most: int) -> None:
        """Make up to `most` tasks of ended sessions ready."""
        looks = left = most
        for session in self.sessions.ended(now_ms, looks):
            if left <= 0:
                return
            left -= self.return_held(session, now_ms, left)
            if session.held:
                self.set_apart(session)
        self.sessions.ended(now_ms, looks)  # they have nothing now, and are gone

    def set_apart(self, session: Session) -> None:
        """The session has ended, also after a restart, though its tasks have yet to come back."""
        if not session.is_apart:
            self.books.try_append(SessionEnded(SESSION_ENDED, session.id))
            self.sessions.set_apart(session)

    def return_held(self, session: Session, now_ms: int, most: int) -> int:
        """Make up to `most` tasks that the session has taken ready; return how many."""
        by_tube: dict[Tube, list[Task]] = {}
        held = list(islice(session.held, most))
        for task in held:
            assert isinstance(task.queue, Tube)
            if task.is_gone:
                let_go(task)
            else:
                by_tube.setdefault(task.queue, []).append(task)
        for tube, tasks in by_tube.items():
            self.bring_back(tube, tasks, now_ms)
        return len(held)

    def bring_back(self, tube: Tube, tasks: Sequence[Task], now_ms: int) -> None:
        """Make taken tasks ready. If that is not journaled, they are still held after a restart,
        by a session without connections."""
        if not tube.is_driven:
            ids = [task.id for task in tasks if not is_over(tube, task, now_ms)]
            if len(ids) < len(tasks):
                over = [task.id for task in tasks if is_over(tube, task, now_ms)]
                self.carry_due(tube, Expired(EXPIRED, tube.name, over))
            if ids:
                self.carry_due(tube, decide.come_back(tube, ids, BY_SESSION, now_ms))
            if tube.soonest_ms <= now_ms:
                self.settle(tube, now_ms, SETTLE_MOST)
            self.books.set_alarm(tube)
            return
        if self.drivers is not None and not self.is_asleep(tube):
            self.drivers.release(tube, tasks, now_ms)
        # Tasks that the driver did not release, or that have no driver now, lose their session. The
        # driver is asked again when it is back.
        for task in tasks:
            if task.holder is not None:
                task.holder.held.pop(task, None)
                task.holder = None

    # -- changing ----------------------------------------------------------------------------

    def append(self, tube: Tube, event: WorkEvent, spare_bytes: int = 0) -> None:
        """The event is in the journal, unless the tube is temporary. Raises as the journal."""
        if tube.settings.is_temporary:
            self._count_unkept(event)
        else:
            self.journal.append(event, spare_bytes)

    def _count_unkept(self, event: WorkEvent) -> None:
        """The event, which the journal does not get, is about to be applied."""
        self._count(event)
        self.journal.steps += 1

    def carry(self, tube: Tube, events: Sequence[WorkEvent]) -> int:
        """The events are journaled and true, all of them or none; how many tasks lived in the tube
        when one emptied it."""
        living = 0
        # The first takes the room of all, so that none of the others is refused.
        spare_bytes = self.journal.bytes_of(events[1:])
        # Other data takes room, as a new task does.
        if any(isinstance(event, TaskKept) for event in events):
            spare_bytes += SPARE_BYTES
        for event in events:
            self.append(tube, event, spare_bytes)
            if isinstance(event, TaskKept):
                self.replace(tube, event)
            else:
                living += self.apply(tube, event)
            spare_bytes = 0
        self.books.set_alarm(tube)
        return living

    def carry_due(self, tube: Tube, event: WorkEvent) -> None:
        """Apply an event that was due, and journal it if that is possible."""
        if tube.settings.is_temporary:
            self._count_unkept(event)
        else:
            self.books.try_append(event)
        self.apply(tube, event)

    def put(self, tube: Tube, events: Sequence[TasksPut], spare_bytes: int) -> None:
        """The tasks are journaled and in the tube, all of them or none."""
        lanes = tube.lanes
        showings = lanes.showings if lanes is not None else 0
        is_temporary = tube.settings.is_temporary
        spare_bytes += self.journal.bytes_of(events[1:])
        for event in events:
            if is_temporary:
                self._count_unkept(event)
                count = len(apply_put(tube, event, 0))
                self.unkept += count
                self.bodies.came_now += count
                continue
            self.journal.append(event, spare_bytes)
            tasks = apply_put(tube, event, self.journal.body_home())
            self.bodies.came(tasks, event.bodies)
            spare_bytes = 0
        if lanes is None:
            if not events[0].delay_ms:
                self.books.ready.add(tube.name)
        elif lanes.showings > showings:
            self._wake_lanes(tube, lanes)
        self.books.set_alarm(tube)

    def replace(self, tube: Tube, event: TaskKept) -> Task:
        """The task of the event, which was appended last, is as it says."""
        lanes = tube.lanes
        showings = lanes.showings if lanes is not None else 0
        is_temporary = tube.settings.is_temporary
        home = 0 if is_temporary else self.journal.body_home()
        was = tube.find(event.id)
        old_state = None if was is None else was.state
        old, task = apply_task_replaced(tube, event, home)
        if is_temporary:
            self.unkept += 1 - len(old)
        else:
            self.bodies.went(old)
            self.bodies.came([task], [event.body])
        if is_temporary or self.journal.notes is not None:
            for change in task_replaced(event, old_state):
                (self._count if is_temporary else self.journal.note)(change)
        if lanes is not None and lanes.showings > showings:
            self._wake_lanes(tube, lanes)
        assert isinstance(task, Task)
        return task

    def apply(self, tube: Tube, event: WorkEvent) -> int:
        """Apply the event; if it emptied the tube, return how many tasks lived in it."""
        lanes, was_full = tube.lanes, tube.is_full
        showings = lanes.showings if lanes is not None else 0
        kind = event.kind
        living = 0
        if kind == FLUSHED or kind == FORGOTTEN:
            living = self._empty(tube)
        else:
            gone = APPLY[kind](tube, event)
            if gone and tube.settings.is_temporary:
                self.unkept -= len(gone)
            elif gone:
                self.bodies.went(gone)
        if lanes is not None:
            if lanes.showings > showings:
                self._wake_lanes(tube, lanes)
        elif kind == TASKS_RETURNED:
            fields: Any = event
            if not fields.delay_ms:
                self.books.ready.add(tube.name)
        if was_full and not tube.is_full:
            self.books.wake_all(tube.name)
        return living

    def _wake_lanes(self, tube: Tube, lanes: Lanes) -> None:
        """Readers of these lanes, and of any task, may find one."""
        books, name = self.books, tube.name
        if name not in books.ready:
            books.ready.add(name)
            books.ready_lanes[name] = lanes.news
        elif name in books.ready_lanes:  # else all readers are woken
            books.ready_lanes[name] |= lanes.news
        lanes.news = set()

    def _empty(self, tube: Tube) -> int:
        """Remove all tasks, and start ids again at 0; return how many had not ended."""
        tube.number = 0
        if not tube.settings.is_temporary:
            return self.books.empty(tube)
        self.unkept -= tube.size
        self._count(purged_unnamed(tube, tube.size))
        return self.books.empty(tube, is_noted=False, is_kept=False)

    def body_of(self, task: WorkMessage) -> bytes:
        """The body to show in a reply: empty if it cannot be read, so that a consumer can end a
        task that is damaged. Not to be written anywhere."""
        if task.body is not None:
            return task.body
        try:
            return self.bodies.of(task)
        except (JournalDamaged, NotDone):
            return b""
