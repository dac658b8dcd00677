"""A client that leaves before it has read its whole reply: its messages are for others at once, if
they are still leased to that client. If the lease has ended, another may have them, and keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quinque.server.connection import Connection
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
    """A transport whose client reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None

    def write(self, data: Any) -> None:
        super().write(data)
        assert self.connection is not None
        self.connection.pause_writing()


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
