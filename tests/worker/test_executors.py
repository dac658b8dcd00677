"""Where handlers run, without a broker: what the loop hears of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from quinque.worker import App, Message
from quinque.worker.executors import Threads
from quinque.worker.shared import alone
from tests.servers.patience import wait_until


def test_what_has_ended_in_a_thread_is_done_when_the_executor_is_stopped() -> None:
    """And not given back, though the loop had no turn to hear of it."""
    app, done = App("redis://127.0.0.1:1"), list[Message]()
    app.add("q", len)
    shared = alone()

    async def work() -> None:
        def ended(messages: Sequence[Message]) -> None:
            done.extend(messages)

        executor = Threads(app, app.handlers[0], shared.board, None, ended, 1)
        message = Message("q", b"1", b"body", 1)
        executor.submit([message])
        wait_until(lambda: executor._ended, "the handler has ended")  # the loop stands still
        await executor.stop()

        assert done == [message]
        executor.begin_no_more()  # its thread ends

    try:
        asyncio.run(work())
    finally:
        shared.close()
    assert len(done) == 1


def test_messages_that_idle_threads_take_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the system gives the threads no turn before the loop asks."""
    app = App("redis://127.0.0.1:1")
    app.add("q", len)
    shared = alone()

    async def count() -> list[int]:
        executor = Threads(app, app.handlers[0], shared.board, None, lambda messages: None, 2)
        monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
        waiting = []
        for number in range(4):
            executor.submit([Message("q", b"%d" % number, b"body", 1)])
            waiting.append(executor.waiting)
        return waiting

    try:
        assert asyncio.run(count()) == [0, 0, 1, 2]
    finally:
        shared.close()
