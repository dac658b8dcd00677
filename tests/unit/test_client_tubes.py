"""Operations on tubes as the requests that the client sends."""

from __future__ import annotations

import msgpack
import pytest

from quinque.client.link import Word
from quinque.client.tube_calls import CALLS
from quinque.errors import BadArgument
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.tube_ops import (
    AckTasks,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
    TubeSettings,
)

SAID = bytes(msgpack.packb({"delay": 1e-05, "colour": "red", "size": 3, "raw": b"\xff"}))
OWN: list[Word] = ["OPTION", "colour", "red", "OPTION", "size", "3", "OPTION", "raw", b"\xff"]


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (
            MakeTube(b"t", b"own", TubeSettings(is_temporary=True, options=SAID), True),
            ["TUBE.CREATE", b"t", b"own", "TEMPORARY", "IFNOTEXISTS", *OWN],
        ),
        (
            MakeTube(b"t", b"utubettl", TubeSettings(1500, 500, 2, width=3)),
            [
                "TUBE.CREATE",
                b"t",
                b"utubettl",
                "TTL",
                "1.500",
                "TTR",
                "0.500",
                "PRI",
                2,
                "WIDTH",
                3,
            ],
        ),
        (
            PutTasks(b"t", [b"\xc1\xc1x"], TaskTerms(1, 2, 3, 4, b"l", SAID)),
            [
                "TUBE.PUT",
                b"t",
                b"\xc1x",
                "TTL",
                "0.001",
                "TTR",
                "0.002",
                "PRI",
                3,
                "DELAY",
                "0.004",
                "UTUBE",
                b"l",
                *OWN,
            ],
        ),
        (PutTasks(b"t", [b"a", b"b"], TaskTerms()), ["TUBE.MPUT", b"t", b"a", b"b"]),
        (TakeTasks(b"t", b"", 5, b"l"), ["TUBE.TAKE", b"t", "0.000", "LANE", b"l", "COUNT", 5]),
        (
            ReleaseTasks(b"t", b"", [b"7"], 1000, 2, 3000, b"\xc1\x01", SAID),
            [
                "TUBE.RELEASE",
                b"t",
                b"7",
                "DELAY",
                "1.000",
                "PRI",
                2,
                "TTL",
                "3.000",
                "DATA",
                b"\x01",
                *OWN,
            ],
        ),
    ],
)
def test_an_operation_is_one_request(op: Op, words: list[Word]) -> None:
    assert CALLS[type(op)].requests(op) == [words]


def test_many_ids_are_several_requests_and_one_answer() -> None:
    ids = [b"%d" % number for number in range(1001)]
    op, call = AckTasks(b"t", b"", ids), CALLS[AckTasks]

    requests = call.requests(op)
    found = call.result(op, [[[0, b"-", b"x"]] + [None] * 999, [1000, b"-", b"y"]])

    assert [len(request) for request in requests] == [1002, 3]
    assert found[0] == TaskView(b"0", None, b"x")
    assert found[1:1000] == [None] * 999
    assert found[1000] == TaskView(b"1000", None, b"y")


def test_a_task_is_told_by_its_letter_and_its_body_as_it_is_kept() -> None:
    call = CALLS[TakeTasks]

    [task] = call.result(TakeTasks(b"t", b""), [[[3, b"t", b"\xc1x"]]])

    assert task == TaskView(b"3", State.LEASED, b"\xc1\xc1x")


@pytest.mark.parametrize(
    "op",
    [
        TakeTasks(b"t", b"another"),
        AckTasks(b"t", b"", [b"1"], sessions=[b"another"]),
        ReleaseTasks(b"t", b"another", [b"1"]),
        TouchTasks(b"t", b"another", [b"1"], 1),
    ],
)
def test_no_session_but_the_clients_own_can_be_asked_for(op: Op) -> None:
    with pytest.raises(BadArgument, match="of the client's own session"):
        CALLS[type(op)].requests(op)
