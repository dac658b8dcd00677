"""CLIENT KILL, PAUSE, UNPAUSE and UNBLOCK: what is done to other connections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal


def is_waiting(client: Client, number: int) -> bool:
    return b" flags=b " in client.call("CLIENT", "LIST", "ID", number)


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker whose every client is this test's."""
    with start_broker(tmp_path_factory.mktemp("alone")) as running:
        yield running


# -- KILL -------------------------------------------------------------------------------------


def test_kill_by_id_closes_that_connection_only(client: Client, other: Client) -> None:
    number = other.call("CLIENT", "ID")

    assert client.ask("CLIENT", "KILL", "ID", number) == b":1\r\n"

    assert other.read_to_end() == b""
    assert client.call("CLIENT", "LIST", "ID", number) == b""
    assert client.ask("CLIENT", "KILL", "ID", number) == b":0\r\n"


def test_kill_by_address_alone_answers_ok_or_an_error(client: Client, other: Client) -> None:
    address = "{}:{}".format(*other.sock.getsockname())

    assert client.ask("CLIENT", "KILL", address) == b"+OK\r\n"

    assert other.read_to_end() == b""
    assert client.call("CLIENT", "KILL", "1.2.3.4:5") == Refusal("ERR No such client")


def test_kill_by_address_may_be_suicide_after_the_reply(client: Client) -> None:
    client.send("CLIENT", "KILL", "{}:{}".format(*client.sock.getsockname()))

    assert client.read_to_end() == b"+OK\r\n"


def test_kill_spares_whoever_asks_unless_told_otherwise(alone: RunningBroker) -> None:
    with alone.connect() as one, alone.connect() as two:
        two.call("PING")
        local = f"127.0.0.1:{alone.port}"

        assert one.call("CLIENT", "KILL", "LADDR", local, "TYPE", "normal") == 1
        assert two.read_to_end() == b""
        assert one.call("PING") == b"PONG"
        assert one.call("CLIENT", "KILL", "USER", "default", "SKIPME", "no") == 1
        assert one.read_to_end() == b""


def test_kill_needs_every_filter_to_fit(client: Client, other: Client) -> None:
    number, address = other.call("CLIENT", "ID"), "{}:{}".format(*client.sock.getsockname())

    assert client.call("CLIENT", "KILL", "ID", number, "ADDR", address) == 0
    assert client.call("CLIENT", "KILL", "ID", number, "MAXAGE", 100_000) == 0
    assert client.call("CLIENT", "KILL", "ID", number, "TYPE", "pubsub") == 0
    assert other.call("PING") == b"PONG"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ((), "wrong number of arguments for 'client|kill' command"),
        (("ID", "x"), "client-id should be greater than 0"),
        (("ID", "0"), "client-id should be greater than 0"),
        (("TYPE", "nosuch"), "Unknown client type 'nosuch'"),
        (("USER", "nobody"), "No such user 'nobody'"),
        (("SKIPME", "maybe"), "syntax error"),
        (("MAXAGE", "x"), "maxage is not an integer or out of range"),
        (("NOSUCH", "x"), "syntax error"),
        (("ID", "1", "ADDR"), "syntax error"),
    ],
)
def test_a_wrong_kill_kills_nobody(
    client: Client, other: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call("CLIENT", "KILL", *words) == Refusal(f"ERR {refusal}")
    assert other.call("PING") == b"PONG"


def test_a_killed_reader_waits_no_more(client: Client, other: Client, queue: str) -> None:
    number = other.call("CLIENT", "ID")
    other.send("QNOTIFY", "g", 60, queue)
    wait_until(lambda: is_waiting(client, number))

    assert client.call("CLIENT", "KILL", "ID", number) == 1

    wait_until(lambda: client.call("QSTATUS", queue) == [[queue.encode(), []]])


# -- PAUSE ------------------------------------------------------------------------------------


def test_pause_holds_everyone_until_unpause(alone: RunningBroker) -> None:
    with alone.connect() as one, alone.connect() as two:
        assert one.ask("CLIENT", "PAUSE", 60_000) == b"+OK\r\n"
        two.send("ECHO", "held")
        two.send("CLIENT", "ID")
        # The requests have arrived, and neither is answered: what follows one that waits, waits.
        number = 2
        wait_until(lambda: b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", number))
        assert b" obl=0 oll=0 omem=0 " in one.call("CLIENT", "LIST", "ID", number)

        assert one.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"

        assert two.read() == b"$4\r\nheld\r\n"
        assert two.value() == number


def test_pause_of_writes_lets_reads_through(alone: RunningBroker) -> None:
    with alone.connect() as one, alone.connect() as two, alone.connect() as three:
        one.call("CLIENT", "PAUSE", 60_000, "WRITE")
        two.send("QADD", "q", 60, "held")

        wait_until(lambda: b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", 2))
        assert three.call("QSTATUS", "q") == [[b"q", []]]
        one.call("CLIENT", "UNPAUSE")

        assert len(two.value()) == 16
        assert three.call("QGET", "q", "g")[1] == b"held"


def test_a_pause_ends_by_itself(alone: RunningBroker) -> None:
    with alone.connect() as one:
        one.call("CLIENT", "PAUSE", 1)

        assert one.call("PING") == b"PONG"


def test_a_second_pause_replaces_the_first_and_lets_nobody_through(alone: RunningBroker) -> None:
    with alone.connect() as one, alone.connect() as two:
        one.call("CLIENT", "PAUSE", 60_000)
        two.send("ECHO", "held")
        wait_until(lambda: b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", 2))

        one.call("CLIENT", "PAUSE", 50_000)

        assert b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", 2)
        one.call("CLIENT", "UNPAUSE")
        assert two.read() == b"$4\r\nheld\r\n"


def test_a_client_that_leaves_in_a_pause_is_gone_after_it(alone: RunningBroker) -> None:
    with alone.connect() as one, alone.connect() as two:
        one.call("CLIENT", "PAUSE", 60_000)
        two.send("PING")
        wait_until(lambda: b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", 2))
        two.close()

        one.call("CLIENT", "UNPAUSE")

        wait_until(lambda: one.call("CLIENT", "LIST", "ID", 2) == b"")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("x",), "timeout is not an integer or out of range"),
        (("-1",), "timeout is negative"),
        (("9223372036854775807",), "timeout is out of range"),
        (("1", "SOME"), "CLIENT PAUSE mode must be WRITE or ALL"),
        (("1", "ALL", "x"), "syntax error"),
    ],
)
def test_a_wrong_pause_pauses_nobody(
    client: Client, other: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call("CLIENT", "PAUSE", *words) == Refusal(f"ERR {refusal}")
    assert other.call("PING") == b"PONG"


# -- UNBLOCK ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "reply"),
    [
        ((), b"$-1\r\n"),
        (("timeout",), b"$-1\r\n"),
        (("ERROR",), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ],
)
def test_unblock_ends_a_wait_and_what_stands_behind_it_goes_on(
    client: Client, other: Client, queue: str, reason: tuple[str, ...], reply: bytes
) -> None:
    number = other.call("CLIENT", "ID")
    other.send("QNOTIFY", "g", 60, queue)
    other.send("PING")
    wait_until(lambda: is_waiting(client, number))

    assert client.ask("CLIENT", "UNBLOCK", number, *reason) == b":1\r\n"

    assert other.read_many(2) == [reply, b"+PONG\r\n"]
    assert client.ask("CLIENT", "UNBLOCK", number) == b":0\r\n"
    assert client.call("QSTATUS", queue) == [[queue.encode(), []]]


def test_unblock_of_nobody_is_zero(client: Client) -> None:
    assert client.ask("CLIENT", "UNBLOCK", 999_999) == b":0\r\n"
    assert client.call("CLIENT", "UNBLOCK", "x") == Refusal(
        "ERR value is not an integer or out of range"
    )
    assert client.call("CLIENT", "UNBLOCK", 1, "nosuch") == Refusal(
        "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
    )
