"""More connections than the system lets the broker have: who is in is served, and later all are."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.server.broker import RunningBroker, start_broker, wait_until

FILES = 64
FLOOD = 300
BODY = b"x" * 20_000  # three fill a segment, which takes a new file


def test_a_flood_of_connections_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = ["prlimit", f"--nofile={FILES}"]
    flags = ("--segment-size", "64kb")
    with start_broker(tmp_path, *flags, before=before) as broker, broker.connect() as client:
        client.call("PING")
        with ExitStack() as flood:
            for _ in range(FLOOD):
                flood.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            ids = [client.call("QADD", "q", 600, BODY) for _ in range(20)]

        assert all(isinstance(id, bytes) for id in ids), ids
        wait_until(lambda: answers(broker), "a new connection")
        with broker.connect() as another:
            assert [another.call("QGET", "q", "g")[0] for _ in ids] == ids
        broker.kill()
        broker.restart()
        with broker.connect() as another:
            assert another.call("QGET", "q", "h")[0] == ids[0]


def answers(broker: RunningBroker) -> bool:
    try:
        with broker.connect() as client:
            return bool(client.call("PING") == b"PONG")
    except (OSError, EOFError):
        return False
