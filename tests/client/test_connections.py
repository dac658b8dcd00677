"""Which connections a program's requests share, and when the connections are closed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from math import inf
from pathlib import Path
from typing import Any

import pytest

import quinque.aio
from quinque.client.addresses import Address
from quinque.client.aio.broker import Broker
from quinque.errors import NotDone, StoreClosed
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import TIMEOUT_S


def url_of(running: RunningBroker) -> str:
    return f"redis://127.0.0.1:{running.port}"


@pytest.mark.parametrize("are_cancelled", [False, True])
def test_a_take_that_waits_or_is_cancelled_disturbs_no_other_request(
    embedded_broker: RunningBroker, queue: str, are_cancelled: bool
) -> None:
    async def work() -> list[str]:
        # A take that waits is asked again after half of `timeout_s`: not within this test.
        async with quinque.aio.connect(url_of(embedded_broker), timeout_s=10_000) as queues:
            adding = [asyncio.create_task(queues.jobs(queue).add(b"x")) for _ in range(20)]
            taking = list[asyncio.Task[Any]]()
            while len(taking) < 200 and not all(task.done() for task in adding):
                taking.append(asyncio.create_task(queues.jobs(f"{queue}?").take(timeout=None)))
                await asyncio.sleep(0)
            if not are_cancelled:
                async with asyncio.timeout(TIMEOUT_S):
                    await asyncio.gather(*adding)
            for task in taking:
                task.cancel()
            await asyncio.wait(taking)
            return await asyncio.gather(*adding)

    ids = asyncio.run(work())

    assert len(set(ids)) == 20


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_connection_on_which_a_take_may_wait_is_not_shared(
    embedded_broker: RunningBroker, queue: str, is_cancelled: bool
) -> None:
    """Also when it was idle before."""

    async def work() -> list[str]:
        async with quinque.aio.connect(url_of(embedded_broker), timeout_s=10_000) as queues:
            jobs, empty = queues.jobs(queue), queues.jobs(f"{queue}?")
            ids = [await jobs.add(b"x")]
            for _ in range(5):
                taking = asyncio.create_task(empty.take(timeout=None))
                for _ in range(3):  # it is sent
                    await asyncio.sleep(0)
                adding = asyncio.create_task(jobs.add(b"x"))
                await asyncio.sleep(0)
                if is_cancelled:
                    taking.cancel()
                async with asyncio.timeout(TIMEOUT_S):
                    ids.append(await adding)
                taking.cancel()
                await asyncio.wait([taking])
        return ids

    assert len(set(asyncio.run(work()))) == 6


def test_requests_share_a_connection_that_is_slow_if_the_broker_has_no_room_for_another(
    tmp_path: Path, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is not asked for room with each of them."""
    monkeypatch.setattr("quinque.client.aio.edge._SLOW_S", 0.0)
    monkeypatch.setattr("quinque.client.aio.edge._REFUSED_S", inf)
    connect, refused = Broker._connect, list[str]()

    async def note(client: Broker, address: Address) -> Any:
        try:
            return await connect(client, address)
        except NotDone as error:
            refused.append(str(error))
            raise

    async def work() -> list[str]:
        async with quinque.aio.connect(url_of(broker)) as queues:
            ids = [await queues.jobs(queue).add(b"first")]
            monkeypatch.setattr(Broker, "_connect", note)
            adding = (queues.jobs(queue).add(b"x") for _ in range(20))
            ids += await asyncio.gather(*adding)
            return [*ids, await queues.jobs(queue).add(b"last")]

    with start_broker(tmp_path, "--max-clients", "1") as broker:
        ids = asyncio.run(work())

    assert len(set(ids)) == 22
    assert refused == ["max number of clients reached"]


@pytest.mark.parametrize("name", ["info", "take"])
def test_a_connection_that_is_being_opened_when_the_client_is_closed_is_not_kept(
    opener: Opener, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        queues = opener.connect(f"redis://127.0.0.1:{server.getsockname()[1]}", retries=0)
        jobs, came = queues.jobs("q"), list[Any]()

        def ask() -> None:
            try:
                came.append(jobs.info() if name == "info" else jobs.take(timeout=5))
            except StoreClosed as error:
                came.append(str(error))

        asking = threading.Thread(target=ask)
        asking.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            assert b"PING" in connection.recv(1 << 16)

            queues.close()
            connection.sendall(b"+PONG\r\n")
            if name == "info":  # which does not wait for a message, and is carried out
                assert b"q" in connection.recv(1 << 16)
                connection.sendall(b"*-1\r\n")
            asking.join(TIMEOUT_S)

            assert connection.recv(1) == b""
        closed = "the client was closed while it waited for a message"
        assert came == [None if name == "info" else closed]


def test_a_signal_handler_may_use_the_client_that_it_interrupts(
    embedded_broker: RunningBroker, queue: str
) -> None:
    program = f"""
import random
import signal
import quinque

queues = quinque.connect({url_of(embedded_broker)!r})
tube, asked = queues.tube({queue!r}), []
tube.make()
signal.signal(signal.SIGALRM, lambda *told: asked.append(tube.ack([0])))
while len(asked) < 1000:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.0003))
    tube.ack([0])
signal.setitimer(signal.ITIMER_REAL, 0)
print(set(asked))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT_S
    )

    assert (ended.stdout, ended.stderr) == ("{0}\n", "")
