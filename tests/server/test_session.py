"""PING ECHO SELECT HELLO QUIT RESET: the connection itself."""

from __future__ import annotations

import socket

import pytest

from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal

NAMES_REFUSED = "ERR Client names cannot contain spaces, newlines or special characters."


def test_ping_answers_pong_or_the_message(client: Client) -> None:
    assert client.ask("PING") == b"+PONG\r\n"
    assert client.ask("ping", b"\x00\r\n") == b"$3\r\n\x00\r\n\r\n"
    assert client.call("PING", "a", "b") == Refusal(
        "ERR wrong number of arguments for 'ping' command"
    )


def test_echo_answers_the_message(client: Client) -> None:
    assert client.ask("ECHO", "") == b"$0\r\n\r\n"
    assert client.ask("ECHO", "hello") == b"$5\r\nhello\r\n"


def test_there_is_one_database(client: Client) -> None:
    assert client.ask("SELECT", 0) == b"+OK\r\n"
    assert client.call("SELECT", 1) == Refusal("ERR DB index is out of range")
    assert client.call("SELECT", "x") == Refusal("ERR value is not an integer or out of range")


def test_an_unknown_command_is_quoted_in_the_error(client: Client) -> None:
    refused = client.call("nosuch", "a\r\nb", "c")

    assert refused == Refusal("ERR unknown command 'nosuch', with args beginning with: 'a  b' 'c'")


def test_hello_2_answers_who_the_server_is(client: Client) -> None:
    number = client.call("CLIENT", "ID")

    assert client.ask("HELLO", 2) == (
        b"*14\r\n$6\r\nserver\r\n$7\r\nquinque\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n"
        b"$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:%d\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
        b"$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n" % number
    )


def test_hello_3_answers_a_map_and_nulls_are_nulls_from_then_on(client: Client) -> None:
    assert client.ask("QGET", "nothing", "g") == b"$-1\r\n"

    answer = client.ask("HELLO", 3)

    assert answer[:4] == b"%7\r\n"
    assert client.ask("QGET", "nothing", "g") == b"_\r\n"
    assert client.ask("HELLO", 2)[:5] == b"*14\r\n"
    assert client.ask("QGET", "nothing", "g") == b"$-1\r\n"


def test_hello_can_name_the_connection(client: Client) -> None:
    client.call("HELLO", 3, "SETNAME", "me")

    assert client.call("CLIENT", "GETNAME") == b"me"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ((4,), "NOPROTO unsupported protocol version"),
        ((1,), "NOPROTO unsupported protocol version"),
        (("x",), "ERR Protocol version is not an integer or out of range"),
        ((3, "AUTH", "default"), "ERR Syntax error in HELLO option 'AUTH'"),
        ((3, "SETNAME"), "ERR Syntax error in HELLO option 'SETNAME'"),
        ((3, "NOSUCH", "x"), "ERR Syntax error in HELLO option 'NOSUCH'"),
        ((3, "SETNAME", "ok", "SETNAME", "a b"), NAMES_REFUSED),
        ((3, "SETNAME", "ok", "AUTH", "nobody", "x"), "WRONGPASS invalid username-password pair"),
    ],
)
def test_a_refused_hello_changes_nothing(
    client: Client, words: tuple[str | int, ...], refusal: str
) -> None:
    refused = client.call("HELLO", *words)

    assert isinstance(refused, Refusal)
    assert refused.text.startswith(refusal)
    assert client.ask("QGET", "nothing", "g") == b"$-1\r\n", "still RESP2"
    assert client.call("CLIENT", "GETNAME") is None


def test_auth_without_a_password_set_is_a_mistake_worth_an_error(client: Client) -> None:
    assert client.call("AUTH", "x") == Refusal("ERR Client sent AUTH, but no password is set")
    assert client.call("AUTH", "a", "b", "c") == Refusal("ERR syntax error")
    assert client.call("AUTH", "default", "anything") == b"OK"
    assert client.call("AUTH", "nobody", "x").text.startswith("WRONGPASS ")


def test_quit_answers_ok_and_closes_and_runs_nothing_after_it(
    client: Client, other: Client, queue: str
) -> None:
    client.send("QADD", queue, 60, "before")
    client.send("QUIT")
    client.send("QADD", queue, 60, "after")

    replies = client.read_to_end()

    assert replies.startswith(b"$16\r\n")
    assert replies.endswith(b"\r\n+OK\r\n")
    assert other.call("QGET", queue, "g")[1] == b"before"
    assert other.call("QGET", queue, "g") is None


def test_reset_makes_the_connection_as_new(client: Client, other: Client, queue: str) -> None:
    client.call("HELLO", 3, "SETNAME", "me")
    client.call("QREGISTER", queue)
    client.call("MONITOR")

    assert b'"RESET"' in client.ask("RESET"), "a monitor sees its own commands too"
    assert client.read() == b"+RESET\r\n"

    other.call("ECHO", "unseen")
    assert client.ask("CLIENT", "GETNAME") == b"$-1\r\n"
    assert b"resp=2" in client.call("CLIENT", "INFO")
    assert other.call("QSTATUS", queue) == [[queue.encode(), []]], "no consumer is left"


def test_reset_turns_replies_on_again(client: Client) -> None:
    client.send("CLIENT", "REPLY", "OFF")
    client.send("PING")

    assert client.ask("RESET") == b"+RESET\r\n"
    assert client.ask("PING") == b"+PONG\r\n"


def test_commands_may_be_inline_and_in_any_case(client: Client) -> None:
    client.send_bytes(b"pInG\r\nECHO \"a b\\x00\" \nECHO 'c''d'\n")

    assert client.read() == b"+PONG\r\n"
    assert client.read() == b"$4\r\na b\x00\r\n"
    assert client.read()[:1] == b"-", "quotes must be followed by a space"


def test_a_connection_may_send_its_last_request_and_close_its_side(broker: RunningBroker) -> None:
    with broker.connect() as client:
        client.send_bytes(b"PING\r\nPING\r\n")
        client.sock.shutdown(socket.SHUT_WR)

        assert client.read_to_end() == b"+PONG\r\n+PONG\r\n"
