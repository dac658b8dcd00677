"""The HTTP port of a broker: metrics that Prometheus reads, probes that say what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from quinque.cli import http_port
from quinque.console.app import make_app
from quinque.console.exposition import Page
from quinque.console.port import CONNECTIONS_MOST
from quinque.errors import BadSetting
from quinque.server.measuring import QUEUES_MOST
from quinque.server.metrics import METRICS
from tests.console.scrapes import HTTP, families, probe, scrape, url_of
from tests.faults.disks import SmallDisk
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client
from tests.servers import stores
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer

KINDS = [kind for kind in stores.ALL if kind != "cluster"]
TABLE = {metric.name: metric for metric in METRICS}


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    flags = stores.store_flags(request, request.param)
    with start_broker(tmp_path_factory.mktemp("broker"), *HTTP, *flags) as running:
        yield running


def test_every_metric_is_of_the_table(broker: RunningBroker, client: Client, queue: str) -> None:
    client.call("ADDJOB", queue, "body", 0)

    for family in families(broker):
        name = family.name + ("_total" if family.type == "counter" else "")
        assert family.type == TABLE[name].kind
        assert family.documentation == TABLE[name].help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(TABLE[name].labels)


def test_what_becomes_of_jobs_is_told(broker: RunningBroker, client: Client, queue: str) -> None:
    ids = [client.call("ADDJOB", queue, "body", 0) for _ in range(3)]
    client.call("ADDJOB", queue, "body", 0, "DELAY", 100)
    client.call("GETJOB", "COUNT", 3, "FROM", queue)
    client.call("ACKJOB", ids[0])
    client.call("NACK", ids[1])

    def told() -> dict[str, float]:
        return scrape(broker).of_queue(queue)

    expected = {
        "jobs quinque_messages ready": 1,
        "jobs quinque_messages leased": 1,
        "jobs quinque_messages delayed": 1,
        "jobs quinque_messages_added_total": 4,
        "jobs quinque_messages_delivered_total": 3,
        "jobs quinque_messages_acked_total": 1,
        "jobs quinque_messages_returned_total nacked": 1,
    }
    wait_until(lambda: told() == expected, "a page made after all that")


def test_groups_of_a_feed_are_told(broker: RunningBroker, client: Client, queue: str) -> None:
    client.call("QADD", queue, 60, "body")
    client.call("QADD", queue, 60, "body")
    client.call("QGET", queue, "group", "EX", 60)

    expected = {
        "events quinque_messages ready": 1,
        "events quinque_messages leased": 1,
        "events quinque_messages kept": 2,
        "events quinque_group_messages group ready": 1,
        "events quinque_group_messages group leased": 1,
        "events quinque_messages_added_total": 2,
        "events quinque_messages_delivered_total": 1,
    }
    wait_until(lambda: scrape(broker).of_queue(queue) == expected, "a page made after all that")


def test_the_broker_tells_of_itself(broker: RunningBroker, client: Client) -> None:
    client.call("PING")

    def told() -> bool:
        found = scrape(broker)
        return (
            found.value("quinque_clients", kind="resp2") == 1
            and (found.value("quinque_commands_total", command="ping") or 0) > 0
            and (found.value("quinque_memory_bytes") or 0) > 1 << 20
            and found.value("quinque_store_up") == 1
        )

    wait_until(told, "a page that knows the client")


def test_every_name_has_a_label_of_its_own_that_can_be_read(
    broker: RunningBroker, client: Client
) -> None:
    names = {
        b'\xff"\n': '\\xff"\\x0a',
        b"a\xff": "a\\xff",
        b"a\\xff": "a\\\\xff",
        b"\x1b[31mred\x7f": "\\x1b[31mred\\x7f",
        "ü\x85".encode(): "ü\\xc2\\x85",
    }
    for name in names:
        client.call("ADDJOB", name, "body", 0)

    def told() -> bool:
        found = scrape(broker)
        return all(found.of_queue(label) for label in names.values())

    wait_until(told, "a page with the queues")


def test_a_broker_that_works_is_alive_and_ready(broker: RunningBroker) -> None:
    assert probe(broker, "/livez") == (200, {"alive": True})
    assert probe(broker, "/readyz") == (200, {"ready": True})
    assert probe(broker, "/healthz") == (200, {"healthy": True})


def test_the_port_says_what_each_path_is_for(broker: RunningBroker) -> None:
    code, told = probe(broker, "/")

    assert (code, told["program"]) == (200, "quinque serve")
    assert {probe(broker, path)[0] for path in told["paths"] if path != "/metrics"} == {200}
    assert "/metrics" in told["paths"]


@pytest.mark.parametrize("path", ["/livez", "/nothing"])
def test_a_request_that_is_broken_is_answered_and_leaves_no_trace_in_the_log(
    broker: RunningBroker, path: str
) -> None:
    where = urlsplit(url_of(broker))
    request = f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=30) as sock:
        sock.sendall(request.encode())
        answer = b"".join(iter(lambda: sock.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    probe(broker, "/livez")  # after whatever the broker has to say of it
    assert not [line for line in broker.log if "Traceback" in line or "Exception" in line]


def test_what_is_not_there_is_not_found(broker: RunningBroker) -> None:
    for path in ("/nothing", "/livez/"):
        with pytest.raises(HTTPError, match="404"), urlopen(url_of(broker) + path, timeout=30):
            pass


def test_a_broker_that_is_leaving_is_not_ready(broker: RunningBroker, client: Client) -> None:
    client.call("CLUSTER", "LEAVING", "yes")
    left = probe(broker, "/readyz")
    client.call("CLUSTER", "LEAVING", "no")

    assert left == (503, {"ready": False, "reason": "the broker is draining (CLUSTER LEAVING yes)"})


def test_who_asks_nothing_or_reads_nothing_gives_way(
    broker: RunningBroker, client: Client, queue: str
) -> None:
    where = urlsplit(url_of(broker))
    assert where.hostname is not None
    client.call("ADDJOB", queue + "x" * 50_000, "body", 0)  # a page that does not fit into a socket
    with ExitStack() as stack:
        for number in range(2 * CONNECTIONS_MOST):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((where.hostname, where.port or 0))
            if number % 2:
                sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")

        assert probe(broker, "/livez")[0] == 200
        assert client.call("PING") == b"PONG"


# -- a broker each --------------------------------------------------------------------------------


def test_of_many_queues_the_largest_are_told(tmp_path: Path) -> None:
    with start_broker(tmp_path, *HTTP, "--fsync", "no") as broker, broker.connect() as client:
        for number in range(QUEUES_MOST + 5):
            client.send("ADDJOB", f"q{number:04d}", "body", 0)
        client.read_many(QUEUES_MOST + 5)
        client.call("ADDJOB", "q0700", "body", 0)
        found = scrape(broker)

        assert found.value("quinque_queues_left_out") == 5
        assert found.value("quinque_queues", family="jobs") == QUEUES_MOST + 5
        assert found.of_queue("q0700")["jobs quinque_messages ready"] == 2
        # It says so until it has ended, and it ends when its clients have what they asked for.
        client.call("ADDJOB", "large", b"x" * (8 << 20), 0)
        for _ in range(4):
            client.send("QPEEK", "large", 1)
        wait_until(lambda: _unsent_bytes(broker) > 0, "replies that no client reads")
        broker.signal(signal.SIGTERM)
        stopping = (503, {"ready": False, "reason": "the broker is stopping"})
        wait_until(lambda: probe(broker, "/readyz") == stopping, "it stops")
        assert probe(broker, "/healthz")[0] == 503


def _unsent_bytes(broker: RunningBroker) -> int:
    with broker.connect() as client:
        lines = client.call("CLIENT", "LIST").decode().splitlines()
    return max(int(line.partition(" omem=")[2].split()[0]) for line in lines)


def test_a_broker_whose_disk_is_full_is_not_ready_and_tells_of_its_queues(tmp_path: Path) -> None:
    with (
        SmallDisk(tmp_path / "disk", 1024) as disk,
        start_broker(tmp_path / "disk", *HTTP, before=disk.before) as broker,
        broker.connect() as client,
    ):
        client.call("ADDJOB", "q", "body", 0)
        (disk.inside / "filler").write_bytes(bytes(_room_bytes(disk.inside)))

        assert probe(broker, "/readyz") == (503, {"ready": False, "reason": "the disk is full"})
        found = scrape(broker)

    assert found.value("quinque_store_up") == 0
    assert found.of_queue("q")["jobs quinque_messages ready"] == 1


def _room_bytes(folder: Path) -> int:
    there = os.statvfs(folder)
    return there.f_bavail * there.f_frsize


def test_a_broker_whose_redis_is_gone_is_not_ready(tmp_path: Path) -> None:
    with RedisServer() as server, start_broker(tmp_path, *HTTP, "--store", server.url) as broker:
        ready = probe(broker, "/readyz")
        server.kill()
        wait_until(lambda: probe(broker, "/readyz")[0] == 503, "it is not ready")

        assert ready[0] == 200
        assert "Redis has not answered" in probe(broker, "/readyz")[1]["reason"]
        assert probe(broker, "/livez")[0] == 200
        assert scrape(broker).value("quinque_store_up") == 0


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(BadSetting, match=f"http-listen: {address} is in use; choose another"):
            http_port.bind(["127.0.0.1:0", address])


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "find_spec", lambda name: None)

    said = "http-listen is set but the package starlette is missing; install the extra 'http' in "
    with pytest.raises(BadSetting, match=f"^{said}"):
        http_port.HttpPort(None, ["127.0.0.1:0"])  # type: ignore[arg-type]


def test_livez_fails_and_says_why_when_the_broker_must_be_started_again() -> None:
    answers: list[Any] = []
    page = Page([], lambda: asyncio.sleep(0))
    app = make_app(page, lambda: "", lambda: "no event loop iteration has ended for 10 s")
    scope = {"type": "http", "method": "GET", "path": "/livez", "headers": [], "query_string": b""}

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(part: Any) -> None:
        answers.append(part)

    asyncio.run(app(scope, receive, send))

    assert answers[0]["status"] == 503
    assert json.loads(answers[1]["body"]) == {
        "alive": False,
        "reason": "no event loop iteration has ended for 10 s",
    }
