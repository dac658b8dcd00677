"""A client that sends many requests at once has its part of each turn, and others come between.

The clock here moves on whenever it is read, so that each request takes longer than a client's part.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quinque.server.tarantool_connection import TarantoolConnection
from quinque.server.tarantool_requests import TarantoolRequests
from quinque.server.waiters import LOOKS_MOST
from tests.server import iproto
from tests.transcripts.stage import Stage, Wire

ECHO = b"$1\r\n%d\r\n"


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def hurry(stage: Stage, each_ms: int = 1_000) -> None:
    """From here on each request takes so long."""
    stage.broker.dispatch.clock_ns = count(step=each_ms * 1_000_000).__next__


def echoes(numbers: range) -> list[list[bytes]]:
    return [words(f"ECHO {number}") for number in numbers]


@pytest.mark.parametrize("before", [[], ["CLIENT REPLY ON"], ["MULTI", "EXEC"]])
def test_requests_that_take_long_run_one_in_a_turn_in_their_order(
    tmp_path: Path, before: list[str]
) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("a", map(words, before))
        stage.settle()
        stage.replies()
        hurry(stage)
        stage.send("a", echoes(range(3)))
        stage.send("b", echoes(range(1)))

        seen = []
        for number in range(3):
            stage.go_on(1)
            seen.append(stage.replies())
            stage.send("b", echoes(range(1)))
            stage.send("a", echoes(range(3 + number, 4 + number)))  # which comes after the rest

        assert seen == [{"a": ECHO % number, "b": ECHO % 0} for number in range(3)]
        stage.settle()
        assert stage.replies()["a"] == b"".join(ECHO % number for number in range(3, 6))


@pytest.mark.parametrize(
    ("before", "request_", "reply"),
    [
        ([], "NOSUCH", b"-ERR unknown command"),
        ([], "CLIENT NOSUCH", b"-ERR unknown subcommand"),
        ([], "GETJOB", b"-ERR wrong number"),
        (["MULTI"], "NOSUCH", b"-ERR unknown command"),
        (["MULTI"], "PING", b"+QUEUED"),
    ],
)
def test_requests_that_are_refused_or_queued_use_up_the_part_too(
    tmp_path: Path, before: list[str], request_: str, reply: bytes
) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("a", map(words, before))
        stage.settle()
        stage.replies()
        hurry(stage)
        stage.send("a", [words(request_)] * 3)

        answered = []
        for _ in range(3):
            stage.go_on(1)
            answered.append(stage.replies()["a"].count(reply))

        assert answered == [1, 1, 1]


def test_a_client_that_has_not_authenticated_has_its_part_too(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"requirepass": "secret"}) as stage:
        hurry(stage)
        stage.send("a", [words("NOSUCH"), words("QLEN q"), words("NOSUCH")])

        answered = []
        for _ in range(3):
            stage.go_on(1)
            answered.append(stage.replies()["a"].count(b"\r\n"))

        assert answered == [1, 1, 1]


def test_clients_that_have_not_authenticated_hold_up_others_less(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"requirepass": "secret"}) as stage:
        stage.send("b", [words("AUTH secret")])
        stage.settle()
        stage.replies()
        hurry(stage, each_ms=1)
        stage.send("a", [words("NOSUCH")] * 100)
        stage.send("b", [words("NOSUCH")] * 100)

        stage.go_on(1)

        answered = {name: data.count(b"\r\n") for name, data in stage.replies().items()}
        assert answered["a"] == 1
        assert answered["b"] > 5
        stage.settle()
        assert stage.replies()["a"].count(b"\r\n") == 99


def test_packets_before_the_password_hold_up_others_less(tmp_path: Path) -> None:
    with Stage(tmp_path, 2, {"requirepass": "secret"}) as stage:
        wire = Wire()
        client = TarantoolConnection(stage.broker, TarantoolRequests(stage.broker))
        client.connection_made(wire)
        stage.settle()
        wire.take()
        hurry(stage, each_ms=1)
        client.data_received(b"".join(iproto.packet(iproto.PING, sync, {}) for sync in range(10)))

        answered = []
        for _ in range(40):
            stage.go_on(1)
            answered.append(wire.take().count(b"\x83\x00\xce"))

        client.connection_lost(None)
        assert max(answered) == 1
        assert sum(answered) == 10


def test_a_transaction_is_one_part_of_a_turn(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        hurry(stage)
        transaction = ["MULTI", "ADDJOB q x 0", "GETJOB FROM q", "EXEC"]
        stage.send("a", map(words, transaction))
        stage.send("b", [words("GETJOB FROM q")])
        stage.settle()

        replies = stage.replies()
        assert replies["a"].startswith(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+D-")
        assert b"$1\r\nx\r\n" in replies["a"]
        assert "b" not in replies


@pytest.mark.parametrize("is_late", [False, True])
def test_exec_runs_no_more_reads_when_these_took_too_long_and_all_writes(
    tmp_path: Path, is_late: bool
) -> None:
    with Stage(tmp_path, 2, is_late=is_late) as stage:
        hurry(stage, each_ms=100)
        writes = ["RQ.PUSH q x"] * 5
        reads = ["JSCAN 0", "QLEN q", "PING", "INFO", "TUBE.LIST"]
        stage.send("a", map(words, ["MULTI", *writes, *reads, *writes, "EXEC", "RQ.INFO q"]))
        stage.settle()

        _, _, executed = stage.replies()["a"].partition(b"*15\r\n")
        over = (
            b"-ERR the commands of this EXEC that only read, or take by pattern, took over 250 ms"
        )
        assert executed.count(over + b": this command was not run\r\n") == 2
        assert executed.count(b"+PONG\r\n") == 1
        assert executed.count(b"*1\r\n$") == 10
        assert b"$11\r\nundelivered\r\n:10\r\n" in executed


@pytest.mark.parametrize("is_late", [False, True])
def test_exec_looks_no_more_for_jobs_by_pattern_when_that_took_too_long(
    tmp_path: Path, is_late: bool
) -> None:
    """They look at every queue, and may find nothing each time."""
    with Stage(tmp_path, 2, is_late=is_late) as stage:
        hurry(stage, each_ms=100)
        takes = ["GETJOB NOHANG MATCH *"] * 5
        stage.send("a", map(words, ["MULTI", *takes, "ADDJOB q x 0", "GETJOB FROM q", "EXEC"]))
        stage.settle()

        _, _, executed = stage.replies()["a"].partition(b"*7\r\n")
        over = (
            b"-ERR the commands of this EXEC that only read, or take by pattern, took over 250 ms"
        )
        assert executed.startswith(b"*-1\r\n" * 3 + over)
        assert executed.count(over) == 2
        assert b"$1\r\nx\r\n" in executed


@pytest.mark.parametrize("is_late", [False, True])
def test_requests_that_are_alike_end_their_part_together(tmp_path: Path, is_late: bool) -> None:
    with Stage(tmp_path, 2, is_late=is_late) as stage:
        hurry(stage)
        stage.send("a", [words("RQ.PUSH q x")] * 600 + echoes(range(1)))
        stage.send("b", [words("PING")])

        stage.go_on(1)
        first = stage.replies()
        stage.settle()
        rest = stage.replies()

        assert first["b"] == b"+PONG\r\n"
        assert first.get("a", b"").count(b"*1\r\n") == (0 if is_late else 256)
        total = first.get("a", b"") + rest["a"]
        assert total.count(b"*1\r\n") == 600
        assert total.endswith(ECHO % 0)


def test_replies_that_are_not_wanted_hold_up_nothing(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        hurry(stage)
        requests = ["CLIENT REPLY OFF", "PING", "PING", "CLIENT REPLY ON", "PING"]
        stage.send("a", map(words, requests))
        stage.settle()

        assert stage.replies() == {"a": b"+OK\r\n+PONG\r\n"}


def test_a_client_that_ends_gets_all_replies_before_it_is_closed(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        wire = Wire()
        stage.connect("a", wire)
        hurry(stage)
        stage.send("a", [*echoes(range(3)), [b"QUIT"], *echoes(range(1))])
        stage.settle()

        assert stage.replies() == {"a": b"".join(ECHO % number for number in range(3)) + b"+OK\r\n"}
        assert wire.is_closed


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (iproto.CALL, {0x22: "queue.state", 0x21: []}),
        (iproto.CALL, {0x22: "no.such.function", 0x21: []}),
        (iproto.EVAL, {0x27: "return queue.state()", 0x21: []}),
        (iproto.EVAL, {0x27: "this is no call", 0x21: []}),
        (iproto.PING, {}),
        (iproto.SELECT, {0x10: 281}),
    ],
)
def test_requests_of_tarantool_that_take_long_run_one_in_a_turn(
    tmp_path: Path, kind: int, body: dict[int, Any]
) -> None:
    with Stage(tmp_path, 2) as stage:
        wire = Wire()
        client = TarantoolConnection(stage.broker, TarantoolRequests(stage.broker))
        client.connection_made(wire)
        stage.settle()
        wire.take()
        hurry(stage)
        client.data_received(b"".join(iproto.packet(kind, sync, body) for sync in range(3)))

        answered = []
        for _ in range(8):
            stage.go_on(1)
            answered.append(wire.take().count(b"\x83\x00\xce"))  # in each header

        client.connection_lost(None)
        assert max(answered) == 1
        assert sum(answered) == 3


SLOW = [b"*%b%d*" % (b"a" * 500, number) for number in range(100)]
LONG = b"a" * 1_000


def test_others_are_served_while_a_name_is_compared_with_many_patterns(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("a", [[b"GETJOB", b"MATCH", *SLOW]])
        stage.send("b", [words("GETJOB MATCH a*")])
        stage.settle()

        stage.send("c", [[b"ADDJOB", LONG, b"x", b"0"]])
        stage.go_on(1)

        seen = stage.replies()
        assert list(seen) == ["c"]
        assert seen["c"].startswith(b"+D-")
        stage.settle()
        assert stage.replies()["b"].endswith(b"$1\r\nx\r\n")


def test_others_are_served_while_many_long_patterns_are_read(tmp_path: Path) -> None:
    # Of this test alone: those that were read before are known.
    patterns = [b"*%b%d*" % (b"b" * 500, number) for number in range(100)]
    with Stage(tmp_path, 2) as stage:
        stage.send("a", [[b"GETJOB", b"NOHANG", b"MATCH", *patterns]])
        stage.send("b", [words("PING")])
        stage.go_on(1)

        assert stage.replies() == {"b": b"+PONG\r\n"}
        stage.settle()
        assert stage.replies() == {"a": b"*-1\r\n"}


def test_readers_of_many_paused_queues_do_not_hold_up_those_who_add_to_them(
    tmp_path: Path,
) -> None:
    # So few that the store looks at all of them at once, and 100 additions mean 40,000 looks.
    queues = [b"q%d" % number for number in range(400)]
    with Stage(tmp_path, 2) as stage:
        stage.send("b", [[b"PAUSE", queue, b"out"] for queue in queues])
        stage.settle()
        stage.send("a", [[b"GETJOB", b"FROM", *queues]])
        stage.settle()
        stage.replies()

        stage.send("b", [[b"ADDJOB", queue, b"x", b"0"] for queue in queues[:100]])
        stage.go_on(1)

        assert stage.replies()["b"].count(b"+D-") == 100
        assert stage.broker.waiters.is_spent
        assert stage.broker.store.ready
        stage.settle()
        assert not stage.broker.store.ready
        stage.send("b", [[b"PAUSE", queues[0], b"none"]])
        stage.settle()
        assert stage.replies()["a"].endswith(b"$1\r\nx\r\n")


def test_readers_of_many_queues_are_asked_only_for_the_one_that_got_something(
    tmp_path: Path,
) -> None:
    queues = [b"q%d" % number for number in range(400)]
    groups = [b"g%d" % number for number in range(50)]
    with Stage(tmp_path, 2) as stage:
        stage.send("b", [words("QADD q399 100 x"), words("QGET q399 other EX 1")])
        stage.send("b", [[b"QGET", b"q399", group, b"EX", b"0"] for group in groups])
        stage.settle()
        for group in groups:
            stage.send(group.decode(), [[b"QNOTIFY", group, b"100", *queues]])
        stage.settle()
        stage.replies()

        stage.move_clock(1_000)  # the lease of the other group ends, and the queue has something
        looks = []
        for _ in range(10):
            stage.go_on(1)
            looks.append(LOOKS_MOST - stage.broker.waiters._looks_left)

        assert max(looks) == len(groups)
        assert stage.replies() == {}
        stage.send("b", [words("QADD q399 100 y"), words("QADD q1 100 y")])
        stage.settle()
        replies = stage.replies()
        assert replies["g0"] == b"$2\r\nq1\r\n"
        assert {replies[group.decode()] for group in groups} <= {replies["g0"], b"$4\r\nq399\r\n"}
