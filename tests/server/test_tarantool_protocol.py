"""Tarantool's protocol, as bytes: what every client sends, what none should, and what an operator
does to those who speak it."""

from __future__ import annotations

import socket
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.iproto import (
    CALL,
    CALL_16,
    EVAL,
    ID,
    LISTEN,
    PING,
    SELECT,
    WATCH,
    IprotoClient,
    call,
    packet,
    tarantool_address,
    tarantool_port,
)
from tests.server.resp import Client


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with start_broker(tmp_path_factory.mktemp("broker"), *LISTEN, "--fsync", "no") as running:
        yield running


@pytest.fixture
def peer(broker: RunningBroker) -> Iterator[IprotoClient]:
    with IprotoClient(broker) as connected:
        yield connected


@pytest.fixture
def tube(peer: IprotoClient, queue: str) -> str:
    """What functions of a tube of this test's own begin with."""
    name = queue.replace("[", "_").rstrip("]")
    assert peer.told("queue.create_tube", name, "fifo") == [True]
    return f"queue.tube.{name}"


def number_of(client: Client, peer: IprotoClient) -> int:
    """By which CLIENT LIST knows the connection."""
    host, port = peer.sock.getsockname()
    lines = client.call("CLIENT", "LIST").decode().splitlines()
    [line] = [line for line in lines if f" addr={host}:{port} " in line]
    return int(line.split()[0].removeprefix("id="))


def test_the_greeting(peer: IprotoClient, broker: RunningBroker) -> None:
    with IprotoClient(broker) as other:
        lines = [one.greeting for one in (peer, other)]

    words = lines[0][:63].split()
    assert words[:3] == [b"Tarantool", b"2.11.0", b"(Binary)"]
    assert str(UUID(words[3].decode())).encode() == words[3]
    salts = [b64decode(line[64:108]) for line in lines]
    assert len(salts[0]) == 32
    assert salts[0] != salts[1]


def test_what_clients_ask_when_they_connect(peer: IprotoClient) -> None:
    identity = peer.ask(packet(ID, 7, {0x54: 4, 0x55: [0, 1, 2, 3]}))
    assert (identity.sync, identity.error) == (7, 0)
    assert identity.body == {0x54: 3, 0x55: [], 0x5B: "chap-sha1"}
    for space in (281, 289, 277):
        reply = peer.ask(packet(SELECT, 8, {0x10: space, 0x12: 1 << 32, 0x14: 2, 0x20: []}))
        assert (reply.error, reply.body) == (0, {0x30: []})
    assert peer.ask(packet(PING, (1 << 64) - 1)).sync == (1 << 64) - 1
    assert peer.ask(packet(PING, 0, {})).body == {}
    # Whoever watches has no answer.
    peer.send(packet(WATCH, 1, {0x56: "box.shutdown"}), packet(PING, 2))
    assert peer.read().sync == 2


def test_what_there_is_not(peer: IprotoClient) -> None:
    unknown = peer.ask(packet(0x63, 3, {}))
    assert (unknown.sync, unknown.error, unknown.text) == (3, 48, "Unknown request type 99")
    insert = peer.ask(packet(2, 4, {0x10: 512, 0x21: [1]}))
    assert (insert.error, insert.text) == (48, "Unknown request type 2")
    select = peer.ask(packet(SELECT, 5, {0x10: 512, 0x20: []}))
    assert (select.error, select.text) == (36, "Space '512' does not exist")
    bodies: list[dict[int, Any]] = [{}, {0x22: 5, 0x21: []}, {0x22: [], 0x21: []}]
    assert [peer.ask(packet(CALL, 6, body)).error for body in bodies] == [33, 32, 32]
    assert peer.ask(packet(EVAL, 6, {})).error == 32
    assert peer.ask(packet(PING, 7)).error == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"\x00",
        b"\x01\xc0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\xff" * 9,
    ],
)
def test_bytes_that_are_no_packet_close_that_connection_and_no_other(
    peer: IprotoClient, tube: str, broker: RunningBroker, data: bytes
) -> None:
    with IprotoClient(broker) as broken:
        broken.send(call(1, f"{tube}:put", "before"), data, call(2, f"{tube}:put", "never"))

        replies = broken.read_to_end()

    assert [(reply.sync, reply.error) for reply in replies] == [(1, 0), (0, 20)]
    assert peer.told(f"{tube}:take", 0) == [[0, "t", "before"]]
    assert peer.told(f"{tube}:take", 0) == []


def test_any_name_works_up_to_its_length(peer: IprotoClient) -> None:
    for name in ("has space", "a.b", "a:b", "x.tube.y", "ü", b"\xff\x00", "n" * 1024):
        assert peer.told("queue.create_tube", name, "fifo") == [True]
        before = b"queue.tube." + (name if isinstance(name, bytes) else name.encode())
        assert peer.told(before + b":put", 1) == [[0, "r", 1]]
        assert peer.told("queue.tube", name) == [True]
        assert peer.told(before + b":drop") == [True]
    assert peer.told("queue.create_tube", "n" * 1025, "fifo").error == 70


def test_a_tube_is_no_queue_of_another_family(
    peer: IprotoClient, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "body", 0)

    assert peer.told(f"queue.tube.{queue}:put", 1).error == 32
    assert "wrong kind of value" in peer.told(f"queue.tube.{queue}:put", 1).text
    assert "wrong kind of value" in peer.told("queue.create_tube", queue, "fifo").text


def test_those_who_say_no_more_are_answered(peer: IprotoClient, tube: str) -> None:
    peer.send(call(1, f"{tube}:put", "a"), call(2, f"{tube}:take"), packet(PING, 3))
    peer.sock.shutdown(socket.SHUT_WR)

    assert [reply.sync for reply in peer.read_to_end()] == [1, 2, 3]


def test_those_who_say_no_more_and_wait_are_gone(
    peer: IprotoClient, tube: str, broker: RunningBroker
) -> None:
    with IprotoClient(broker) as gone:
        gone.send(call(1, f"{tube}:take"))
        gone.sock.shutdown(socket.SHUT_WR)
        assert gone.read_to_end() == []

    assert peer.told(f"{tube}:put", "x") == [[0, "r", "x"]]
    assert peer.told(f"{tube}:take", 0) == [[0, "t", "x"]]


def test_replies_of_a_thousand_calls_at_once(peer: IprotoClient, tube: str) -> None:
    """Alike and not, in one go: each has its own reply, and each takes effect in its turn."""
    requests = []
    for number in range(0, 1000, 4):
        requests += [
            call(number, f"{tube}:put", number),
            packet(CALL_16, number + 1, {0x22: f"{tube}:take", 0x21: [0]}),
            call(number + 2, f"{tube}:ack", number // 4),
            call(number + 3, f"{tube}:take", 0),
        ]
    peer.send(*requests)

    for number in range(0, 1000, 4):
        id = number // 4
        for sync, wanted in ((0, ["r"]), (1, ["t"]), (2, ["-"]), (3, [])):
            reply = peer.read()
            assert reply.sync == number + sync
            assert reply.body[0x30] == [[id, state, number] for state in wanted]


def test_one_of_many_that_is_wrong_is_refused_alone(peer: IprotoClient, tube: str) -> None:
    peer.send(*(call(number, f"{tube}:put", number) for number in range(3)))
    peer.send(*(call(3 + number, f"{tube}:take", 0) for number in range(3)))
    replies = [peer.read() for _ in range(6)]
    peer.send(*(call(number, f"{tube}:ack", id) for number, id in enumerate((0, "x", 9, 1, 2))))

    assert [reply.error for reply in replies] == [0] * 6
    assert [peer.read().error for _ in range(5)] == [0, 18, 32, 0, 0]


def test_clients_are_listed_killed_and_unblocked(
    peer: IprotoClient, tube: str, client: Client, broker: RunningBroker
) -> None:
    with IprotoClient(broker) as other:
        number = number_of(client, other)
        other.send(call(1, f"{tube}:take"), call(2, f"{tube}:take"))
        wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))
        line = client.call("CLIENT", "LIST", "ID", number)
        assert b" cmd=tube.take " in line
        assert b" resp=0 " in line
        assert client.call("CLIENT", "UNBLOCK", number) == 1
        assert [other.read().body for _ in range(2)] == [{0x30: []}] * 2
        other.send(call(3, f"{tube}:take"))
        wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))
        assert client.call("CLIENT", "UNBLOCK", number, "ERROR") == 1
        assert other.read().error == 32
        assert client.call("CLIENT", "KILL", "ID", number) == 1
        assert other.read_to_end() == []

    assert b"cmdstat_tube.take:" in client.call("INFO", "commandstats")


def test_a_pause_holds_them_too(peer: IprotoClient, tube: str, client: Client) -> None:
    client.call("CLIENT", "PAUSE", 60_000, "WRITE")
    peer.send(call(1, "queue.state"), call(2, f"{tube}:put", "x"), call(3, "queue.state"))

    assert peer.read().sync == 1
    assert client.call("TUBE.STATS", tube.removeprefix("queue.tube."))
    client.call("CLIENT", "UNPAUSE")
    assert [peer.read().sync for _ in range(2)] == [2, 3]


def test_limits_are_those_of_the_settings(
    peer: IprotoClient, tube: str, client: Client, broker: RunningBroker
) -> None:
    client.call("CONFIG", "SET", "max-arg-size", "1kb", "max-blocked-clients", "1")
    try:
        with IprotoClient(broker) as large:
            large.send(call(1, f"{tube}:put", "x" * 1025))
            assert [reply.error for reply in large.read_to_end()] == [20]
        peer.send(call(1, f"{tube}:take"), call(2, f"{tube}:take"))
        refused = peer.read()
        assert (refused.sync, refused.error) == (2, 32)
        assert "max-blocked-clients" in refused.text
    finally:
        client.call("CONFIG", "SET", "max-arg-size", "64mb", "max-blocked-clients", "10000")
    assert peer.told(f"{tube}:put", "x") == [[0, "r", "x"]]
    assert peer.read().body == {0x30: [[0, "t", "x"]]}


def test_one_connection_does_not_take_all_the_places_for_those_who_wait(
    peer: IprotoClient, tube: str, client: Client, broker: RunningBroker
) -> None:
    client.call("CONFIG", "SET", "max-blocked-clients", "200")
    try:
        peer.send(*(call(number, f"{tube}:take") for number in range(21)))
        refused = peer.read()

        assert (refused.sync, refused.error) == (20, 32)
        assert refused.text.startswith("20 requests of this connection are blocked already")
        with IprotoClient(broker) as other:
            other.send(call(1, f"{tube}:take"))
            wait_until(lambda: b"blocked_clients:21" in client.call("INFO", "clients"))
    finally:
        client.call("CONFIG", "SET", "max-blocked-clients", "10000")


def test_one_client_too_many_is_told_so(
    peer: IprotoClient, client: Client, broker: RunningBroker
) -> None:
    client.call("CONFIG", "SET", "max-clients", 2)
    try:
        with IprotoClient(broker) as refused:
            [reply] = refused.read_to_end()
        assert (reply.sync, reply.text) == (0, "max number of clients reached")
    finally:
        client.call("CONFIG", "SET", "max-clients", 10_000)


def test_a_stop_answers_those_who_wait(tmp_path: Path) -> None:
    sock = tmp_path / "tarantool.sock"
    with start_broker(tmp_path, *LISTEN, "--tarantool-listen", f"unix:{sock}") as running:
        assert sock.exists()
        assert any(f"unix:{sock}" in line for line in running.log)
        assert tarantool_address(running).startswith("127.0.0.1:")
        with IprotoClient(running) as peer:
            assert peer.told("queue.create_tube", "t", "fifo") == [True]
            peer.send(call(1, "queue.tube.t:take"), call(2, "queue.tube.t:put", "x"))
            peer.send(call(3, "queue.tube.t:take"), packet(PING, 4))
            assert sorted(peer.read().sync for _ in range(3)) == [1, 2, 4]

            assert running.stop() == 0
            assert [(reply.sync, reply.body) for reply in peer.read_to_end()] == [(3, {0x30: []})]

        # What it took comes back, since its session is gone.
        running.restart()
        with IprotoClient(running) as peer:
            assert tarantool_port(running)
            assert peer.told("queue.tube.t:take", 20) == [[0, "t", "x"]]


def test_an_instance_tells_connection_pools_that_it_is_healthy(peer: IprotoClient) -> None:
    [info] = peer.told("box.info")

    assert info["ro"] is False
    assert info["status"] == "running"
    assert info["uuid"].encode() in peer.greeting
    assert info["version"].startswith("2.11.0")
    assert peer.ask(packet(EVAL, 1, {0x27: "return box.info()", 0x21: []})).body[0x30] == [info]
    assert peer.told("queue.info").error == 33


def test_switches_of_a_tube_are_true_or_false(peer: IprotoClient, client: Client) -> None:
    values: list[Any] = ["false", "true", 0, 1, []]
    for option in ("temporary", "if_not_exists"):
        for value in values:
            refused = peer.told("queue.create_tube", "switched", "fifo", {option: value})

            assert refused.error == 1
            assert refused.text == (
                f"Illegal parameters, options parameter '{option}' should be of type boolean"
            )
    assert peer.told("queue.tube", "switched") == [False]
    options = {"temporary": None, "if_not_exists": False}
    assert peer.told("queue.create_tube", "switched", "fifo", options) == [True]
    [kept] = [tube for tube in client.call("TUBE.LIST") if b"switched" in tube]
    assert kept[kept.index(b"temporary") + 1] == 0
    assert peer.told("queue.tube.switched:drop") == [True]


def test_an_array_or_a_string_as_options_says_nothing(peer: IprotoClient, tube: str) -> None:
    options: list[Any] = [[], [1, 2], {}, None, "text", {"unknown": 1}, {1: 2}, {True: [1]}]
    for number, said in enumerate(options):
        assert peer.told(f"{tube}:put", "x", said) == [[number, "r", "x"]]
    assert peer.told(f"{tube}:take", 0, [1])[0][:2] == [0, "t"]
    assert peer.told(f"{tube}:release", 0, [5]) == [[0, "r", "x"]]
    assert peer.told("queue.create_tube", "listed", "fifo", ["temporary"]) == [True]
    assert peer.told("queue.tube.listed:drop") == [True]
    for said in (5, True, 1.5):
        assert peer.told(f"{tube}:put", "x", said).error == 32


def test_errors_show_values_as_lua_does(peer: IprotoClient) -> None:
    def text(function: str, *args: Any) -> str:
        return str(peer.told(function, *args).text)

    assert text("queue.create_tube", "t", None) == "Unknown tube type nil"
    assert text("queue.create_tube", "t", True) == "Unknown tube type true"
    assert text("queue.create_tube", "t", 5) == "Unknown tube type 5"
    assert text("queue.create_tube", "t", 1.5) == "Unknown tube type 1.5"
    assert text("queue.create_tube", "t", ["x"]) == "Unknown tube type table"
    assert text("queue.create_tube", "t", "heap") == "Unknown tube type heap"
    assert text("queue.cfg", {"ttr": None}) == "Invalid value of ttr: nil"
    assert text("queue.cfg", {"ttr": "x"}) == "Invalid value of ttr: x"
    assert text("queue.cfg", {"ttr": False}) == "Invalid value of ttr: false"
    assert text("queue.cfg", {"ttr": {"a": b"x"}}) == "Invalid value of ttr: table"
    assert text("queue.cfg", {"in_replicaset": 1}) == "Invalid value of in_replicaset: 1"
    assert text("queue.cfg", {5: 1}) == "Unknown option 5"
    assert text("queue.cfg", {"x": 1}) == "Unknown option x"
    assert text("queue.create_tube", "n" * 1025, "fifo").startswith("Invalid identifier 'nnnn")


def test_errors_have_an_extended_part(peer: IprotoClient) -> None:
    requests = {
        "LuajitError": call(1, "queue.create_tube", "t", "heap"),
        "ClientError": call(1, "queue.tube.missing:put", 1),
    }
    for kind, asked in requests.items():
        reply = peer.ask(asked)

        [error] = reply.body[0x52][0]
        assert (error[0], error[3], error[5]) == (kind, reply.text, reply.error)
        assert isinstance(error[1], str)
        assert (error[2], error[4]) == (0, 0)


@pytest.mark.parametrize("header", [{0: 64.5, 1: 1}, {0: 64.0, 1: 1}, {0: 64, 1: 1.5}, {0: True}])
def test_a_header_has_whole_numbers(broker: RunningBroker, header: dict[int, Any]) -> None:
    data: bytes = msgpack.packb(header)
    with IprotoClient(broker) as broken:
        broken.send(bytes([len(data)]) + data)

        [reply] = broken.read_to_end()

    assert (reply.sync, reply.error) == (0, 20)


def test_a_name_that_begins_with_the_mark_of_data_is_listed_as_it_is(peer: IprotoClient) -> None:
    names = [b"\xc1", b"\xc1\xc1", b"\xc1\x93\x01", b"\xc1abc"]
    for name in names:
        assert peer.told("queue.create_tube", name, "fifo") == [True]

    [listed] = peer.told("queue.tube")
    [counted] = peer.told("queue.statistics")

    for name in names:
        assert name in listed
        assert counted[name]["tasks"]["total"] == 0
        assert peer.told(b"queue.tube." + name + b":drop") == [True]


def test_takes_of_a_client_whose_bytes_are_broken_get_nothing(
    peer: IprotoClient, tube: str, broker: RunningBroker, client: Client
) -> None:
    """It may stay connected for a while, to read what is wrong."""
    with IprotoClient(broker) as broken:
        broken.send(call(1, f"{tube}:take", 60), call(2, f"{tube}:take", 60))
        wait_until(lambda: b"blocked_clients:2\r\n" in client.call("INFO", "clients"))
        broken.send(b"\xc1")
        assert (broken.read().sync, broken.sock.recv(1)) == (0, b"")

        assert peer.told(f"{tube}:put", "task") == [[0, "r", "task"]]

        assert peer.told(f"{tube}:take", 0) == [[0, "t", "task"]]
