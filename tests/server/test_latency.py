"""LATENCY: what took long."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

THRESHOLD = "100ms"  # what takes no time does not take so long on a busy machine either
LONG_S = 0.11


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("watched")
    with start_broker(folder, "--latency-monitor-threshold", THRESHOLD) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    """A new connection; nothing has taken long yet."""
    with broker.connect() as connected:
        connected.call("CONFIG", "SET", "latency-monitor-threshold", THRESHOLD)
        connected.call("LATENCY", "RESET")
        yield connected


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call("DEBUG", "SLEEP", LONG_S)

        assert client.call("CONFIG", "GET", "latency-*") == [b"latency-monitor-threshold", b"0"]
        assert client.call("LATENCY", "LATEST") == []
        assert client.call("LATENCY", "DOCTOR").startswith(b"Latency monitoring is off.")


def test_a_slow_command_is_an_event(client: Client) -> None:
    client.call("DEBUG", "SLEEP", LONG_S)

    (latest,) = [row for row in client.call("LATENCY", "LATEST") if row[0] == b"command"]

    _, at_s, last_ms, worst_ms = latest
    assert abs(at_s - time.time()) < 60
    assert 1000 * LONG_S <= last_ms == worst_ms
    assert client.call("LATENCY", "HISTORY", "command") == [[at_s, last_ms]]
    assert client.call("LATENCY", "HISTORY", "nosuch") == []


def test_the_slow_log_and_latency_have_a_threshold_each(client: Client) -> None:
    client.call("CONFIG", "SET", "slowlog-log-slower-than", -1)
    client.call("SLOWLOG", "RESET")
    client.call("DEBUG", "SLEEP", LONG_S)
    assert client.call("SLOWLOG", "LEN") == 0
    assert client.call("LATENCY", "HISTORY", "command")

    client.call("CONFIG", "SET", "slowlog-log-slower-than", 0, "latency-monitor-threshold", 0)
    client.call("LATENCY", "RESET")
    client.call("DEBUG", "SLEEP", LONG_S)

    assert client.call("SLOWLOG", "LEN") >= 1
    assert client.call("LATENCY", "LATEST") == []


def test_a_slow_disk_is_an_event(tmp_path: Path) -> None:
    # 32 MB take longer than 1 ms to write, even where the disk is memory.
    with (
        start_broker(tmp_path, "--latency-monitor-threshold", "1") as broker,
        broker.connect() as client,
    ):
        while not client.call("LATENCY", "HISTORY", "journal-commit"):
            client.call("QADD", "q", 60, "x" * 32_000_000)

        assert b"The disk was slow" in client.call("LATENCY", "DOCTOR")


def test_reset_forgets_these_events_or_all(client: Client) -> None:
    client.call("DEBUG", "SLEEP", LONG_S)

    assert client.call("LATENCY", "RESET", "nosuch", "tick") == 0
    assert client.call("LATENCY", "RESET", "command") == 1
    assert client.call("LATENCY", "HISTORY", "command") == []
    client.call("DEBUG", "SLEEP", LONG_S)
    assert client.call("LATENCY", "RESET") >= 1
    assert client.call("LATENCY", "LATEST") == []
    assert client.call("LATENCY", "RESET") == 0


def test_graph_draws_the_history(client: Client, client3: Client) -> None:
    client.call("DEBUG", "SLEEP", LONG_S)

    head, rule, *rows = client.call("LATENCY", "GRAPH", "command").decode().split("\n")

    assert re.fullmatch(r"command - high (\d+) ms, low (\d+) ms \(all time high \1 ms\)", head)
    assert rule == "-" * 80
    assert rows[3] in ("_", "_#", "#_")
    assert client3.ask("LATENCY", "GRAPH", "command").startswith(b"=")


def test_the_doctor_has_something_to_say(client: Client) -> None:
    assert client.call("LATENCY", "DOCTOR").startswith(b"No event has taken 100 ms or longer")

    client.call("CONFIG", "SET", "slowlog-log-slower-than", "1s")
    client.call("DEBUG", "SLEEP", LONG_S)

    said = client.call("LATENCY", "DOCTOR")
    assert re.search(rb"(?m)^command: in \d+ seconds?; \d+ ms on average, mean deviation", said)
    assert b"CONFIG SET slowlog-log-slower-than 100000 stores them." in said


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ((), "wrong number of arguments for 'latency' command"),
        (("nosuch",), "unknown subcommand 'nosuch'. Try LATENCY HELP."),
        (("HISTORY",), "wrong number of arguments for 'latency|history' command"),
        (("LATEST", "x"), "wrong number of arguments for 'latency|latest' command"),
        (("GRAPH", "a\r\nb"), "No samples available for event 'a  b'"),
    ],
)
def test_wrong_words_are_refused(client: Client, words: tuple[str, ...], refusal: str) -> None:
    assert client.call("LATENCY", *words) == Refusal(f"ERR {refusal}")
