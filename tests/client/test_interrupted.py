"""A message that an interrupted caller was about to get is ready again, if its family allows."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

import quinque
import quinque.aio
from quinque.client.sync.broker import Broker
from quinque.model.states import State
from quinque.model.work_ops import WorkView
from tests.client.conftest import RUNNERS
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import TIMEOUT_S

# It ends with 0 if a signal that comes while a request is packed raises the error of its handler.
PACKS: Final = """
import signal
from quinque.client.link import packed


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


signal.signal(signal.SIGALRM, interrupt)
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while True:
            packed([["QLEN", *range(1_000)]])
    except Interrupted:
        pass
"""

TLS = Path(__file__).parents[1] / "server" / "tls"


def url_of(running: RunningBroker) -> str:
    return f"redis://127.0.0.1:{running.port}"


async def put_job(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.jobs(name).add(b"x")
    take: Callable[..., Awaitable[Any]] = queues.jobs(name).take
    return take


async def put_job_for_once(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.jobs(name).add(b"x", retry=0)
    take: Callable[..., Awaitable[Any]] = queues.jobs(name).take
    return take


async def put_element(queues: Any, name: str) -> Callable[..., Awaitable[Any]]:
    await queues.reliable(name).push(b"x")
    pop: Callable[..., Awaitable[Any]] = queues.reliable(name).pop
    return pop


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


class Ways(NamedTuple):
    """The URL of a broker, and that of the client to be interrupted, with its settings."""

    url: str
    to: str
    settings: dict[str, str]


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    files = ("--tls-cert", str(TLS / "certificate.pem"), "--tls-key", str(TLS / "key.pem"))
    folder = tmp_path_factory.mktemp("tls")
    with start_broker(folder, "--tls-listen", "127.0.0.1:0", *files) as running:
        yield running


@pytest.fixture(params=["plain", "tls"])
def ways(request: pytest.FixtureRequest) -> Ways:
    if request.param == "plain":
        url = url_of(request.getfixturevalue("embedded_broker"))
        return Ways(url, url, {})
    broker: RunningBroker = request.getfixturevalue("tls_broker")
    ports = {int(address.rsplit(":", 1)[1]) for address in broker.addresses}
    [port] = ports - {broker.port}
    ca = {"ca": str(TLS / "certificate.pem")}
    return Ways(url_of(broker), f"rediss://localhost:{port}", ca)


@pytest.fixture(params=RUNNERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """quinque.aio.connect or quinque.aio.open, to be called on the loop."""
    if request.param == "folder":
        return lambda: quinque.aio.open(tmp_path / "queues", fsync="no")
    name = "embedded_broker" if request.param == "broker" else "redis_broker"
    url = url_of(request.getfixturevalue(name))
    return lambda: quinque.aio.connect(url)


@pytest.mark.parametrize(
    "put", [put_job, put_job_for_once, put_event, put_task, put_item, put_element]
)
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


def test_a_client_that_is_closed_while_it_gives_back_keeps_no_connection(
    tmp_path: Path,
) -> None:
    async def work(url: str) -> None:
        async with quinque.aio.connect(url) as watching:
            queues = quinque.aio.connect(url)
            taking = asyncio.create_task(queues.jobs("q").take(timeout=None))
            await _told(watching, b"blocked_clients:1")
            await watching.jobs("q").add(b"x")
            taking.cancel()
            await asyncio.sleep(0)
            await queues.close()
            await asyncio.wait([taking])

            again = await watching.jobs("q").take(timeout=TIMEOUT_S)
            assert again is not None
            assert again.body == b"x"
            await _told(watching, b"connected_clients:2")  # those of this client

    with start_broker(tmp_path) as running:
        asyncio.run(work(url_of(running)))


async def _told(queues: Any, line: bytes) -> None:
    """The broker says this of its clients, sooner or later."""
    async with asyncio.timeout(TIMEOUT_S):
        while line not in (await queues.runner.call("INFO", "clients")).splitlines():
            await asyncio.sleep(0.01)


def test_an_interrupted_task_that_waited_leaves_nothing_behind(ways: Ways, queue: str) -> None:
    url, to, settings = ways

    async def work() -> list[Any]:
        async with quinque.aio.connect(to, **settings) as queues:  # type: ignore[arg-type]
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


def test_a_reply_that_is_on_its_way_over_tls_is_given_back(queue: str) -> None:
    """The server answers when it has heard that the client says no more."""
    is_asked, given_back = threading.Event(), threading.Event()
    id, name = b"D-00000000-aaaaaaaaaaaaaaaaaaaaaaaa-05a1", queue.encode()
    job = b"*1\r\n*7\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(it), it) for it in (name, id, b"x"))
    job += b"+nacks\r\n:0\r\n+additional-deliveries\r\n:0\r\n"

    def serve(sock: socket.socket) -> None:
        with sock:
            while heard := sock.recv(4096):
                if b"UNGETJOB" in heard:
                    assert id in heard
                    given_back.set()
                    sock.sendall(b":1\r\n")
                elif b"GETJOB" in heard:
                    is_asked.set()
                    # Below TLS: above it, the end of what is read is the end of all.
                    assert not socket.socket.recv(sock, 1, socket.MSG_PEEK)
                    sock.sendall(job)
                    return
                else:
                    sock.sendall(b"+PONG\r\n")

    def accept() -> None:
        for _ in range(2):
            with suppress(OSError):  # the client has closed it
                sock, _ = server.accept()
                sock.settimeout(TIMEOUT_S)
                serve(context.wrap_socket(sock, server_side=True))

    async def work(url: str) -> None:
        async with quinque.aio.connect(url, ca=str(TLS / "certificate.pem")) as queues:
            waiting = asyncio.create_task(queues.jobs(queue).take(timeout=None))
            await asyncio.to_thread(is_asked.wait, TIMEOUT_S)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        asyncio.run(work(f"rediss://localhost:{server.getsockname()[1]}"))
        accepting.join(TIMEOUT_S)

    assert given_back.is_set()


def test_a_signal_while_a_request_is_packed_raises_the_error_of_its_handler() -> None:
    ended = subprocess.run([sys.executable, "-c", PACKS], timeout=TIMEOUT_S, check=False)

    assert ended.returncode == 0


def test_what_a_thread_was_about_to_get_is_ready_again(ways: Ways, queue: str) -> None:
    (url, to, settings), main = ways, threading.get_ident()

    def interrupt() -> None:
        wait_until(lambda: waits_on(url, queue))
        signal.pthread_kill(main, signal.SIGUSR1)

    with (
        quinque.connect(to, **settings) as queues,  # type: ignore[arg-type]
        interrupted_by(lambda: add_and_see_it_leased(url, queue)),
    ):
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            queues.jobs(queue).take(timeout=2 * TIMEOUT_S)
        interrupting.join()

        again = queues.jobs(queue).take(timeout=30)

    assert again is not None
    assert (again.body, again.nacks) == (b"x", 0)


def test_a_signal_at_any_step_of_a_request_loses_no_message(
    embedded_broker: RunningBroker, queue: str
) -> None:
    steps = {"ask", "_receive", "take_into"}
    url = url_of(embedded_broker)
    with quinque.connect(url) as others, quinque.connect(url) as queues:
        for number in range(100):
            others.jobs(queue).add(b"x")
            queues.jobs(queue).info()  # connects
            with interrupted_after_step(number, steps) as interrupted, suppress(KeyboardInterrupt):
                queues.jobs(queue).take_many(1)
            if not interrupted:
                break
            again = others.jobs(queue).take(timeout=TIMEOUT_S)
            assert again is not None, f"step {number}: {interrupted}"
            again.ack()

    assert number > len(steps)


@contextmanager
def interrupted_after_step(number: int, steps: set[str]) -> Iterator[list[str]]:
    """A signal handler raises when this one of the calls to functions written in C has returned, of
    those that the client makes in these functions. The result of the call is lost."""
    called: list[str] = []
    interrupted: list[str] = []

    def profile(frame: FrameType, event: str, told: Any) -> None:
        if event == "c_return" and frame.f_code.co_name in steps:
            called.append(told.__name__)
            if len(called) == number + 1:
                interrupted.append(f"{frame.f_code.co_name} after {told.__name__}")
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        yield interrupted
    finally:
        sys.setprofile(None)


def waits_on(url: str, queue: str) -> bool:
    """Whether a client waits for a job of that queue."""
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
