"""App.run and App.run_async in a program: its loop, its threads, and how it stops them."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from quinque.client.sync.queues import Queues
from quinque.worker import App
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers import stores


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stores.on_every_kind(metafunc)


def test_an_app_runs_in_a_loop_that_runs_and_ends_in_order_when_it_is_cancelled(
    broker: RunningBroker, queues: Queues, queue: str
) -> None:
    app = App(f"redis://127.0.0.1:{broker.port}")
    done: list[bytes] = []

    async def main() -> None:
        began, may_end = asyncio.Event(), asyncio.Event()

        @app.handler(queue)
        async def work(body: bytes) -> None:
            began.set()
            await may_end.wait()
            done.append(body)

        running = asyncio.create_task(app.run_async())
        async with asyncio.timeout(TIMEOUT_S):
            await began.wait()
            running.cancel()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await running

    id = queues.jobs(queue).add(b"x")
    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(main())

    assert done == [b"x"]
    assert queues.jobs(queue).show(id) is None
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_app_that_is_cancelled_twice_ends_at_once(
    broker: RunningBroker, queues: Queues, queue: str
) -> None:
    app = App(f"redis://127.0.0.1:{broker.port}")
    began = threading.Event()

    async def main() -> None:
        @app.handler(queue)
        async def work(body: bytes) -> None:
            began.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(app.run_async(deadline=10 * TIMEOUT_S))
        while not began.is_set():
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(asyncio.CancelledError):
                await running

    queues.jobs(queue).add(b"x")
    asyncio.run(main())


@pytest.mark.parametrize("how", ["run", "run_async"])
def test_an_app_runs_in_any_thread_until_it_is_stopped(
    broker: RunningBroker, queues: Queues, queue: str, how: str
) -> None:
    app = App(f"redis://127.0.0.1:{broker.port}")
    done, results = threading.Event(), list[bool]()
    app.add(queue, lambda body: done.set())
    before = signal.getsignal(signal.SIGTERM)

    def run() -> None:
        results.append(app.run() if how == "run" else asyncio.run(app.run_async()))

    thread = threading.Thread(target=run)
    thread.start()
    queues.jobs(queue).add(b"x")
    assert done.wait(TIMEOUT_S)
    app.stop()
    thread.join(TIMEOUT_S)

    assert results == [True]
    assert signal.getsignal(signal.SIGTERM) is before
    app.stop()  # of nothing
