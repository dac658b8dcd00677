"""Replies come in the order of requests, whatever holds a client up and however it sends."""

from __future__ import annotations

import socket
from functools import partial

import pytest

from tests.server.broker import RunningBroker, wait_until
from tests.server.resp import Client, request
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


def test_a_pipeline_is_answered_in_order(client: Client, queue: str) -> None:
    requests = []
    for number in range(2000):
        requests.append(request("ECHO", number))
        if number % 7 == 0:
            requests.append(request("NOSUCH", number))
        if number % 11 == 0:
            requests.append(request("QADD", queue, 60, number))
    client.send_bytes(b"".join(requests))

    for number in range(2000):
        assert client.value() == b"%d" % number
        if number % 7 == 0:
            assert client.read().endswith(b"with args beginning with: '%d'\r\n" % number)
        if number % 11 == 0:
            assert len(client.value()) == 16


def test_many_that_are_alike_are_answered_before_what_was_asked_after_them(
    client: Client, queue: str
) -> None:
    client.send_bytes(request("ADDJOB", queue, "x", 0) * 2000 + request("ECHO", "after"))

    ids = [client.value() for _ in range(2000)]

    assert len(set(ids)) == 2000
    assert client.value() == b"after"


def test_what_one_request_stored_the_next_one_finds(client: Client, queue: str) -> None:
    rounds = 300
    for number in range(rounds):
        client.send("QADD", queue, 60, number)
        client.send("QGET", queue, "g", "EX", 0)

    for number in range(rounds):
        event_id = client.value()
        assert client.value() == [event_id, b"%d" % number]


def test_one_that_waits_holds_up_what_it_asked_after(
    client: Client, other: Client, queue: str
) -> None:
    client.send_bytes(
        request("ECHO", "before")
        + request("QNOTIFY", "g", 60, queue)
        + request("QGET", queue, "g")
        + request("ECHO", "after")
    )
    assert client.value() == b"before"

    event_id = other.call("QADD", queue, 60, "hello")

    assert client.value() == queue.encode()
    assert client.value() == [event_id, b"hello"]
    assert client.value() == b"after"


def test_several_waits_in_one_pipeline_are_waited_for_in_turn(
    client: Client, other: Client, queue: str
) -> None:
    names = [f"{queue}{number}" for number in range(3)]
    for name in names:
        client.send("QNOTIFY", "g", 60, name)
    client.send("PING")

    for name in reversed(names):
        other.call("QADD", name, 60, "x")

    assert [client.value() for _ in names] == [name.encode() for name in names]
    assert client.read() == b"+PONG\r\n"


def test_a_wait_that_ends_by_the_clock_lets_the_next_request_run(
    client: Client, queue: str
) -> None:
    client.send("QNOTIFY", "g", "0.01", queue)
    client.send("PING")

    assert client.read_many(2) == [b"$-1\r\n", b"+PONG\r\n"]


def test_in_resp3_a_wait_ends_with_a_null(client3: Client, queue: str) -> None:
    assert client3.ask("QNOTIFY", "g", "0.01", queue) == b"_\r\n"


def test_a_protocol_change_in_a_pipeline_holds_from_the_next_reply_on(client: Client) -> None:
    client.send_bytes(
        request("QGET", "nothing", "g")
        + request("HELLO", 3)
        + request("QGET", "nothing", "g")
        + request("HELLO", 2)
        + request("QGET", "nothing", "g")
    )

    replies = client.read_many(5)

    assert replies[::2] == [b"$-1\r\n", b"_\r\n", b"$-1\r\n"]


def test_requests_may_come_byte_by_byte(client: Client, other: Client, queue: str) -> None:
    data = request("QADD", queue, 60, b"a\r\nb\x00") + b"PING\r\n" + request("QGET", queue, "g")

    for at in range(len(data)):
        client.send_bytes(data[at : at + 1])
        if at % 10 == 0:
            assert other.call("PING") == b"PONG", "nobody else notices"

    event_id = client.value()
    assert client.read() == b"+PONG\r\n"
    assert client.value() == [event_id, b"a\r\nb\x00"]


def test_a_long_body_comes_back_as_it_went(client: Client, queue: str) -> None:
    body = bytes(range(256)) * 40_000
    client.call("QADD", queue, 60, body)

    assert client.call("QGET", queue, "g")[1] == body


def test_a_client_that_goes_while_it_waits_waits_no_more(
    client: Client, other: Client, queue: str
) -> None:
    number = client.call("CLIENT", "ID")
    client.send("QNOTIFY", "g", 60, queue)
    wait_until(lambda: b" flags=b " in other.call("CLIENT", "LIST", "ID", number))

    client.close()

    wait_until(lambda: other.call("CLIENT", "LIST", "ID", number) == b"")
    assert other.call("QSTATUS", queue) == [[queue.encode(), []]]


def test_one_that_asks_to_wait_and_says_no_more_is_gone(
    client: Client, other: Client, queue: str
) -> None:
    number = client.call("CLIENT", "ID")
    # The long reply holds the client up, so that the end comes before the wait has begun.
    body = "x" * 8_000_000
    client.send_bytes(request("ECHO", body) + request("QNOTIFY", "g", 600, queue))
    client.sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: b" omem=0 " not in other.call("CLIENT", "LIST", "ID", number))

    assert client.read_to_end() == f"$8000000\r\n{body}\r\n".encode()
    wait_until(lambda: other.call("CLIENT", "LIST", "ID", number) == b"")
    assert other.call("QSTATUS", queue) == [[queue.encode(), []]]


def test_what_a_client_sent_before_it_left_is_done(
    broker: RunningBroker, other: Client, queue: str
) -> None:
    with broker.connect() as client:
        client.send_bytes(request("QADD", queue, 60, "x") * 100)

    wait_until(lambda: _total(other, queue) == 100)


def test_one_that_never_reads_holds_up_only_itself(
    broker: RunningBroker, client: Client, queue: str
) -> None:
    client.call("QADD", queue, 60, "x" * 500_000)
    with broker.connect() as lazy:
        number = lazy.call("CLIENT", "ID")
        lazy.sock.setblocking(False)
        asked = 0
        data = request("QGET", queue, "lazy", "EX", "0.001") * 100
        try:
            while asked < 100_000:
                asked += lazy.sock.send(data)
        except BlockingIOError:
            pass

        for count in range(200):
            assert client.call("ECHO", count) == b"%d" % count

        line = client.call("CLIENT", "LIST", "ID", number)
        fields = dict(word.split(b"=", 1) for word in line.split(b" "))
        assert int(fields[b"omem"]) < 64 << 20
        assert int(fields[b"qbuf"]) < 4 << 20


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_one_that_reads_late_gets_every_reply(client: Client, queue: str, pieces: int) -> None:
    body = "x" * 100_000
    client.sock.settimeout(30)
    for _ in range(pieces):
        client.send("ECHO", body if pieces < 1000 else "short")

    replies = client.read_many(pieces)

    assert len(set(replies)) == 1


def test_requests_that_come_while_the_socket_is_full_are_answered_after_those_that_wait(
    broker: RunningBroker, client: Client, other: Client
) -> None:
    number = client.call("CLIENT", "ID")
    size_bytes = 6_000_000
    client.send_bytes(request("ECHO", "x" * size_bytes) + request("ECHO", "r0"))
    wait_until(lambda: b" omem=0 " not in other.call("CLIENT", "LIST", "ID", number))

    # Each time the broker finds a new request and a socket that it can write to again.
    received_bytes, sent = 0, 1
    while received_bytes < size_bytes and sent < 100:
        with broker.halted():
            received_bytes = client.receive_waiting()
            client.send("ECHO", f"r{sent}")
            sent += 1
        wait_until(partial(_has_more, client, received_bytes))

    assert len(client.value()) == size_bytes
    assert [client.value() for _ in range(sent)] == [b"r%d" % at for at in range(sent)]


@pytest.mark.parametrize("mode", ["ALL", "WRITE"])
def test_requests_that_come_as_a_pause_ends_are_answered_after_those_that_wait(
    broker: RunningBroker, client: Client, other: Client, queue: str, mode: str
) -> None:
    number = client.call("CLIENT", "ID")
    other.call("CLIENT", "PAUSE", 60_000, mode)
    client.send_bytes(request("ADDJOB", queue, "a", 0) + request("ECHO", "r1"))
    wait_until(lambda: b" qbuf=0 " not in other.call("CLIENT", "LIST", "ID", number))

    with broker.halted():
        other.send("CLIENT", "UNPAUSE")
        client.send("ECHO", "r2")
    client.send("ECHO", "r3")

    assert other.value() == b"OK"
    assert client.value().startswith(b"D-")
    assert [client.value() for _ in range(3)] == [b"r1", b"r2", b"r3"]


def test_requests_that_come_in_a_pause_wait_for_its_end(client: Client, other: Client) -> None:
    number = client.call("CLIENT", "ID")
    other.call("CLIENT", "PAUSE", 60_000)
    for at in range(3):
        before_bytes = _in_line_bytes(other, number)
        client.send("ECHO", f"r{at}")
        wait_until(partial(_has_more_in_line, other, number, before_bytes))

    other.call("CLIENT", "UNPAUSE")

    assert [client.value() for _ in range(3)] == [b"r0", b"r1", b"r2"]


def _has_more(client: Client, received_bytes: int) -> bool:
    return client.receive_waiting() > received_bytes


def _has_more_in_line(other: Client, number: int, size_bytes: int) -> bool:
    return _in_line_bytes(other, number) > size_bytes


def _in_line_bytes(other: Client, number: int) -> int:
    [field] = [
        word
        for word in other.call("CLIENT", "LIST", "ID", number).split()
        if word.startswith(b"qbuf=")
    ]
    return int(field.removeprefix(b"qbuf="))


def _total(client: Client, queue: str) -> int:
    (row,) = client.call("QSTATUS", queue, "GROUPS", "g")
    statistics = dict(zip(row[1][1][::2], row[1][1][1::2], strict=True))
    return int(statistics[b"total"])


@pytest.mark.parametrize("last", [b"", b"*1\r\nX\r\n"])
def test_requests_that_came_in_pieces_are_answered_before_the_client_is_sent_away(
    client: Client, last: bytes
) -> None:
    large = b"x" * 3_000_000

    client.send_bytes(request("ECHO", large) + request("ECHO", "after") + last)
    client.sock.shutdown(socket.SHUT_WR)

    assert client.value() == large
    assert client.value() == b"after"
    assert bool(client.read_to_end()) == bool(last)


@pytest.mark.parametrize("last", [b"", b"*1\r\nX\r\n"])
def test_a_client_that_ends_while_its_socket_is_full_is_closed_when_it_has_read(
    broker: RunningBroker, other: Client, last: bytes
) -> None:
    large = b"x" * 16_000_000
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    narrow.connect(("127.0.0.1", broker.port))

    with Client(narrow) as client:
        client.send_bytes(request("ECHO", large) + last)
        narrow.shutdown(socket.SHUT_WR)
        wait_until(lambda: has_unsent_echo(other), "replies wait for the client")

        assert client.value() == large
        assert bool(client.read_to_end()) == bool(last)


def has_unsent_echo(client: Client) -> bool:
    """Whether the broker has bytes for a client that last sent ECHO and does not read."""
    lines = client.call("CLIENT", "LIST").splitlines()
    return any(b"cmd=echo" in line and b"omem=0 " not in line for line in lines)
