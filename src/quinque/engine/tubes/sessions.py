"""The sessions that take tasks: what each has taken, and when they end.

Called by   apply.py (tasks are taken and come back), stores (connections come and go).
Calls       nothing.

A session exists while it has a connection, and for `keep_ms` after that. When it ends, its taken
tasks return. The journal records which session has taken a task, and the end of a session whose
tasks return later. A session without taken tasks does not outlive the broker.

Not here: which connection is of which session (server/sessions.py).
"""

from __future__ import annotations

from itertools import islice

from quinque.engine.calendar import Calendar
from quinque.engine.tubes.task import Session
from quinque.model.limits import NEVER_MS


class Sessions:
    def __init__(self) -> None:
        self.by_id: dict[bytes, Session] = {}
        self._ends = Calendar()
        self._ending: dict[Session, None] = {}  # they have ended, and have taken something still

    @property
    def soonest_ms(self) -> int:
        """Return when the next session ends; 0 if tasks of an ended one have yet to return."""
        return 0 if self._ending else self._ends.next_ms

    def of(self, id: bytes) -> Session:
        """The session, which there is from here on."""
        session = self.by_id.get(id)
        if session is None:
            session = self.by_id[id] = Session(id)
        return session

    def is_known(self, id: bytes, now_ms: int) -> bool:
        """Return whether it has a connection, or a client may still rejoin it."""
        session = self.by_id.get(id)
        return session is not None and (session.connections > 0 or session.ends_ms > now_ms)

    def join(self, id: bytes) -> None:
        """Add one connection to the session."""
        session = self.of(id)
        session.connections += 1
        session.ends_ms = NEVER_MS
        self._ending.pop(session, None)

    def leave(self, id: bytes, now_ms: int, keep_ms: int) -> None:
        """Remove one connection of the session; without any, the session ends after `keep_ms`."""
        session = self.by_id.get(id)
        if session is not None and session.connections:
            session.connections -= 1
            if not session.connections:
                self._end_at(session, now_ms + keep_ms)

    def leave_all(self, now_ms: int, keep_ms: int) -> int:
        """Let sessions that were read back and have no connection end after `keep_ms`; return
        how many there are."""
        left = [it for it in self.by_id.values() if not it.connections and it.ends_ms == NEVER_MS]
        for session in left:
            self._end_at(session, now_ms + keep_ms)
        return len(left)

    def ended(self, now_ms: int, most: int) -> list[Session]:
        """Return the first sessions that have ended and still have taken tasks, after a check of up
        to `most`. Ended sessions without tasks are removed."""
        for id in self._ends.take(now_ms, most):
            session = self.by_id.get(id)
            if session is not None and session.ends_ms <= now_ms:
                self._ending[session] = None
        found: list[Session] = []
        for session in list(islice(self._ending, most)):
            if session.held:
                found.append(session)
            else:
                del self._ending[session]
                if self.by_id.get(session.id) is session:
                    del self.by_id[session.id]
        return found

    def set_apart(self, session: Session) -> None:
        """The session has ended, and is not found any more. Its tasks have yet to come back, and a
        new session of that name does not have them."""
        del self.by_id[session.id]
        session.is_apart = True
        session.ends_ms = 0
        self._ending[session] = None

    def _end_at(self, session: Session, ends_ms: int) -> None:
        session.ends_ms = ends_ms
        self._ends.add(ends_ms, session.id)
        self._ends.trim(len(self.by_id), self._end_of)

    def _end_of(self, id: bytes) -> int:
        session = self.by_id.get(id)
        return session.ends_ms if session is not None else NEVER_MS
