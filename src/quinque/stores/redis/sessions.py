"""The sessions that take tasks, as steps: who is of which, at which broker, and what ends with one.

Called by   runners.py, served.py (beats once a second, and a last word), ticks.py (what is due),
            tubes.py (who takes).
Calls       the scripts session_…, tube_give_back and tube_takers.

All sessions lie in one place, for a connection joins one once: how many connections are of each, at
which broker; when those end that nobody is of; when each broker was last heard of. A broker that is
not heard of any more is of no session, and whichever other one notices that says so.

What a session has taken lies with the tasks, slot by slot, and so comes back slot by slot. Until it
has, everywhere, the session is among those that have ended: whoever ends half of it is followed by
another. Each broker knows where its own sessions took something; of a session that was joined at
several, or whose broker is gone, every slot is asked.

    connection gone ─► session_leave ─► left (by when it ends) ─► tube_give_back, each slot
                                              ▲                          │
    broker not heard of ─► session_beat ──────┘        session_ended ◄───┘

Tasks whose session nobody knows (a broker took them after it was given up, and died) are found by
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
        own.leave(op.session)
        own.ended(op.session)
        raise (NoSession(op.session) if isinstance(error, NoSession) else error) from error


def leave(op: LeaveSession, edge: Edge) -> Steps:
    own = edge.sessions
    own.keep_ms = op.keep_ms
    if not own.leave(op.session):
        return
    now_ms = edge.now_ms()
    argv: list[Arg] = [now_ms, own.broker(edge.chance), op.session, op.keep_ms]
    (reply,) = yield [Call("session_leave", [SESSIONS], argv)]
    ends_ms, is_shared = reply
    if 0 <= ends_ms <= now_ms:
        yield from _end(op.session, ends_ms, own.slots_of(op.session, is_shared), edge)
    else:
        own.keep(op.session, ends_ms)


def leave_sessions(op: LeaveSessions, edge: Edge) -> Steps:
    """What other brokers are of is theirs to leave. But a store that was closed with sessions, and
    that nobody told how long those are kept, has left them for this one to say it of."""
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
    """What sessions had taken that ended by now has come back, if it can be done."""
    if edge.alarms.is_due(SESSIONS, edge.now_ms()):
        try:
            yield from settle(edge)
        except (NotDone, StoreUnavailable):
            pass  # the next tick does it


def settle(edge: Edge) -> Steps:
    """What sessions had taken that ended by now has come back."""
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
    """The others know that this broker's sessions have it, and its sessions are known to be so."""
    own = edge.sessions
    broker = own.broker(edge.chance)
    argv: list[Arg] = [edge.now_ms(), broker, own.keep_ms, own.total, NODE_FAILED_MS, _LOST_MOST]
    (is_known,) = yield [Call("session_beat", [SESSIONS], argv)]
    if not is_known:
        yield [_rejoin(edge, own.keep_ms)]
    own.trim(edge.now_ms())


def retire(edge: Edge) -> Steps:
    """Nobody is of a session through this broker any more."""
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
    """Of the sessions that have taken something in these slots, those that nobody knows end soon,
    if it stays so."""
    found = yield [Call("tube_takers", [slot_key(slot)], [_TAKERS_MOST]) for slot in slots]
    sessions = {session for some in found for session in some}
    unknown = [session for session in sessions if not edge.sessions.is_of(session)]
    if unknown:
        ends_ms = edge.now_ms() + NODE_FAILED_MS
        yield [Call("session_check", [SESSIONS], [ends_ms, *unknown])]


def _end(session: bytes, ended_ms: int, slots: Sequence[int] | None, edge: Edge) -> Steps:
    """What the session had taken then has come back, in these slots, or wherever it may be."""
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
