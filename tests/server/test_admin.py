"""TIME SLOWLOG MONITOR SHUTDOWN BGREWRITEAOF DEBUG: for whoever looks after the broker."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.server.broker import start_broker, wait_until
from tests.server.resp import Client, Refusal


def test_time_is_the_wall_clock(client: Client) -> None:
    before = time.time()

    seconds, microseconds = map(int, client.call("TIME"))

    assert before - 0.001 <= seconds + microseconds / 1e6 <= time.time() + 0.001
    assert 0 <= microseconds < 1_000_000


# -- SLOWLOG ----------------------------------------------------------------------------------


def test_slowlog_keeps_slow_commands_newest_first(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("CLIENT", "SETNAME", "slow")
        client.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        client.call("SLOWLOG", "RESET")
        client.call("ECHO", "one")
        client.call("ECHO", *["x" * 200])

        newest, older, *_ = client.call("SLOWLOG", "GET", -1)

        assert newest[0] == older[0] + 1
        assert abs(newest[1] - time.time()) < 60
        assert newest[3] == [b"ECHO", b"x" * 128 + b"... (72 more bytes)"]
        assert older[3] == [b"ECHO", b"one"]
        assert newest[4:] == ["{}:{}".format(*client.sock.getsockname()).encode(), b"slow"]
        assert len(client.call("SLOWLOG", "GET", 1)) == 1
        assert client.call("SLOWLOG", "GET", 0) == []


def test_slowlog_shows_no_password(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--requirepass", "secret") as broker, broker.connect() as client:
        client.call("AUTH", "secret")
        client.call("CONFIG", "SET", "slowlog-log-slower-than", 0)
        client.call("AUTH", "secret")
        client.call("HELLO", 2, "AUTH", "default", "secret")
        client.call("CONFIG", "SET", "requirepass", "other-secret")

        entries = client.call("SLOWLOG", "GET", -1)

        assert [b"CONFIG", b"SET", b"requirepass", b"(redacted)"] in [row[3] for row in entries]
        assert "secret" not in str(entries)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("GET", "x"), "count should be greater than or equal to -1"),
        (("GET", "-2"), "count should be greater than or equal to -1"),
        (("GET", "1", "2"), "syntax error"),
        (("LEN", "x"), "wrong number of arguments for 'slowlog|len' command"),
        (("nosuch",), "unknown subcommand 'nosuch'. Try SLOWLOG HELP."),
    ],
)
def test_wrong_words_are_refused(client: Client, words: tuple[str, ...], refusal: str) -> None:
    assert client.call("SLOWLOG", *words) == Refusal(f"ERR {refusal}")


# -- MONITOR ----------------------------------------------------------------------------------


def test_a_monitor_sees_every_command_as_redis_shows_it(client: Client, other: Client) -> None:
    assert client.ask("MONITOR") == b"+OK\r\n"

    other.call("echo", b'a "quoted"\n\x00\xff')

    line = client.read()
    address = "{}:{}".format(*other.sock.getsockname())
    assert re.fullmatch(
        rb"\+\d{10}\.\d{6} \[0 " + re.escape(address.encode()) + rb"\] (.*)\r\n", line
    )
    assert line.endswith(b'] "echo" "a \\"quoted\\"\\n\\x00\\xff"\r\n')


def test_a_monitor_sees_no_passwords(client: Client, other: Client) -> None:
    client.call("MONITOR")

    other.call("AUTH", "default", "secret")
    other.call("HELLO", 2, "AUTH", "default", "secret")
    other.call("CONFIG", "SET", "requirepass", "")
    other.call("ECHO", "end")

    assert client.read().endswith(b'"CONFIG" "SET" "requirepass" "(redacted)"\r\n')
    assert client.read().endswith(b'"ECHO" "end"\r\n')


def test_a_monitor_sees_the_start_of_a_long_request(client: Client, other: Client) -> None:
    client.call("MONITOR")

    other.call("QREGISTER", "x" * 1025, *["y"] * 200)
    other.call("ECHO", "end")

    line = client.read()
    assert b'"' + b"x" * 1024 + b'... (1 more bytes)" "y"' in line
    assert line.endswith(b'"y" "... (75 more arguments)"\r\n')
    assert line.count(b'"y"') == 125
    assert client.read().endswith(b'"ECHO" "end"\r\n')


def test_monitoring_twice_shows_each_command_once(client: Client, other: Client) -> None:
    client.call("MONITOR")
    client.send("MONITOR")
    client.read_many(2)

    other.call("ECHO", "one")
    other.call("ECHO", "two")

    assert client.read().endswith(b'"ECHO" "one"\r\n')
    assert client.read().endswith(b'"ECHO" "two"\r\n')


# -- SHUTDOWN ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("NOSAVE",), ("save", "now", "force"), ("REWRITE-AOF",)])
def test_shutdown_stops_the_broker_and_keeps_what_it_has(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with start_broker(tmp_path) as broker:
        with broker.connect() as client, broker.connect() as other:
            other.call("QADD", "q", 60, "kept")
            client.send("SHUTDOWN", *words)
            client.send("QADD", "q", 60, "too late")
            assert client.read_to_end() == b""
            assert other.read_to_end() == b""

        assert broker.wait() == 0

        broker.restart()
        with broker.connect() as client:
            assert client.call("QGET", "q", "g")[1] == b"kept"
            assert client.call("QGET", "q", "g") is None


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("ABORT",), "No shutdown in progress."),
        (("nosuch",), "syntax error"),
        (("SAVE", "NOSAVE"), "syntax error"),
        (("SAVE", "REWRITE-AOF"), "syntax error"),
        (("ABORT", "NOW"), "syntax error"),
    ],
)
def test_a_wrong_shutdown_stops_nothing(
    client: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call("SHUTDOWN", *words) == Refusal(f"ERR {refusal}")
    assert client.call("PING") == b"PONG"


# -- BGREWRITEAOF ------------------------------------------------------------------------------


def test_bgrewriteaof_compacts_the_journal_and_loses_nothing(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        kept = client.call("ADDJOB", "orders", "kept", 0)
        acked = [client.call("ADDJOB", "orders", "x" * 100_000, 0) for _ in range(20)]
        client.call("ACKJOB", *acked)
        assert _fact(client, "journal_bytes") > 2_000_000

        reply = client.ask("BGREWRITEAOF")

        assert reply == b"+Background append only file rewriting started\r\n"
        wait_until(lambda: _fact(client, "aof_rewrite_in_progress") == 0, "it is done")
        assert _fact(client, "journal_bytes") < 100_000
        assert _fact(client, "compacted_segments") == 1
        broker.kill()
        broker.restart()
        with broker.connect() as later:
            assert later.call("GETJOB", "FROM", "orders") == [[b"orders", kept, b"kept"]]


def test_bgrewriteaof_is_refused_while_it_is_being_done(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.send("BGREWRITEAOF")
        client.send("BGREWRITEAOF")

        _, refused = client.read_many(2)

        said = b"Background append only file rewriting already in progress"
        assert refused == b"-ERR " + said + b"\r\n"
        wait_until(lambda: client.ask("BGREWRITEAOF").startswith(b"+"), "it is done")


def _fact(client: Client, name: str) -> int:
    text = client.call("INFO", "persistence", "quinque").decode()
    [value] = re.findall(rf"^{name}:(\d+)", text, re.MULTILINE)
    return int(value)


# -- DEBUG ------------------------------------------------------------------------------------


def test_debug_sleep_holds_everyone(client: Client, other: Client) -> None:
    started = time.monotonic()
    client.send("DEBUG", "SLEEP", "0.1")
    client.send("DEBUG", "SLEEP", "0")

    assert client.read_many(2) == [b"+OK\r\n"] * 2
    assert other.call("PING") == b"PONG"
    assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize("seconds", ["x", "-1", "", "nan", "inf", "1e3"])
def test_debug_sleep_wants_seconds(client: Client, seconds: str) -> None:
    assert client.call("DEBUG", "SLEEP", seconds) == Refusal("ERR value is not a valid float")


def test_every_command_of_two_words_has_help(client: Client) -> None:
    words = ("CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "LATENCY", "MEMORY", "SLOWLOG")
    for word in words:
        lines = client.call(word, "HELP")

        assert lines[0].startswith(f"{word} <subcommand>".encode())
        assert lines[-2:] == [b"HELP", b"    Show the subcommands."]
