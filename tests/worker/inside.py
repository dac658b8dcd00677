"""A worker inside the test: one process's work, on an event loop of its own.

Called by   the tests beside this file.
Calls       worker/runtime.py.

Not here: workers in processes, as users run them (stage.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from quinque.client.aio.broker import Broker
from quinque.model.ops import Op
from quinque.model.own_ops import ExtendLeases
from quinque.model.tube_ops import TouchTasks
from quinque.model.work_ops import Extend
from quinque.worker import App
from quinque.worker.board import Board
from quinque.worker.runtime import STALLED_S, Runtime
from quinque.worker.shared import alone
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until

NAME = "a worker inside a test"
_ATTEMPTS = 20
T = TypeVar("T")


class Counting(Broker):
    """A broker that counts how often leases are extended, and knows when."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.extended = 0
        # By queue: when each was asked for, and when it was done.
        self._extended_s: dict[object, list[tuple[float, float]]] = {}

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        extends = [op for op in ops if isinstance(op, Extend | ExtendLeases | TouchTasks)]
        self.extended += len(extends)
        asked_s = monotonic()
        try:
            return await super().run_all(ops)
        finally:
            for op in extends:
                spans = self._extended_s.setdefault(getattr(op, "queue", None), [])
                spans.append((asked_s, monotonic()))

    def are_extended(self, count: int, since_s: float, lease_s: float) -> bool:
        """Whether leases were extended so often since then, and none was left alone for longer than
        it runs; now at the latest. False is said at once."""
        first = self.extended
        wait_until(
            lambda: (
                self.extended >= first + count or self._longest_unextended_s(since_s) >= lease_s
            ),
            f"{count} leases are extended",
        )
        return self._longest_unextended_s(since_s) < lease_s

    def _longest_unextended_s(self, since_s: float) -> float:
        """How long, at most, the lease of a queue was not extended, from then until now."""
        longest_s, now_s = 0.0, monotonic()
        for spans in self._extended_s.values():
            last_s = since_s
            for asked_s, done_s in (*spans, (now_s, now_s)):
                if asked_s > since_s:
                    longest_s, last_s = max(longest_s, done_s - last_s), asked_s
        return longest_s


class CountingApp(App):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.broker = Counting(url)

    def connect(self) -> Broker:
        return self.broker


def is_working() -> bool:
    """Whether one works, in this process."""
    return any(thread.name == NAME for thread in threading.enumerate())


def undisturbed(attempt: Callable[[], T | None]) -> T:
    """The result of an attempt that has one: on a machine that stands still for a moment leases are
    left alone, and end, and that says nothing of the worker."""
    for _ in range(_ATTEMPTS):
        result = attempt()
        if result is not None:
            return result
    raise AssertionError("leases are not extended in time")


@contextmanager
def working(
    app: App,
    deadline_s: float = TIMEOUT_S,
    board: Board | None = None,
    left_by: Sequence[bytes] | None = None,
    stalled_s: float = STALLED_S,
) -> Iterator[Board]:
    """Within, the app works, in the place of the process that the board is of, whose handlers had
    the salts `left_by`."""
    shared = alone()
    if board is not None:
        shared.board.close()
        shared = shared._replace(board=board)
    begun: list[Callable[[], object]] = []
    is_there = threading.Event()

    async def work() -> None:
        runtime = Runtime(
            app, shared, threads=2, deadline_s=deadline_s, stalled_s=stalled_s, left_by=left_by
        )
        loop = asyncio.get_running_loop()
        begun.append(lambda: loop.call_soon_threadsafe(runtime.stop))
        is_there.set()
        await runtime.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()), name=NAME)
    thread.start()
    assert is_there.wait(TIMEOUT_S)
    try:
        yield shared.board
    finally:
        if thread.is_alive():
            begun[0]()
        thread.join(2 * TIMEOUT_S)
        shared.close()
