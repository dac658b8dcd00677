"""SIGTERM, SIGINT and SIGHUP: no new clients, everyone who waits is answered, nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from quinque.server.tarantool_connection import TarantoolConnection
from quinque.server.tarantool_requests import TarantoolRequests
from tests.server.broker import start_broker, wait_until
from tests.server.resp import request as request_bytes
from tests.servers import stores
from tests.transcripts.stage import Stage, Wire


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_answers_those_who_wait_and_ends_well(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = ["env", "--default-signal=HUP"]  # whatever runs these tests may ignore it
    with (
        start_broker(tmp_path, before=before) as broker,
        broker.connect() as one,
        broker.connect() as two,
    ):
        two.call("HELLO", 3)
        one.send("QNOTIFY", "g", 60, "q")
        two.send("QNOTIFY", "g", 60, "q")
        with broker.connect() as looking:
            wait_until(lambda: b"blocked_clients:2\r\n" in looking.call("INFO", "clients"))

            broker.signal(number)

            assert one.read_to_end() == b"$-1\r\n"
            assert two.read_to_end() == b"_\r\n"
            assert looking.read_to_end() == b""
        assert broker.wait() == 0
        assert broker.has_said("stopped")


def test_a_broker_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    before = ["env", "--ignore-signal=HUP"]
    with start_broker(tmp_path, before=before) as broker, broker.connect() as client:
        broker.signal(signal.SIGHUP)

        assert client.call("PING") == b"PONG"
        assert not broker.has_said("stopping")


def test_everything_answered_before_a_stop_is_there_after_it(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        with broker.connect() as client:
            client.send_bytes(request_bytes("QADD", "q", 60, "x") * 5000)
            broker.signal(signal.SIGTERM)
            replies = client.read_to_end()
        assert broker.wait() == 0
        answered = replies.count(b"$16\r\n")

        broker.restart()

        with broker.connect() as client:
            (row,) = client.call("QSTATUS", "q", "GROUPS", "g")
            assert row[1][1][1] >= answered


def test_a_stop_does_not_wait_for_one_that_does_not_read(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--shutdown-timeout", "0.1") as broker, broker.connect() as lazy:
        lazy.call("QADD", "q", 60, "x" * 20_000_000)
        lazy.send("QGET", "q", "g")

        assert broker.stop() == 0


TAKES = {
    "jobs": ("ADDJOB q $body 0 RETRY 0", "GETJOB NOHANG FROM q"),
    "items": ("WQ.ADD {q} id $body", "WQ.LEASE {q} 600000"),
    "events": ("QADD q 600 $body", "QGET q g EX 600"),
    "tubes": ("TUBE.PUT q $body", "TUBE.TAKE q 0"),
    "reliable": ("RQ.PUSH q $body", "RQ.POP q"),
}


@pytest.mark.parametrize("kind", stores.ALL)
@pytest.mark.parametrize("family", TAKES)
def test_a_stopped_broker_gives_back_messages_that_it_could_not_send(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, family: str
) -> None:
    """The message is ready when the broker has started again, however long its lease is."""
    body = b"x" * 16_000_000  # more than the buffers of both ends have room for
    add, take = (text.encode().split() for text in TAKES[family])
    flags = ["--shutdown-timeout", "0.1", "--session-ttr", "600"]
    with start_broker(tmp_path, *flags, *stores.store_flags(request, kind)) as broker:
        with broker.connect() as client, broker.connect() as lazy:
            if family == "tubes":
                client.call("TUBE.CREATE", "q", "fifo")
            client.call(*[body if word == b"$body" else word for word in add])
            number = lazy.call("CLIENT", "ID")
            lazy.send(*take)
            wait_until(lambda: b" omem=0 " not in client.call("CLIENT", "LIST", "ID", number))
            broker.stop()

        broker.restart()

        with broker.connect() as client:
            assert body in client.ask(*take)


def test_a_paused_broker_can_be_stopped(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as one, broker.connect() as two:
        one.call("CLIENT", "PAUSE", 600_000)
        two.send("PING")
        wait_until(lambda: b" qbuf=0 " not in one.call("CLIENT", "LIST", "ID", 2))

        assert broker.stop() == 0


def test_a_client_that_was_just_accepted_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.broker.say_goodbye()
        wires = [Wire(), Wire()]

        stage.connect("late", wires[0])
        tarantool = TarantoolConnection(stage.broker, TarantoolRequests(stage.broker))
        tarantool.connection_made(wires[1])
        stage.settle()

        assert [wire.is_closed for wire in wires] == [True, True]
        assert not stage.broker.clients


def test_a_broker_with_nobody_connected_stops_at_once(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        assert broker.stop() == 0
