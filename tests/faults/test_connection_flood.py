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


def test_a_journal_of_more_segments_than_files_may_be_open_is_read_and_compacted(
    tmp_path: Path,
) -> None:
    flags = ("--segment-size", "64kb", "--maxmemory", "1mb")
    with start_broker(tmp_path, *flags) as broker, ExitStack() as flood:
        with broker.connect() as client:
            ids = [client.call("ADDJOB", "q", b"%d." % at + BODY, 0) for at in range(4 * FILES)]
            broker.kill()
        assert len(list(broker.folder.glob("*.journal"))) > FILES
        broker.before = ["prlimit", f"--nofile={FILES}:{FILES}"]
        broker.restart()
        client = flood.enter_context(broker.connect())
        client.call("PING")
        for _ in range(FLOOD):
            flood.enter_context(socket.create_connection(("127.0.0.1", broker.port)))

        for at in range(len(ids)):
            ((_, id, body),) = client.call("GETJOB", "FROM", "q")
            assert (id, body[: body.index(b".")]) == (ids[at], b"%d" % at)
            assert client.call("ACKJOB", id) == 1

        wait_until(lambda: len(list(broker.folder.glob("*.journal"))) < 8, "the end of compaction")
        assert client.call("PING") == b"PONG"


def answers(broker: RunningBroker) -> bool:
    try:
        with broker.connect() as client:
            return bool(client.call("PING") == b"PONG")
    except (OSError, EOFError):
        return False
