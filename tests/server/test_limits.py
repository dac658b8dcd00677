"""Limits: each has a clear error, and a client over a limit does not affect other clients."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.iproto import LISTEN, IprotoClient, call
from tests.server.resp import Client, Refusal, request
from tests.servers import stores
from tests.servers.steps import lines_run
from tests.transcripts.stage import Stage, Wire

_ESTABLISHED = "01"  # the state of a connection in /proc/net/tcp


def test_one_client_too_many_is_told_so_and_closed(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--max-clients", "2") as broker,
        broker.connect() as one,
        broker.connect() as two,
    ):
        one.call("PING")
        two.call("PING")
        with broker.connect() as refused:
            assert refused.read_to_end() == b"-ERR max number of clients reached\r\n"
        assert one.call("INFO", "stats").count(b"rejected_connections:1\r\n") == 1
        two.close()
        wait_until(lambda: b"connected_clients:1\r\n" in one.call("INFO", "clients"))

        with broker.connect() as welcome:
            assert welcome.call("PING") == b"PONG"


def test_too_many_arguments_close_the_connection(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--max-args", "20") as broker,
        broker.connect() as client,
        broker.connect() as other,
    ):
        assert client.call("QREGISTER", *["q"] * 19) == b"OK"

        client.send("QREGISTER", *["q"] * 20)

        assert client.read_to_end() == (
            b"-ERR Protocol error: invalid multibulk length; at most 20 arguments\r\n"
        )
        assert other.call("PING") == b"PONG"


def test_a_request_has_ten_thousand_words_at_most(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--fsync", "no") as broker, broker.connect() as client:
        assert len(client.call("RQ.PUSH", "r", *["x"] * 9_998)) == 9_998
        refused = client.call("RQ.PUSH", "r", *["x"] * 9_999)
        # Two that are alike would be carried out together.
        client.send_bytes(request("RQ.PUSH", "r", *["x"] * 9_999) * 2)
        together = [client.value(), client.value()]
        names = client.call("RQ.POP", "BLOCK", 1000, *[f"q{number}" for number in range(1_001)])

        text = "ERR RQ.PUSH has 10001 arguments in one request; at most 10000"
        assert [refused, *together] == [Refusal(text)] * 3
        assert names == Refusal("ERR 1001 queues in one request; at most 1000")
        assert client.call("RQ.INFO", "r")[1] == 9_998


def test_too_long_an_argument_closes_the_connection_before_it_is_sent(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--max-arg-size", "1mb") as broker, broker.connect() as client:
        client.call("QADD", "q", 60, b"x" * (1 << 20))

        client.send_bytes(b"*4\r\n$4\r\nQADD\r\n$1\r\nq\r\n$2\r\n60\r\n$1048577\r\n")

        assert client.read_to_end() == (
            b"-ERR Protocol error: invalid bulk length; at most 1048576 bytes\r\n"
        )


@pytest.mark.parametrize("argument", [b"x" * 1500, b"x" * 2500])
def test_small_limits_hold_too(tmp_path: Path, argument: bytes) -> None:
    with start_broker(tmp_path, "--max-arg-size", "1kb") as broker, broker.connect() as client:
        client.send("ECHO", argument)

        assert client.read_to_end().startswith(b"-ERR Protocol error: invalid bulk length")


def test_an_unfinished_request_may_not_grow_without_end(tmp_path: Path) -> None:
    flags = ("--query-buffer-limit", "64kb", "--max-arg-size", "8kb")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        client.send_bytes(b"*2000\r\n")
        for _ in range(1999):  # more than fits between the two: it is read, and dropped
            client.send_bytes(b"$8000\r\n" + b"x" * 8000 + b"\r\n")

        assert client.read_to_end() == (
            b"-ERR Protocol error: a request of more than 65536 bytes\r\n"
        )
        with broker.connect() as other:
            assert other.call("PING") == b"PONG"


def test_who_does_not_read_is_closed_when_too_much_waits(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--output-buffer-limit", "1mb") as broker,
        broker.connect() as lazy,
        broker.connect() as client,
    ):
        number = lazy.call("CLIENT", "ID")
        lazy.call("MONITOR")

        body = "x" * 1000
        while client.call("CLIENT", "LIST", "ID", number):
            client.send_bytes(request("ECHO", body) * 500)
            client.read_many(500)

        broker.hear(f"client {number}: it reads too slowly")
        assert client.call("PING") == b"PONG"


def test_one_waiting_client_too_many_is_refused(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--max-blocked-clients", "1") as broker,
        broker.connect() as one,
        broker.connect() as two,
    ):
        one.send("QNOTIFY", "g", 60, "q")
        wait_until(lambda: b"blocked_clients:1\r\n" in two.call("INFO", "clients"))

        refused = two.call("QNOTIFY", "g", 60, "q")

        assert refused == Refusal("ERR 1 client is blocked already (max-blocked-clients)")
        assert two.call("QNOTIFY", "g", 0, "q") is None, "who does not wait is not refused"
        two.call("QADD", "q", 60, "x")
        assert one.value() == b"q"
        assert two.call("QNOTIFY", "g", 60, "q") == b"q"


def test_a_silent_client_is_closed_and_one_that_waits_is_not(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, "--idle-timeout", "1") as broker,
        broker.connect() as silent,
        broker.connect() as waiting,
        broker.connect() as busy,
    ):
        silent.call("PING")
        waiting.send("QNOTIFY", "g", 60, "q")
        wait_until(lambda: b"blocked_clients:1\r\n" in busy.call("INFO", "clients"))

        while b"connected_clients:3\r\n" in busy.call("INFO", "clients"):
            pass

        assert silent.read_to_end() == b""
        busy.call("QADD", "q", 60, "x")
        assert waiting.value() == b"q"


@pytest.mark.parametrize("protocol", ["resp", "iproto"])
def test_the_system_asks_a_silent_client_whether_it_is_there(tmp_path: Path, protocol: str) -> None:
    with start_broker(tmp_path, *LISTEN) as broker, broker.connect() as first:
        assert first.call("CONFIG", "GET", "tcp-keepalive") == [b"tcp-keepalive", b"300"]
        assert 0 < keepalive_s(broker.port, first.sock) <= 300
        first.call("CONFIG", "SET", "tcp-keepalive", 7)
        with connect(broker, protocol) as sock:
            assert 0 < keepalive_s(sock.getpeername()[1], sock) <= 7
        first.call("CONFIG", "SET", "tcp-keepalive", 0)
        with connect(broker, protocol) as sock:
            assert keepalive_s(sock.getpeername()[1], sock) == 0


def connect(broker: RunningBroker, protocol: str) -> socket.socket:
    """A connection that the broker has answered something on."""
    if protocol == "iproto":
        return IprotoClient(broker).sock
    client = broker.connect()
    client.call("PING")
    return client.sock


def keepalive_s(port: int, sock: socket.socket) -> float:
    """When the system asks next, at the broker's end of the connection; 0 if it does not. While
    other timers run, this one is not shown (proc(5)). The table changes while it is read, so it
    may show a connection twice or not at all."""
    ends = f"0100007F:{port:04X} 0100007F:{sock.getsockname()[1]:04X}"
    while True:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        for row in rows:
            kind, _, jiffies = row[5].partition(":")
            if " ".join(row[1:3]) == ends and row[3] == _ESTABLISHED and kind in ("00", "02"):
                return int(jiffies, 16) / 100 if kind == "02" else 0


# -- NOBLOCK ----------------------------------------------------------------------------------


def pipeline(client: Client, requests: list[bytes]) -> list[bytes]:
    """All requests in one piece, so that the broker finds them in one turn."""
    client.send_bytes(b"".join(requests))
    return client.read_many(len(requests))


def test_a_pool_of_one_takes_eleven_and_refuses_the_twelfth(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--bg-qadd-pool-size", "1") as broker, broker.connect() as client:
        adds = [request("QADD", "q", 60, number, "NOBLOCK") for number in range(12)]

        replies = pipeline(client, adds)

        assert replies[:11] == [b"+OK\r\n"] * 11
        assert replies[11] == (
            b"-ERR too busy to process NOBLOCK event (bg-qadd-pool-size is 1)\r\n"
        )
        taken = [client.call("QGET", "q", "g")[1] for _ in range(11)]
        assert taken == [b"%d" % number for number in range(11)]
        assert client.call("QGET", "q", "g") is None


def test_the_pool_is_empty_again_after_a_turn(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--bg-qadd-pool-size", "1") as broker, broker.connect() as client:
        for number in range(50):
            assert client.ask("QLPUSH", "q", number, "x", "NOBLOCK") == b"+OK\r\n"


@pytest.mark.parametrize("kind", stores.SHARED)
def test_a_pool_is_full_until_redis_has_answered(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Each addition comes in a turn of its own. Redis answers none of them, and then all."""
    flags = ["--bg-qadd-pool-size", "1", *stores.store_flags(request, kind)]
    server = request.getfixturevalue(stores.SHARED[kind])
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        client.call("QGET", "q", "g")
        with stores.silent(server):
            replies = [client.ask("QADD", "q", 60, at, "NOBLOCK")[:8] for at in range(50)]
        wait_until(lambda: b"background_additions:0\r\n" in client.call("INFO", "quinque"))

        assert replies == [b"+OK\r\n"] * 11 + [b"-ERR too"] * 39
        assert client.ask("QADD", "q", 60, 11, "NOBLOCK") == b"+OK\r\n"
        taken = [client.call("QGET", "q", "g")[1] for _ in range(12)]
        assert taken == [b"%d" % number for number in range(12)]


def test_an_addition_in_the_background_survives_a_stop(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        with broker.connect() as client:
            assert client.ask("QADD", "q", 60, "x", "NOBLOCK") == b"+OK\r\n"
            broker.stop()

        broker.restart()

        with broker.connect() as client:
            assert client.call("QGET", "q", "g")[1] == b"x"


def test_an_addition_in_the_background_that_fails_is_counted(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        push = request("QLPUSH", "q", "same-id", "x", "NOBLOCK")

        assert pipeline(client, [push, push]) == [b"+OK\r\n"] * 2

        wait_until(lambda: b"failed_background_additions:1\r\n" in client.call("INFO", "quinque"))
        broker.hear("lost an addition with NOBLOCK: duplicate event same-id")


@pytest.mark.parametrize(
    "words",
    [
        ("GETJOB", "NOHANG", "FROM"),
        ("QREGISTER",),
        ("QNOTIFY", "g", "0"),
        ("QSTATUS",),
        ("QINFO", "q", "GROUPS"),
        ("DEL",),
        ("EXISTS",),
        ("QUEUES",),
    ],
    ids=" ".join,
)
def test_too_many_names_in_one_request_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    what = "groups" if "GROUPS" in words else "queues"
    with start_broker(tmp_path) as broker, broker.connect() as client:
        client.call(*words, *(f"n{number}" for number in range(1_000)))

        refused = client.call(*words, *(f"n{number}" for number in range(1_001)))

        assert refused == Refusal(f"ERR 1001 {what} in one request; at most 1000")


def test_a_request_has_few_patterns_and_short_ones(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        for words in (("GETJOB", "NOHANG", "MATCH"), ("CONFIG", "GET")):
            client.call(*words, *["a*"] * 100)
            refused = client.call(*words, *["a*"] * 101)
            assert refused == Refusal("ERR 101 patterns in one request; at most 100")
        for words in (("GETJOB", "NOHANG", "MATCH"), ("SCAN", "0", "MATCH")):
            client.call(*words, "[^a]" * 256)
            refused = client.call(*words, "[^a]" * 257)
            assert refused == Refusal("ERR pattern has 1028 bytes; at most 1024")


def test_a_reader_that_does_not_wait_leaves_no_queues_behind(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        assert client.call("GETJOB", "NOHANG", "FROM", *map(str, range(1_000))) is None

        assert client.call("QSCAN", 0, "COUNT", 10_000) == [b"0", []]


def test_counts_of_consumers_are_those_of_the_queues_that_were_asked_for(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path) as broker,
        broker.connect() as client,
        broker.connect() as one,
        broker.connect() as two,
    ):
        one.call("QREGISTER", "a", "b")
        two.call("QREGISTER", "b", "c")

        def consumers(*queues: str) -> dict[bytes, int]:
            rows = client.call("QSTATUS", *queues)
            return {
                row[0]: _fields(_fields(row[1]).get(b"okq", ())).get(b"consumers", 0)
                for row in rows
            }

        assert consumers("b", "x") == {b"b": 2, b"x": 0}
        assert consumers() == {b"a": 1, b"b": 2, b"c": 1}


def test_consumers_of_many_queues_are_counted_cheaply_though_many_clients_are_connected(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2, {}) as stage:
        names = [b"q%d" % number for number in range(1_000)]
        for number in range(200):
            stage.connect(f"client {number}", Wire())
            if number % 2:
                stage.send(f"client {number}", [[b"QREGISTER", b"q1", b"other"]])
        stage.settle()
        counts: list[Any] = []

        lines = lines_run(lambda: counts.append(stage.broker.consumers([*names, b"q1"])))

        assert counts == [{b"q1": {b"okq": 100}}]
        assert lines < 10_000


def _fields(flat: Any) -> dict[bytes, Any]:
    return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def test_a_client_is_not_silent_when_its_wait_has_just_ended(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"idle-timeout": "1"}) as stage:
        stage.send("a", [[b"GETJOB", b"TIMEOUT", b"5000", b"FROM", b"q"]])
        stage.settle()
        [reader] = stage.broker.clients.values()
        reader.active_s -= 5

        stage.pass_time(5_000)
        stage.broker.close_idle()

        assert stage.replies() == {"a": b"*-1\r\n"}
        assert not reader.is_gone


def test_a_client_that_the_store_has_not_answered_is_not_silent(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"idle-timeout": "1"}, is_late=True) as stage:
        stage.send("a", [[b"ADDJOB", b"q", b"body", b"0"]])
        stage.go_on(1)
        [producer] = stage.broker.clients.values()
        producer.active_s -= 5

        stage.broker.close_idle()

        assert not producer.is_closing
        stage.settle()
        assert stage.replies()["a"].startswith((b"$", b"+D-"))


def test_a_client_whose_request_is_paused_is_not_silent(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"idle-timeout": "1"}) as stage:
        stage.send("a", [[b"CLIENT", b"PAUSE", b"6000", b"WRITE"]])
        stage.settle()
        stage.send("b", [[b"ADDJOB", b"q", b"body", b"0"]])
        stage.settle()
        admin, producer = stage.broker.clients.values()
        producer.active_s -= 5

        stage.broker.close_idle()
        assert not producer.is_closing
        stage.broker.unpause()
        stage.broker.close_idle()  # before the turn in which the request runs

        stage.settle()
        assert stage.replies()["b"].startswith((b"$", b"+D-"))
        assert not admin.is_closing


class SlowWire(Wire):
    """A transport with `unsent_bytes` that its client has not read."""

    unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes


def test_a_client_that_reads_a_large_reply_is_not_silent(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"idle-timeout": "1"}) as stage:
        wire = SlowWire()
        reader = stage.connect("a", wire)
        wire.unsent_bytes = 10_000
        stage.broker.close_idle()
        for _ in range(5):
            reader.active_s -= 5
            wire.unsent_bytes -= 1_000
            stage.broker.close_idle()
            assert not reader.is_closing

        reader.active_s -= 5
        stage.broker.close_idle()
        assert reader.is_closing


@pytest.mark.parametrize("kind", stores.ALL)
def test_the_rows_and_bytes_of_counts_are_bounded(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flags = stores.store_flags(request, kind)
    groups = [f"g{number}" for number in range(1_000)]
    long_groups = [f"g{number}".ljust(1_000, "x") for number in range(1_000)]
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        for number in range(11):
            client.call("QADD", f"q{number}", 60, "x")
        queues = [f"q{number}" for number in range(11)]
        for command in ("QSTATUS", "QINFO"):
            refused = client.call(command, *queues, "GROUPS", *groups)
            assert refused.text == (
                "ERR 11 queues and 1000 groups are 11000 rows in one reply; at most 10000"
            )
            later = [word for name in queues for word in ("QUEUE", name)]
            later += [word for name in groups for word in ("GROUP", name)]
            assert client.call(command, *later) == refused
            assert client.call(command, "GROUPS", *groups).text == (
                "ERR the counts of all queues and their groups are over 10000 rows in one reply:"
                " name fewer queues or groups"
            )
            large = client.call(command, *queues[:5], "GROUPS", *long_groups).text
            assert "at most 4194304 are sent: name fewer queues or groups" in large
            assert client.call(command, *queues[:1], "GROUPS", *long_groups)
        assert len(client.call("QINFO", *queues[:10], "GROUPS", *groups)) == 10_000


def test_a_long_name_does_not_pad_all_lines_of_counts(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, broker.connect() as client:
        groups = [f"g{number}" for number in range(999)]

        refused = client.call("QINFO", *"abcde", "GROUPS", *groups, "x" * 1024)

        assert "at most 4194304 are sent" in refused.text
        assert len(client.call("QINFO", "a", "GROUPS", *groups, "x" * 1024)) == 1_000


def test_scan_shows_event_queues_some_at_a_time(client: Client) -> None:
    names = [b"scanned-%d" % number for number in range(5_000)]
    client.send_bytes(b"".join(request("QADD", name, 60, "x") for name in names))
    client.read_many(len(names))

    found: list[bytes] = []
    most, cursor = 0, b"0"
    while not found or cursor != b"0":
        cursor, some = client.call("SCAN", cursor, "TYPE", "events", "MATCH", "scanned-*")
        found += some
        most = max(most, len(some))

    assert sorted(found) == sorted(names)
    assert most < 100


def test_the_rows_of_all_tubes_are_bounded(tmp_path: Path) -> None:
    rows = "10000 rows in one reply: name a tube; over RESP, SCAN 0 TYPE tubes lists the names"
    with (
        start_broker(tmp_path, "--fsync", "no", *LISTEN) as broker,
        broker.connect() as client,
        IprotoClient(broker) as tarantool,
    ):
        for at in range(10_001):
            client.send_bytes(request("TUBE.CREATE", f"t{at}", "fifo"))
        assert client.read_many(10_001) == [b":1\r\n"] * 10_001

        assert client.call("TUBE.LIST").text == f"ERR all tubes are over {rows}"
        assert client.call("TUBE.STATS").text == f"ERR the statistics of all tubes are over {rows}"
        assert tarantool.ask(call(1, "queue.tube")).text == f"all tubes are over {rows}"
        for function in ("queue.statistics", "queue.stats"):
            refused = tarantool.ask(call(1, function))
            assert refused.text == f"the statistics of all tubes are over {rows}"
        # A tube that is named is shown, however many others there are.
        assert [row[1] for row in client.call("TUBE.LIST", "t7")] == [b"t7"]
        assert client.call("TUBE.LIST", "none") == []
        assert client.call("TUBE.STATS", "t7")[0] == b"tasks"
        assert tarantool.ask(call(1, "queue.tube", "t7")).body[0x30] == [True]

        assert client.call("TUBE.DROP", "t0") == b"OK"

        assert len(client.call("TUBE.LIST")) == 10_000
        assert len(client.call("TUBE.STATS")) == 20_000  # names and values in turn
        assert len(tarantool.ask(call(1, "queue.tube")).body[0x30][0]) == 10_000
