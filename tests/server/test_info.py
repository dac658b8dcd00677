"""INFO and MEMORY: facts about the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque import __version__
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal

DEFAULT = (
    "Server Clients Memory Jobs Queues Persistence Stats Replication CPU Errorstats Cluster"
    " Keyspace Quinque"
)

# What Disque's INFO has.
DISQUE = {
    "Server": "disque_version disque_git_sha1 disque_git_dirty disque_build_id os arch_bits"
    " multiplexing_api gcc_version process_id run_id tcp_port uptime_in_seconds uptime_in_days hz"
    " executable config_file",
    "Clients": "connected_clients client_longest_output_list client_biggest_input_buf"
    " blocked_clients",
    "Memory": "used_memory used_memory_human used_memory_rss used_memory_peak"
    " used_memory_peak_human mem_fragmentation_ratio mem_allocator",
    "Jobs": "registered_jobs",
    "Queues": "registered_queues",
    "Persistence": "loading aof_enabled aof_state aof_rewrite_in_progress aof_rewrite_scheduled"
    " aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_bgrewrite_status"
    " aof_last_write_status aof_current_size aof_base_size aof_pending_rewrite aof_buffer_length"
    " aof_rewrite_buffer_length aof_pending_bio_fsync aof_delayed_fsync",
    "Stats": "total_connections_received total_commands_processed instantaneous_ops_per_sec"
    " total_net_input_bytes total_net_output_bytes instantaneous_input_kbps"
    " instantaneous_output_kbps rejected_connections latest_fork_usec",
    "CPU": "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children",
}


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


@pytest.mark.parametrize("section", DISQUE)
def test_info_has_every_field_of_disque(client: Client, section: str) -> None:
    found = sections(client.call("INFO", section))[section]

    assert set(DISQUE[section].split()) - set(found) == set()
    assert "" not in {value for name, value in found.items() if name != "config_file"}


def test_an_empty_line_parts_the_sections(client: Client) -> None:
    # disqueue-node cuts at each "#", and takes two empty lines off the end of what it gets.
    pieces = client.call("INFO").decode().split("#")[1:]

    assert [piece.split("\r\n")[0].strip() for piece in pieces] == DEFAULT.split()
    assert all(piece.endswith("\r\n\r\n") for piece in pieces[:-1])


def test_jobs_and_their_queues_are_counted(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("QADD", "events", 60, "not a job")
        for queue in ("a", "a", "b"):
            client.call("ADDJOB", queue, "body", 0)

        found = sections(client.call("INFO", "jobs", "queues"))

        assert found == {"Jobs": {"registered_jobs": "3"}, "Queues": {"registered_queues": "2"}}


def test_rates_are_measured_once_a_second(client: Client) -> None:
    def rates() -> dict[str, str]:
        return sections(client.call("INFO", "stats"))["Stats"]

    wait_until(lambda: int(rates()["instantaneous_ops_per_sec"]) > 0)
    wait_until(lambda: float(rates()["instantaneous_input_kbps"]) > 0)
    assert float(rates()["instantaneous_output_kbps"]) > 0


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
    ("words", "empty"),
    [
        ([("RQ.PUSH", "Q", "x")], ("RQ.ACK", "Q")),
        ([("WQ.ADD", "Q", "one", "x")], ("WQ.COMPLETE", "Q", "one")),
        ([("TUBE.CREATE", "Q", "fifo"), ("TUBE.PUT", "Q", "x")], ("TUBE.DELETE", "Q", 0)),
        ([("PAUSE", "Q", "out"), ("ADDJOB", "Q", "x", 0)], ("QPURGE", "Q")),
    ],
    ids=["reliable", "items", "tubes", "jobs"],
)
def test_memory_usage_of_an_emptied_queue_is_a_number(
    client: Client, queue: str, words: list[tuple[str | int, ...]], empty: tuple[str | int, ...]
) -> None:
    for request in words:
        client.call(*(queue if word == "Q" else word for word in request))
    full = client.call("MEMORY", "USAGE", queue)
    if empty[0] == "RQ.ACK":
        [[_, id, _]] = client.call("RQ.POP", queue)
        empty = (*empty, id.decode())
    client.call(*(queue if word == "Q" else word for word in empty))

    emptied = client.call("MEMORY", "USAGE", queue)

    assert client.call("EXISTS", queue) == 1
    assert 100 < emptied < full


def test_memory_usage_of_a_queue_of_jobs_counts_jobs_in_every_state(
    client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "x", 0)
    one = client.call("MEMORY", "USAGE", queue)
    client.call("ADDJOB", queue, "x", 0, "DELAY", 60)
    client.call("GETJOB", "FROM", queue)

    two = client.call("MEMORY", "USAGE", queue)

    assert 100 < one < two


def test_memory_usage_of_a_reliable_queue_counts_what_is_delivered_too(
    client: Client, queue: str
) -> None:
    client.call("RQ.PUSH", queue, "x")
    one = client.call("MEMORY", "USAGE", queue)
    client.call("RQ.PUSH", queue, "x")
    client.call("RQ.POP", queue)

    two = client.call("MEMORY", "USAGE", queue)

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
    assert client.call("MEMORY", "DOCTOR") == b"No memory problem was found."
    assert client.ask("MEMORY", "PURGE") == b"+OK\r\n"
