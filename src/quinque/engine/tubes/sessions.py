"""Who takes: sessions, what each has taken, and when they end.

Called by   apply.py (tasks are taken and come back), stores (connections come and go).
Calls       nothing.

A session lives as long as a connection is of it, and for as long after as it is kept then. What it
has taken when it ends comes back. Nothing of it is journaled but who has taken a task: a session
that has taken nothing does not outlive the broker.

Not here: which connection is of which session (server/sessions.py).
"""

from __future__ import annotations

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
        """When the next one ends; 0 when what it has taken has yet to come back."""
        return 0 if self._ending else self._ends.next_ms

    def of(self, id: bytes) -> Session:
        """The session, which there is from here on."""
        session = self.by_id.get(id)
        if session is None:
            session = self.by_id[id] = Session(id)
        return session

    def is_known(self, id: bytes, now_ms: int) -> bool:
        """Whether a connection is of it, or one may still come back to it."""
        session = self.by_id.get(id)
        return session is not None and (session.connections > 0 or session.ends_ms > now_ms)

    def join(self, id: bytes) -> None:
        """One more connection is of the session."""
        session = self.of(id)
        session.connections += 1
        session.ends_ms = NEVER_MS
        self._ending.pop(session, None)

    def leave(self, id: bytes, now_ms: int, keep_ms: int) -> None:
        """One connection fewer is of the session; it ends when there is none for so long."""
        session = self.by_id.get(id)
        if session is not None and session.connections:
            session.connections -= 1
            if not session.connections:
                self._end_at(session, now_ms + keep_ms)

    def leave_all(self, now_ms: int, keep_ms: int) -> int:
        """Sessions that were read back, and that nobody is of, end then; how many there are."""
        left = [it for it in self.by_id.values() if not it.connections and it.ends_ms == NEVER_MS]
        for session in left:
            self._end_at(session, now_ms + keep_ms)
        return len(left)

    def ended(self, now_ms: int) -> list[Session]:
        """The sessions that have ended, and have taken something still."""
        while self._ends.next_ms <= now_ms:
            for id in self._ends.take(now_ms, 1000):
                session = self.by_id.get(id)
                if session is not None and session.ends_ms <= now_ms:
                    self._ending[session] = None
        for session in list(self._ending):
            if not session.held:
                del self._ending[session]
                self.by_id.pop(session.id, None)
        return list(self._ending)

    def _end_at(self, session: Session, ends_ms: int) -> None:
        session.ends_ms = ends_ms
        self._ends.add(ends_ms, session.id)
