"""Operations that look at tubes, and change only what is due.

Called by   store.py.
Calls       tubes.py (finds, settles).

Not here: operations that change something (tube_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quinque.engine.tubes.tube import Tube
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST_COUNTING
from quinque.model.states import State
from quinque.model.tube_ops import (
    BrowseTasks,
    FindTubes,
    LookAtTube,
    PeekTasks,
    TaskView,
    TubeView,
)
from quinque.stores.embedded.tubes import Tubes


class TubeLooks:
    def __init__(self, tubes: Tubes) -> None:
        self._tubes = tubes
        self.runners: dict[type, Callable[[Any], Any]] = {
            FindTubes: self._find_tubes,
            LookAtTube: self._look_at,
            PeekTasks: self._peek,
            BrowseTasks: self._browse,
        }

    def _find_tubes(self, op: FindTubes) -> list[TubeView]:
        now_ms = self._tubes.begin()
        found = [
            self._tubes.find(tube.name, now_ms, SETTLE_MOST_COUNTING)
            for tube in self._tubes.all(op.most, op.sees)
        ]
        return [self._view(tube) for tube in found if tube is not None]

    def _look_at(self, op: LookAtTube) -> TubeView | None:
        tube = self._tubes.find(op.queue, self._tubes.begin(), SETTLE_MOST_COUNTING)
        return None if tube is None else self._view(tube)

    def _peek(self, op: PeekTasks) -> list[TaskView | None]:
        tubes = self._tubes
        now_ms = tubes.begin()
        tube = tubes.known(op.queue, now_ms)
        if tube.is_driven:
            views: list[TaskView | None] = tubes.driver_of(tube).run(tube, op, now_ms)
            return views
        found = [tubes.living(tube, id, now_ms) for id in op.message_ids]
        return [
            None if task is None else TaskView(task.id, State(task.state), tubes.bodies.of(task))
            for task in found
        ]

    def _browse(self, op: BrowseTasks) -> list[TaskView]:
        tubes = self._tubes
        now_ms = tubes.begin()
        tube = tubes.known(op.queue, now_ms, SETTLE_MOST_COUNTING)
        tasks = tube.browse(op.state, max(1, min(op.count, RESERVE_MOST)))
        if tube.is_driven:
            peek = PeekTasks(op.queue, [task.id for task in tasks])
            return _fitting(tubes.driver_of(tube).run(tube, peek, now_ms), op.state)
        # More may be due than was settled, and that changes here.
        living = [tubes.living(tube, task.id, now_ms) for task in tasks]
        found = [task for task in living if task is not None and task.state == op.state]
        bodies = tubes.books.read(found, RESERVE_MOST_BYTES)
        return [
            TaskView(task.id, op.state, body) for task, body in zip(found, bodies, strict=False)
        ]

    def _view(self, tube: Tube) -> TubeView:
        """The tube as it is now."""
        return TubeView(
            tube.name,
            tube.kind.name,
            tube.settings,
            tube.ready.size,
            tube.leased,
            tube.delayed.size,
            tube.dead.size,
            tube.done,
            list(tube.calls),
            self._tubes.is_asleep(tube),
        )


def _fitting(found: list[TaskView | None], state: State) -> list[TaskView]:
    """The first of them that are in that state, as one operation hands out."""
    views: list[TaskView] = []
    room_bytes = RESERVE_MOST_BYTES
    for view in found:
        if view is not None and view.state == state and room_bytes > 0:
            views.append(view)
            room_bytes -= len(view.body)
    return views
