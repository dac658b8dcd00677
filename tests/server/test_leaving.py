"""CLUSTER LEAVING, CLUSTER RESET and DEBUG FLUSHALL: what is done to all of a broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal

LEAVING = "LEAVING this node is leaving; use another node"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """One for each test."""
    with start_broker(tmp_path) as running:
        yield running


def wait_for_readers(client: Client, count: int) -> None:
    """So many clients wait, and the broker knows it."""
    wait_until(lambda: b"\r\nblocked_clients:%d\r\n" % count in client.call("INFO", "clients"))


# -- leaving ----------------------------------------------------------------------------------


def test_a_leaving_node_says_so(client: Client) -> None:
    assert client.ask("CLUSTER", "LEAVING") == b"+no\r\n"

    assert client.ask("CLUSTER", "LEAVING", "yes") == b"+OK\r\n"

    assert client.ask("CLUSTER", "LEAVING") == b"+yes\r\n"
    assert client.call("HELLO")[2][3] == b"100"
    assert b" myself,leaving 0 0 connected\n" in client.call("CLUSTER", "NODES")


def test_leaving_survives_a_kill(broker: RunningBroker) -> None:
    with broker.connect() as client:
        client.call("CLUSTER", "LEAVING", "YES")
    broker.kill()
    broker.restart()

    with broker.connect() as client:
        assert client.ask("CLUSTER", "LEAVING") == b"+yes\r\n"
        assert client.ask("CLUSTER", "LEAVING", "no") == b"+OK\r\n"
        assert client.call("HELLO")[2][3] == b"1"


def test_who_waits_for_jobs_is_sent_away_when_the_node_leaves(
    broker: RunningBroker, client: Client
) -> None:
    with broker.connect() as first, broker.connect() as second, broker.connect() as other_family:
        first.send("GETJOB", "MATCH", "q*", "r*")
        second.send("GETJOB", "TIMEOUT", 60_000, "FROM", "q")
        other_family.send("QNOTIFY", "g", 60, "q of events")
        wait_for_readers(client, 3)

        client.call("CLUSTER", "LEAVING", "yes")

        assert first.value() == Refusal(LEAVING)
        assert second.value() == Refusal(LEAVING)
        wait_for_readers(client, 1)
        assert first.call("PING") == b"PONG"


def test_a_leaving_node_gives_what_it_has_and_lets_nobody_wait(client: Client) -> None:
    client.call("ADDJOB", "q", "body", 0)
    client.call("CLUSTER", "LEAVING", "yes")

    assert client.call("GETJOB", "FROM", "q")[0][2] == b"body"
    assert client.call("GETJOB", "FROM", "q") == Refusal(LEAVING)
    assert client.ask("GETJOB", "NOHANG", "FROM", "q") == b"*-1\r\n"

    client.call("CLUSTER", "LEAVING", "no")
    assert client.ask("GETJOB", "TIMEOUT", 1, "FROM", "q") == b"*-1\r\n"


# -- starting over ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET"), ("CLUSTER", "RESET", "hard")]
)
def test_jobs_go_and_events_stay(
    broker: RunningBroker, client: Client, words: tuple[str, ...]
) -> None:
    client.call("QADD", "events", 60, "kept")
    job_id = client.call("ADDJOB", "q", "body", 0)
    client.call("PAUSE", "paused", "in")

    assert client.ask(*words) == b"+OK\r\n"

    assert client.call("QLEN", "q") == 0
    assert client.call("SHOW", job_id) is None
    assert client.call("QSCAN") == [b"0", []]
    assert client.call("QGET", "events", "g")[1] == b"kept"
    broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert client.call("SHOW", job_id) is None
        assert client.call("QSCAN") == [b"0", []]


@pytest.mark.parametrize("words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET", "SOFT")])
def test_who_waits_for_jobs_gets_null_when_all_are_flushed(
    broker: RunningBroker, client: Client, words: tuple[str, ...]
) -> None:
    with broker.connect() as reader, broker.connect() as other_family:
        reader.send("GETJOB", "FROM", "q")
        reader.send("PING")
        other_family.send("QNOTIFY", "g", 60, "q of events")
        wait_for_readers(client, 2)

        client.call(*words)

        assert reader.read() == b"*-1\r\n"
        assert reader.read() == b"+PONG\r\n"
        wait_for_readers(client, 1)


def test_who_waits_for_the_end_of_a_job_is_told_of_it_when_all_are_flushed(
    broker: RunningBroker, client: Client
) -> None:
    job_id = client.call("ADDJOB", "q", "body", 0)
    with broker.connect() as producer:
        producer.send("WAITJOB", 0, job_id)
        wait_for_readers(client, 1)

        client.call("DEBUG", "FLUSHALL")

        assert producer.read() == b":1\r\n"


def test_the_id_survives_a_restart_and_a_kill(broker: RunningBroker) -> None:
    with broker.connect() as client:
        node_id = client.call("CLUSTER", "MYID")
    broker.restart()
    with broker.connect() as client:
        assert client.call("CLUSTER", "MYID") == node_id
    broker.kill()
    broker.restart()

    with broker.connect() as client:
        assert client.call("CLUSTER", "MYID") == node_id


def test_a_soft_reset_keeps_the_id_and_a_hard_one_does_not(broker: RunningBroker) -> None:
    with broker.connect() as client:
        first = client.call("CLUSTER", "MYID")
        client.call("CLUSTER", "RESET")
        assert client.call("CLUSTER", "MYID") == first

        client.call("CLUSTER", "RESET", "HARD")

        second = client.call("CLUSTER", "MYID")
        assert re.fullmatch(rb"[0-9a-f]{40}", second)
        assert second != first
        assert client.call("ADDJOB", "q", "body", 0)[2:10] == second[:8]
    broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert client.call("CLUSTER", "MYID") == second
