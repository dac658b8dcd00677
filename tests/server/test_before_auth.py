"""What a connection may cost before its client has authenticated, and what held requests may."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import CALL, LISTEN, PING, SELECT, IprotoClient, call, packet
from tests.server.resp import Client, Refusal, request

FLOOD_BYTES = 64 << 20
# The sockets of both sides hold some megabytes; a held client's requests may take a few more.
TAKEN_MOST_BYTES = 24 << 20
GROWS_MOST_BYTES = 100 << 20
NOT_DEFINED, NO_AUTH = 33, 42


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("broker")
    flags = (*LISTEN, "--fsync", "no", "--requirepass", "secret")
    with start_broker(folder, *flags) as running:
        yield running


@pytest.fixture
def boss(broker: RunningBroker) -> Iterator[Client]:
    with broker.connect() as connected:
        assert connected.call("AUTH", "secret") == b"OK"
        yield connected


def memory(broker: RunningBroker) -> int:
    return int(psutil.Process(broker.pid).memory_info().rss)


def input_bytes(boss: Client) -> int:
    """How much the broker has read from all clients."""
    lines = boss.call("INFO", "stats").splitlines()
    [line] = [line for line in lines if line.startswith(b"total_net_input_bytes:")]
    return int(line.partition(b":")[2])


def flood(sock: socket.socket, boss: Client, data: bytes, most: int) -> int:
    """Send it again and again, and read nothing, until the broker reads no more; how much it took
    of up to `most` bytes."""
    sock.setblocking(False)
    sent = 0
    rest = b""
    is_idle = False
    while sent < most:
        rest = rest or data
        try:
            count = sock.send(rest)
        except BlockingIOError:
            if is_idle:
                break
            # One turn reads from every socket that has something: two that do not are the end.
            counts = [input_bytes(boss) for _ in range(3)]
            is_idle = counts[2] - counts[0] == 2 * len(request("INFO", "stats"))
        else:
            is_idle = False
            sent += count
            rest = rest[count:]
    return sent


EMPTY = b"*1\r\n$0\r\n\r\n"
NO_BODY = packet(PING, 0)


def test_small_requests_of_a_stranger_that_reads_nothing_are_not_collected(
    broker: RunningBroker, boss: Client
) -> None:
    before = memory(broker)
    with broker.connect() as stranger:
        taken = flood(stranger.sock, boss, EMPTY * 10_000, FLOOD_BYTES)

        assert taken < TAKEN_MOST_BYTES
        assert memory(broker) - before < GROWS_MOST_BYTES


def test_small_packets_of_a_stranger_that_reads_nothing_are_not_collected(
    broker: RunningBroker, boss: Client
) -> None:
    before = memory(broker)
    with IprotoClient(broker) as stranger:
        taken = flood(stranger.sock, boss, NO_BODY * 10_000, FLOOD_BYTES)

        assert taken < TAKEN_MOST_BYTES
        assert memory(broker) - before < GROWS_MOST_BYTES


def test_small_requests_of_a_held_client_count_for_what_they_take(
    broker: RunningBroker, boss: Client
) -> None:
    before = memory(broker)
    with broker.connect() as client:
        client.call("AUTH", "secret")
        client.send("QNOTIFY", "g", 600, "q")

        taken = flood(client.sock, boss, EMPTY * 10_000, FLOOD_BYTES)

        assert taken < TAKEN_MOST_BYTES
        assert memory(broker) - before < GROWS_MOST_BYTES


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"*2\r\n$4\r\nECHO\r\n$65537\r\n", b"unauthenticated bulk length"),
        (b"*2\r\n$4\r\nECHO\r\n$65000\r\n" + b"x" * 65_000 + b"\r\n*2\r\n$9999999\r\n", b"bulk"),
        (b"*1000\r\n$1\r\nx\r\n", b"unauthenticated multibulk length"),
    ],
)
def test_a_stranger_may_begin_no_large_request(
    broker: RunningBroker, data: bytes, complaint: bytes
) -> None:
    with broker.connect() as stranger:
        stranger.send_bytes(data)

        replies = stranger.read_to_end()

    assert b"-ERR Protocol error: " in replies
    assert complaint in replies.splitlines()[-1]


def test_a_large_request_right_behind_the_password_is_run(broker: RunningBroker) -> None:
    body = b"x" * (1 << 20)
    with broker.connect() as client:
        client.send_bytes(request("AUTH", "secret") + request("ECHO", body))

        assert client.value() == b"OK"
        assert client.value() == body


def test_a_stranger_may_begin_no_large_packet(broker: RunningBroker) -> None:
    large = packet(CALL, 2, {0x22: "queue.tube", 0x21: ["x" * (1 << 20)]})
    with IprotoClient(broker) as stranger:
        stranger.send(packet(PING, 1), large[: 1 << 10])

        replies = stranger.read_to_end()

    assert [(reply.sync, reply.error) for reply in replies] == [(1, 0), (0, 20)]
    assert "65536 bytes" in replies[1].text
    assert "authenticated" in replies[1].text


def test_a_packet_has_few_keys(broker: RunningBroker) -> None:
    before = memory(broker)
    with IprotoClient(broker) as stranger:
        stranger.send(packet(PING, 1, dict.fromkeys(range(100, 164))))
        assert stranger.read().error == 0

        stranger.send(packet(PING, 2, dict.fromkeys(range(20_000))))

        [refused] = stranger.read_to_end()
    assert (refused.sync, refused.error) == (0, 20)
    assert memory(broker) - before < GROWS_MOST_BYTES


def test_a_call_has_ten_thousand_arguments_at_most(broker: RunningBroker) -> None:
    with IprotoClient(broker) as stranger:
        assert stranger.ask(call(1, "none", *[0] * 10_000)).error == NO_AUTH

        stranger.send(call(2, "none", *[0] * 10_001))

        [refused] = stranger.read_to_end()
    assert refused.error == 20
    assert "a call with more than 10000 arguments" in refused.text


def test_values_that_should_be_short_are_not_unpacked(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Where no password is needed, everybody may send as much as the settings allow."""
    folder = tmp_path_factory.mktemp("open")
    large: list[Any] = [[]] * 10_000_000
    with start_broker(folder, *LISTEN, "--fsync", "no") as broker, IprotoClient(broker) as peer:
        before = psutil.Process(broker.pid).cpu_times().user

        select = peer.ask(packet(SELECT, 1, {0x10: large, 0x20: []}))
        function = peer.ask(packet(CALL, 2, {0x22: large, 0x21: []}))
        taken = peer.told("queue.create_tube", large, "fifo")

        assert (select.error, function.error, taken.error) == (20, 32, 32)
        assert max(len(reply.text) for reply in (select, function, taken)) < 200
        assert psutil.Process(broker.pid).cpu_times().user - before < 2.0
        assert peer.told("queue.state") == ["RUNNING"]


def test_names_of_functions_that_a_stranger_calls_are_not_kept(broker: RunningBroker) -> None:
    before = memory(broker)
    with IprotoClient(broker) as stranger:
        for number in range(2_000):
            name = "x" * 60_000 + f"{number}.statistics"
            refused = stranger.ask(packet(CALL, 1, {0x22: name, 0x21: []}))
            assert refused.error == NO_AUTH

    assert memory(broker) - before < GROWS_MOST_BYTES


def test_long_names_of_functions_are_not_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("names")
    with start_broker(folder, *LISTEN, "--fsync", "no") as broker, IprotoClient(broker) as peer:
        peer.told("queue.create_tube", "t" * 1024, "fifo")
        before = memory(broker)

        for number in range(2_000):
            refused = peer.told("x" * 60_000 + f"{number}.statistics")
            assert (refused.error, len(refused.text) < 2_000) == (NOT_DEFINED, True)

        assert memory(broker) - before < GROWS_MOST_BYTES
        assert peer.told("box.queue.tube." + "t" * 1024 + ":put", "x") == [[0, "r", "x"]]


def test_a_name_that_is_shown_in_an_error_is_cut(broker: RunningBroker, boss: Client) -> None:
    answer = boss.call("AUTH", "x" * (1 << 20), "y")

    assert isinstance(answer, Refusal)
    assert len(answer.text) < 1000
