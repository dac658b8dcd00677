"""Where handlers run, without a broker: what the loop hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

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
        executor.take_back()  # its thread ends

    try:
        asyncio.run(work())
    finally:
        shared.close()
    assert len(done) == 1
