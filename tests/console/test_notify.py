"""What systemd is told, on a real socket; and the log of the same broker, as JSON."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.cli.logs import JsonLines
from quinque.cli.notify import Notifier
from tests.console.scrapes import HTTP
from tests.server.broker import start_broker


@pytest.fixture
def watcher() -> Iterator[socket.socket]:
    """Who listens where systemd would. A unix socket's path must be short."""
    with (
        tempfile.TemporaryDirectory(prefix="q") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind(f"{folder}/notify")
        sock.settimeout(30)
        yield sock


def test_a_broker_tells_when_it_is_ready_runs_and_stops(
    watcher: socket.socket, tmp_path: Path
) -> None:
    variables = {"NOTIFY_SOCKET": watcher.getsockname(), "WATCHDOG_USEC": "200000"}
    with start_broker(tmp_path, "--log-json", *HTTP, variables=variables) as broker:
        first = watcher.recv(1000).decode().splitlines()
        heard = [watcher.recv(1000) for _ in range(3)]
        broker.signal(signal.SIGTERM)
        code = broker.wait()
        while heard[-1] == b"WATCHDOG=1":
            heard.append(watcher.recv(1000))
        lines = [json.loads(line) for line in broker.log]

    assert first == ["READY=1", f"STATUS=listens on 127.0.0.1:{broker.port}"]
    assert heard[:3] == [b"WATCHDOG=1"] * 3
    assert heard[-1] == b"STOPPING=1\nSTATUS=stopping"
    assert code == 0
    assert all({"ts", "level", "msg"} <= line.keys() for line in lines)
    assert lines[-1]["msg"] == "stopped"


def test_an_abstract_socket_is_told_too() -> None:
    name = f"quinque-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + name)

        Notifier({"NOTIFY_SOCKET": "@" + name}).alive()

        assert sock.recv(1000) == b"WATCHDOG=1"


def test_where_nobody_listens_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready("")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("")


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    variables = {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}

    assert Notifier(variables).watchdog_s == 0
    assert Notifier(variables | {"WATCHDOG_PID": str(os.getpid())}).watchdog_s == 0.5


def test_a_line_of_json_has_the_fields_it_was_given() -> None:
    record = logging.makeLogRecord(
        {
            "name": "quinque",
            "levelname": "WARNING",
            "msg": "%s waits",
            "args": ("ann",),
            "created": 1.2345,
            "queue": b"q",
            "bytes": 7,
        }
    )

    assert json.loads(JsonLines().format(record)) == {
        "ts": 1.234,
        "level": "warning",
        "logger": "quinque",
        "msg": "ann waits",
        "queue": "b'q'",
        "bytes": 7,
    }


def test_an_error_in_a_line_of_json_has_its_traceback() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})

    assert "ValueError: odd" in json.loads(JsonLines().format(record))["error"]
