"""What was handed out to somebody who was interrupted meanwhile is ready again, if it may be."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque.client.sync.broker import Broker
from quinque.model.states import State
from quinque.model.work_ops import WorkView
from tests.client.conftest import RUNNERS
from tests.server.broker import RunningBroker, wait_until
from tests.server.resp import TIMEOUT_S


def url_of(running: RunningBroker) -> str:
    return f"redis://127.0.0.1:{running.port}"


async def put_job(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.jobs(name).add(b"x")
    take: Callable[..., Awaitable[Any]] = queues.jobs(name).take
    return take


async def put_event(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.events(name).add(b"x")
    take: Callable[..., Awaitable[Any]] = queues.events(name).group("g").take
    return take


async def put_task(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.tube(name).make()
    await queues.tube(name).put(b"x")
    take: Callable[..., Awaitable[Any]] = queues.tube(name).take
    return take


async def put_item(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.items(name).add("id", b"x")
    return lambda timeout=0: queues.items(name).lease(3600, timeout)


@pytest.fixture(params=RUNNERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """quinque.aio.connect or quinque.aio.open, to be called on the loop."""
    if request.param == "folder":
        return lambda: quinque.aio.open(tmp_path / "queues", fsync="no")
    name = "embedded_broker" if request.param == "broker" else "redis_broker"
    url = url_of(request.getfixturevalue(name))
    return lambda: quinque.aio.connect(url)


@pytest.mark.parametrize("put", [put_job, put_event, put_task, put_item])
def test_what_an_interrupted_task_was_about_to_get_is_ready_again(
    opened: Callable[[], Any], queue: str, put: Callable[..., Any]
) -> None:
    async def work() -> tuple[bool, Any]:
        async with opened() as queues:
            take = await put(queues, queue)
            taking = asyncio.create_task(take())
            await asyncio.sleep(0)  # it has asked
            taking.cancel()
            await asyncio.wait([taking])
            return taking.cancelled(), await take(timeout=30)

    is_interrupted, again = asyncio.run(work())

    assert is_interrupted
    assert again.body == b"x"
    assert getattr(again, "nacks", 0) == 0


def test_an_interrupted_task_that_waited_leaves_nothing_behind(
    embedded_broker: RunningBroker, queue: str
) -> None:
    url = url_of(embedded_broker)

    async def work() -> list[Any]:
        async with quinque.aio.connect(url) as queues:
            taken = []
            for is_answered in (False, True):
                waiting = asyncio.create_task(queues.jobs(queue).take(timeout=None))
                await asyncio.to_thread(wait_until, lambda: waits_on(url, queue))
                if is_answered:  # and this loop has not heard of it
                    add_and_see_it_leased(url, queue)
                waiting.cancel()
                await asyncio.wait([waiting])
                if not is_answered:
                    await queues.jobs(queue).add(b"for another")
                job = await queues.jobs(queue).take(timeout=30)
                assert job is not None
                await job.ack()
                taken.append(job)
            return taken

    first, second = asyncio.run(work())

    assert (first.body, first.requeues) == (b"for another", 0)  # nobody had it before
    assert (second.body, second.nacks) == (b"x", 0)


def test_what_a_thread_was_about_to_get_is_ready_again(
    embedded_broker: RunningBroker, queue: str
) -> None:
    url, main = url_of(embedded_broker), threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: waits_on(url, queue))
        signal.pthread_kill(main, signal.SIGUSR1)

    with quinque.connect(url) as queues, interrupted_by(lambda: add_and_see_it_leased(url, queue)):
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            queues.jobs(queue).take(timeout=2 * TIMEOUT_S)
        interrupting.join()

        again = queues.jobs(queue).take(timeout=30)

    assert again is not None
    assert (again.body, again.nacks) == (b"x", 0)


def test_an_element_stays_delivered(embedded_broker: RunningBroker, queue: str) -> None:
    async def work() -> Any:
        async with quinque.aio.connect(url_of(embedded_broker)) as queues:
            await queues.reliable(queue).push(b"x")
            popping = asyncio.create_task(queues.reliable(queue).pop())
            await asyncio.sleep(0)
            popping.cancel()
            await asyncio.wait([popping])
            return await queues.reliable(queue).recover(10, elapsed=0)

    [element] = asyncio.run(work())

    assert element.body == b"x"


def waits_on(url: str, queue: str) -> bool:
    """Whether somebody waits for a job of that queue."""
    with Broker(url) as broker:
        told = dict(zip(*[iter(broker.call("QSTAT", queue) or [])] * 2, strict=True))
        return int(told.get(b"blocked", 0)) > 0


def add_and_see_it_leased(url: str, queue: str) -> None:
    with quinque.connect(url) as queues:
        id = queues.jobs(queue).add(b"x")
        wait_until(lambda: is_leased(queues.jobs(queue).show(id)))


def is_leased(job: WorkView | None) -> bool:
    return job is not None and job.state is State.LEASED


@contextmanager
def interrupted_by(first: Callable[[], None]) -> Iterator[None]:
    """A signal does this, and then interrupts as Ctrl-C does."""

    def interrupt(*told: Any) -> None:
        first()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
