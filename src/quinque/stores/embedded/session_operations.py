"""Operations on the sessions that take tasks: connections join them and leave them.

Called by   store.py.
Calls       tubes.py (what a session had taken comes back), engine/tubes/sessions.py (rules).

A task is on record with the session that has taken it. The end of a session is on record if its
tasks come back later.

Not here: which connection is of which session (server/sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quinque.errors import NoSession
from quinque.model.tube_ops import (
    RETURNED_AT_ONCE_MOST,
    JoinSession,
    LeaveSession,
    LeaveSessions,
)
from quinque.stores.embedded.tubes import Tubes


class SessionOperations:
    def __init__(self, tubes: Tubes) -> None:
        self._tubes = tubes
        self._sessions = tubes.sessions
        self.runners: dict[type, Callable[[Any], Any]] = {
            JoinSession: self._join,
            LeaveSession: self._leave,
            LeaveSessions: self._leave_all,
        }

    def _join(self, op: JoinSession) -> None:
        now_ms = self._tubes.begin()
        if not self._sessions.is_known(op.session, now_ms):
            if not op.is_new:
                raise NoSession(op.session)
            ended = self._sessions.by_id.get(op.session)
            if ended is not None:  # one of that name has yet to give back what it had taken
                self._tubes.set_apart(ended)
        self._sessions.join(op.session)

    def _leave(self, op: LeaveSession) -> None:
        now_ms = self._tubes.begin()
        self._sessions.leave(op.session, now_ms, op.keep_ms)
        self._end_due(now_ms)

    def _leave_all(self, op: LeaveSessions) -> int:
        now_ms = self._tubes.begin()
        count = self._sessions.leave_all(now_ms, op.keep_ms)
        self._end_due(now_ms)
        return count

    def _end_due(self, now_ms: int) -> None:
        if self._sessions.soonest_ms <= now_ms:
            self._tubes.end_sessions(now_ms, RETURNED_AT_ONCE_MOST)
