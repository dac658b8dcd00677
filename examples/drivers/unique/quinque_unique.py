"""A tube type with one waiting task for each key, with the newest data, and one in progress.

    TUBE.CREATE reindex unique OPTION quiet 5
    TUBE.PUT reindex '{"page": 17, "rev": 1}' OPTION key page:17
    TUBE.PUT reindex '{"page": 17, "rev": 2}' OPTION key page:17      the same task, rev 2

Called by   a broker, or a program with its own store, that has this driver registered.
Calls       quinque.drivers.

Options of the tube:   quiet   seconds without a put of its key until a task is ready; default: 0,
                               which means at once
Options of put:        key     subject of the task; default: its data

While a task is taken, another task of its key may wait. It is ready when the first is acked or
buried. If the first is released, the two become one: the first task, with the new data.

A row is (id, state, data, key, due_ms); due_ms is the time at which a delayed task is ready.

Not here: the owner of a taken task, durability and blocked clients, which the broker handles.
"""

from __future__ import annotations

from typing import Any, Final

from quinque.drivers import (
    BURIED,
    DELAYED,
    ID,
    READY,
    STATE,
    TAKEN,
    Driver,
    OnTaskChange,
    Options,
    Row,
    Space,
)
from quinque.errors import BadArgument

DATA: Final = 2
KEY: Final = 3
DUE_MS: Final = 4

NEVER_MS: Final = 1 << 62  # due time of a task that waits for another one


class Unique(Driver):
    @classmethod
    def create_space(cls, name: str, options: Options) -> Space:
        space = super().create_space(name, options)
        space.create_index("key", (KEY, STATE))
        space.create_index("due", (STATE, DUE_MS))
        return space

    def __init__(self, space: Space, on_task_change: OnTaskChange, options: Options) -> None:
        super().__init__(space, on_task_change, options)
        self.quiet_ms = _milliseconds(options.get("quiet", 0))

    def put(self, data: bytes, options: Options) -> Row:
        """Give the waiting task of the key this data. Add the task if there is none."""
        key = _key(options.get("key", data))
        row = self._waiting(key)
        id = self.space.next_id() if row is None else row[ID]
        state, due_ms = self._turn(key)
        task = self.space.replace((id, state, data, key, due_ms))
        self.on_task_change(task, "put")
        return task

    def delete(self, task_id: int) -> Row:
        task = super().delete(task_id)
        self._make_ready(task[KEY])
        return task

    def release(self, task_id: int, options: Options) -> Row:
        """Make the task ready again. If another task of its key waits, merge the two."""
        task = self.space.update(task_id, {STATE: READY})
        newer = self.space.min("key", (task[KEY], DELAYED))
        if newer is not None:
            self.space.delete(newer[ID])
            task = self.space.update(task_id, {DATA: newer[DATA]})
        self.on_task_change(task, "release")
        return task

    def bury(self, task_id: int) -> Row:
        task = super().bury(task_id)
        self._make_ready(task[KEY])
        return task

    def kick(self, count: int) -> int:
        """Make buried tasks wait again, except those whose key has another unfinished task."""
        kicked = 0
        for row in self.space.select("state", (BURIED,)):
            if kicked < count and self.kick_task(row[ID]) is not None:
                kicked += 1
        return kicked

    def kick_task(self, task_id: int) -> Row | None:
        row = self.space.get(task_id)
        assert row is not None
        is_worked = self.space.min("key", (row[KEY], TAKEN)) is not None
        if is_worked or self._waiting(row[KEY]) is not None:
            return None
        return super().kick_task(task_id)

    # -- time ------------------------------------------------------------------------------------

    def next_event_ms(self) -> int | None:
        row = self.space.min("due", (DELAYED,))
        return None if row is None or row[DUE_MS] == NEVER_MS else int(row[DUE_MS])

    def on_time(self, now_ms: int) -> None:
        """Make the first task ready whose key has been quiet."""
        row = self.space.min("due", (DELAYED,))
        if row is not None and row[DUE_MS] <= now_ms:
            self.on_task_change(self.space.update(row[ID], {STATE: READY}), "delay")

    # -- shared steps ----------------------------------------------------------------------------

    def _waiting(self, key: bytes) -> Row | None:
        """Return the task of the key that is ready or delayed."""
        ready = self.space.min("key", (key, READY))
        return self.space.min("key", (key, DELAYED)) if ready is None else ready

    def _turn(self, key: bytes) -> tuple[str, int]:
        """Return the state of a new waiting task of the key, and the time at which it is ready."""
        if self.space.min("key", (key, TAKEN)) is not None:
            return DELAYED, NEVER_MS
        if self.quiet_ms:
            return DELAYED, self.space.now_ms + self.quiet_ms
        return READY, 0

    def _make_ready(self, key: bytes) -> None:
        """Make the task ready that waited for another task of its key."""
        row = self.space.min("key", (key, DELAYED))
        if row is not None and row[DUE_MS] == NEVER_MS:
            state, due_ms = self._turn(key)
            self.on_task_change(self.space.update(row[ID], {STATE: state, DUE_MS: due_ms}))


def _key(given: Any) -> bytes:
    """A key, which from a Redis client is text, whatever it is."""
    if isinstance(given, int):
        given = str(given)
    if not isinstance(given, str | bytes):
        raise BadArgument("key is text, bytes or a whole number")
    return given.encode() if isinstance(given, str) else given


def _milliseconds(seconds: Any) -> int:
    """An option of the tube, which comes as text from a Redis client."""
    try:
        span_ms = round(float(seconds) * 1000)
    except (TypeError, ValueError, OverflowError):
        span_ms = -1
    if span_ms < 0:
        raise BadArgument(f"quiet is a number of seconds, and not {seconds!r:.40}")
    return span_ms
