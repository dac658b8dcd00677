"""CONFIG: settings read, changed and written down while the broker runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.server.broker import start_broker
from tests.server.resp import Client, Refusal


def test_get_answers_a_map_of_what_matches(client: Client, client3: Client) -> None:
    assert client.ask("CONFIG", "GET", "MAX-C*") == b"*2\r\n$11\r\nmax-clients\r\n$5\r\n10000\r\n"
    assert client3.ask("CONFIG", "GET", "fsync") == b"%1\r\n$5\r\nfsync\r\n$6\r\nalways\r\n"
    assert client.ask("CONFIG", "GET", "nosuch") == b"*0\r\n"


def test_get_takes_several_patterns_and_says_each_setting_once(client3: Client) -> None:
    found = client3.call("CONFIG", "GET", "save", "fsync", "fsyn?", "appendonly")

    assert found == {b"save": b"", b"fsync": b"always", b"appendonly": b"yes"}


def test_set_takes_effect_at_once(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        assert client.ask("CONFIG", "SET", "slowlog-log-slower-than", 0) == b"+OK\r\n"
        client.call("ECHO", "slow enough")
        assert client.call("SLOWLOG", "LEN") >= 2

        assert client.ask("CONFIG", "SET", "slowlog-log-slower-than", "-1") == b"+OK\r\n"
        before = client.call("SLOWLOG", "LEN")
        client.call("ECHO", "whatever")
        assert client.call("SLOWLOG", "LEN") == before

        assert client.call("CONFIG", "SET", "max-clients", 1) == b"OK"
        with broker.connect() as refused:
            assert refused.read_to_end() == b"-ERR max number of clients reached\r\n"


def test_set_of_max_clients_is_refused_if_the_system_permits_fewer(tmp_path: Path) -> None:
    before = ("prlimit", "--nofile=100:100")
    with start_broker(tmp_path, before=before) as broker, broker.connect() as client:
        refused = client.call("CONFIG", "SET", "slowlog-max-len", 7, "maxclients", 200)

        assert refused == Refusal(
            "ERR CONFIG SET failed (possibly related to argument 'max-clients') - The operating"
            " system is not able to handle the specified number of clients, try with 68"
        )
        found = client.call("CONFIG", "GET", "max-clients", "slowlog-max-len")
        assert found == [b"max-clients", b"68", b"slowlog-max-len", b"128"]
        assert client.call("CONFIG", "SET", "max-clients", 60) == b"OK"


def test_set_of_fsync_and_maxmemory_reaches_the_store(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("CONFIG", "SET", "fsync", "no", "maxmemory", "1kb")
        client.call("QADD", "q", 60, "x" * 2000)

        facts = client.call("INFO", "quinque")

        assert b"\r\nfsync:no\r\n" in facts
        assert b"\r\nbodies_on_disk:1\r\n" in facts
        assert client.call("QGET", "q", "g")[1] == b"x" * 2000
        assert client.call("CONFIG", "SET", "fsync", "everysec") == b"OK"
        assert client.call("CONFIG", "SET", "fsync", "always") == b"OK"


def test_set_takes_the_names_that_redis_and_disque_have(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        assert client.call("CONFIG", "SET", "appendfsync", "everysec", "maxclients", 7) == b"OK"
        assert client.call("CONFIG", "SET", "aof-enqueue-jobs-once", "yes") == b"OK"

        found = client.call("CONFIG", "GET", "fsync", "max-clients", "appendfsync", "maxclients")

        assert found[1::2] == [b"everysec", b"7", b"everysec", b"7"]
        assert b"\r\nfsync:everysec\r\n" in client.call("INFO", "quinque")


def test_set_of_log_level_changes_what_is_logged(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        with broker.connect() as client:
            client.call("CONFIG", "SET", "log-level", "error")

        broker.stop()

        assert not broker.has_said("stopping")


def test_limits_hold_for_connections_that_are_there_already(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("CONFIG", "SET", "max-arg-size", "1kb")

        client.send("ECHO", "x" * 2000)

        assert client.read_to_end().startswith(b"-ERR Protocol error: invalid bulk length")


@pytest.mark.parametrize(
    ("words", "name", "reason"),
    [
        (("max-clients", "-5"), "max-clients", ""),
        (("max-clients", "x"), "max-clients", ""),
        (
            ("dir", "elsewhere"),
            "dir",
            "it can only be changed by a restart; set it in the config file",
        ),
        (("maxclients", "x"), "maxclients", ""),
        (("databases", "5"), "databases", "it is read-only"),
        (("appendonly", "no"), "appendonly", "'no' is not one of: yes"),
        (("fsync", "no", "fsync", "always"), "fsync", "the setting is given twice"),
        (("fsync", "no", "max-clients", "x"), "max-clients", ""),
    ],
)
def test_a_refused_set_names_the_setting_and_changes_nothing(
    client: Client, words: tuple[str, ...], name: str, reason: str
) -> None:
    before = client.call("CONFIG", "GET", "*")

    refused = client.call("CONFIG", "SET", *words)

    expected = f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
    assert isinstance(refused, Refusal)
    assert refused.text.startswith(expected)
    assert client.call("CONFIG", "GET", "*") == before


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("GET",), "wrong number of arguments for 'config|get' command"),
        (("SET", "fsync"), "wrong number of arguments for 'config|set' command"),
        (("SET", "fsync", "no", "dir"), "wrong number of arguments for 'config|set' command"),
        (("SET", "hz", "10"), "Unsupported CONFIG parameter: hz"),
        (
            ("SET", "max-client", "1"),
            "Unsupported CONFIG parameter: max-client; did you mean max-clients?",
        ),
        (
            ("REWRITE",),
            "The server is running without a config file: start it with --config FILE to have one",
        ),
        (("nosuch",), "unknown subcommand 'nosuch'. Try CONFIG HELP."),
    ],
)
def test_wrong_words_are_refused_as_redis_does(
    client: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call("CONFIG", *words) == Refusal(f"ERR {refusal}")


def test_rewrite_makes_the_next_start_the_same(tmp_path: Path) -> None:
    file = tmp_path / "quinque.toml"
    file.write_text("# mine\nmax-clients = 500\n")
    with start_broker(tmp_path, "--config", str(file)) as broker:
        with broker.connect() as client:
            client.call("CONFIG", "SET", "max-clients", 400, "slowlog-max-len", 7)

            assert client.ask("CONFIG", "REWRITE") == b"+OK\r\n"

        text = file.read_text()
        assert text.startswith("# mine\n")
        assert tomllib.loads(text)["max-clients"] == 400
        broker.restart()
        with broker.connect() as client:
            found = client.call("CONFIG", "GET", "max-clients", "slowlog-max-len")
            assert found == [b"max-clients", b"400", b"slowlog-max-len", b"7"]
