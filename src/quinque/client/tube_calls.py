"""Operations on tubes and their tasks, as requests: TUBE.*.

Called by   broker.py, through CALLS of own_calls.py.
Calls       calls.py for the shape of a row.

An operation without a session uses the client's session, which its connections join first. Bodies
in operations are packed as they are stored; on the wire they are plain.

Not here: the Python API of tubes (aio/tubes.py), what a command takes (dialects/tubes.py,
tube_catalog.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgpack

from quinque.client.calls import Call, Request, as_map, asks
from quinque.client.link import Word
from quinque.client.parts import parts
from quinque.errors import BadArgument, NoTask, NotTaken, NoTube
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.task_bodies import from_plain, plain
from quinque.model.tube_ops import CALLS as COUNTED
from quinque.model.tube_ops import (
    FOREVER_MS,
    NO_LANE,
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    KickTasks,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
    TruncateTube,
    TubeSettings,
    TubeView,
)

_STATES: Final[dict[bytes, State | None]] = {
    b"r": State.READY,
    b"~": State.DELAYED,
    b"t": State.LEASED,
    b"!": State.DEAD,
    b"-": None,
}
_WORDS: Final = {
    State.READY: "ready",
    State.DELAYED: "delayed",
    State.LEASED: "taken",
    State.DEAD: "buried",
}
_AS_TUBE: Final = TaskTerms()
_NAMED: Final = frozenset({"ttl", "ttr", "pri", "delay", "utube", "data", "capacity", "width"})


def _make(op: MakeTube) -> Request:
    settings = op.settings
    words: list[Word] = ["TUBE.CREATE", op.queue, op.kind]
    words += ["TEMPORARY"] if settings.is_temporary else []
    words += ["IFNOTEXISTS"] if op.is_idempotent else []
    if settings.ttl_ms < FOREVER_MS:
        words += ["TTL", _seconds(settings.ttl_ms)]
    if settings.ttr_ms != settings.ttl_ms:
        words += ["TTR", _seconds(settings.ttr_ms)]
    if settings.pri:
        words += ["PRI", settings.pri]
    if settings.capacity:
        words += ["CAPACITY", settings.capacity]
    if settings.width != 1:
        words += ["WIDTH", settings.width]
    return [*words, *_options(settings.options)]


def _put(op: PutTasks) -> list[Request]:
    if op.terms == _AS_TUBE and len(op.bodies) > 1:
        bodies = [plain(body) for body in op.bodies]
        return [["TUBE.MPUT", op.queue, *some] for some in parts(bodies)]
    return _put_waiting(op, 0)


def _put_waiting(op: PutTasks, wait_ms: int) -> list[Request]:
    """Make a TUBE.PUT for each task, because each has its own options."""
    terms, words = op.terms, list[Word]()
    words += _span("TTL", terms.ttl_ms) + _span("TTR", terms.ttr_ms)
    words += ["PRI", terms.pri] if terms.pri is not None else []
    words += ["DELAY", _seconds(terms.delay_ms)] if terms.delay_ms else []
    words += ["UTUBE", terms.lane] if terms.lane != NO_LANE else []
    words += ["TIMEOUT", _seconds(wait_ms)] if wait_ms else []
    words += _options(terms.options)
    return [["TUBE.PUT", op.queue, plain(body), *words] for body in op.bodies]


def _put_done(op: PutTasks, replies: list[Any]) -> list[TaskView]:
    if op.terms == _AS_TUBE and len(op.bodies) > 1:
        return [_task(each) for reply in replies for each in reply]
    return [_task(reply) for reply in replies if reply is not None]


def _take(op: TakeTasks) -> list[Request]:
    return _take_waiting(op, 0)


def _take_waiting(op: TakeTasks, wait_ms: int) -> list[Request]:
    _is_own(op, op.session, op.sessions)
    lane: Request = [] if op.lane is None else ["LANE", op.lane]
    return [["TUBE.TAKE", op.queue, _seconds(wait_ms), *lane, "COUNT", op.count]]


def _taken(op: TakeTasks, replies: list[Any]) -> list[TaskView]:
    return [_task(each) for each in replies[0] or ()]


def _ack(op: AckTasks) -> list[Request]:
    _is_own(op, op.session, op.sessions)
    return [["TUBE.ACK", op.queue, *some] for some in parts(op.message_ids)]


def _release(op: ReleaseTasks) -> list[Request]:
    _is_own(op, op.session)
    words = list[Word]()
    words += ["DELAY", _seconds(op.delay_ms)] if op.delay_ms else []
    words += ["PRI", op.pri] if op.pri is not None else []
    words += _span("TTL", op.ttl_ms)
    words += ["DATA", plain(op.body)] if op.body is not None else []
    words += _options(op.options)
    return [["TUBE.RELEASE", op.queue, id, *words] for id in op.message_ids]


def _touch(op: TouchTasks) -> list[Request]:
    _is_own(op, op.session)
    return [["TUBE.TOUCH", op.queue, id, _seconds(op.by_ms)] for id in op.message_ids]


def _peek(op: PeekTasks) -> list[Request]:
    return [["TUBE.PEEK", op.queue, id] for id in op.message_ids]


def _browse(op: BrowseTasks) -> list[Request]:
    return [["TUBE.BROWSE", op.queue, "STATE", _WORDS[op.state], "COUNT", op.count]]


def _browsed(op: BrowseTasks, replies: list[Any]) -> list[TaskView]:
    return [_task(each) for each in replies[0]]


def _bury(op: BuryTasks) -> list[Request]:
    return [["TUBE.BURY", op.queue, id] for id in op.message_ids]


def _delete(op: DeleteTasks) -> list[Request]:
    return [["TUBE.DELETE", op.queue, *some] for some in parts(op.message_ids)]


def _kick(op: KickTasks) -> list[Request]:
    if op.message_ids is None:
        return [["TUBE.KICK", op.queue, op.count]]
    if not op.message_ids:
        return [["TUBE.KICK", op.queue, 0]]
    return [["TUBE.KICK", op.queue, "IDS", *some] for some in parts(op.message_ids)]


def _kicked(op: KickTasks, replies: list[int]) -> int:
    return sum(replies)


def _each(op: Op, replies: list[Any]) -> list[TaskView | None]:
    """Return the reply for each id. Each request has one id."""
    return [None if reply is None else _task(reply) for reply in replies]


def _each_of_parts(op: AckTasks | DeleteTasks, replies: list[Any]) -> list[TaskView | None]:
    """Return the same for requests with many ids: the reply to a request with one id is not a
    list."""
    found: list[TaskView | None] = []
    for some, reply in zip(parts(op.message_ids), replies, strict=True):
        found += _each(op, [reply] if len(some) == 1 else reply)
    return found


def _look_at(op: LookAtTube) -> list[Request]:
    return [["TUBE.LIST", op.queue], ["TUBE.STATS", op.queue]]


def _looked_at(op: LookAtTube, replies: list[Any]) -> TubeView | None:
    described, statistics = replies
    for told in map(as_map, described):
        if told[b"name"] == op.queue and statistics is not None:
            return _tube(told, as_map(statistics))
    return None


def _find_tubes(op: FindTubes) -> list[Request]:
    return [["TUBE.LIST"], ["TUBE.STATS"]]


def _tubes(op: FindTubes, replies: list[Any]) -> list[TubeView]:
    described, counted = replies
    statistics = as_map(counted)
    return [
        _tube(told, as_map(statistics[told[b"name"]]))
        for told in map(as_map, described)
        if told[b"name"] in statistics
    ]


def _tube(told: dict[bytes, Any], statistics: dict[bytes, Any]) -> TubeView:
    tasks, calls = as_map(statistics[b"tasks"]), as_map(statistics[b"calls"])
    return TubeView(
        told[b"name"],
        told[b"kind"],
        TubeSettings(
            ttl_ms=_told_ms(told, b"ttl"),
            ttr_ms=_told_ms(told, b"ttr"),
            pri=told.get(b"pri", 0),
            capacity=told.get(b"capacity", 0),
            width=told.get(b"width", 1),
            is_temporary=bool(told[b"temporary"]),
            options=told.get(b"options", b""),
        ),
        tasks[b"ready"],
        tasks[b"taken"],
        tasks[b"delayed"],
        tasks[b"buried"],
        tasks[b"done"],
        [calls[name.encode()] for name in COUNTED],
        bool(told[b"asleep"]),
    )


def _told_ms(told: dict[bytes, Any], name: bytes) -> int:
    """Read a time in milliseconds. Null means no limit, or that the tube type does not have it."""
    seconds = told.get(name)
    return FOREVER_MS if seconds is None else round(float(seconds) * 1000)


def _task(reply: Any) -> TaskView:
    id, letter, data = reply
    return TaskView(b"%d" % id, _STATES[letter], from_plain(data))


def _options(packed: bytes) -> list[Word]:
    """Return the options that only a driver reads. The broker reads all others."""
    said: Mapping[str, Any] = msgpack.unpackb(packed) if packed else {}
    words = list[Word]()
    for name, value in said.items():
        if name not in _NAMED:
            words += ["OPTION", name, value if isinstance(value, bytes | str) else str(value)]
    return words


def _span(word: str, span_ms: int | None) -> list[Word]:
    return [] if span_ms is None else [word, _seconds(span_ms)]


def _seconds(span_ms: int) -> str:
    return f"{span_ms // 1000}.{span_ms % 1000:03}"


def _is_own(op: Op, session: bytes, sessions: Sequence[bytes] = ()) -> None:
    if session or sessions:
        raise BadArgument(f"{type(op).__name__} over the wire is of the client's own session")


def _true(reply: Any) -> bool:
    return True


CALLS: Final[dict[type[Op], Call]] = {
    # An existing tube is not changed, if the request says so.
    MakeTube: asks(_make, bool, is_safe=False)._replace(is_safe=lambda op: op.is_idempotent),
    # Tasks that the session no longer holds are not changed, and reported as not taken.
    AckTasks: Call(_ack, _each_of_parts, is_safe=True, absent=NotTaken, is_of_session=True),
    # A repeat would put or deliver more tasks than requested.
    PutTasks: Call(_put, _put_done, is_safe=False, waiting=_put_waiting),
    TakeTasks: Call(_take, _taken, is_safe=False, waiting=_take_waiting, is_of_session=True),
    # Another thread of the same session may have the task by now.
    ReleaseTasks: Call(_release, _each, is_safe=False, absent=NotTaken, is_of_session=True),
    # A repeat would extend the time twice.
    TouchTasks: Call(_touch, _each, is_safe=False, absent=NotTaken, is_of_session=True),
    # Another client may have kicked the task, or created the tube again with ids from 0.
    BuryTasks: Call(_bury, _each, is_safe=False, absent=NoTask),
    DeleteTasks: Call(_delete, _each_of_parts, is_safe=False, absent=NoTask),
    DropTube: asks(lambda op: ["TUBE.DROP", op.queue], _true, is_safe=False),
    # There may be more of them by now.
    KickTasks: Call(_kick, _kicked, is_safe=False),
    ReturnTasks: asks(lambda op: ["TUBE.RELEASEALL", op.queue], int, is_safe=False),
    TruncateTube: asks(lambda op: ["TUBE.TRUNCATE", op.queue], int, is_safe=False),
    # The other operations change nothing.
    PeekTasks: Call(_peek, _each, is_safe=True, absent=NoTask),
    BrowseTasks: Call(_browse, _browsed, is_safe=True),
    LookAtTube: Call(_look_at, _looked_at, is_safe=True, absent=NoTube),
    FindTubes: Call(_find_tubes, _tubes, is_safe=True),
}
