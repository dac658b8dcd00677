"""Takes and acks that several clients send in one turn are one operation, and each is its own.

A driver is asked one by one, of which no client sees anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transcripts.stage import Stage

TASK = b"*3\r\n:%d\r\n$1\r\n%b\r\n$1\r\n%d\r\n"
NOT_TAKEN = b"-NOTTAKEN Task was not taken\r\n"
NOTHING = b"*-1\r\n"
DRIVER = "unique=examples.drivers.unique.quinque_unique:Unique"


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def task(id: int, letter: bytes) -> bytes:
    return TASK % (id, letter, id)


def in_one_turn(stage: Stage, **requests: str) -> dict[str, bytes]:
    """What each client was told."""
    for client, text in requests.items():
        stage.send(client, [words(line) for line in text.split(";")])
    stage.settle()
    return stage.replies()


@pytest.fixture(params=["fifo", "utubettl", "unique"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A tube with two tasks, of as many lanes if there are any."""
    with Stage(tmp_path, 2, {"drivers": DRIVER}) as stage:
        in_one_turn(stage, a=f"TUBE.CREATE t {request.param}")
        for id in range(2):
            lane = f"UTUBE {id}" if request.param == "utubettl" else ""
            in_one_turn(stage, a=f"TUBE.PUT t {id} {lane}")
        yield stage


def test_each_takes_what_only_it_may_ack(stage: Stage) -> None:
    took = in_one_turn(stage, a="TUBE.TAKE t", b="TUBE.TAKE t")
    assert took == {"a": task(0, b"t"), "b": task(1, b"t")}

    others = in_one_turn(stage, a="TUBE.ACK t 1", b="TUBE.ACK t 0")
    assert others == {"a": NOT_TAKEN, "b": NOT_TAKEN}

    own = in_one_turn(stage, b="TUBE.ACK t 0 1", a="TUBE.ACK t 0;TUBE.ACK t 0")
    assert own == {
        "b": b"*2\r\n" + NOTHING + task(1, b"-"),
        "a": task(0, b"-") + NOT_TAKEN,
    }


def test_those_for_whom_there_is_none_wait_in_the_order_they_came(stage: Stage) -> None:
    took = in_one_turn(stage, **dict.fromkeys("abcd", "TUBE.TAKE t"))
    assert took == {"a": task(0, b"t"), "b": task(1, b"t")}

    assert in_one_turn(stage, a="TUBE.RELEASE t 0") == {"a": task(0, b"r"), "c": task(0, b"t")}
    assert in_one_turn(stage, b="TUBE.RELEASE t 1") == {"b": task(1, b"r"), "d": task(1, b"t")}


def test_what_one_of_them_took_comes_back_when_it_goes(stage: Stage) -> None:
    in_one_turn(stage, a="TUBE.TAKE t", b="TUBE.TAKE t")
    stage.leave("b")

    assert in_one_turn(stage, c="TUBE.PEEK t 0;TUBE.PEEK t 1;TUBE.TAKE t 0") == {
        "c": task(0, b"t") + task(1, b"r") + task(1, b"t")
    }
