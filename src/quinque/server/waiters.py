"""Readers that wait, for all families: first come, first served.

Called by   dispatch.py (a request that found nothing), turn.py (queues that got something),
            connection.py (a client that went away).
Calls       the store, again, for each reader it wakes.

A reader stands in a line for each queue it waits on. When a queue gets something, the line is gone
through from the front, and each reader's operation is run again; what gives nothing for a group
ends the line for that group.

Not here: what an operation finds (engine/decide.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from quinque.dialects.command import Wait
from quinque.errors import QuinqueError


class Waiting:
    """One reader: its operation, and what to do with the answer (None when time is up) or with the
    error it gives."""

    __slots__ = ("answer", "refuse", "timer", "wait")

    def __init__(
        self, wait: Wait, answer: Callable[[Any], None], refuse: Callable[[QuinqueError], None]
    ) -> None:
        self.wait = wait
        self.answer = answer
        self.refuse = refuse
        self.timer: asyncio.TimerHandle | None = None


class Waiters:
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[Any], Any]) -> None:
        self._loop = loop
        self._run = run
        # By queue, in order of arrival.
        self._lines: dict[bytes, dict[Waiting, None]] = {}
        self.count = 0

    def add(
        self, wait: Wait, answer: Callable[[Any], None], refuse: Callable[[QuinqueError], None]
    ) -> Waiting:
        """The reader waits until woken, or until its time is up."""
        waiting = Waiting(wait, answer, refuse)
        waiting.timer = self._loop.call_later(wait.timeout_ms / 1000, self.give_up, waiting)
        for queue in wait.queues:
            self._lines.setdefault(queue, {})[waiting] = None
        self.count += 1
        return waiting

    def remove(self, waiting: Waiting) -> None:
        """The reader waits no more."""
        if waiting.timer is None:
            return
        waiting.timer.cancel()
        waiting.timer = None
        self.count -= 1
        for queue in waiting.wait.queues:
            line = self._lines.get(queue)
            if line is not None:
                line.pop(waiting, None)
                if not line:
                    del self._lines[queue]

    def wake(self, queues: Iterable[bytes]) -> None:
        """Serve those who wait on these queues."""
        for queue in queues:
            line = self._lines.get(queue)
            if line is None:
                continue
            empty: set[bytes] = set()
            for waiting in list(line):
                if waiting.wait.group in empty:
                    continue
                try:
                    found = self._run(waiting.wait.op)
                except QuinqueError as error:
                    self.remove(waiting)
                    waiting.refuse(error)
                    continue
                if not found:
                    empty.add(waiting.wait.group)
                    continue
                self.remove(waiting)
                waiting.answer(found)

    def consumers(self) -> dict[bytes, dict[bytes, int]]:
        """How many wait, by queue and group."""
        counts: dict[bytes, dict[bytes, int]] = {}
        for queue, line in self._lines.items():
            groups = counts[queue] = {}
            for waiting in line:
                groups[waiting.wait.group] = groups.get(waiting.wait.group, 0) + 1
        return counts

    def give_up(self, waiting: Waiting) -> None:
        """The reader is answered that there was nothing."""
        self.remove(waiting)
        waiting.answer(None)
