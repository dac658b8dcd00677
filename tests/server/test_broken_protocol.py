"""Bytes that are no request: an error, then the connection closes, and nobody else notices."""

from __future__ import annotations

import pytest

from tests.server.resp import Client, Refusal, request

BROKEN = {
    "no dollar": (b"*1\r\n:1\r\n", b"expected '$', got ':'"),
    "no number": (b"*x\r\n", b"invalid multibulk length"),
    "too many arguments": (b"*1048577\r\n", b"invalid multibulk length"),
    "no length": (b"*1\r\n$x\r\n", b"invalid bulk length"),
    "a negative length": (b"*1\r\n$-1\r\n", b"invalid bulk length"),
    "too long": (b"*1\r\n$99999999999\r\n", b"invalid bulk length"),
    "an endless count": (b"*" + b"1" * 64, b"too big mbulk count string"),
    "an endless length": (b"*1\r\n$" + b"1" * 64, b"too big bulk count string"),
    "open quotes": (b'ECHO "a\r\n', b"unbalanced quotes in request"),
    "an endless line": (b"x" * 70_000, b"too big inline request"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_bytes_close_that_connection_and_no_other(
    client: Client, other: Client, queue: str, what: str
) -> None:
    data, complaint = BROKEN[what]
    client.send("QADD", queue, 60, "before")
    client.send_bytes(data)

    replies = client.read_to_end()

    added, _, rest = replies.partition(b"\r\n-")
    assert len(added) == len(b"$16\r\n") + 16
    assert rest.startswith(b"ERR Protocol error: " + complaint)
    assert rest.count(b"\r\n") == 1
    assert other.call("QGET", queue, "g")[1] == b"before"


def test_broken_bytes_behind_one_that_waits_are_answered_after_it(
    client: Client, other: Client, queue: str
) -> None:
    client.send_bytes(request("QNOTIFY", "g", 60, queue) + b"*x\r\n")

    other.call("QADD", queue, 60, "x")

    name = queue.encode()
    assert client.read_to_end() == (
        b"$%d\r\n%b\r\n-ERR Protocol error: invalid multibulk length; at most 1048576 arguments\r\n"
        % (len(name), name)
    )


@pytest.mark.parametrize("words", [("MONITOR",), ("QREGISTER", "registered")])
def test_a_client_that_lingers_after_broken_bytes_is_no_monitor_and_no_consumer(
    client: Client, other: Client, words: tuple[str, ...]
) -> None:
    client.call(*words)
    client.send_bytes(b"*1\r\nX\r\n")
    assert client.read_to_end().startswith(b"-ERR Protocol error")

    # The connection stays half open for a while, so that the client can read the error.
    assert other.call("PING") == b"PONG"
    assert other.call("QADD", "registered", 60, "x")
    assert other.call("QSTATUS", "registered") == [[b"registered", []]]


def test_nothing_after_broken_bytes_is_run(client: Client, other: Client, queue: str) -> None:
    client.send_bytes(b"*x\r\n" + request("QADD", queue, 60, "never"))
    client.read_to_end()

    assert other.call("QGET", queue, "g") is None


def test_an_empty_request_and_an_empty_line_are_no_requests(client: Client) -> None:
    client.send_bytes(b"*0\r\n\r\n  \r\n*-1\r\nPING\r\n")

    assert client.read() == b"+PONG\r\n"


def test_an_empty_name_is_an_unknown_command(client: Client) -> None:
    assert client.ask(b"").startswith(b"-ERR unknown command ''")
    assert client.ask("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    "begins", [b"POST / HTTP/1.1\r\nHost: h\r\n", b"GET / HTTP/1.1\r\nhost: h\r\n"]
)
@pytest.mark.parametrize("before", [b"", b"MULTI\r\n", b"CLIENT REPLY OFF\r\n"])
def test_a_browser_cannot_send_requests_for_a_web_page(
    client: Client, other: Client, queue: str, begins: bytes, before: bytes
) -> None:
    other.call("QADD", queue, 60, "kept")
    flush = request("QFLUSH", queue)

    client.send_bytes(before + begins + b"Content-Length: 99\r\n\r\n" + flush + b"EXEC\r\n")

    says = b"-ERR this port does not speak HTTP; the connection closes\r\n"
    assert client.read_to_end().endswith(b"" if b"OFF" in before else says)
    assert other.call("QGET", queue, "g")[1] == b"kept"


def test_the_words_of_http_are_no_commands(client: Client) -> None:
    assert client.call("COMMAND", "GETKEYS", "POST", "/") == Refusal(
        "ERR Invalid command specified"
    )
    assert client.ask("PING") == b"+PONG\r\n"
