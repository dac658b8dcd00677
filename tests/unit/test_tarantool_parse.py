"""Calls and expressions of Tarantool's clients become operations, or are refused by its numbers."""

from __future__ import annotations

from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.dialects.command import Wait
from quinque.dialects.lua_calls import LuaCall, read_expression
from quinque.dialects.tarantool import body_of, find_call
from quinque.dialects.tarantool_args import read_count, read_span, read_terms
from quinque.dialects.tarantool_verbs import Caller, Join
from quinque.errors import BadTuple, NotDefined
from quinque.model.limits import NEVER_MS
from quinque.model.tube_ops import (
    FOREVER_MS,
    PRIORITY_MOST,
    KickTasks,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
    TubeSettings,
)
from quinque.wire.iproto import PacketLimits
from tests.model.effort import effort

YEARS_100_S = 100 * 365 * 86_400


class Someone:
    """A connection that takes for one session."""

    def taking_session(self) -> bytes:
        return b"session"


SOMEONE = cast(Caller, Someone())


def packed(*values: Any) -> list[bytes]:
    return [msgpack.packb(value) for value in values]


def parsed(function: str, *args: Any) -> Any:
    """What a call becomes."""
    call = find_call(function.encode())
    return call.verb.parse(call, packed(*args), SOMEONE)


@pytest.mark.parametrize(
    ("seconds", "span_ms"),
    [
        (0, 0),
        (-5, 0),
        (-0.5, 0),
        (1e-9, 1),
        (0.0004, 1),
        (0.0015, 2),
        (2.5, 2500),
        (7, 7000),
        (YEARS_100_S - 1, FOREVER_MS - 1000),
        (YEARS_100_S, FOREVER_MS),
        (1 << 64, FOREVER_MS),
        (1e308, FOREVER_MS),
        (float("inf"), FOREVER_MS),
        (float("-inf"), 0),
    ],
)
def test_spans_are_whole_milliseconds(seconds: float, span_ms: int) -> None:
    assert read_span(seconds) == span_ms


@pytest.mark.parametrize("value", [b"1", None, True, (), {}, float("nan")])
def test_what_is_no_span_is_refused(value: Any) -> None:
    with pytest.raises(BadTuple, match="attempt to compare"):
        read_span(value)


def test_puts() -> None:
    assert parsed("queue.tube.t:put", "x") == PutTasks(b"t", [b"x"], TaskTerms())
    assert parsed("queue.tube.t:put", None, {}) == PutTasks(b"t", [b"\xc1\xc0"], TaskTerms())
    assert parsed("queue.tube.t:put", b"\xff", []) == PutTasks(b"t", [b"\xff"], TaskTerms())
    said = {"ttl": 1.5, "ttr": 0, "pri": 3, "delay": -1, "utube": 7, "other": [1]}
    assert parsed("queue.tube.t:put", [1], said) == PutTasks(
        b"t", [b"\xc1\x91\x01"], TaskTerms(1500, 0, 3, 0, b"7", packed(said)[0])
    )
    waits = parsed("queue.tube.t:put", "x", {"timeout": 2})
    assert (waits.queues, waits.group, waits.timeout_ms) == ([b"t"], b"room", 2000)


def test_terms_that_were_said_before_are_the_same() -> None:
    for number in range(600):
        said = {"pri": number}
        assert read_terms(packed(0, said)) == read_terms(packed(0, said))
        assert read_terms(packed(0, said))[0].pri == number


@pytest.mark.parametrize("pri", [-1, 1.5, "1", None, PRIORITY_MOST + 1, True])
def test_priorities_that_there_are_not(pri: Any) -> None:
    with pytest.raises(BadTuple) as caught:
        parsed("queue.tube.t:put", 1, {"pri": pri})

    assert caught.value.number == 23


@pytest.mark.parametrize(
    ("lane", "name"),
    [
        (1, b"1"),
        ("1", b"1"),
        (1.0, b"1"),
        (1.5, b"1.5"),
        (True, b"true"),
        (None, b"nil"),
        ("", b""),
    ],
)
def test_lanes_are_named_as_lua_writes_them(lane: Any, name: bytes) -> None:
    assert parsed("queue.tube.t:put", 1, {"utube": lane}).terms.lane == name


def test_takes() -> None:
    op = TakeTasks(b"t", b"session")

    assert parsed("queue.tube.t:take") == Wait(op, [b"t"], b"", NEVER_MS)
    assert parsed("queue.tube.t:take", None) == Wait(op, [b"t"], b"", NEVER_MS)
    assert parsed("queue.tube.t:take", -3) == Wait(op, [b"t"], b"", 0)
    assert parsed("queue.tube.t:take", 0.25) == Wait(op, [b"t"], b"", 250)
    assert parsed("queue.tube.t:take", 1e12).timeout_ms == NEVER_MS
    of_lane = parsed("queue.tube.t:take", 1, {"utube": 5})
    assert (of_lane.op.lane, of_lane.group) == (b"5", b"lane:5")


def test_other_verbs() -> None:
    assert parsed("queue.tube.t:touch", 3, 1) == TouchTasks(b"t", b"session", [b"3"], 1000)
    assert parsed("queue.tube.t:touch", 3.0, None).by_ms == 0
    assert parsed("queue.tube.t:touch", 3, 1e30).by_ms == FOREVER_MS
    assert parsed("queue.tube.t:kick") == KickTasks(b"t", 1)
    assert parsed("queue.tube.t:release", 1 << 40) == ReleaseTasks(
        b"t", b"session", [b"%d" % (1 << 40)]
    )
    said = {"delay": 2, "ttl": 9, "data": {"a": 1}}
    assert parsed("queue.tube.t:release", 1, said) == ReleaseTasks(
        *(b"t", b"session", [b"1"], 2000, None, 9000, b"\xc1\x81\xa1a\x01", packed(said)[0])
    )
    assert [read_count(packed(given)) for given in (None, 0, -5, 2.9, 1e400, 7)] == [
        *(1, 0, 0, 2, (1 << 53) - 1, 7)
    ]


def test_tubes_that_are_made() -> None:
    assert parsed("queue.create_tube", "t", "fifo") == MakeTube(b"t", b"fifo", TubeSettings())
    said = {
        "ttl": 60,
        "pri": 2,
        "capacity": 5,
        "width": 3,
        "temporary": True,
        "if_not_exists": True,
    }
    assert parsed("queue.create_tube", "t", "fifottl", said) == MakeTube(
        b"t", b"fifottl", TubeSettings(60_000, 60_000, 2, 5, 3, True, packed(said)[0]), True
    )


def test_sessions_by_any_name() -> None:
    raw, shown = bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"

    assert parsed("queue.identify", raw) == Join(raw, raw)
    assert parsed("queue.identify", shown) == Join(raw, shown.encode())
    assert parsed("queue.identify", "me") == Join(b"me", b"me")
    for wrong in ("", "x" * 256, 5):
        with pytest.raises(BadTuple, match="Invalid UUID format"):
            parsed("queue.identify", wrong)


@pytest.mark.parametrize(
    "function",
    ["", "put", "tube.t:put", ".tube.t:put", "queue.tube.:put", "queue.tube.t", "queue.tube.t:",
     "queue.tube.t:pow", "queue.none", "statistics", "queue.tube." + "t" * 1025 + ":put"],
)  # fmt: skip
def test_functions_that_there_are_not(function: str) -> None:
    with pytest.raises(NotDefined):
        find_call(function.encode())


def test_bodies_of_both_calls() -> None:
    values = {"task": b"\x93\x00\xa1r\x01", "number": b"\x05", "nothing": b"\xc0", "map": b"\x80"}

    assert {name: body_of([value], as_tuples=False) for name, value in values.items()} == {
        name: b"\x81\x30\x91" + value for name, value in values.items()
    }
    assert body_of([values["task"]], as_tuples=True) == b"\x81\x30\x91\x93\x00\xa1r\x01"
    assert body_of([values["number"]], as_tuples=True) == b"\x81\x30\x91\x91\x05"
    assert body_of([], as_tuples=True) == b"\x81\x30\x90"
    assert body_of([b"\x01"] * 20, as_tuples=False) == b"\x81\x30\xdd\0\0\0\x14" + b"\x01" * 20


EXPRESSIONS = {
    "queue.create_tube('a', 'fifo')": LuaCall(b"queue.create_tube", packed("a", "fifo")),
    "return box.queue.tube.a:take(.5);": LuaCall(b"box.queue.tube.a:take", packed(0.5), True),
    "queue.tube['a b']:drop()": LuaCall(b"queue.tube.a b:drop", []),
    "local n = ...; queue.tube[n]:drop()": LuaCall(b"queue.tube.first:drop", []),
    "return queue.tube[[x]] ~= nil": None,
    "return queue.tube['x'] ~= nil": LuaCall(b"queue.tube", packed("x"), True),
    "local name, type, cfg = ... ; queue.create_tube(name, type, cfg)": LuaCall(
        b"queue.create_tube", packed("first", {"b": 2}, None)
    ),
    "return queue.create_tube(...)": LuaCall(b"queue.create_tube", packed("first", {"b": 2}), True),
    "queue = require('queue'); queue.cfg{ttr = 0x10, in_replicaset = false}": LuaCall(
        b"queue.cfg", packed({"ttr": 16, "in_replicaset": False})
    ),
    "local queue = require 'queue'\n-- a word\nqueue.tube.a:put{1, {x = nil}, -2.5e1,}": LuaCall(
        b"queue.tube.a:put", packed([1, [], -25])
    ),
    "queue.tube.a:put('it\\'s\\n\\065\\\\', [[long]])": LuaCall(
        b"queue.tube.a:put", packed("it's\nA\\", "long")
    ),
    "if not queue.tube.a then queue.create_tube('a', 'fifo', {ttl = 1}) end": LuaCall(
        b"queue.create_tube", packed("a", "fifo", {"ttl": 1, "if_not_exists": True})
    ),
    "if queue.tube.a == nil then queue.create_tube('a', 'fifo') end": LuaCall(
        b"queue.create_tube", packed("a", "fifo", {"if_not_exists": True})
    ),
    "if not queue.tube.a then queue.create_tube('a','fifo',{}) end": LuaCall(
        b"queue.create_tube", packed("a", "fifo", {"if_not_exists": True})
    ),
    "if not queue.tube['a'] then queue.create_tube('a', 'fifo', nil) end": LuaCall(
        b"queue.create_tube", packed("a", "fifo", {"if_not_exists": True})
    ),
    "if queue.tube.a == nil then queue.create_tube('a', 'fifo', {}) end": LuaCall(
        b"queue.create_tube", packed("a", "fifo", {"if_not_exists": True})
    ),
    "if not queue.tube.a then queue.create_tube('a', 'fifo', {1}) end": None,
    "if queue.tube.a ~= nil then queue.tube.a:drop(); end": LuaCall(
        b"queue.tube.a:drop", [], is_forgiving=True
    ),
    "if queue.tube.a then queue.tube.b:drop() end": None,
    "if not queue.tube.a then queue.create_tube('b', 'fifo') end": None,
    "queue.tube.a:put(unknown)": None,
    "queue.tube.a:put(1); queue.tube.a:put(2)": None,
    "return 1 + 1": None,
    "return queue": None,
    "queue.tube.a:put({1, x = 2})": LuaCall(b"queue.tube.a:put", packed({1: 1, "x": 2})),
    "queue.tube.a:put('open": None,
    "local f = function() end": None,
    "": None,
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    wanted = EXPRESSIONS[expression]
    given = packed("first", {"b": 2})

    if wanted is None:
        with pytest.raises(BadTuple, match="does not run Lua"):
            read_expression(expression.encode(), given, PacketLimits())
    else:
        assert read_expression(expression.encode(), given, PacketLimits()) == wanted


WORDS = (
    *(
        "local",
        "if",
        "not",
        "then",
        "end",
        "return",
        "require",
        "queue",
        "tube",
        "a",
        "nil",
        "true",
    ),
    *(":", ".", ",", ";", "=", "~=", "==", "...", "(", ")", "{", "}", "[", "]", "[[", "]]", "--"),
    *(
        "'x'",
        '"y"',
        "1",
        "-2.5",
        "0xff",
        "5ULL",
        "1e30",
        "-",
        "--[[",
        "[=[",
        "]=]",
        "\\",
        "é",
        "\n",
    ),
)


@effort(150)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=40))
def test_any_text_is_a_call_or_refused(expression: str) -> None:
    try:
        text = expression.encode("utf-8", "surrogatepass")
        call = read_expression(text, packed("a", 1), PacketLimits())
    except BadTuple:
        return

    assert all(msgpack.unpackb(arg, strict_map_key=False) is not ... for arg in call.args)


@effort(150)
@given(st.binary(max_size=30), st.lists(st.binary(min_size=1, max_size=12), max_size=3))
def test_any_arguments_are_read_or_refused(word: bytes, args: list[bytes]) -> None:
    """Values that msgpack has passed over may still be none that can be read."""
    for verb in (b"put", b"take", b"ack", b"release", b"touch", b"kick"):
        call = find_call(b"queue.tube." + b"t:" + verb)
        try:
            call.verb.parse(call, args, SOMEONE)
        except BadTuple:
            continue
