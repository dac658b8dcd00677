"""The operations on tubes and their tasks, as steps.

Called by   runners.py.
Calls       the scripts tube_…, sessions.py (who takes; what those had taken that are gone).

A tube lies in the slot of its name. Inside Redis an id has 16 digits, so that ids sort as numbers.
A temporary tube is like any other: Redis keeps it as long as it keeps anything. There are no tubes
of drivers, whose code Redis cannot run.

Not here: what a script does (scripts/), sessions (sessions.py), tubes as a whole (tube_looks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.errors import NoTube, QuinqueError, TouchRefused
from quinque.model.families import TUBES
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST, SETTLE_MOST_COUNTING
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.tube_ops import (
    FOREVER_MS,
    NO_LANE,
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    KickTasks,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskView,
    TouchTasks,
)
from quinque.model.tube_terms import refuse_unknown_terms
from quinque.stores.redis import sessions
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of

_ID_DIGITS: Final = 16
_KICK_MOST: Final = 1_000  # tasks that one call moves: some 10 ms
_SLICE_MOST: Final = 500  # tasks that one call shows: 2 to 5 ms
_TAKE_MOST: Final = 2_000  # tasks that one call hands out: some 10 ms
_WORDS_MOST: Final = 1_000  # ids, or ids and sessions, that one call is about: some 10 ms
_NO_LIMIT: Final = 1 << 53
_AGAIN: Final = 1  # what a script answers when it has only removed expired tasks
# The states by their names in scripts. A removed task has no state.
_STATES: Final[dict[bytes, State | None]] = {
    **{state.name.lower().encode(): state for state in State},
    b"gone": None,
}


def tube_call(
    script: str, queue: bytes, edge: Edge, *rest: Arg, settle_most: int = SETTLE_MOST
) -> Call:
    """A script about one tube."""
    begin: list[Arg] = [TUBES.code, edge.now_ms(), queue, settle_most]
    return Call(script, [slot_key(slot_of(queue))], [*begin, *rest])


def ask(script: str, queue: bytes, edge: Edge, *rest: Arg, settle_most: int = SETTLE_MOST) -> Steps:
    """Return the answer of the script, after the tasks of ended sessions have returned.

    Raises NoTube.
    """
    yield from sessions.settled(edge)
    try:
        (reply,) = yield [tube_call(script, queue, edge, *rest, settle_most=settle_most)]
    except NoTube as error:
        raise NoTube(queue) from error
    return reply


def _ask_until_done(script: str, queue: bytes, edge: Edge, *rest: Arg) -> Steps:
    """As ask(); a script that had to remove more expired tasks than one call may is called
    again."""
    reply = _AGAIN
    while reply == _AGAIN:
        reply = yield from ask(script, queue, edge, *rest)
    return reply


def _ask_for_each(
    script: str, queue: bytes, edge: Edge, begin: Sequence[Arg], words: Sequence[Arg]
) -> Steps:
    """Call the script with some of these arguments at a time, and return all answers. If an answer
    is not a list, return that."""
    answered: list[Any] = []
    for at in range(0, len(words) or 1, _WORDS_MOST):
        reply = yield from ask(script, queue, edge, *begin, *words[at : at + _WORDS_MOST])
        if not isinstance(reply, list):
            return reply
        answered += reply
    return answered


def put(op: PutTasks, edge: Edge) -> Steps:
    terms = op.terms
    refuses = b""
    if op.is_strict:
        said = (terms.ttl_ms, terms.ttr_ms, terms.pri, terms.delay_ms or None)
        refuses = (b"t" if any(it is not None for it in said) else b"") + (
            b"l" if terms.lane != NO_LANE else b""
        )
    argv: list[Arg] = [
        *(_clamped(terms.ttl_ms), _clamped(terms.ttr_ms), _or_nothing(terms.pri)),
        *(min(terms.delay_ms, FOREVER_MS), terms.lane, refuses),
        *op.bodies,
    ]
    reply = yield from _ask_until_done("tube_put", op.queue, edge, *argv)
    _refuse(op, reply)
    number, count, is_delayed = reply
    state = State.DELAYED if is_delayed else State.READY
    return [
        TaskView(b"%d" % (number + at), state, body) for at, body in enumerate(op.bodies[:count])
    ]


def take(op: TakeTasks, edge: Edge) -> Steps:
    for session in dict.fromkeys(op.sessions or [op.session]):
        yield from sessions.known(session, slot_of(op.queue), edge)
    most = max(0, min(len(op.sessions) or op.count, RESERVE_MOST))
    room_bytes = RESERVE_MOST_BYTES
    given: list[TaskView] = []
    while True:
        asked = min(most - len(given), _TAKE_MOST)
        argv: list[Arg] = [
            *(op.session, asked, room_bytes),
            *(int(op.lane is not None), op.lane or b""),
            *(b"l" if op.is_strict and op.lane is not None else b"", int(edge.follows)),
            *op.sessions[len(given) : len(given) + asked],
        ]
        try:
            reply = yield from _ask_until_done("tube_take", op.queue, edge, *argv)
        except QuinqueError:
            if given:  # they are taken, though a later call failed
                return given
            raise
        _refuse(op, reply)
        for key, body in zip(reply[::2], reply[1::2], strict=True):
            given.append(TaskView(shown_id(key), State.LEASED, body))
            room_bytes -= len(body)
        if len(reply) < 2 * asked or len(given) == most or room_bytes <= 0:
            return given


def ack(op: AckTasks, edge: Edge) -> Steps:
    ids = op.message_ids
    keys = _keys(ids)
    sessions_of = op.sessions or [op.session] * len(ids)
    claims: Sequence[tuple[bytes, bytes]] = list(zip(ids, sessions_of, strict=True))
    asked = claims
    if len(keys) < len(ids):  # one is named again, or cannot be
        asked = [claim for claim in dict.fromkeys(claims) if claim[0] in keys]
    argv: list[Arg] = [it for id, session in asked for it in (keys[id], session)]
    bodies = yield from _ask_for_each("tube_finish", op.queue, edge, [1], argv)
    views = [
        None if body is None else TaskView(id, None, body)
        for (id, _), body in zip(asked, bodies, strict=True)
    ]
    if asked is claims:
        return views
    acked = dict(zip(asked, views, strict=True))
    return [acked.pop(claim, None) for claim in claims]


def delete(op: DeleteTasks, edge: Edge) -> Steps:
    keys = _keys(op.message_ids)
    bodies = yield from _ask_for_each("tube_finish", op.queue, edge, [0], list(keys.values()))
    views = _views(keys, bodies, None)
    return [views.pop(id, None) for id in op.message_ids]


def release(op: ReleaseTasks, edge: Edge) -> Steps:
    keys = _keys(op.message_ids)
    said = (op.delay_ms or None, op.pri, op.ttl_ms)
    refuses = b"t" if op.is_strict and any(it is not None for it in said) else b""
    argv: list[Arg] = [
        *(op.session, min(op.delay_ms, FOREVER_MS)),
        *(_or_nothing(op.pri), _clamped(op.ttl_ms)),
        *(int(op.body is not None), op.body or b"", refuses),
    ]
    reply = yield from _ask_for_each("tube_release", op.queue, edge, argv, list(keys.values()))
    _refuse(op, reply)
    views = _views_of(keys, reply)
    return [views.pop(id, None) for id in op.message_ids]


def touch(op: TouchTasks, edge: Edge) -> Steps:
    keys = _keys(op.message_ids)
    by_ms = min(op.by_ms, FOREVER_MS)
    if by_ms <= 0:
        yield from ask("tube_peek", op.queue, edge, _NO_LIMIT)
        return [None] * len(op.message_ids)
    argv: list[Arg] = [op.session, by_ms]
    reply = yield from _ask_for_each("tube_touch", op.queue, edge, argv, list(keys.values()))
    if isinstance(reply, bytes):
        raise TouchRefused(reply)
    views = _views(keys, reply, State.LEASED)
    return [views.get(id) for id in op.message_ids]


def peek(op: PeekTasks, edge: Edge) -> Steps:
    keys = _keys(op.message_ids)
    ids = list(keys.values())
    reply = yield from _ask_for_each("tube_peek", op.queue, edge, [_NO_LIMIT], ids)
    views = _views_of(keys, reply)
    return [views.get(id) for id in op.message_ids]


def browse(op: BrowseTasks, edge: Edge) -> Steps:
    """Find the ids in one call; then read, slice by slice, those that are still in that state."""
    argv: list[Arg] = [op.state.name.lower().encode(), max(1, min(op.count, RESERVE_MOST))]
    found: list[bytes] = yield from ask(
        "tube_browse", op.queue, edge, *argv, settle_most=SETTLE_MOST_COUNTING
    )
    views: list[TaskView] = []
    at, room_bytes = 0, RESERVE_MOST_BYTES
    while at < len(found) and room_bytes > 0:
        some = found[at : at + _SLICE_MOST]
        reply = yield from ask("tube_peek", op.queue, edge, room_bytes, *some)
        looked = len(reply) // 2
        at += looked
        for view in _views_of({shown_id(key): key for key in some[:looked]}, reply).values():
            if view.state == op.state:
                views.append(view)
                room_bytes -= len(view.body)
    return views


def bury(op: BuryTasks, edge: Edge) -> Steps:
    keys = _keys(op.message_ids)
    bodies = yield from _ask_for_each("tube_bury", op.queue, edge, [], list(keys.values()))
    views = _views(keys, bodies, State.DEAD)
    return [views.get(id) for id in op.message_ids]


def kick(op: KickTasks, edge: Edge) -> Steps:
    kicked = 0
    if op.message_ids is not None:
        keys = list(_keys(op.message_ids).values())
        for at in range(0, len(keys) or 1, _KICK_MOST):
            some, _ = yield from ask("tube_kick", op.queue, edge, b"", *keys[at : at + _KICK_MOST])
            kicked += some
        return kicked
    while True:
        most = max(0, min(op.count - kicked, _KICK_MOST))
        some, is_cut = yield from ask("tube_kick", op.queue, edge, most)
        kicked += some
        if some < _KICK_MOST and not is_cut:
            return kicked


def return_tasks(op: ReturnTasks, edge: Edge) -> Steps:
    returned, left = yield from ask("tube_return", op.queue, edge, _KICK_MOST)
    # As many as were taken at first: consumers may take them again, without an end.
    total = returned + left
    while left and returned < total:
        most = min(_KICK_MOST, total - returned)
        some, left = yield from ask("tube_return", op.queue, edge, most)
        returned += some
    return returned


def task_key(id: bytes) -> bytes:
    """As which Redis has the task of that id."""
    return id.zfill(_ID_DIGITS)


def shown_id(key: bytes) -> bytes:
    """The id of the task that Redis has as this."""
    return key.lstrip(b"0") or b"0"


def _keys(ids: Sequence[bytes]) -> dict[bytes, bytes]:
    """As which Redis has these tasks, each once; what cannot be an id is left out."""
    return {
        id: task_key(id)
        for id in ids
        if id.isdigit() and len(id) < _ID_DIGITS and (id == b"0" or id[:1] != b"0")
    }


def _clamped(span_ms: int | None) -> Arg:
    return b"" if span_ms is None else max(0, min(span_ms, FOREVER_MS))


def _or_nothing(value: int | None) -> Arg:
    return b"" if value is None else value


def _refuse(op: PutTasks | TakeTasks | ReleaseTasks, reply: Any) -> None:
    """Raises BadArgument when the script answered with the tube's kind."""
    if isinstance(reply, bytes):
        refuse_unknown_terms(op, reply)


def _views(
    keys: dict[bytes, bytes], bodies: Sequence[bytes | None], state: State | None
) -> dict[bytes, TaskView]:
    return {
        id: TaskView(id, state, body)
        for id, body in zip(keys, bodies, strict=True)
        if body is not None
    }


def _views_of(keys: dict[bytes, bytes], reply: Sequence[bytes | None]) -> dict[bytes, TaskView]:
    """The views from the reply of a script: the state and the body of each task."""
    views: dict[bytes, TaskView] = {}
    for id, state, body in zip(keys, reply[::2], reply[1::2], strict=True):
        if state is not None and body is not None:
            views[id] = TaskView(id, _STATES[state], body)
    return views


RUNNERS: Final[dict[type[Op], Runner]] = {
    PutTasks: put,
    TakeTasks: take,
    AckTasks: ack,
    DeleteTasks: delete,
    ReleaseTasks: release,
    TouchTasks: touch,
    PeekTasks: peek,
    BrowseTasks: browse,
    BuryTasks: bury,
    KickTasks: kick,
    ReturnTasks: return_tasks,
}
