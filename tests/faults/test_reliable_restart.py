"""After a restart, wanted or not, a reliable queue is what it was, and its ids go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker of its own, with bodies only on the disk."""
    with start_broker(tmp_path, "--maxmemory", "1") as running:
        yield running


def seen(client: Client) -> object:
    """All that does not depend on the time of the look."""
    pending = client.call("RQ.INSPECT", "q", "PENDING", 0, 100)
    lists = [row[:3] + row[4:] for row in pending], client.call("RQ.INSPECT", "q", 0, 100)
    return lists, client.call("RQ.INFO", "q"), client.call("TYPE", "emptied")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_is_as_it_was_and_nothing_comes_back(broker: RunningBroker, end: str) -> None:
    with broker.connect() as client:
        ids = client.call("RQ.PUSH", "q", *[b"%d" % number * 50 for number in range(30)])
        client.call("RQ.POP", "COUNT", 20, "q")
        client.call("RQ.RECOVER", "q", 7, 0)
        assert client.call("RQ.ACK", "q", *ids[8:12]) == ids[8:12]
        [emptied] = client.call("RQ.PUSH", "emptied", "x")
        client.call("RQ.POP", "emptied")
        client.call("RQ.ACK", "emptied", emptied)
        before = seen(client)
        getattr(broker, end)()

    broker.restart()

    with broker.connect() as client:
        assert seen(client) == before
        again = [id for id, _ in client.call("RQ.RECOVER", "q", 100, 0)]
        assert again == [ids[7], *ids[12:20], *ids[:7]]
        assert client.call("RQ.ACK", "q", *ids[8:12], ids[0]) == [ids[0]]
        [last] = client.call("RQ.PUSH", "q", "last")
        assert number_of(last) > number_of(emptied) > number_of(ids[-1])


def number_of(id: bytes) -> tuple[int, ...]:
    return tuple(map(int, id.split(b"-")))
