"""Who waits comes before whoever asks in the turn in which something came."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.broker import wait_until
from tests.server.resp import Client, request
from tests.transcripts.stage import Stage

READERS = {
    "jobs": (("GETJOB", "FROM"), ("ADDJOB", "x", 0), ("GETJOB", "NOHANG", "FROM"), b"*-1\r\n"),
    "reliable": (("RQ.POP", "BLOCK", -1), ("RQ.PUSH", "x"), ("RQ.POP",), b"*0\r\n"),
}


@pytest.mark.parametrize("family", READERS)
@pytest.mark.parametrize("count", [1, 2])
def test_who_waits_is_served_first(
    client: Client, other: Client, queue: str, family: str, count: int
) -> None:
    wait, (add, *rest), ask, nothing = READERS[family]
    client.send(*wait, queue)
    wait_until(lambda: b"blocked_clients:1\r\n" in other.call("INFO", "clients"))

    other.send_bytes(request(add, queue, *rest) + request(*ask, queue) * count)

    assert client.value()[0][-1] == b"x"
    other.read()
    assert other.read_many(count) == [nothing] * count


TAKEN = b"$1\r\nx\r\n"
# What is done, how a client blocks, how another one asks when the message is due, and its reply.
DUE = {
    "delayed job": (["ADDJOB q x 0 DELAY 1"], "GETJOB FROM q", "GETJOB NOHANG FROM q", b"*-1\r\n"),
    "several queues": (
        ["ADDJOB q x 0 DELAY 1"],
        "GETJOB FROM p q",
        "GETJOB NOHANG FROM q r",
        b"*-1\r\n",
    ),
    "asks by pattern": (
        ["ADDJOB q x 0 DELAY 1"],
        "GETJOB FROM q",
        "GETJOB NOHANG MATCH q*",
        b"*-1\r\n",
    ),
    "blocks by pattern": (
        ["ADDJOB q x 0 DELAY 1"],
        "GETJOB MATCH q*",
        "GETJOB NOHANG FROM q",
        b"*-1\r\n",
    ),
    "both by pattern": (
        ["ADDJOB q x 0 DELAY 1"],
        "GETJOB MATCH q*",
        "GETJOB NOHANG MATCH *",
        b"*-1\r\n",
    ),
    "rate": (
        ["QSET q RATE 1 1", "ADDJOB q y 0", "ADDJOB q x 0", "GETJOB FROM q"],
        "GETJOB FROM q",
        "GETJOB NOHANG FROM q",
        b"*-1\r\n",
    ),
    "asks for a claim": (
        ["ADDJOB q x 0 DELAY 1", "CLAIM.OPEN q s"],
        "GETJOB FROM q",
        "CLAIM.FILL q s 1 1 COUNT 1",
        b"*-1\r\n",
    ),
    "lease of an item": (
        ["WQ.ADD q 1 x", "WQ.LEASE q 1000"],
        "WQ.LEASE q 1000 BLOCK -1",
        "WQ.LEASE q 1000",
        b"*0\r\n",
    ),
    "delayed task": (
        ["TUBE.CREATE q fifottl", "TUBE.PUT q x DELAY 1"],
        "TUBE.TAKE q",
        "TUBE.TAKE q 0",
        b"*-1\r\n",
    ),
    "task of a lane": (
        ["TUBE.CREATE q utubettl", "TUBE.PUT q x UTUBE l DELAY 1"],
        "TUBE.TAKE q LANE l",
        "TUBE.TAKE q 0 LANE l",
        b"*-1\r\n",
    ),
}


@pytest.mark.parametrize("case", DUE)
@pytest.mark.parametrize("count", [1, 2])
def test_who_waits_is_served_first_with_what_is_due(tmp_path: Path, case: str, count: int) -> None:
    before, wait, ask, nothing = DUE[case]
    with Stage(tmp_path, 2) as stage:
        stage.send("c", [text.encode().split() for text in before])
        stage.settle()
        stage.send("a", [wait.encode().split()])
        stage.settle()
        stage.replies()

        stage.move_clock(1_000)
        stage.send("b", [ask.encode().split()] * count)
        stage.settle()

        replies = stage.replies()
        assert TAKEN in replies["a"]
        assert replies["b"] == nothing * count


def test_who_waits_for_another_lane_holds_up_nobody(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("c", [b"TUBE.CREATE q utubettl".split()])
        stage.send("c", [b"TUBE.PUT q x UTUBE l DELAY 1".split()])
        stage.send("c", [b"TUBE.PUT q y UTUBE m".split()])
        stage.settle()
        stage.send("a", [b"TUBE.TAKE q LANE l".split()])
        stage.settle()

        stage.move_clock(1_000)
        stage.send("b", [b"TUBE.TAKE q 0 LANE m".split()])
        stage.settle()

        replies = stage.replies()
        assert TAKEN in replies["a"]
        assert b"$1\r\ny\r\n" in replies["b"]


def test_who_waits_is_served_before_whoever_asks_by_pattern(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("a", [b"GETJOB FROM q".split()])
        stage.settle()

        stage.send("b", [b"ADDJOB q x 0".split(), b"GETJOB NOHANG MATCH q*".split()])
        stage.settle()

        replies = stage.replies()
        assert TAKEN in replies["a"]
        assert replies["b"].endswith(b"*-1\r\n")


def test_a_transaction_gets_what_it_has_added_though_a_client_waits(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        stage.send("a", [b"GETJOB FROM q".split()])
        stage.settle()

        texts = [b"MULTI", b"ADDJOB q x 0", b"GETJOB NOHANG MATCH q*", b"EXEC"]
        stage.send("b", [text.split() for text in texts])
        stage.settle()

        assert TAKEN in stage.replies()["b"]
