"""Operations that look at tubes and change nothing but what time made due.

Called by   store.py.
Calls       tubes.py (finds, settles).

Not here: operations that change something (tube_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quinque.engine.tubes.tube import Tube
from quinque.model.limits import SETTLE_MOST_COUNTING
from quinque.model.states import State
from quinque.model.tube_ops import FindTubes, LookAtTube, PeekTasks, TaskView, TubeView
from quinque.stores.embedded.tubes import Tubes


class TubeLooks:
    def __init__(self, tubes: Tubes) -> None:
        self._tubes = tubes
        self.runners: dict[type, Callable[[Any], Any]] = {
            FindTubes: self._find_tubes,
            LookAtTube: self._look_at,
            PeekTasks: self._peek,
        }

    def _find_tubes(self, op: FindTubes) -> list[TubeView]:
        now_ms = self._tubes.begin()
        found = [
            self._tubes.find(tube.name, now_ms, SETTLE_MOST_COUNTING) for tube in self._tubes.all()
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
