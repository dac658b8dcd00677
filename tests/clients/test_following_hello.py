"""Disque's clients, unchanged, on two brokers that share a store: HELLO leads from one to the
other, and when one is killed they go on with the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydisque.client import Client

from tests.clients.programs import node
from tests.server.broker import RunningBroker, start_broker

Brokers = tuple[RunningBroker, RunningBroker]

# pydisque says so in its log when it looks for another node.
says_so = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")


@pytest.fixture
def brokers(redis_url: str, tmp_path: Path) -> Iterator[Brokers]:
    store = ["--store", redis_url]
    with (
        start_broker(tmp_path / "one", *store) as one,
        start_broker(tmp_path / "two", *store) as two,
    ):
        yield one, two


def nodes_known_to(broker: RunningBroker) -> list[str]:
    """Where its clients may go, the best first."""
    client = Client([f"127.0.0.1:{broker.port}"])
    client.connect()
    rows = client.hello()[2:]
    client.get_connection().close()
    rows.sort(key=lambda row: int(row[3]))
    return [f"{host.decode()}:{port.decode()}" for _, host, port, _ in rows]


def test_pydisque_is_led_to_all_nodes_by_one(brokers: Brokers, queue: str) -> None:
    one, two = (Client([address]) for address in nodes_known_to(brokers[0]))
    one.connect()
    two.connect()

    id = one.add_job(queue, "x")

    assert one.connected_node.node_id != two.connected_node.node_id
    assert two.get_job([queue]) == [(queue.encode(), id, b"x")]
    assert one.ack_job(id) is None
    for client in (one, two):
        client.get_connection().close()


@says_so
def test_pydisque_goes_on_when_its_node_is_killed(brokers: Brokers, queue: str) -> None:
    client = Client(nodes_known_to(brokers[0]))
    client.connect()
    id = client.add_job(queue, "x")
    assert client.connected_node.port == brokers[1].port

    brokers[1].kill()

    assert client.get_job([queue]) == [(queue.encode(), id, b"x")]
    client.ack_job(id)
    assert client.add_job(queue, "y") != id
    for reached in client.nodes.values():
        reached.connection.close()


def test_pydisque_finds_the_node_that_stays(brokers: Brokers) -> None:
    with brokers[0].connect() as client:
        client.call("CLUSTER", "LEAVING", "yes")

    for broker in brokers:
        assert nodes_known_to(broker)[0] == f"127.0.0.1:{brokers[1].port}"


def test_disqueue_node_and_disque_eventemitter_go_on_with_the_other_node(
    brokers: Brokers, queue: str
) -> None:
    one, two = brokers

    assert node(one, "followers.js", str(two.port), str(one.pid), queue) == "ok\n"
