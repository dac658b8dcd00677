"""What systemd is told, on a real socket; and the log of the same broker, as JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.cli.logs import JsonLines
from quinque.cli.notify import Notifier
from tests.console.scrapes import HTTP
from tests.server.broker import start_broker

NOISE = """
import logging, threading, warnings
from quinque.cli.logs import start_logging
from quinque.server.config import Config

start_logging(Config(log_json=True))
logging.getLogger("a.driver").info("nobody needs to know")
logging.getLogger("a.driver").warning("a line\\nand another")
warnings.warn("odd")

def fail():
    raise ValueError("in a thread")

thread = threading.Thread(target=fail)
thread.start()
thread.join()
1 / 0
"""


@pytest.fixture
def watcher() -> Iterator[socket.socket]:
    """Who listens where systemd would. A unix socket's path must be short."""
    with (
        tempfile.TemporaryDirectory(prefix="q") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind(f"{folder}/notify")
        sock.settimeout(60)
        yield sock


def test_a_broker_tells_when_it_is_ready_runs_and_stops(
    watcher: socket.socket, tmp_path: Path
) -> None:
    variables = {"NOTIFY_SOCKET": watcher.getsockname(), "WATCHDOG_USEC": "1000000"}
    with start_broker(tmp_path, "--log-json", *HTTP, variables=variables) as broker:
        first = watcher.recv(1000).decode().splitlines()
        heard = [watcher.recv(1000) for _ in range(3)]
        broker.signal(signal.SIGTERM)
        # Before it is waited for: a socket has room for ten of these, and others are not sent.
        while heard[-1] == b"WATCHDOG=1":
            heard.append(watcher.recv(1000))
        code = broker.wait()
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


def test_what_others_say_is_in_the_log_too() -> None:
    said = subprocess.run(
        [sys.executable, "-c", NOISE], stderr=subprocess.PIPE, text=True, timeout=60, check=False
    ).stderr
    lines = [json.loads(line) for line in said.splitlines()]

    assert [line["logger"] for line in lines] == ["a.driver", "py.warnings", "quinque", "quinque"]
    assert ["in a thread" in line.get("error", "") for line in lines] == [False, False, True, False]
    assert "ZeroDivisionError" in lines[3]["error"]


def test_a_broker_that_may_start_later_says_so_by_its_exit_code(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        store = f"redis://127.0.0.1:{nobody.getsockname()[1]}"
        words = [
            "serve",
            "--log-json",
            "--dir",
            str(tmp_path / "data"),
            "--store",
            store,
            "--store-timeout",
            "0.1",
        ]
        ended = subprocess.run(
            [sys.executable, "-m", "quinque", *words],
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    if lines[0]["msg"].startswith("connecting to"):  # this machine is slow
        lines.pop(0)

    assert ended.returncode == 4  # examples/systemd starts it again
    assert [line["level"] for line in lines] == ["error", "info"]
    assert re.search("Connection refused|does not answer", lines[0]["msg"])
