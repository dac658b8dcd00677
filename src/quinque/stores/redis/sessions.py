"""The sessions that take tasks, as steps: their connections at each broker, and how they end.

Called by   runners.py, served.py (beats once a second, and a last word), ticks.py (what is due),
            tubes.py (who takes).
Calls       the scripts session_…, tube_give_back and tube_takers.

All sessions lie in one place, because a connection joins one once: how many connections each has,
at which broker; when sessions without connections end; when each broker was last seen. A broker
that stops its heartbeat loses its sessions. The first other broker that notices this writes it.

The tasks that a session has taken are listed slot by slot, and so come back slot by slot. Until all
are back, the session is among those that have ended: if a broker stops half-way, another goes on.
Each broker knows in which slots its own sessions took something. For a session that was joined at
several brokers, or whose broker is gone, every slot is asked.

    connection gone ─► session_leave ─► left (by when it ends) ─► tube_give_back, each slot
                                              ▲                          │
    broker is silent ────► session_beat ──────┘        session_ended ◄───┘

Tasks of an unknown session (a broker took them after it was given up, and died) are found by
looking at what is taken in each slot, once in a while.

Not here: which connection is of which session (server/sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from quinque.errors import NoSession, NotDone, QuinqueError, StoreUnavailable
from quinque.model.families import TUBES
from quinque.model.limits import NODE_FAILED_MS, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.tube_ops import JoinSession, LeaveSession, LeaveSessions
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.keys import SESSIONS, slot_key
from quinque.stores.redis.slots import known_slots

if TYPE_CHECKING:
    from quinque.stores.redis.edge import Edge

_BACK_MOST: Final = 500  # tasks returned by one call: some 10 ms
_ENDED_MOST: Final = 100  # sessions that are looked at together
_LOST_MOST: Final = 2_000  # sessions that lose a broker by one call: some 10 ms
_TAKERS_MOST: Final = 1_000  # of a slot, looked at together


def join(op: JoinSession, edge: Edge) -> Steps:
    own = edge.sessions
    own.join(op.session)
    argv: list[Arg] = [edge.now_ms(), own.broker(edge.chance), op.session, int(op.is_new)]
    try:
        while True:
            (ended_ms,) = yield [Call("session_join", [SESSIONS], [*argv, own.keep_ms])]
            if ended_ms is None:
                return
            yield from _end(op.session, int(ended_ms), None, edge)
    except QuinqueError as error:
        own.is_doubted = True
        own.leave(op.session)
        own.ended(op.session)
        if isinstance(error, NoSession):
            raise NoSession(op.session) from error
        raise


def leave(op: LeaveSession, edge: Edge) -> Steps:
    own = edge.sessions
    own.keep_ms = op.keep_ms
    if not own.leave(op.session):
        return
    now_ms = edge.now_ms()
    argv: list[Arg] = [now_ms, own.broker(edge.chance), op.session, op.keep_ms]
    try:
        (reply,) = yield [Call("session_leave", [SESSIONS], argv)]
        ends_ms, is_shared = reply
        if 0 <= ends_ms <= now_ms:
            yield from _end(op.session, ends_ms, own.slots_of(op.session, is_shared), edge)
        else:
            own.keep(op.session, ends_ms)
    except (NotDone, StoreUnavailable):
        # A second attempt would count a second connection. The next beat tells Redis who is left,
        # and a later tick ends what has to end.
        own.is_doubted = True


def leave_sessions(op: LeaveSessions, edge: Edge) -> Steps:
    """Set when sessions end whose store was closed without a `keep_ms`. Sessions of other brokers
    are not changed: each broker leaves its own."""
    edge.sessions.keep_ms = op.keep_ms
    (count,) = yield [Call("session_keep", [SESSIONS], [edge.now_ms() + op.keep_ms])]
    if count:
        yield from settled(edge)
    return count


def known(session: bytes, slot: int, edge: Edge) -> Steps:
    """The session is one of this broker's, and may take something in the slot."""
    own = edge.sessions
    if not own.is_of(session):
        # That it was joined was not heard: Redis was not reached then.
        yield from join(JoinSession(session, is_new=True), edge)
    own.took(session, slot)


def settled(edge: Edge) -> Steps:
    """Bring back the tasks of sessions that have ended, if Redis can be reached."""
    if edge.alarms.is_due(SESSIONS, edge.now_ms()):
        try:
            yield from settle(edge)
        except (NotDone, StoreUnavailable):
            pass  # the next tick does it


def settle(edge: Edge) -> Steps:
    """Bring back the tasks of sessions that have ended."""
    own = edge.sessions
    if own.is_settling:
        return
    own.is_settling = True
    try:
        while True:
            (rows,) = yield [Call("session_due", [SESSIONS], [edge.now_ms(), _ENDED_MOST])]
            for session, ended_ms, is_shared in rows:
                slots = own.slots_of(session, is_shared)
                yield from _end(session, int(ended_ms), slots, edge)
            if not rows:
                return
    finally:
        own.is_settling = False


def beat(edge: Edge) -> Steps:
    """Send the heartbeat of this broker's sessions, and correct its sessions in Redis if needed."""
    own = edge.sessions
    broker = own.broker(edge.chance)
    argv: list[Arg] = [edge.now_ms(), broker, own.keep_ms, own.total, NODE_FAILED_MS, _LOST_MOST]
    (is_known,) = yield [Call("session_beat", [SESSIONS], argv)]
    if not is_known or own.is_doubted:
        own.is_doubted = False
        try:
            yield [_rejoin(edge, own.keep_ms)]
        except QuinqueError:
            own.is_doubted = True
            raise
    own.trim(edge.now_ms())


def retire(edge: Edge) -> Steps:
    """Remove all connections of this broker from their sessions."""
    if edge.sessions.total:
        edge.sessions.forget()
        yield [_rejoin(edge, edge.sessions.keep_ms)]
        yield from settle(edge)


def part(edge: Edge) -> Steps:
    """As if this broker had gone without a word, and that had been noticed just now."""
    if edge.sessions.total:
        edge.sessions.forget()
        yield [_rejoin(edge, None)]


def look_for_lost(slots: Iterable[int], edge: Edge) -> Steps:
    """Find sessions that have taken something in these slots and are unknown to all brokers; they
    end soon, unless a broker joins them."""
    found = yield [Call("tube_takers", [slot_key(slot)], [_TAKERS_MOST]) for slot in slots]
    sessions = {session for some in found for session in some}
    unknown = [session for session in sessions if not edge.sessions.is_of(session)]
    if unknown:
        ends_ms = edge.now_ms() + NODE_FAILED_MS
        yield [Call("session_check", [SESSIONS], [ends_ms, *unknown])]


def _end(session: bytes, ended_ms: int, slots: Sequence[int] | None, edge: Edge) -> Steps:
    """Bring back what the session had taken by then, in these slots; None = in all known slots."""
    if slots is None:
        slots = yield from known_slots(edge)
    argv: list[Arg] = [TUBES.code, edge.now_ms(), SETTLE_MOST, session, ended_ms, _BACK_MOST]
    calls = [Call("tube_give_back", [slot_key(slot)], argv) for slot in slots]
    while calls:
        replies = yield calls
        calls = [call for call, is_more in zip(calls, replies, strict=True) if is_more]
    yield [Call("session_ended", [SESSIONS], [session, ended_ms])]
    edge.sessions.ended(session)


def _rejoin(edge: Edge, keep_ms: int | None) -> Call:
    own = edge.sessions
    argv: list[Arg] = [edge.now_ms(), own.broker(edge.chance)]
    argv += [NODE_FAILED_MS, 0] if keep_ms is None else [keep_ms, 1]
    for session, count in own.counts():
        argv += [session, count]
    return Call("session_rejoin", [SESSIONS], argv)


RUNNERS: Final[dict[type[Op], Runner]] = {
    JoinSession: join,
    LeaveSession: leave,
    LeaveSessions: leave_sessions,
}
