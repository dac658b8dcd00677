"""HELLO and CLUSTER where brokers share a Redis: each knows the others, and when one is gone.

A broker that a busy machine keeps silent for seconds is doubted, and rightly; that it lives is
known when it is heard of again. So what is said of one that lives is waited for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal
from tests.servers import stores

LEAVING = "LEAVING this node is leaving; use another node"


on_each_store = pytest.mark.parametrize("brokers", stores.SHARED, indirect=True)


@pytest.fixture
def brokers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    """On one Redis, if a test does not ask for each kind of store."""
    store = stores.store_flags(request, getattr(request, "param", "redis"))
    with (
        start_broker(tmp_path / "one", *store) as one,
        start_broker(tmp_path / "two", *store) as two,
    ):
        yield one, two


@pytest.fixture
def one(brokers: Brokers) -> Iterator[Client]:
    with brokers[0].connect() as client:
        yield client


@pytest.fixture
def two(brokers: Brokers) -> Iterator[Client]:
    with brokers[1].connect() as client:
        yield client


Brokers = tuple[RunningBroker, RunningBroker]


def id_of(client: Client) -> bytes:
    node_id: bytes = client.call("CLUSTER", "MYID")
    return node_id


def row_of(broker: RunningBroker, client: Client, priority: bytes = b"1") -> list[bytes]:
    """How HELLO shows the broker."""
    return [id_of(client), b"127.0.0.1", b"%d" % broker.port, priority]


def facts(client: Client) -> dict[bytes, int]:
    lines = client.call("CLUSTER", "INFO").splitlines()[1:]
    return {name: int(value) for name, value in (line.split(b":") for line in lines)}


# -- who is there -----------------------------------------------------------------------------


@on_each_store
def test_hello_lists_all_brokers_the_asked_one_first(
    brokers: Brokers, one: Client, two: Client
) -> None:
    rows = [row_of(brokers[0], one), row_of(brokers[1], two)]

    wait_until(lambda: one.call("HELLO") == [1, id_of(one), *rows])
    wait_until(lambda: two.call("HELLO") == [1, id_of(two), *reversed(rows)])


def test_nodes_tells_when_the_others_were_heard_of(
    brokers: Brokers, one: Client, two: Client
) -> None:
    wait_until(lambda: b" noflags " in one.call("CLUSTER", "NODES"))
    mine, other = one.call("CLUSTER", "NODES").decode().splitlines()

    assert mine == f"{id_of(one).decode()} 127.0.0.1:{brokers[0].port} myself 0 0 connected"
    found = re.fullmatch(r"(\w{40}) (\S+) \S+ 0 (\d+) \w+", other)
    assert found is not None
    assert (found[1].encode(), found[2]) == (id_of(two), f"127.0.0.1:{brokers[1].port}")
    assert abs(time.time() * 1000 - int(found[3])) < 60_000


def test_info_counts_all_and_those_that_can_be_reached(one: Client, two: Client) -> None:
    known, reachable = b"cluster_known_nodes", b"cluster_reachable_nodes"
    wait_until(lambda: facts(one)[reachable] == 1)
    assert (facts(one)[known], facts(one)[b"cluster_size"]) == (2, 2)

    two.call("CLUSTER", "LEAVING", "yes")

    assert (facts(one)[known], facts(one)[reachable]) == (2, 0)
    wait_until(lambda: (facts(two)[known], facts(two)[reachable]) == (2, 1))


@on_each_store
def test_a_killed_broker_is_doubted(brokers: Brokers, one: Client, two: Client) -> None:
    row = row_of(brokers[1], two, b"10")
    brokers[1].kill()

    wait_until(lambda: one.call("HELLO")[3] == row)

    assert b" fail? 0 " in one.call("CLUSTER", "NODES")
    assert b" disconnected\n" in one.call("CLUSTER", "NODES")
    assert facts(one)[b"cluster_reachable_nodes"] == 0


def test_one_that_lives_is_heard_of_again_and_again(one: Client, two: Client) -> None:
    def heard_ms() -> int:
        return int(two.call("CLUSTER", "NODES").splitlines()[1].split()[4])

    for _ in range(3):
        before_ms = heard_ms()
        wait_until(lambda: heard_ms() > before_ms + 500)  # noqa: B023

    wait_until(lambda: bool(two.call("HELLO")[3][3] == b"1"))


@on_each_store
def test_a_stopped_broker_is_gone_at_once(brokers: Brokers, one: Client) -> None:
    brokers[1].stop()

    assert len(one.call("HELLO")) == 3
    assert facts(one)[b"cluster_known_nodes"] == 1


def test_a_broker_keeps_its_id_and_has_its_new_address(
    brokers: Brokers, one: Client, two: Client
) -> None:
    before = id_of(two)
    brokers[1].kill()
    brokers[1].restart(*brokers[1].flags, "--announce", "moved.example:9999")

    row = [before, b"moved.example", b"9999", b"1"]
    wait_until(lambda: bool(one.call("HELLO")[3:] == [row]))


def test_a_hard_reset_is_known_to_the_others(one: Client, two: Client) -> None:
    two.call("CLUSTER", "RESET", "HARD")

    assert [row[0] for row in one.call("HELLO")[3:]] == [id_of(two)]


# -- announcing -------------------------------------------------------------------------------


def test_what_is_announced_is_what_others_are_told(
    brokers: Brokers, one: Client, tmp_path: Path
) -> None:
    words = [*brokers[0].flags, "--announce", "third.example:9999"]
    with start_broker(tmp_path / "three", *words) as broker, broker.connect() as three:
        row = [id_of(three), b"third.example", b"9999", b"1"]

        wait_until(lambda: row in one.call("HELLO"))
        assert three.call("HELLO")[2] == row
        wait_until(lambda: has_met(one, "third.example", 9999))


def test_a_lone_broker_announces_what_it_is_told_to(tmp_path: Path) -> None:
    words = ["--announce", "[2001:db8::7]:7711"]
    with start_broker(tmp_path, *words) as broker, broker.connect() as client:
        assert client.call("HELLO")[2][1:3] == [b"2001:db8::7", b"7711"]
        assert b" 2001:db8::7:7711 myself " in client.call("CLUSTER", "NODES")
        assert client.call("CLUSTER", "MEET", "2001:db8::7", 7711) == b"OK"


def test_this_machine_is_this_machine_whatever_it_is_called_elsewhere(
    redis_url: str, tmp_path: Path
) -> None:
    words = ["--store", redis_url, "--announce"]
    with (
        start_broker(tmp_path / "one", *words, "192.0.2.7:1001") as broker,
        start_broker(tmp_path / "two", *words, "192.0.2.7:1002"),
        broker.connect() as one,
    ):
        wait_until(lambda: has_met(one, "127.0.0.1", 1002))
        wait_until(lambda: has_met(one, "192.0.2.7", 1002))
        assert "no node at this address" in one.call("CLUSTER", "MEET", "192.0.2.8", 1002).text


# -- meeting and forgetting -------------------------------------------------------------------


def test_whoever_shares_the_store_can_be_met(brokers: Brokers, one: Client, two: Client) -> None:
    for client in (one, two):
        for broker in brokers:
            wait_until(partial(has_met, client, "127.0.0.1", broker.port))


def has_met(client: Client, host: str, port: int) -> bool:
    return bool(client.call("CLUSTER", "MEET", host, port) == b"OK")


def test_whoever_does_not_cannot_be_met(one: Client, tmp_path: Path) -> None:
    with start_broker(tmp_path / "alone") as alone:
        refused = one.call("CLUSTER", "MEET", "127.0.0.1", alone.port)

        why = f"cannot meet 127.0.0.1:{alone.port}: no node at this address shares this store"
        assert refused == Refusal(f"ERR {why}")
    assert one.call("CLUSTER", "MEET", "localhost", 1) == Refusal(
        "ERR Invalid node address specified: localhost:1"
    )


def test_one_that_is_gone_can_be_forgotten_and_not_met(
    brokers: Brokers, one: Client, two: Client
) -> None:
    mine, other = id_of(one).decode(), id_of(two).decode()
    assert one.call("CLUSTER", "FORGET", mine) == Refusal("ERR a node cannot forget itself")
    is_alive = Refusal(
        f"ERR node {other} is running and would return within a second; stop it first"
    )
    wait_until(lambda: bool(one.call("CLUSTER", "FORGET", other) == is_alive))
    brokers[1].kill()
    wait_until(lambda: one.call("HELLO")[3][3] == b"10")

    refused = one.call("CLUSTER", "MEET", "127.0.0.1", brokers[1].port)
    assert re.fullmatch(r"ERR cannot meet \S+ it shares this .* last seen \d+ s ago", refused.text)
    assert one.call("CLUSTER", "FORGET", other) == b"OK"

    assert len(one.call("HELLO")) == 3
    assert one.call("CLUSTER", "FORGET", other) == Refusal(f"ERR Unknown node {other}")


# -- leaving ----------------------------------------------------------------------------------


def test_all_tell_clients_to_leave_one_that_leaves(one: Client, two: Client) -> None:
    assert one.call("CLUSTER", "LEAVING", "yes") == b"OK"

    assert one.call("HELLO")[2][3] == b"100"
    assert two.call("HELLO")[3][3] == b"100"
    assert two.call("HELLO")[2][3] == b"1"
    wait_until(lambda: b" leaving 0 " in two.call("CLUSTER", "NODES"))


@on_each_store
def test_a_leaving_one_passes_new_jobs_on(one: Client, two: Client) -> None:
    one.call("CLUSTER", "LEAVING", "yes")

    ids: list[bytes] = []

    def is_passed_on() -> bool:
        """Not while the other one is not heard of."""
        reply = one.call("ADDJOB", "q", "body", 0)
        ids.extend([] if isinstance(reply, Refusal) else [reply])
        return bool(ids)

    wait_until(is_passed_on)
    (job_id,) = ids
    assert job_id[2:10] == id_of(two)[:8]
    assert two.call("GETJOB", "FROM", "q") == [[b"q", job_id, b"body"]]


def test_a_leaving_one_lets_nobody_wait(brokers: Brokers, one: Client, two: Client) -> None:
    with brokers[0].connect() as reader:
        reader.send("GETJOB", "FROM", "q")
        wait_until(lambda: b"\r\nblocked_clients:1\r\n" in one.call("INFO", "clients"))

        one.call("CLUSTER", "LEAVING", "yes")

        assert reader.value() == Refusal(LEAVING)
    job_id = two.call("ADDJOB", "q", "body", 0)
    assert one.call("GETJOB", "FROM", "q") == [[b"q", job_id, b"body"]]
    assert one.call("GETJOB", "FROM", "q") == Refusal(LEAVING)


def test_when_all_leave_nobody_takes_a_job(one: Client, two: Client) -> None:
    for client in (one, two):
        client.call("CLUSTER", "LEAVING", "yes")

    refused = one.call("ADDJOB", "q", "body", 0)

    assert refused == Refusal(
        "NOREPL this node is leaving and accepts no new jobs; there is no other node"
    )
