"""The base class of drivers, and the methods that every driver must have.

Called by   users, who write drivers; registry.py (what a driver must have).
Calls       space.py.

The names are those of Tarantool, so that its drivers are easy to port. A driver is made in two
steps, when its tube is created and again whenever the broker starts:

    space  = Class.create_space(name, options)        the rows are then put into it
    driver = Class.new(space, on_task_change, options)

A driver works with rows and returns rows. It reports every change with `on_task_change(row,
event)`: a ready row wakes a blocked client, and the event is counted. An event is one of EVENTS;
with None, nothing is counted.

Not here: the session that has taken a task, which a driver does not see (stores/embedded/).
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
    """A registered driver: usually a class, whose instances are the drivers."""

    def create_space(self, name: str, options: Options) -> Space:
        """Return an empty space with its indexes."""

    def new(self, space: Space, on_task_change: OnTaskChange, options: Options) -> Any:
        """Return a driver that stores its tasks in the space, which has all existing rows."""


class Driver:
    """A complete driver: first in, first out. Override the methods that your driver changes.

    Its rows are `(id, state, data, …)`: additional columns come after the data. Methods get ids of
    existing rows; `release` and `touch` get ids of taken rows.
    """

    def __init__(self, space: Space, on_task_change: OnTaskChange, options: Options) -> None:
        self.space = space
        self.on_task_change = on_task_change
        self.options = options

    @classmethod
    def create_space(cls, name: str, options: Options) -> Space:
        """Return a space with an index `state`: the rows of a state, ordered by id."""
        space = Space(name)
        space.create_index("state", (STATE, ID))
        return space

    @classmethod
    def new(cls, space: Space, on_task_change: OnTaskChange, options: Options) -> Driver:
        return cls(space, on_task_change, options)

    def normalize_task(self, task: Row) -> Sequence[Any]:
        """Return the task as consumers see it: id, state, data."""
        return task[:3]

    def put(self, data: bytes, options: Options) -> Row | None:
        """Add a task. Return None if there is no room for it."""
        task = self.space.insert((self.space.next_id(), READY, data))
        self.on_task_change(task, "put")
        return task

    def take(self) -> Row | None:
        """Take the next task. Return None if there is none."""
        task = self.space.min("state", (READY,))
        if task is None:
            return None
        task = self.space.update(task[ID], {STATE: TAKEN})
        self.on_task_change(task, "take")
        return task

    def delete(self, task_id: int) -> Row:
        """Remove the task, done or not. Return it with the state `-`."""
        task = self.space.delete(task_id)
        task = (task[ID], DONE, *task[STATE + 1 :])
        self.on_task_change(task, "delete")
        return task

    def release(self, task_id: int, options: Options) -> Row:
        """Make a taken task ready again."""
        task = self.space.update(task_id, {STATE: READY})
        self.on_task_change(task, "release")
        return task

    def bury(self, task_id: int) -> Row:
        """Bury the task until it is kicked."""
        task = self.space.update(task_id, {STATE: BURIED})
        self.on_task_change(task, "bury")
        return task

    def kick(self, count: int) -> int:
        """Make the first `count` buried tasks ready again. Return how many were buried."""
        buried = self.space.select("state", (BURIED,), limit=count)
        return sum(self.kick_task(task[ID]) is not None for task in buried)

    def peek(self, task_id: int) -> Row | None:
        """Return the current task."""
        return self.space.get(task_id)

    def touch(self, task_id: int, by_ms: int) -> Row:
        """Extend the ttr and ttl of the task. Raises TouchRefused: this driver has neither."""
        raise TouchRefused(type(self).__name__.encode())

    def truncate(self) -> None:
        """Remove all tasks."""
        self.space.truncate()

    def tasks_by_state(self, state: str) -> Sequence[Row]:
        """Return the tasks in that state."""
        return self.space.select("state", (state,))

    # -- what a driver may have besides ----------------------------------------------------------

    def kick_task(self, task_id: int) -> Row | None:
        """Make a buried task ready again. Return None to leave it buried."""
        task = self.space.update(task_id, {STATE: READY})
        self.on_task_change(task, "kick")
        return task

    def start(self) -> None:
        """Called when the driver starts. Its space has all existing rows."""

    def stop(self) -> None:
        """Called when the broker stops. Rows do not change any more."""

    def drop(self) -> None:
        """Called when the tube is dropped with all its rows."""

    def next_event_ms(self) -> int | None:
        """Return when on_time() is next due, or None for never."""
        return None

    def on_time(self, now_ms: int) -> None:
        """Process the work that is due now, or at least a part of it."""
