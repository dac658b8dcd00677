"""The tasks that can be taken in tubes with lanes.

Called by   tube.py, of those kinds that have lanes.
Calls       engine/work/order.py.

    lanes    by name: its ready tasks in their order, and how many of it are taken
    heads    of every lane that has room, the first ones, in the order of all

A lane with room for one shows one task; when that is taken the lane shows none, however many wait
in it. So a take looks at `heads` alone, and a busy lane costs nothing.

Not here: the tasks that are delayed or buried, which are of no lane until they are ready.
"""

from __future__ import annotations

from quinque.engine.tubes.task import Task
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from quinque.engine.work.worklist import READY


class Lane:
    __slots__ = ("last", "name", "ready", "shown", "taken")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.ready = Order()
        self.taken = 0
        self.shown = 0  # how many of the first ready tasks may be taken
        self.last: WorkMessage | None = None  # of those


class Lanes:
    __slots__ = ("_lanes", "heads", "news", "showings", "width")

    def __init__(self, width: int) -> None:
        self._lanes: dict[bytes, Lane] = {}
        self.heads = Order()
        self.showings = 0  # how often a task came to be among them
        self.news: set[bytes] = set()  # of which lanes, since the caller last emptied this set
        self.width = width

    def came(self, task: Task) -> None:
        """The task is ready: add it to its lane."""
        lane = self._lanes.get(task.lane)
        if lane is None:
            lane = self._lanes[task.lane] = Lane(task.lane)
        lane.ready.add(task)
        if lane.last is not None and task.place < lane.last.place:
            self.heads.add(task)
            self.showings += 1
            self.news.add(lane.name)
            lane.shown += 1
        self._show(lane)

    def went(self, task: Task) -> None:
        """Remove a task that left the ready ones without being taken."""
        lane = self._lanes[task.lane]
        self._drop(lane, task)
        self._show(lane)

    def taken(self, task: Task) -> None:
        """The task, which was ready, is taken."""
        lane = self._lanes[task.lane]
        self._drop(lane, task)
        lane.taken += 1
        self._show(lane)

    def hold(self, task: Task) -> None:
        """The task, which was of no lane, is taken."""
        lane = self._lanes.get(task.lane)
        if lane is None:
            lane = self._lanes[task.lane] = Lane(task.lane)
        lane.taken += 1
        self._show(lane)

    def freed(self, task: Task) -> None:
        """Note that the task is no longer taken."""
        lane = self._lanes[task.lane]
        lane.taken -= 1
        self._show(lane)

    def discard(self, task: WorkMessage) -> None:
        """Remove the task from lanes that no consumer looks at any more: what they show does not
        matter."""
        assert isinstance(task, Task)
        lane = self._lanes.get(task.lane)
        if lane is None:
            return
        lane.shown = 0
        lane.last = None
        if task.state == READY:
            lane.ready.remove(task)
        if not lane.ready.size:
            del self._lanes[task.lane]

    def first_of(self, name: bytes, most: int) -> list[WorkMessage]:
        """The first tasks of a lane that may be taken."""
        lane = self._lanes.get(name)
        return [] if lane is None else lane.ready.first(min(most, lane.shown))

    def _drop(self, lane: Lane, task: Task) -> None:
        """The task is no longer ready."""
        lane.ready.remove(task)
        last = lane.last
        if last is not None and task.place <= last.place:
            self.heads.remove(task)
            lane.shown -= 1
            if task is last:
                lane.last = lane.ready.before(task.place)

    def _show(self, lane: Lane) -> None:
        """Show as many tasks as there is room for: of one change, one task more or less."""
        ready = lane.ready
        room = max(0, min(self.width - lane.taken, ready.size))
        while lane.shown > room:
            last = lane.last
            assert last is not None, "a shown task is the last"
            self.heads.remove(last)
            lane.shown -= 1
            lane.last = ready.before(last.place)
        while lane.shown < room:
            last = lane.last
            lane.last = (ready.first(1) if last is None else ready.after(last.place, 1))[0]
            self.heads.add(lane.last)
            self.showings += 1
            self.news.add(lane.name)
            lane.shown += 1
        if not lane.taken and not ready.size:
            del self._lanes[lane.name]
