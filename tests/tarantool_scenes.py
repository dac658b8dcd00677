"""What is called on a real Tarantool and on a broker, line by line, and where they are to differ.

Called by   tests/tarantool_differences.py.
Calls       nothing.

A line is what a connection, `a` or `b`, asks of the tube that the scene makes; with a reason, if
the replies are meant to differ.

Not here: what a broker must answer (tests/conformance, tests/server, tests/clients).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

LAST_SESSION: Final = "the session that was told last"
NO_ID_TWICE: Final = "no id comes again, so that a late ack hits no other task"
ONE_TOUCH: Final = "a touch is one touch"
FORGOTTEN: Final = "whoever had taken a task of an emptied tube has it no more"
NO_LUA: Final = "there is no Lua, and these are its words"
KEPT_AS_IT_IS: Final = "data come back as they were sent"
DELAYS_COUNT: Final = "`delay` counts in both kinds"
NO_COLUMNS: Final = "a task has no columns that could be counted"
TEXTS_TOO: Final = "a session may be any text"
AS_BYTES: Final = "a UUID is shown as its bytes come, whatever the machine"
ENDS: Final = "a task whose time was over is gone when it comes back"


@dataclass(frozen=True)
class Asked:
    """A connection calls a function, and hears what it gives."""

    who: str
    function: str
    args: tuple[Any, ...] = ()
    differs: str = ""

    def shown(self) -> str:
        return f"{self.who} {self.function}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class Begun:
    """A connection calls a function that waits."""

    who: str
    function: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Ended:
    """What that gives."""

    who: str
    differs: str = ""

    def shown(self) -> str:
        return f"{self.who} hears"


@dataclass(frozen=True)
class Closed:
    who: str


@dataclass(frozen=True)
class Waited:
    seconds: float


Line = Asked | Begun | Ended | Closed | Waited


def a(function: str, *args: Any, differs: str = "") -> Asked:
    return Asked("a", function, args, differs)


def b(function: str, *args: Any, differs: str = "") -> Asked:
    return Asked("b", function, args, differs)


def statistics(differs: str = "") -> Asked:
    return a("queue.statistics", differs=differs)


def reference(kind: str) -> list[Line]:
    """A task or two in every state, and what was counted."""
    lanes = [{"utube": str(number)} for number in range(5)]
    return [
        a("create", kind, {}),
        *(a("put", f"data {number}", options) for number, options in enumerate(lanes)),
        a("delete", 4),
        a("take", 0),
        a("release", 0),
        a("take", 0),
        a("ack", 0),
        a("bury", 1),
        a("bury", 2),
        a("bury", 2),
        a("kick", 1),
        a("take"),
        *(a("peek", id) for id in range(5)),
        statistics(),
        a("release_all"),
        a("queue.statistics"),
        a("kick", 0),
        a("kick", 100),
        a("take", 0.01),
        a("take", -1),
        a("drop"),
        a("release_all"),
        a("delete", 1),
        a("delete", 2),
        a("delete", 3),
        a("take", 0),
        a("put", "more", differs=NO_ID_TWICE),
        a("truncate"),
        a("put", "first"),
        a("drop"),
        a("put", "gone"),
    ]


def refusals(kind: str) -> list[Line]:
    """What cannot be done, by whom."""
    return [
        a("put", "there is no tube yet"),
        a("create", "nonsense", {}),
        a("create", kind, {}),
        a("create", kind, {}),
        a("create", kind, {"if_not_exists": True}),
        a("nonsense"),
        a("put", "one"),
        a("put", differs="" if kind == "fifo" else NO_COLUMNS),
        a("put", None),
        *(a(verb, 7) for verb in ("ack", "release", "peek", "bury", "delete")),
        *(a(verb, "x") for verb in ("peek", "bury", "delete")),
        *(a(verb, id, differs=NO_COLUMNS) for verb in ("ack", "release") for id in ("x", -1)),
        *(a(verb, 0) for verb in ("ack", "release")),
        a("touch", 0, 1),
        a("touch", 0, 0),
        a("touch", 0, -1),
        a("touch", 0),
        a("take", 0),
        b("ack", 0),
        b("release", 0),
        b("touch", 0, 1),
        a("touch", 0, 1),
        a("drop"),
        b("bury", 0),
        a("ack", 0),
        b("kick", "x"),
        b("take", "x"),
        b("delete", 0),
        a("queue.tube", "nobody"),
        a("queue.statistics", "nobody", differs=NO_LUA),
        a("queue.nonsense"),
        a("queue.identify", b"short", differs=TEXTS_TOO),
        a("queue.identify", b"0123456789abcdef", differs=AS_BYTES),
        a("queue.cfg", {"ttr": -1}),
        a("queue.cfg", {"nonsense": 1}),
        a("queue.state"),
        statistics(differs=ONE_TOUCH),
    ]


def times(kind: str) -> list[Line]:
    """Delays, times to live and times to run."""
    return [
        a("create", kind, {}),
        a("put", "delayed", {"delay": 0.3, "ttl": 0.4}),
        a("put", "short", {"ttl": 0.2, "utube": "s"}),
        a("put", "to run", {"ttr": 0.2, "utube": "r", "pri": 1}),
        a("put", "now", {"ttl": 0, "utube": "n"}),
        a("take", 0),
        a("bury", 1),
        a("take", 0),
        *(a("peek", id) for id in range(4)),
        Waited(0.32),
        a("ack", 2),
        *(a("peek", id) for id in range(4)),
        a("take", 0),
        a("release", 0, {"delay": 0.3}),
        Waited(0.35),
        *(a("peek", id) for id in range(4)),
        statistics(differs=DELAYS_COUNT if kind == "utubettl" else ""),
        a("take", 0),
        Waited(0.5),
        *(a("ack", id) for id in (0, 2)),
        a("put", "of fractions", {"ttl": 100.5, "ttr": 0.5, "utube": "f"}, differs=NO_ID_TWICE),
        a("put", "bad", {"pri": -1}),
        a("put", "bad", {"pri": 1.5}),
        a("put", "bad", {"pri": "x"}),
        a("put", "bad", {"ttl": "x"}),
        a("put", "bad", {"delay": "x"}, differs=NO_LUA),
        a("put", "negative", {"ttl": -1, "utube": "m"}, differs=NO_ID_TWICE),
        a("put", "negative", {"delay": -1, "utube": "m"}, differs=NO_ID_TWICE),
    ]


def taken_over_its_time(kind: str) -> list[Line]:
    """A task whose time to live is over while somebody has it."""
    return [
        a("create", kind, {}),
        a("put", "acked", {"ttl": 0.2, "utube": "1"}),
        a("put", "released", {"ttl": 0.2, "utube": "2"}),
        a("put", "delayed", {"ttl": 0.2, "utube": "3"}),
        a("put", "touched", {"ttl": 0.2, "utube": "4"}),
        *(a("take", 0) for _ in range(4)),
        a("touch", 3, 0.6),
        Waited(0.4),
        a("ack", 0),
        a("release", 1, differs=ENDS if kind == "utubettl" else ""),
        a("release", 2, {"delay": 0.1}),
        Waited(0.2),
        a("peek", 1, differs=ENDS if kind == "utubettl" else ""),
        a("peek", 2),
        a("ack", 3),
        statistics(differs=f"{ONE_TOUCH}; {DELAYS_COUNT}; {ENDS}"),
    ]


def defaults(kind: str) -> list[Line]:
    """What a tube says for tasks that do not."""
    return [
        a("create", kind, {"ttl": 0.3, "pri": 5}),
        a("put", "the tube's", {"utube": "1"}),
        a("put", "first", {"pri": 4, "utube": "2"}),
        a("put", "last", {"pri": 6, "ttl": 60, "utube": "3"}),
        *(a("take", 0) for _ in range(3)),
        Waited(0.4),
        *(a("peek", id) for id in range(3)),
        *(a("ack", id) for id in range(3)),
        statistics(),
        a("put", "long", {"ttl": 60, "ttr": 0.1, "utube": "4"}),
        a("take", 0),
        Waited(0.2),
        b("take", 0),
    ]


def lanes(kind: str) -> list[Line]:
    return [
        a("create", kind, {}),
        *(a("put", number, {"utube": "x"}) for number in range(3)),
        a("put", 3, {"utube": 1}),
        a("put", 4, {"utube": "1"}),
        a("put", 5),
        a("put", 6, {"utube": "nil"}),
        *(a("take", 0) for _ in range(4)),
        a("ack", 0),
        b("take", 0),
        b("bury", 1),
        b("take", 0),
        b("release", 2),
        a("kick", 1),
        b("take", 0),
        b("delete", 3),
        b("take", 0),
        Begun("a", "take", (5,)),
        Waited(0.1),
        b("ack", 1),
        Ended("a"),
        statistics(),
    ]


def room() -> list[Line]:
    return [
        a("create", "limfifottl", {"capacity": 2}),
        a("put", 0),
        a("put", 1, {"delay": 30}),
        a("put", 2),
        a("put", 2, {"timeout": 0.1}),
        Begun("a", "put", (3, {"timeout": 5})),
        Waited(0.1),
        b("delete", 1),
        Ended("a", differs=NO_ID_TWICE),
        b("put", 4),
        statistics(),
    ]


def sessions() -> list[Line]:
    return [
        a("create", "fifo", {}),
        *(a("put", number) for number in range(4)),
        a("take", 0),
        b("take", 0),
        a("queue.identify"),
        b("queue.identify", LAST_SESSION),
        b("peek", 1),
        b("ack", 0),
        a("take", 0),
        Closed("a"),
        Waited(0.2),
        b("peek", 1),
        b("release", 1),
        Closed("b"),
        Waited(0.2),
        a("peek", 1),
        a("take", 0),
        Begun("b", "take", (5,)),
        Waited(0.1),
        a("drop"),
        Ended("b"),
        b("take", 0),
        Closed("a"),
        Waited(0.2),
        b("take", 0),
        b("truncate"),
        b("ack", 2, differs=FORGOTTEN),
        b("drop", differs=FORGOTTEN),
    ]


def data() -> list[Line]:
    same: list[Any] = [True, False, 0, -1, 2**63, -(2**63), 2**64 - 1, 1.5, "text", "", "\u0416"]
    same += [[], [[]], {}, {"key": [1, None, {}]}, [None]]
    values: list[tuple[Any, str]] = [
        *((value, "") for value in same),
        (1.0, KEPT_AS_IT_IS),
        (b"bytes", ""),
        (b"\xff\x00", KEPT_AS_IT_IS),
    ]
    return [
        a("create", "fifo", {}),
        *(a("put", value, differs=differs) for value, differs in values),
        *(a("take", 0, differs=differs) for _, differs in values),
    ]


SCENES: Final[dict[str, list[Line]]] = {
    **{
        f"{kind}, in every state": reference(kind)
        for kind in ("fifo", "fifottl", "limfifottl", "utube", "utubettl")
    },
    **{f"{kind}, refusals": refusals(kind) for kind in ("fifo", "fifottl", "utube", "utubettl")},
    **{f"{kind}, times": times(kind) for kind in ("fifottl", "utubettl")},
    **{
        f"{kind}, taken over its time": taken_over_its_time(kind)
        for kind in ("fifottl", "utubettl")
    },
    **{f"{kind}, defaults": defaults(kind) for kind in ("fifottl", "limfifottl", "utubettl")},
    **{f"{kind}, lanes": lanes(kind) for kind in ("utube", "utubettl")},
    "limfifottl, room": room(),
    "sessions": sessions(),
    "data": data(),
}
