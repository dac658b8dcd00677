"""Drivers for tests: one that has times, and some that go wrong.

Called by   the tests beside this file, and brokers that they start.
Calls       quinque.drivers.
"""

from __future__ import annotations

import sys
from typing import Any

from quinque.drivers import (
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

DUE_MS = 3
FAR_MS = 1 << 62


class Timed(Driver):
    """Tasks may be delayed, live for so long, and are worked for a second."""

    @classmethod
    def create_space(cls, name: str, options: Options) -> Space:
        space = super().create_space(name, options)
        space.create_index("due", (DUE_MS,))
        return space

    def put(self, data: bytes, options: Options) -> Row:
        now_ms = self.space.now_ms
        id = self.space.next_id()
        if "delay" in options:
            row: Row = (id, DELAYED, data, now_ms + round(options["delay"] * 1000))
        else:
            row = (id, READY, data, now_ms + round(options.get("ttl", 1_000_000) * 1000))
        task = self.space.insert(row)
        self.on_task_change(task, "put")
        return task

    def take(self) -> Row | None:
        row = self.space.min("state", (READY,))
        if row is None:
            return None
        due_ms = self.space.now_ms + 1000
        task = self.space.update(row[ID], {STATE: TAKEN, DUE_MS: due_ms})
        self.on_task_change(task, "take")
        return task

    def touch(self, task_id: int, by_ms: int) -> Row:
        row = self.space.get(task_id)
        assert row is not None
        task = self.space.update(task_id, {DUE_MS: row[DUE_MS] + by_ms})
        self.on_task_change(task, "touch")
        return task

    def next_event_ms(self) -> int | None:
        row = self.space.min("due")
        return None if row is None else int(row[DUE_MS])

    def on_time(self, now_ms: int) -> None:
        row = self.space.min("due")
        assert row is not None
        if row[STATE] == READY:
            self.delete(row[ID])
            self.on_task_change(row, "ttl")
        else:
            event = "delay" if row[STATE] == DELAYED else "ttr"
            task = self.space.update(row[ID], {STATE: READY, DUE_MS: FAR_MS})
            self.on_task_change(task, event)


class Clumsy(Driver):
    """What is put says what goes wrong. How often an instance was made is in `made`."""

    made = 0

    def __init__(self, space: Space, on_task_change: OnTaskChange, options: Options) -> None:
        if "refuse" in options:
            raise BadArgument("no tube like that")
        if "fail" in options:
            raise LookupError("no tube at all")
        super().__init__(space, on_task_change, options)
        type(self).made += 1
        self.puts = 0  # of this instance: nothing undoes it

    def put(self, data: bytes, options: Options) -> Row:
        self.puts += 1
        task = super().put(data, options)
        assert task is not None
        self._go_wrong(data, task)
        return task

    def take(self) -> Row | None:
        row = super().take()
        if row is not None and row[2] == b"untakeable":
            raise ZeroDivisionError("not this one")
        if row is not None and row[2] == b"not taken":
            return self.space.update(row[ID], {STATE: READY})
        return row

    def release(self, task_id: int, options: Options) -> Row:
        row = super().release(task_id, options)
        if row[2] == b"unreleasable" and not self.is_mended:
            raise ZeroDivisionError("not this one either")
        return row

    is_mended = False

    def _go_wrong(self, data: bytes, task: Row) -> None:
        wrong: dict[bytes, Any] = {
            b"raise": lambda: self.options["nothing"],
            b"refuse": lambda: _refuse(),
            b"exit": lambda: sys.exit("enough"),
            b"taken": lambda: self.space.update(task[ID], {STATE: TAKEN}),
            b"no state": lambda: self.space.update(task[ID], {STATE: "x"}),
            b"unkeepable": lambda: self.space.replace((*task, object())),
            b"large": lambda: self.space.replace((*task, 1 << 70)),
            b"no event": lambda: self.on_task_change(task, "blink"),
            b"no task": lambda: self.on_task_change((), "put"),
        }
        if data in wrong:
            self.space.insert((self.space.next_id(), READY, b"beside"))
            wrong[data]()


def _refuse() -> None:
    raise BadArgument("not that")


class Deaf:
    """It has not all that a driver needs."""

    @classmethod
    def create_space(cls, name: str, options: Options) -> Space:
        return Space(name)

    @classmethod
    def new(cls, space: Space, on_task_change: OnTaskChange, options: Options) -> Deaf:
        return cls()

    def put(self, data: bytes, options: Options) -> Row:
        raise NotImplementedError


class Late(Driver):
    """Its time is always past, and it never does anything about it."""

    def next_event_ms(self) -> int | None:
        return 1
