"""Which tasks of which lanes may be taken.

Called by   tube.py, of those kinds that have lanes.
Calls       engine/work/order.py.

    lanes    by name: its ready tasks in their order, and how many of it are taken
    heads    of every lane that has room, the first ones, in the order of all

A lane with room for one shows one task; when that is taken the lane shows none, however many wait
in it. So whoever takes looks at `heads` alone, and a busy lane costs nothing.

Not here: the tasks that are delayed or buried, which are of no lane until they are ready.
"""

from __future__ import annotations

from quinque.engine.tubes.task import Task
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from quinque.engine.work.worklist import READY


class Lane:
    __slots__ = ("name", "ready", "shown", "taken")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.ready = Order()
        self.taken = 0
        self.shown: list[WorkMessage] = []


class Lanes:
    __slots__ = ("_lanes", "heads", "showings", "width")

    def __init__(self, width: int) -> None:
        self._lanes: dict[bytes, Lane] = {}
        self.heads = Order()
        self.showings = 0  # how often a task came to be among them
        self.width = width

    def came(self, task: Task) -> None:
        """The task is ready."""
        lane = self._lanes.get(task.lane)
        if lane is None:
            lane = self._lanes[task.lane] = Lane(task.lane)
        lane.ready.add(task)
        self._show(lane)

    def went(self, task: Task) -> None:
        """The task is not ready any more, and nobody has taken it."""
        lane = self._lanes[task.lane]
        lane.ready.remove(task)
        self._show(lane)

    def taken(self, task: Task) -> None:
        """The task, which was ready, is taken."""
        lane = self._lanes[task.lane]
        lane.ready.remove(task)
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
        """The task is not taken any more."""
        lane = self._lanes[task.lane]
        lane.taken -= 1
        self._show(lane)

    def discard(self, task: WorkMessage) -> None:
        """The task is gone, of lanes that no consumer looks at any more: what they show does not
        matter."""
        assert isinstance(task, Task)
        lane = self._lanes.get(task.lane)
        if lane is None:
            return
        lane.shown = []
        if task.state == READY:
            lane.ready.remove(task)
        if not lane.ready.size:
            del self._lanes[task.lane]

    def first_of(self, name: bytes, most: int) -> list[WorkMessage]:
        """The first tasks of a lane that may be taken."""
        lane = self._lanes.get(name)
        return [] if lane is None else lane.shown[:most]

    def _show(self, lane: Lane) -> None:
        room = self.width - lane.taken
        shown = lane.ready.first(room) if room > 0 else []
        before = lane.shown
        if shown != before:
            for task in before:
                if task not in shown:
                    self.heads.remove(task)
            for task in shown:
                if task not in before:
                    self.heads.add(task)
                    self.showings += 1
            lane.shown = shown
        if not lane.taken and not lane.ready.size:
            del self._lanes[lane.name]
