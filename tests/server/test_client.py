"""CLIENT: a connection's own name and line, and its replies."""

from __future__ import annotations

import pytest

from tests.server.resp import Client, Refusal

# The fields of a line of Redis 7.2, in its order.
FIELDS = """
    id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem
    rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver
"""


def fields(line: bytes) -> dict[str, str]:
    pairs = (word.split("=", 1) for word in line.decode().split(" "))
    return {pair[0]: pair[1] for pair in pairs}


def line_of(listed: bytes, number: int) -> dict[str, str]:
    lines = [fields(line) for line in listed.splitlines()]
    return next(line for line in lines if line["id"] == str(number))


@pytest.mark.parametrize(
    "words",
    [
        ("CLIENT", "SETNAME"),
        ("CLIENT", "SETINFO", "LIB-NAME"),
        ("CLIENT", "SETINFO", "LIB-VER"),
        ("HELLO", "2", "SETNAME"),
    ],
)
def test_a_label_has_at_most_1024_bytes(client: Client, words: tuple[str, ...]) -> None:
    assert not isinstance(client.call(*words, "x" * 1024), Refusal)

    refused = client.call(*words, "x" * 1025)

    assert isinstance(refused, Refusal)
    assert refused.text.endswith("cannot be longer than 1024 bytes")
    assert b"x" * 1025 not in client.call("CLIENT", "INFO")


def test_each_connection_has_a_number_of_its_own(client: Client, other: Client) -> None:
    assert client.ask("CLIENT", "ID")[:1] == b":"
    assert client.call("CLIENT", "ID") < other.call("CLIENT", "ID")


def test_a_name_is_kept_until_it_is_cleared(client: Client, client3: Client) -> None:
    assert client.ask("CLIENT", "GETNAME") == b"$-1\r\n"
    assert client3.ask("CLIENT", "GETNAME") == b"_\r\n"
    assert client.ask("CLIENT", "SETNAME", "me") == b"+OK\r\n"
    assert client.ask("CLIENT", "GETNAME") == b"$2\r\nme\r\n"
    assert client.ask("CLIENT", "SETNAME", "") == b"+OK\r\n"
    assert client.ask("CLIENT", "GETNAME") == b"$-1\r\n"


@pytest.mark.parametrize("name", ["a b", "a\nb", "a\x00", "é"])
def test_a_name_that_would_break_the_list_is_refused(client: Client, name: str) -> None:
    expected = "cannot contain spaces, newlines or special characters."

    assert client.call("CLIENT", "SETNAME", name) == Refusal(f"ERR Client names {expected}")
    assert client.call("CLIENT", "SETINFO", "lib-name", name) == Refusal(f"ERR lib-name {expected}")
    assert client.call("CLIENT", "GETNAME") is None


def test_info_is_a_line_with_the_fields_of_redis(client: Client) -> None:
    client.call("CLIENT", "SETNAME", "me")
    client.call("CLIENT", "SETINFO", "LIB-NAME", "redis-py")
    client.call("CLIENT", "SETINFO", "lib-ver", "8.1.0")

    text = client.call("CLIENT", "INFO")

    assert text.endswith(b"\n")
    line = fields(text.rstrip(b"\n"))
    assert list(line) == FIELDS.split()
    host, port = client.sock.getsockname()
    assert line["addr"] == f"{host}:{port}"
    assert line["laddr"] == "{}:{}".format(*client.sock.getpeername())
    assert (line["name"], line["lib-name"], line["lib-ver"]) == ("me", "redis-py", "8.1.0")
    assert (line["flags"], line["cmd"], line["user"]) == ("N", "client|info", "default")
    assert (line["resp"], line["db"], line["multi"]) == ("2", "0", "-1")


def test_info_and_list_are_verbatim_strings_in_resp3(client3: Client) -> None:
    assert client3.ask("CLIENT", "INFO").split(b"\r\n")[1].startswith(b"txt:id=")
    assert client3.ask("CLIENT", "LIST").split(b"\r\n")[1].startswith(b"txt:id=")


def test_list_has_a_line_for_each_connection(client: Client, other: Client) -> None:
    mine, theirs = client.call("CLIENT", "ID"), other.call("CLIENT", "ID")

    listed = client.call("CLIENT", "LIST")
    chosen = client.call("CLIENT", "LIST", "ID", theirs, 999_999)

    assert line_of(listed, mine)["cmd"] == "client|list"
    assert line_of(listed, theirs)["cmd"] == "client|id"
    assert [fields(line)["id"] for line in chosen.splitlines()] == [str(theirs)]


def test_list_knows_the_types_of_redis(client: Client) -> None:
    assert client.call("CLIENT", "LIST", "TYPE", "normal").startswith(b"id=")
    assert client.call("CLIENT", "LIST", "TYPE", "pubsub") == b""


def test_list_shows_who_waits_and_who_watches(client: Client, other: Client, queue: str) -> None:
    waiting, watching = client.call("CLIENT", "ID"), other.call("CLIENT", "ID")
    other.call("MONITOR")
    client.send("QNOTIFY", "g", 60, queue)
    other.read()

    listed = other.ask("CLIENT", "LIST") and other.value()

    assert line_of(listed, waiting)["flags"] == "b"
    assert line_of(listed, waiting)["cmd"] == "qnotify"
    assert line_of(listed, watching)["flags"] == "O"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("LIST", "TYPE", "nosuch"), "Unknown client type 'nosuch'"),
        (("LIST", "ID"), "syntax error"),
        (("LIST", "ID", "x"), "Invalid client ID"),
        (("LIST", "ID", "0"), "Invalid client ID"),
        (("LIST", "nosuch"), "syntax error"),
        (("ID", "x"), "wrong number of arguments for 'client|id' command"),
        (("SETNAME",), "wrong number of arguments for 'client|setname' command"),
        (("SETINFO", "x", "y"), "Unrecognized option 'x'"),
        (("REPLY", "maybe"), "syntax error"),
        (("NO-EVICT", "maybe"), "syntax error"),
        (("NO-TOUCH", "maybe"), "syntax error"),
        (("nosuch",), "unknown subcommand 'nosuch'. Try CLIENT HELP."),
        ((), "wrong number of arguments for 'client' command"),
    ],
)
def test_wrong_words_are_refused_as_redis_does(
    client: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call("CLIENT", *words) == Refusal(f"ERR {refusal}")


def test_what_means_nothing_here_is_accepted(client: Client) -> None:
    assert client.ask("CLIENT", "NO-EVICT", "ON") == b"+OK\r\n"
    assert client.ask("CLIENT", "NO-TOUCH", "off") == b"+OK\r\n"


def test_reply_off_is_silent_until_reply_on(client: Client, other: Client, queue: str) -> None:
    client.send("CLIENT", "REPLY", "OFF")
    client.send("QADD", queue, 60, "silently")
    client.send("NOSUCH")

    assert client.ask("CLIENT", "REPLY", "ON") == b"+OK\r\n"
    assert client.ask("PING") == b"+PONG\r\n"
    assert other.call("QGET", queue, "g")[1] == b"silently"


def test_reply_skip_leaves_out_one_reply(client: Client) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("ECHO", "unheard")

    assert client.ask("ECHO", "heard") == b"$5\r\nheard\r\n"


def test_reply_skip_twice_leaves_out_the_reply_after_the_second(client: Client) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("ECHO", "unheard")

    assert client.ask("ECHO", "heard") == b"$5\r\nheard\r\n"


def test_reply_skip_leaves_out_the_reply_of_one_who_waited(
    client: Client, other: Client, queue: str
) -> None:
    client.send("CLIENT", "REPLY", "SKIP")
    client.send("QNOTIFY", "g", 60, queue)
    client.send("ECHO", "heard")
    other.call("QADD", queue, 60, "x")

    assert client.read() == b"$5\r\nheard\r\n"


def test_one_who_wants_no_replies_still_has_all_its_requests_run(
    client: Client, other: Client, queue: str
) -> None:
    client.send("CLIENT", "REPLY", "OFF")
    client.send("QNOTIFY", "g", 60, queue)
    client.send("CLIENT", "REPLY", "ON")
    other.call("QADD", queue, 60, "x")

    assert client.read() == b"+OK\r\n"


def test_help_lists_every_subcommand(client: Client) -> None:
    lines = client.call("CLIENT", "HELP")

    assert lines[0] == b"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    assert {b"ID", b"REPLY ON|OFF|SKIP", b"UNBLOCK client-id [TIMEOUT|ERROR]", b"HELP"} < {*lines}
