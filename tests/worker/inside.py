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
from typing import Any

from quinque.client.aio.broker import Broker
from quinque.model.ops import Op
from quinque.model.own_ops import ExtendLeases
from quinque.model.tube_ops import TouchTasks
from quinque.model.work_ops import Extend
from quinque.worker import App
from quinque.worker.board import Board
from quinque.worker.failures import Failures
from quinque.worker.runtime import Runtime
from tests.server.resp import TIMEOUT_S

NAME = "a worker inside a test"


class Counting(Broker):
    """A broker that counts how often leases are extended."""

    extended = 0

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        self.extended += sum(isinstance(op, Extend | ExtendLeases | TouchTasks) for op in ops)
        return await super().run_all(ops)


class CountingApp(App):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.broker = Counting(url)

    def connect(self) -> Broker:
        return self.broker


def is_working() -> bool:
    """Whether one works, in this process."""
    return any(thread.name == NAME for thread in threading.enumerate())


@contextmanager
def working(app: App, deadline_s: float = 10.0, board: Board | None = None) -> Iterator[Board]:
    """Within, the app works, in the place of the process that the board is of."""
    board, failures = board or Board(), Failures()
    begun: list[Callable[[], object]] = []
    is_there = threading.Event()

    async def work() -> None:
        runtime = Runtime(app, board, failures, threads=2, deadline_s=deadline_s)
        loop = asyncio.get_running_loop()
        begun.append(lambda: loop.call_soon_threadsafe(runtime.stop))
        is_there.set()
        await runtime.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()), name=NAME)
    thread.start()
    assert is_there.wait(TIMEOUT_S)
    try:
        yield board
    finally:
        if thread.is_alive():
            begun[0]()
        thread.join(TIMEOUT_S)
        board.close()
        failures.close()
