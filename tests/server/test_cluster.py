"""HELLO as Disque's, and CLUSTER: a node that is the only one."""

from __future__ import annotations

import re

import pytest

from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal

# -- HELLO and the node itself ----------------------------------------------------------------


def test_hello_lists_the_one_node_there_is(broker: RunningBroker, client: Client) -> None:
    version, node_id, node = client.call("HELLO")

    assert version == 1
    assert re.fullmatch(rb"[0-9a-f]{40}", node_id)
    assert node == [node_id, b"", str(broker.port).encode(), b"1"]


def test_hello_looks_on_the_wire_as_disques_does(client: Client, client3: Client) -> None:
    node_id = client.call("CLUSTER", "MYID")
    port = str(client.sock.getpeername()[1]).encode()
    expected = b"*3\r\n:1\r\n$40\r\n%b\r\n*4\r\n$40\r\n%b\r\n$0\r\n\r\n$%d\r\n%b\r\n$1\r\n1\r\n" % (
        node_id,
        node_id,
        len(port),
        port,
    )

    assert client.ask("HELLO") == expected
    assert client3.ask("hello") == expected
    assert client3.ask("PING") == b"+PONG\r\n"
    assert b"resp=3" in client3.call("CLIENT", "INFO"), "a look changes nothing"


def test_a_job_has_the_beginning_of_the_nodes_id(client: Client, queue: str) -> None:
    node_id = client.call("CLUSTER", "MYID")

    assert client.call("ADDJOB", queue, "body", 0)[2:10] == node_id[:8]


def test_nodes_and_info_tell_of_one_node(broker: RunningBroker, client: Client) -> None:
    node_id = client.call("CLUSTER", "MYID")

    assert client.call("CLUSTER", "NODES") == b"%b :%d myself 0 0 connected\n" % (
        node_id,
        broker.port,
    )
    assert client.call("CLUSTER", "INFO") == (
        b"cluster_state:ok\r\ncluster_known_nodes:1\r\ncluster_reachable_nodes:0\r\n"
        b"cluster_size:1\r\ncluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n"
    )


# -- others that are not there ----------------------------------------------------------------


def test_a_node_can_meet_itself(broker: RunningBroker, client: Client) -> None:
    assert client.ask("CLUSTER", "MEET", "127.0.0.1", broker.port) == b"+OK\r\n"
    assert client.ask("cluster", "meet", "::1", broker.port) == b"+OK\r\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "10.9.8.7", "2001:db8::1"])
def test_nobody_else_can_be_met_and_the_reason_is_given(client: Client, host: str) -> None:
    refused = client.call("CLUSTER", "MEET", host, 1)

    assert refused == Refusal(f"ERR cannot meet {host}:1: only one node can use this store")
    assert client.call("CLUSTER", "NODES").count(b"\n") == 1


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("localhost", "7711"),
        ("", "7711"),
        ("1.2.3", "7711"),
        ("127.0.0.1", "0"),
        ("127.0.0.1", "-1"),
        ("127.0.0.1", "x"),
        ("127.0.0.1", "55536"),
        ("127.0.0.1", "123456"),
    ],
)
def test_what_is_no_address_of_a_node_is_refused(client: Client, host: str, port: str) -> None:
    assert client.call("CLUSTER", "MEET", host, port) == Refusal(
        f"ERR Invalid node address specified: {host}:{port}"
    )


def test_nobody_can_be_forgotten(client: Client) -> None:
    node_id = client.call("CLUSTER", "MYID").decode()

    assert client.call("CLUSTER", "FORGET", node_id) == Refusal("ERR a node cannot forget itself")
    assert client.call("CLUSTER", "FORGET", "x" * 40) == Refusal(f"ERR Unknown node {'x' * 40}")


@pytest.mark.parametrize("word", ["SLOTS", "shards"])
def test_who_looks_for_redis_cluster_is_answered_as_by_a_lone_redis(
    client: Client, word: str
) -> None:
    refused = client.call("CLUSTER", word)

    assert refused == Refusal("ERR This instance has cluster support disabled")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ((), "wrong number of arguments for 'cluster' command"),
        (("nosuch",), "Wrong CLUSTER subcommand or number of arguments"),
        (("MEET", "127.0.0.1"), "wrong number of arguments for 'cluster|meet' command"),
        (("MYID", "x"), "wrong number of arguments for 'cluster|myid' command"),
        (("RESET", "x"), "syntax error"),
        (("RESET", "SOFT", "HARD"), "Wrong CLUSTER subcommand or number of arguments"),
        (("LEAVING", "perhaps"), "CLUSTER LEAVING must be yes or no"),
        (("LEAVING", "yes", "no"), "Wrong CLUSTER subcommand or number of arguments"),
    ],
)
def test_wrong_words_are_refused(client: Client, words: tuple[str, ...], refusal: str) -> None:
    assert client.call("CLUSTER", *words) == Refusal(f"ERR {refusal}")


def test_saveconfig_has_nothing_to_do(client: Client) -> None:
    assert client.ask("CLUSTER", "SAVECONFIG") == b"+OK\r\n"
