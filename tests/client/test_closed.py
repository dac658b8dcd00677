"""A client that is closed while a program waits, loses its connection, or asks another server."""

from __future__ import annotations

import asyncio
import pickle
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque.errors import (
    ConnectionLost,
    NotABroker,
    NotConnected,
    NotDone,
    OutcomeUnknown,
    QuinqueError,
    StoreClosed,
)
from tests.client.conftest import Opener
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.servers.ports import ReservedPort
from tests.servers.redis_server import RedisServer

ID = b"D-dcb833cf-rEh6ASt9I3oyJ301XFS1XOa+-05a1"
JOB = b"*1\r\n*7\r\n$1\r\nq\r\n$40\r\n%b\r\n$1\r\nx\r\n+n\r\n:0\r\n+a\r\n:0\r\n" % ID
BROKERS = pytest.mark.parametrize("served_by", ["embedded_broker", "redis_broker"])

WAITS: dict[str, Callable[[Any, str], Any]] = {
    "jobs": lambda queues, name: queues.jobs(name).take(None),
    "events": lambda queues, name: queues.events(name).group("g").take(None),
    "tubes": lambda queues, name: queues.tube(name).take(None),
    "reliable": lambda queues, name: queues.reliable(name).pop(None),
    "items": lambda queues, name: queues.items(name).lease(30, None),
    "loop": lambda queues, name: next(iter(queues.jobs(name))),
}


def add(queues: Any, family: str, name: str) -> None:
    match family:
        case "events":
            queues.events(name).add(b"x")
        case "tubes":
            queues.tube(name).put(b"x")
        case "reliable":
            queues.reliable(name).push(b"x")
        case "items":
            queues.items(name).add("1", b"x")
        case _:
            queues.jobs(name).add(b"x")


def blocked(queues: Any) -> int:
    """How many clients of the broker wait for something."""
    told = queues.runner.call("CLIENT", "LIST")
    return sum(b" flags=b" in line for line in told.splitlines())


@pytest.mark.parametrize("family", WAITS)
@BROKERS
def test_closing_the_client_wakes_a_thread_that_waits(
    request: pytest.FixtureRequest, served_by: str, family: str, queue: str
) -> None:
    running: RunningBroker = request.getfixturevalue(served_by)
    url = f"redis://127.0.0.1:{running.port}"
    raised: list[BaseException] = []
    with quinque.connect(url) as others:
        if family == "tubes":
            others.tube(queue).make("fifo", exist_ok=True)
        before = blocked(others)
        queues = quinque.connect(url)

        def wait() -> None:
            try:
                WAITS[family](queues, queue)
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: blocked(others) > before, "it waits")
        queues.close()
        thread.join(TIMEOUT_S)
        add(others, family, queue)

        assert [type(error) for error in raised] == [StoreClosed]
        assert str(raised[0]) == "the client was closed while it waited for a message"
        assert WAITS[family](others, queue).body == b"x"


@BROKERS
def test_closing_the_client_wakes_a_task_that_waits(
    request: pytest.FixtureRequest, served_by: str, queue: str
) -> None:
    running: RunningBroker = request.getfixturevalue(served_by)
    url = f"redis://127.0.0.1:{running.port}"

    async def wait_and_close() -> None:
        queues = quinque.aio.connect(url)
        async with quinque.aio.connect(url) as others:
            runner: Any = others.runner
            waiting = asyncio.create_task(queues.jobs(queue).take(None))
            while b"cmd=getjob" not in await runner.call("CLIENT", "LIST"):
                assert not waiting.done()
            await queues.close()
            with pytest.raises(StoreClosed, match="the client was closed"):
                await asyncio.wait_for(waiting, TIMEOUT_S)
            await others.jobs(queue).add(b"x")
            assert (await others.jobs(queue).take(None)).body == b"x"

    asyncio.run(wait_and_close())


def test_what_was_handed_out_when_the_client_was_closed_is_given_back(opener: Opener) -> None:
    raised: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        queues = opener.connect(f"redis://127.0.0.1:{server.getsockname()[1]}", retries=0)

        def wait() -> None:
            try:
                queues.jobs("q").take(timeout=5)
            except StoreClosed as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            assert b"PING" in connection.recv(1 << 16)
            connection.sendall(b"+PONG\r\n")
            assert b"GETJOB" in connection.recv(1 << 16)
            queues.close()
            assert connection.recv(1) == b""
            connection.sendall(JOB)  # which was on its way
            back, _ = server.accept()
            with back:
                back.settimeout(TIMEOUT_S)
                assert b"PING" in back.recv(1 << 16)
                back.sendall(b"+PONG\r\n")
                request = back.recv(1 << 16)
                back.sendall(b":1\r\n")
                assert back.recv(1) == b""
        thread.join(TIMEOUT_S)

    assert b"UNGETJOB" in request
    assert ID in request
    assert len(raised) == 1


def test_closing_the_client_ends_a_wait_for_events_between_two_of_its_requests(
    opener: Opener,
) -> None:
    """A broker with one event that another consumer is always faster to get."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        queues = opener.connect(f"redis://127.0.0.1:{server.getsockname()[1]}", retries=0)
        asked: list[bytes] = []

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                while request := connection.recv(1 << 16):
                    if b"QGET" in request:
                        asked.append(request)
                        if len(asked) == 2:
                            queues.close()
                    told = {b"PING": b"+PONG", b"QGET": b"$-1", b"QNOTIFY": b"$1\r\nq"}
                    connection.sendall(told[request.split(b"\r\n")[2]] + b"\r\n")

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=server.accept()[:1]).start()

        threading.Thread(target=accept).start()
        try:
            with pytest.raises(StoreClosed):
                queues.events("q").group("g").take(timeout=TIMEOUT_S / 2)
        finally:
            queues.close()
            server.shutdown(socket.SHUT_RDWR)

    assert len(asked) == 2


def test_closing_a_folder_wakes_a_thread_that_waits(tmp_path: Path, queue: str) -> None:
    queues = quinque.open(tmp_path / "q", fsync="no")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            queues.jobs(queue).take(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    queues.close()
    thread.join(TIMEOUT_S)

    assert [type(error) for error in raised] == [StoreClosed]


def test_a_closed_client_can_be_used_again(opener: Opener, embedded_broker: RunningBroker) -> None:
    queues = opener.connect(f"redis://127.0.0.1:{embedded_broker.port}")
    queues.jobs("closed").add(b"x")
    queues.close()

    assert queues.jobs("closed").take(None).body == b"x"


def test_a_broker_that_does_not_answer_is_a_connection_error(opener: Opener) -> None:
    port = ReservedPort()
    try:
        queues = opener.connect(f"redis://127.0.0.1:{port.number}", retries=0)
        with pytest.raises(ConnectionError, match="no broker answers") as caught:
            queues.jobs("q").add(b"x")
    finally:
        port.close()

    assert isinstance(caught.value, NotDone)
    assert type(pickle.loads(pickle.dumps(caught.value))) is NotConnected


def test_a_lost_connection_is_a_connection_error_and_unknown() -> None:
    error = pickle.loads(pickle.dumps(ConnectionLost("lost")))

    assert isinstance(error, ConnectionError)
    assert isinstance(error, OutcomeUnknown)
    assert str(error) == "lost"


@pytest.mark.parametrize("family", WAITS)
def test_a_redis_that_is_no_broker_is_named(
    opener: Opener, redis_server: RedisServer, family: str
) -> None:
    queues = opener.connect(redis_server.url)

    with pytest.raises(NotABroker, match=r"is not a Quinque broker: .* check the URL"):
        add(queues, family, "q")
    with pytest.raises(NotABroker):
        WAITS[family](queues, "q")


def test_a_command_that_a_broker_does_not_know_is_just_refused(
    opener: Opener, embedded_broker: RunningBroker
) -> None:
    queues = opener.connect(f"redis://127.0.0.1:{embedded_broker.port}")

    with pytest.raises(QuinqueError, match="unknown command 'NOSUCH'") as caught:
        queues.runner.call("NOSUCH")

    assert type(caught.value) is QuinqueError
