"""What a driver is: a whole one, which others are made from, and what any must have.

Called by   users, who write drivers; registry.py (what a driver must have).
Calls       space.py.

Tarantool's names are kept, so that a driver written for it reads the same here. A driver is made in
two steps, when its tube is made and again whenever the broker starts:

    space  = Class.create_space(name, options)        the rows are then put into it
    driver = Class.new(space, on_task_change, options)

It works with rows, and gives rows back. It tells every change with `on_task_change(row, event)`: a
row that is ready wakes whoever waits for one, and the event is counted. An event is one of EVENTS;
with None nothing is counted.

Not here: who has taken a task, which is no business of a driver's (stores/embedded/).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from quinque.drivers.space import BURIED, DONE, ID, READY, STATE, TAKEN, Row, Space
from quinque.errors import TouchRefused

Options = Mapping[str, Any]
OnTaskChange = Callable[..., None]  # (row, event=None)

EVENTS: Final = (
    "put",
    "take",
    "delete",
    "release",
    "bury",
    "kick",
    "touch",
    "ttl",
    "ttr",
    "delay",
)


class Maker(Protocol):
    """What is registered: a class, mostly, and its instances are the drivers."""

    def create_space(self, name: str, options: Options) -> Space:
        """A space with its indexes, and nothing in it yet."""

    def new(self, space: Space, on_task_change: OnTaskChange, options: Options) -> Any:
        """A driver that keeps its tasks in the space, which holds all it was left with."""


class Driver:
    """A whole driver: first in, first out. A driver of your own overrides what it does otherwise.

    Its rows are `(id, state, data, …)`: what a driver adds comes after the data. Ids that methods
    get are of rows that are there; `release` and `touch` get those of taken ones.
    """

    def __init__(self, space: Space, on_task_change: OnTaskChange, options: Options) -> None:
        self.space = space
        self.on_task_change = on_task_change
        self.options = options

    @classmethod
    def create_space(cls, name: str, options: Options) -> Space:
        """A space with an index `state`: the rows of a state, in the order of their ids."""
        space = Space(name)
        space.create_index("state", (STATE, ID))
        return space

    @classmethod
    def new(cls, space: Space, on_task_change: OnTaskChange, options: Options) -> Driver:
        return cls(space, on_task_change, options)

    def normalize_task(self, task: Row) -> Sequence[Any]:
        """The task as consumers see it: id, state, data."""
        return task[:3]

    def put(self, data: bytes, options: Options) -> Row | None:
        """There is one more task; None when there is no room for it."""
        task = self.space.insert((self.space.next_id(), READY, data))
        self.on_task_change(task, "put")
        return task

    def take(self) -> Row | None:
        """The next task, which is taken from here on; None when there is none."""
        task = self.space.min("state", (READY,))
        if task is None:
            return None
        task = self.space.update(task[ID], {STATE: TAKEN})
        self.on_task_change(task, "take")
        return task

    def delete(self, task_id: int) -> Row:
        """The task, done or not, is gone; it as it was, with the state `-`."""
        task = self.space.delete(task_id)
        task = (task[ID], DONE, *task[STATE + 1 :])
        self.on_task_change(task, "delete")
        return task

    def release(self, task_id: int, options: Options) -> Row:
        """The task, which is taken, is ready again."""
        task = self.space.update(task_id, {STATE: READY})
        self.on_task_change(task, "release")
        return task

    def bury(self, task_id: int) -> Row:
        """The task is put aside, until somebody kicks it."""
        task = self.space.update(task_id, {STATE: BURIED})
        self.on_task_change(task, "bury")
        return task

    def kick(self, count: int) -> int:
        """The first `count` buried tasks are ready again; how many were."""
        buried = self.space.select("state", (BURIED,), limit=count)
        return sum(self.kick_task(task[ID]) is not None for task in buried)

    def peek(self, task_id: int) -> Row | None:
        """The task as it is."""
        return self.space.get(task_id)

    def touch(self, task_id: int, by_ms: int) -> Row:
        """The task has so much longer. Raises TouchRefused: this driver has no times."""
        raise TouchRefused(type(self).__name__.encode())

    def truncate(self) -> None:
        """All tasks are gone."""
        self.space.truncate()

    def tasks_by_state(self, state: str) -> Sequence[Row]:
        """The tasks of that state."""
        return self.space.select("state", (state,))

    # -- what a driver may have besides ----------------------------------------------------------

    def kick_task(self, task_id: int) -> Row | None:
        """The task, which is buried, is ready again; None when it is not to be, and stays so."""
        task = self.space.update(task_id, {STATE: READY})
        self.on_task_change(task, "kick")
        return task

    def start(self) -> None:
        """The driver begins to work: its space holds all that it was left with."""

    def stop(self) -> None:
        """The broker stops. Rows do not change any more."""

    def drop(self) -> None:
        """The tube goes, with all rows."""

    def next_event_ms(self) -> int | None:
        """When on_time() next has something to do; None when never."""
        return None

    def on_time(self, now_ms: int) -> None:
        """What time has made due by now is done: some of it at least, if it is much."""
