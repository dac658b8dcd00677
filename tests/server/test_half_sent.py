"""A client that leaves before it has read its whole reply: its messages are for others at once, if
they are still leased to that client. If the lease has ended, another may have them, and keeps them.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quinque.server.connection import Connection
from tests.server.broker import start_broker, wait_until
from tests.servers import stores
from tests.transcripts.stage import Stage, Wire

LATE = "late"  # an embedded store that answers later


@dataclass
class Family:
    """Requests to one queue: what makes it, adds `body`, takes it for a second, takes it for long
    and acks it."""

    make: str
    add: str
    take: str
    take_for_long: str
    ack: str


FAMILIES = {
    "jobs": Family("PING", "ADDJOB q body 0 RETRY 1", "GETJOB FROM q", "GETJOB NOHANG FROM q", ""),
    "items": Family(
        "PING",
        "WQ.ADD {q} id body",
        "WQ.LEASE {q} 1000 BLOCK 60000",
        "WQ.LEASE {q} 60000",
        "WQ.COMPLETE {q} id",
    ),
    "events": Family("PING", "QADD q 600 body", "QGET q g EX 1", "QGET q g EX 60", ""),
    "tubes": Family(
        "TUBE.CREATE q fifottl",
        "TUBE.PUT q body TTR 1",
        "TUBE.TAKE q",
        "TUBE.TAKE q 0",
        "TUBE.ACK q 0",
    ),
}


class FullWire(Wire):
    """A transport whose client reads no more than some bytes, or one that fails."""

    def __init__(self, reads_bytes: int = 0, fails: bool = False) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.unsent_bytes = -reads_bytes
        self.fails = fails

    def write(self, data: Any) -> None:
        if self.fails:
            self.is_closed = True
            return
        super().write(data)
        self.unsent_bytes += len(data)
        if self.unsent_bytes > 0:
            assert self.connection is not None
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, self.unsent_bytes)


@pytest.fixture(params=[LATE, *stores.ALL])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    kind: str = request.param
    url = stores.empty_store_url(request, kind) if kind in stores.SHARED else ""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=kind == LATE, redis_url=url) as stage:
        yield stage


def call(stage: Stage, client: str, text: str) -> bytes:
    stage.send(client, [text.encode().split()])
    stage.settle()
    return stage.replies().get(client, b"")


def take_and_read_nothing(stage: Stage, family: Family) -> bytes:
    """The client `slow` has taken the message, and its reply is on the way; the reply."""
    call(stage, "other", family.make)
    wire = FullWire()
    wire.connection = stage.connect("slow", wire)
    if family is FAMILIES["events"]:  # nobody waits with a lease
        call(stage, "other", family.add)
        return call(stage, "slow", family.take)
    call(stage, "slow", family.take)
    stage.send("other", [family.add.encode().split()])
    stage.settle()
    return stage.replies()["slow"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_message_whose_lease_has_ended_is_not_given_back(stage: Stage, name: str) -> None:
    family = FAMILIES[name]
    assert b"body" in take_and_read_nothing(stage, family)
    stage.pass_time(3_000)
    assert b"body" in call(stage, "other", family.take_for_long)

    stage.leave("slow")
    stage.pass_time(1)

    assert b"body" not in call(stage, "third", family.take_for_long)
    if family.ack:
        assert call(stage, "other", family.ack).startswith((b":1", b"*"))


@pytest.mark.parametrize("name", ["jobs", "items", "tubes"])
def test_a_message_whose_lease_runs_is_given_back(stage: Stage, name: str) -> None:
    family = FAMILIES[name]
    assert b"body" in take_and_read_nothing(stage, family)

    stage.leave("slow")
    stage.pass_time(1)

    assert b"body" in call(stage, "other", family.take_for_long)


def test_each_of_several_jobs_is_given_back_if_it_is_still_the_clients(stage: Stage) -> None:
    """Their leases end at different times."""
    call(stage, "other", "ADDJOB q short 0 RETRY 1")
    call(stage, "other", "ADDJOB q long 0 RETRY 60")
    wire = FullWire()
    wire.connection = stage.connect("slow", wire)
    call(stage, "slow", "GETJOB COUNT 2 FROM none q")
    stage.pass_time(3_000)
    assert b"short" in call(stage, "other", "GETJOB NOHANG COUNT 2 FROM q")

    stage.leave("slow")

    assert b"short" not in call(stage, "third", "GETJOB NOHANG COUNT 2 FROM q")


RELIABLE = Family("PING", "RQ.PUSH q body", "RQ.POP q", "RQ.POP q", "")


def add_some(stage: Stage, family: Family, count: int) -> None:
    call(stage, "other", family.make)
    for number in range(count):
        call(stage, "other", family.add.replace("id", str(number)))


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_messages_that_were_there_at_once_are_given_back(
    stage: Stage, name: str, together: int
) -> None:
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, together)
    wire = FullWire()
    wire.connection = stage.connect("slow", wire)
    stage.send("slow", [family.take_for_long.encode().split()] * together)
    stage.settle()
    assert stage.replies()["slow"].count(b"body") == together

    stage.leave("slow")
    stage.pass_time(1)

    left = [call(stage, "other", family.take_for_long) for _ in range(together)]
    assert b"".join(left).count(b"body") == together


@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_a_message_whose_reply_has_gone_out_is_not_given_back(stage: Stage, name: str) -> None:
    """Of three replies, the client has read the first, and a byte of the second."""
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, 4)
    first = call(stage, "other", family.take_for_long)
    wire = FullWire(len(first) + 1)
    wire.connection = stage.connect("slow", wire)
    stage.send("slow", [family.take_for_long.encode().split()] * 3)
    stage.settle()

    stage.leave("slow")
    stage.pass_time(1)

    left = [call(stage, "other", family.take_for_long) for _ in range(3)]
    assert b"".join(left).count(b"body") == 2


@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_a_reply_that_goes_out_later_is_seen(stage: Stage, name: str) -> None:
    """The connection fails later, and nothing can be seen by then."""
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, 3)
    first = call(stage, "other", family.take_for_long)
    wire = FullWire()
    wire.connection = stage.connect("slow", wire)
    stage.send("slow", [family.take_for_long.encode().split()] * 2)
    stage.settle()
    wire.unsent_bytes -= len(first)
    stage.pass_time(200)
    wire.unsent_bytes = 0

    stage.leave("slow")
    stage.pass_time(1)

    left = [call(stage, "other", family.take_for_long) for _ in range(2)]
    assert b"".join(left).count(b"body") == 1


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_messages_whose_write_fails_are_given_back(stage: Stage, name: str, together: int) -> None:
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, together)
    wire = FullWire(fails=True)
    stage.connect("slow", wire)
    stage.send("slow", [family.take_for_long.encode().split()] * together)
    stage.settle()
    stage.pass_time(1)

    left = [call(stage, "other", family.take_for_long) for _ in range(together)]
    assert b"".join(left).count(b"body") == together


class TlsWire(Wire):
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "sslcontext" else default


class FailingTlsWire(TlsWire):
    """As a TLS transport whose client is gone: the write below it fails, which shows two iterations
    later. With `exc` None, the client leaves in order."""

    def __init__(self, stage: Stage, exc: Exception | None) -> None:
        super().__init__()
        self._stage = stage
        self._exc = exc
        self.connection: Connection | None = None

    def write(self, data: Any) -> None:
        assert self.connection is not None
        loop = self._stage.broker.loop
        loop.call_soon(loop.call_soon, self.connection.connection_lost, self._exc)


@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_messages_of_a_small_reply_over_tls_that_fails_are_given_back(
    stage: Stage, name: str, together: int
) -> None:
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, together)
    wire = FailingTlsWire(stage, ConnectionResetError())
    wire.connection = stage.connect("gone", wire)
    stage.send("gone", [family.take_for_long.encode().split()] * together)
    stage.settle()
    stage.pass_time(1)

    left = [call(stage, "other", family.take_for_long) for _ in range(together)]
    assert b"".join(left).count(b"body") == together


@pytest.mark.parametrize(
    ("add", "exc"),
    [("ADDJOB q body 0 RETRY 0", ConnectionResetError()), ("ADDJOB q body 0 RETRY 60", None)],
)
def test_a_reply_over_tls_that_the_client_may_have_read_is_not_given_back(
    stage: Stage, add: str, exc: Exception | None
) -> None:
    call(stage, "other", add)
    wire = FailingTlsWire(stage, exc)
    wire.connection = stage.connect("gone", wire)
    stage.send("gone", [b"GETJOB NOHANG FROM q".split()])
    stage.settle()
    stage.pass_time(1)

    assert b"body" not in call(stage, "other", "GETJOB NOHANG FROM q")


def test_a_tls_connection_that_fails_later_keeps_what_was_sent(stage: Stage) -> None:
    call(stage, "other", "ADDJOB q body 0 RETRY 60")
    connection = stage.connect("reader", TlsWire())
    assert b"body" in call(stage, "reader", "GETJOB NOHANG FROM q")

    connection.connection_lost(ConnectionResetError())
    stage.settle()

    assert b"body" not in call(stage, "other", "GETJOB NOHANG FROM q")


@pytest.mark.parametrize("name", [*FAMILIES, "reliable"])
def test_a_connection_that_closes_before_its_take_runs_gets_nothing(
    stage: Stage, name: str
) -> None:
    """As a TLS connection does whose client says that it leaves."""
    family = FAMILIES.get(name, RELIABLE)
    add_some(stage, family, 1)
    wire = Wire()
    stage.connect("leaving", wire)
    stage.send("leaving", [family.take_for_long.encode().split()])
    wire.close()
    stage.settle()
    stage.pass_time(1)

    assert b"body" in call(stage, "other", family.take_for_long)


def test_a_job_that_a_client_has_read_is_not_delivered_again(tmp_path: Path) -> None:
    count, body = 300, b"x" * 4_000
    path = tmp_path / "socket"
    with start_broker(tmp_path, "--listen", f"unix:{path}") as broker, broker.connect() as client:
        for _ in range(count):
            client.call("ADDJOB", "q", body, 0, "RETRY", 0)
        with socket.socket(socket.AF_UNIX) as reader:
            reader.connect(str(path))
            reader.sendall(b"GETJOB FROM q\r\n" * count)
            data = b""
            while len(data) < count * len(body) // 2:
                data += reader.recv(1 << 16)
        seen = set(re.findall(rb"(D-[^\r]{38})\r\n\$4000\r\nx{4000}\r\n", data))
        assert len(seen) > count // 4

        wait_until(lambda: b"connected_clients:1\r\n" in client.call("INFO", "clients"))
        again = {
            job[1] for job in client.call("GETJOB", "NOHANG", "COUNT", count, "FROM", "q") or ()
        }
        assert not seen & again
