"""A request that stands still on its way to Redis: what it brings is as good as if it had not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.server.broker import start_broker
from tests.server.resp import TIMEOUT_S, Client
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.redis_server import RedisServer

STALL_S = 1.0
PATIENT = ("--store-timeout", "60")
LEASE_S = 2
JITTER_S = 0.25


class Place:
    """Two brokers on one Redis, the first of them behind a network that can stall."""

    def __init__(self, proxy: CuttingProxy, stalled: Client, other: Client) -> None:
        self.stalled = stalled
        self.other = other
        self._proxy = proxy

    def stall(self) -> None:
        """Requests of the first broker stand still, from here on."""
        self._proxy.stall(to_server=True, to_client=False)

    def go_on(self) -> float:
        """They go on, after a while; when that was, at the earliest."""
        assert self.other.call("GETJOB", "TIMEOUT", round(STALL_S * 1000), "FROM", "none") is None
        went_on_s = monotonic()
        self._proxy.go_on()
        return went_on_s


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with (
        RedisServer(tmp_path / "redis") as server,
        CuttingProxy("127.0.0.1", server.port) as proxy,
        start_broker(tmp_path / "one", "--store", proxy.url, *PATIENT) as one,
        start_broker(tmp_path / "two", "--store", server.url, *PATIENT) as two,
        one.connect() as stalled,
        two.connect() as other,
    ):
        yield Place(proxy, stalled, other)


def test_the_lease_of_a_job_begins_when_it_is_delivered(place: Place) -> None:
    id = place.other.call("ADDJOB", "q", "body", 0, "RETRY", LEASE_S)
    place.stall()
    place.stalled.send("GETJOB", "NOHANG", "FROM", "q")
    began_s = place.go_on()
    assert place.stalled.value() == [[b"q", id, b"body"]]

    assert place.other.call("GETJOB", "TIMEOUT", round(TIMEOUT_S * 1000), "FROM", "q")

    assert monotonic() - began_s > LEASE_S - JITTER_S - STALL_S / 2


def test_the_lease_of_an_event_begins_when_it_is_delivered(place: Place) -> None:
    id = place.other.call("QADD", "q", 600, "body")
    place.stall()
    place.stalled.send("QGET", "q", "g", "EX", LEASE_S)
    began_s = place.go_on()
    assert place.stalled.value() == [id, b"body"]

    assert place.other.call("QNOTIFY", "g", TIMEOUT_S, "q") == b"q"

    assert monotonic() - began_s > LEASE_S - STALL_S / 2
