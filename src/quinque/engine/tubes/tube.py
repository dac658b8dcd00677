"""A worklist of tasks: its kind, its settings, its lanes, and what was counted.

Called by   apply.py (writes), decide.py and due.py (read), stores.
Calls       lanes.py, engine/work/worklist.py.

Beside what every worklist has:

    lanes    of the kinds that have them: which ready tasks may be taken
    number   of the next task
    calls    what was done since the broker started

A kind that no broker knows is a driver's. It may come before the tube's definition is read back:
until then nothing depends on it, and lanes are made when all is read.

Not here: the rules (decide.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from quinque.engine.calendar import Calendar
from quinque.engine.tubes.lanes import Lanes
from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.task import Session, Task
from quinque.engine.work.directory import Directory
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.remains import WorkRemains
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.model.families import TUBES
from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.tube_ops import CALLS, FOREVER_MS, KINDS, Kind, TubeSettings


class Tube(Worklist):
    __slots__ = (
        "calls",
        "done",
        "kind",
        "lanes",
        "number",
        "order",
        "sessions",
        "settings",
    )

    def __init__(self, name: bytes, sessions: Sessions, now_ms: int, in_order: bool = True) -> None:
        super().__init__(name, TUBES, Directory(), now_ms, in_order)
        self.sessions = sessions
        self.kind = Kind(b"")
        self.settings = TubeSettings()
        self.order = 0  # its own among all tubes
        self.number = 0
        self.lanes: Lanes | None = None
        self.done = 0
        self.calls = [0] * len(CALLS)

    def become(self, kind: bytes, settings: TubeSettings) -> None:
        """Give the tube that kind and these settings."""
        self.kind = KINDS.get(kind) or Kind(kind)
        self.settings = settings
        if self.kind.has_lanes and self.in_order:
            self._make_lanes()

    @property
    def is_driven(self) -> bool:
        """Return whether a driver decides what happens to its tasks."""
        return self.kind.name not in KINDS

    @property
    def is_full(self) -> bool:
        capacity = self.settings.capacity
        return self.kind.is_bounded and 0 < capacity <= self.size

    def first(self, most: int, lane: bytes | None) -> Sequence[WorkMessage]:
        """The tasks that may be taken now, in their order, at most `most`."""
        lanes = self.lanes
        if lanes is None:
            return self.ready.first(most) if lane is None else ()
        return lanes.heads.first(most) if lane is None else lanes.first_of(lane, most)

    def browse(self, state: State, most: int) -> list[WorkMessage]:
        """The first tasks in that state, at most `most`; where there are lanes, those before others
        that may be taken. Taken tasks come in no order."""
        if state == LEASED:
            return self._taken(most)
        order = self.delayed if state == DELAYED else self.dead
        if state == READY:
            order = self.ready
            if self.lanes is not None:
                first = self.lanes.heads.first(most)
                is_first = set(first)
                others = (it for it in order.first(most) if it not in is_first)
                return first + list(islice(others, most - len(first)))
        return order.first(most)

    def _taken(self, most: int) -> list[WorkMessage]:
        """Count the taken tasks: read the sessions and their tasks, not the tasks that wait."""
        if not self.leased:
            return []
        held = chain.from_iterable(session.held for session in self.sessions.by_id.values())
        mine = (task for task in held if task.queue is self and not task.is_gone)
        return list(islice(mine, most))

    # -- moving a task: it leaves one state and enters another ----------------------------------

    def leave(self, message: WorkMessage) -> None:
        assert isinstance(message, Task)
        super().leave(message)
        state = message.state
        if state == LEASED:
            self._let_go(message)
        if self.lanes is not None:
            if state == LEASED:
                self.lanes.freed(message)
            elif state == READY:
                self.lanes.went(message)

    def enter_ready(self, message: WorkMessage) -> None:
        super().enter_ready(message)
        if self.lanes is not None:
            assert isinstance(message, Task)
            self.lanes.came(message)

    def enter_taken(self, task: Task, session: Session, due_ms: int) -> None:
        """The task, which is in no state, is taken by the session."""
        self.enter_leased(task, due_ms)
        self._hold(task, session)
        if self.lanes is not None:
            self.lanes.hold(task)

    def take(self, tasks: Sequence[Task], takers: Sequence[Session], at_ms: int) -> None:
        """The tasks, which are ready, are taken, each by its session."""
        if self.in_order:
            if list(tasks) == self.ready.first(len(tasks)):  # as nearly always, without lanes
                self.ready.drop_first(len(tasks))
            else:
                for task in tasks:
                    self.ready.remove(task)
        lanes = self.lanes
        for task, session in zip(tasks, takers, strict=True):
            task.state = LEASED
            task.holder = session
            task.deliveries += 1
            session.held[task] = None
            ttr_ms = task.ttr_ms
            if ttr_ms < FOREVER_MS:
                self._remind(task, at_ms + ttr_ms)
            else:
                task.due_ms = NEVER_MS
            if lanes is not None:
                lanes.taken(task)
        self.leased += len(tasks)

    def enter_dead(self, message: WorkMessage, reason: bytes) -> None:
        """The task is buried. Unlike other dead messages, it may end."""
        message.state = DEAD
        message.due_ms = 0
        if self.in_order:
            self.dead.add(message)

    def _hold(self, task: Task, session: Session) -> None:
        task.holder = session
        session.held[task] = None

    def _let_go(self, task: Task) -> None:
        """Take the task away from its session."""
        session = task.holder
        if session is not None:
            session.held.pop(task, None)
            task.holder = None
        if task.expires_ms and not self.kind.ends_taken:
            self.remind_of_end(task)  # it may have come while it was taken

    def remind_of_end(self, task: Task) -> None:
        """The task ends at its time, if it does."""
        if task.expires_ms:
            self.expiries.add(task.expires_ms, task.id)
            if task.expires_ms < self.soonest_ms:
                self.soonest_ms = task.expires_ms

    def prolong(self, task: Task, by_ms: int) -> None:
        """Add `by_ms` to the task's time to live."""
        task.ttl_ms = min(FOREVER_MS, task.ttl_ms + by_ms)
        task.expires_ms = task.created_ms + task.ttl_ms if task.ttl_ms < FOREVER_MS else 0
        self.remind_of_end(task)

    # -- coming and going ------------------------------------------------------------------------

    def put_ready(self, tasks: Sequence[Task]) -> None:
        """The tasks, which are new and can be found, are ready. Their places follow each other."""
        self.came += len(tasks)
        if not self.in_order:
            return
        ready = self.ready
        last = ready.last(1)
        if not last or last[0].place < tasks[0].place:  # as always where there are no priorities
            ready.add_last(tasks)
        else:
            for task in tasks:
                ready.add(task)
        if self.lanes is not None:
            for task in tasks:
                self.lanes.came(task)

    def remove(self, message: WorkMessage) -> None:
        assert isinstance(message, Task)
        session = message.holder
        if session is not None and self.in_order:  # as mostly
            session.held.pop(message, None)
            message.holder = None
            self.leased -= 1
            if self.lanes is not None:
                self.lanes.freed(message)
        else:
            self.leave(message)
        self._unchain(message)
        self.directory.remove(message)

    def clear(self) -> list[WorkMessage]:
        gone = super().clear()
        for task in gone:
            let_go(task)
        return gone

    def _remains(self, newest: WorkMessage | None) -> WorkRemains:
        return TaskRemains(self, newest, self.directory)

    def _begin_empty(self) -> None:
        super()._begin_empty()
        if self.lanes is not None:
            self.lanes = Lanes(self.settings.width)

    def has_ended(self, message: WorkMessage, now_ms: int) -> bool:
        """As in every worklist; but a delayed task ends when its delay is over. Without
        `ends_taken`, a taken task ends when it is no longer taken."""
        if not 0 < message.expires_ms <= now_ms:
            return False
        state = message.state
        if state == DELAYED or (state == LEASED and not self.kind.ends_taken):
            return message.due_ms <= now_ms
        return True

    def bring_into_order(self) -> None:
        super().bring_into_order()
        self.done = self.came = self.went = 0
        self.calls = [0] * len(CALLS)
        if self.kind.has_lanes:
            self._make_lanes()
        self.expiries = Calendar()
        for task in self.all():
            if task.expires_ms:
                self.expiries.add(task.expires_ms, task.id)
        self.set_soonest()

    def _make_lanes(self) -> None:
        lanes = self.lanes = Lanes(self.settings.width)
        for task in self.all():
            if task.state == LEASED:
                assert isinstance(task, Task)
                lanes.hold(task)
        for task in self.ready:  # in their order, so that a lane shows only its first ones
            assert isinstance(task, Task)
            lanes.came(task)


class TaskRemains(WorkRemains):
    """The tasks of a tube that was emptied, also in its sessions and lanes."""

    def __init__(self, tube: Tube, newest: WorkMessage | None, directory: Directory) -> None:
        super().__init__(tube, newest, directory)
        self._lanes = tube.lanes

    def drop_some(self, most: int) -> list[WorkMessage]:
        if self._lanes is not None:
            self._lanes.heads.drop_first(min(most, self._lanes.heads.size))
        return super().drop_some(most)

    def _let_go(self, message: WorkMessage) -> None:
        let_go(message)
        if self._lanes is not None:
            self._lanes.discard(message)


def let_go(message: WorkMessage) -> None:
    """Take a task that is in no tube any more away from its session."""
    assert isinstance(message, Task)
    if message.holder is not None:
        message.holder.held.pop(message, None)
        message.holder = None
