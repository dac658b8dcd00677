"""INFO and MEMORY: facts about the broker."""

from __future__ import annotations

import pytest

from quinque import __version__
from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal

DEFAULT = "Server Clients Memory Persistence Stats Replication CPU Errorstats Keyspace Quinque"


def sections(text: bytes) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.decode().split("\r\n"):
        if line.startswith("# "):
            section = found[line[2:]] = {}
        elif line:
            name, _, value = line.partition(":")
            section[name] = value
    return found


def test_info_has_the_sections_and_the_fields_that_tools_look_for(client: Client) -> None:
    found = sections(client.call("INFO"))

    assert list(found) == DEFAULT.split()
    assert found["Server"]["redis_version"] == "7.0.0"
    assert found["Server"]["quinque_version"] == __version__
    assert found["Persistence"]["loading"] == "0"
    assert found["Replication"]["role"] == "master"
    assert int(found["Clients"]["connected_clients"]) >= 1
    assert int(found["Memory"]["used_memory"]) > 1_000_000
    assert int(found["Stats"]["total_commands_processed"]) >= 0
    assert found["Quinque"]["fsync"] == "always"


def test_info_is_lines_with_cr_lf_and_verbatim_in_resp3(client: Client, client3: Client) -> None:
    assert client.call("INFO", "replication") == (
        b"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
    )
    assert client3.ask("INFO", "replication").startswith(b"=52\r\ntxt:# Replication\r\n")


def test_info_can_be_asked_for_sections_by_name(client: Client) -> None:
    assert list(sections(client.call("INFO", "KEYSPACE", "server"))) == ["Server", "Keyspace"]
    assert client.ask("INFO", "nosuch") == b"$0\r\n\r\n"
    assert list(sections(client.call("INFO", "default", "nosuch"))) == DEFAULT.split()
    for word in ("all", "everything"):
        assert set(sections(client.call("INFO", word))) == {*DEFAULT.split(), "Commandstats"}


def test_commands_and_errors_are_counted_until_resetstat(client: Client) -> None:
    client.call("CONFIG", "RESETSTAT")
    client.call("ECHO", "x")
    client.call("CLIENT", "ID")
    client.call("SELECT", 5)
    client.call("nosuch")

    found = sections(client.call("INFO", "everything"))

    assert found["Commandstats"]["cmdstat_echo"].startswith("calls=1,usec=")
    assert found["Commandstats"]["cmdstat_client|id"].startswith("calls=1,")
    assert found["Commandstats"]["cmdstat_select"].endswith(",failed_calls=1")
    assert found["Errorstats"] == {"errorstat_ERR": "count=2"}
    assert found["Stats"]["total_error_replies"] == "2"
    # ECHO, CLIENT ID, SELECT, and RESETSTAT itself, which is counted when it has run.
    assert found["Stats"]["total_commands_processed"] == "4"
    assert client.call("CONFIG", "RESETSTAT") == b"OK"
    assert sections(client.call("INFO", "errorstats")) == {"Errorstats": {}}


def test_queues_are_counted_as_keys(broker: RunningBroker, client: Client, queue: str) -> None:
    client.call("QADD", queue, 60, "hello")

    found = sections(client.call("INFO", "keyspace", "quinque"))

    queues = found["Quinque"]["queues"]
    assert int(queues) >= 1
    assert found["Keyspace"]["db0"] == f"keys={queues},expires=0,avg_ttl=0"


def test_waiting_readers_are_counted(client: Client, other: Client, queue: str) -> None:
    before = int(sections(client.call("INFO", "clients"))["Clients"]["blocked_clients"])
    number = other.call("CLIENT", "ID")
    other.send("QNOTIFY", "g", 60, queue)
    while not client.call("CLIENT", "UNBLOCK", number):
        pass
    other.read()
    other.send("QNOTIFY", "g", 60, queue)
    while b" flags=b " not in client.call("CLIENT", "LIST", "ID", number):
        pass

    after = int(sections(client.call("INFO", "clients"))["Clients"]["blocked_clients"])

    assert after == before + 1


# -- MEMORY -----------------------------------------------------------------------------------


def test_memory_usage_of_a_queue_grows_with_it(client: Client, queue: str) -> None:
    assert client.ask("MEMORY", "USAGE", queue) == b"$-1\r\n"
    client.call("QADD", queue, 60, "x")
    one = client.call("MEMORY", "USAGE", queue)
    client.call("QADD", queue, 60, "x")

    two = client.call("MEMORY", "USAGE", queue, "SAMPLES", 0)

    assert 100 < one < two


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("USAGE",), "wrong number of arguments for 'memory|usage' command"),
        (("USAGE", "a", "SAMPLES"), "syntax error"),
        (("USAGE", "a", "SAMPLES", "x"), "value is not an integer or out of range"),
        (("nosuch",), "unknown subcommand 'nosuch'. Try MEMORY HELP."),
    ],
)
def test_wrong_words_are_refused(client: Client, words: tuple[str, ...], refusal: str) -> None:
    assert client.call("MEMORY", *words) == Refusal(f"ERR {refusal}")


def test_memory_stats_are_a_map_of_numbers(client: Client, client3: Client) -> None:
    stats = client3.call("MEMORY", "STATS")

    assert {b"peak.allocated", b"total.allocated", b"keys.count", b"dataset.bytes"} <= set(stats)
    assert all(isinstance(value, int | float) for value in stats.values())
    assert len(client.call("MEMORY", "STATS")) == 2 * len(stats)


def test_memory_has_a_doctor_and_a_purge(client: Client) -> None:
    assert client.call("MEMORY", "DOCTOR") == b"No problem with memory was found."
    assert client.ask("MEMORY", "PURGE") == b"+OK\r\n"
