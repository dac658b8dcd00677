"""A program is one tube session: its tasks stay taken for as long as the program holds them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque.client.sync.broker import Broker
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import TIMEOUT_S
from tests.servers.redis_server import RedisServer

THREADS = 8  # idle connections that a client with threads keeps


@pytest.fixture(scope="module", params=["embedded", "redis"])
def lonely(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A broker whose clients are all of one test."""
    with ExitStack() as stack:
        flags = ["--fsync", "no"]
        if request.param == "redis":
            flags = ["--store", stack.enter_context(RedisServer(on_socket=True)).url]
        yield stack.enter_context(start_broker(tmp_path_factory.mktemp("lonely"), *flags))


def url_of(running: RunningBroker) -> str:
    return f"redis://127.0.0.1:{running.port}"


def clients(url: str, what: bytes) -> int:
    with Broker(url) as broker:
        info: bytes = broker.call("INFO", "clients")
        [line] = [line for line in info.splitlines() if line.startswith(what)]
        return int(line.partition(b":")[2])


def test_a_cancelled_take_does_not_end_the_session(lonely: RunningBroker, queue: str) -> None:
    url = url_of(lonely)

    async def work() -> tuple[Any, bool]:
        async with quinque.aio.connect(url) as queues, quinque.aio.connect(url) as others:
            tube = queues.tube(queue)
            await tube.make()
            await tube.put(b"x")
            task = await tube.take(TIMEOUT_S)  # on a connection that it has alone
            assert task is not None
            open_before = await asyncio.to_thread(clients, url, b"connected_clients")
            waiting = asyncio.create_task(tube.take(timeout=None))
            await asyncio.to_thread(
                wait_until, lambda: clients(url, b"blocked_clients") == 1, "the take waits"
            )
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.to_thread(
                wait_until,
                lambda: clients(url, b"connected_clients") <= open_before,
                "the connection of the take is closed",
            )
            return await others.tube(queue).take(), await task.ack()

    taken_by_another, is_acked = asyncio.run(work())

    assert taken_by_another is None
    assert is_acked


def test_an_interrupted_take_does_not_end_the_session(lonely: RunningBroker, queue: str) -> None:
    url, main = url_of(lonely), threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: clients(url, b"blocked_clients") == 1, "the take waits")
        signal.pthread_kill(main, signal.SIGUSR1)

    with quinque.connect(url) as queues, quinque.connect(url) as others, interrupted():
        tube = queues.tube(queue)
        tube.make()
        tube.put(b"x")
        task = tube.take()
        assert task is not None
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            tube.take(timeout=2 * TIMEOUT_S)
        interrupting.join()
        wait_until(lambda: clients(url, b"blocked_clients") == 0, "the take does not wait")

        assert others.tube(queue).take() is None
        assert task.ack()


def test_a_connection_that_is_closed_as_surplus_does_not_end_the_session(
    opener: Opener, lonely: RunningBroker, queue: str
) -> None:
    url = url_of(lonely)
    queues = opener.connect(url)
    tube = queues.tube(queue)
    tube.make()
    tube.put(b"x")
    task = tube.take()

    with ThreadPoolExecutor(THREADS + 1) as threads:
        # The first of these waits on the connection on which the task was taken.
        first = wait_for_a_job(threads, url, queues, f"{queue} first", 1)
        others = [
            wait_for_a_job(threads, url, queues, f"{queue} others", 2 + number)
            for number in range(THREADS)
        ]
        queues.jobs(f"{queue} others").add_many([b"x"] * THREADS)
        for other in others:
            other.result(TIMEOUT_S)
        queues.jobs(f"{queue} first").add(b"x")
        first.result(TIMEOUT_S)

    assert opener.connect(url).tube(queue).take(timeout=0) is None
    assert task.ack()


def test_threads_may_ask_for_their_session_at_the_same_time(
    opener: Opener, lonely: RunningBroker, queue: str
) -> None:
    tube = opener.connect(url_of(lonely)).tube(queue)
    tube.make()

    with ThreadPoolExecutor(THREADS) as threads:
        acked = list(threads.map(lambda _: tube.ack([0]), range(THREADS * 200)))

    assert set(acked) == {0}  # there is no such task


def test_tasks_of_a_silent_client_stay_taken(opener: Opener, lonely: RunningBroker) -> None:
    url, name = url_of(lonely), "silent"
    tube = opener.connect(url).tube(name)
    tube.make()
    tube.put(b"x")
    task = tube.take()
    with lonely.connect() as silent:
        silent.call("CONFIG", "SET", "idle-timeout", "1")
        assert silent.read_to_end() == b""  # closed: the client has been silent for longer
    with lonely.connect() as setting:
        setting.call("CONFIG", "SET", "idle-timeout", "0")

    assert opener.connect(url).tube(name).take(timeout=0) is None
    assert task.ack()
    tube.drop()


def wait_for_a_job(
    threads: ThreadPoolExecutor, url: str, queues: Any, queue: str, waiting: int
) -> Future[Any]:
    """A take that waits in the broker, beside `waiting - 1` others."""
    taking = threads.submit(queues.jobs(queue).take, timeout=2 * TIMEOUT_S)
    wait_until(lambda: clients(url, b"blocked_clients") == waiting, "the take waits")
    return taking


@contextmanager
def interrupted() -> Iterator[None]:
    """SIGUSR1 interrupts as Ctrl-C does."""

    def interrupt(*told: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
