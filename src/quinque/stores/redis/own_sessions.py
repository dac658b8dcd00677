"""The sessions of this broker: the number of connections of each, and the slots in which it has
taken tasks.

Called by   sessions.py.
Calls       nothing.

Not here: what all brokers know of sessions, which is in Redis (sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from quinque.stores.chance import Chance

_ID_BYTES: Final = 16
_LATE_MS: Final = 60_000  # no broker takes longer to end a session


class OwnSessions:
    def __init__(self) -> None:
        self.keep_ms = 0  # how long a session without a connection is kept
        self.is_settling = False
        self.is_doubted = False  # Redis may know other counts: the next beat corrects them
        self._broker = b""
        self._connections: dict[bytes, int] = {}
        self._slots: dict[bytes, set[int]] = {}  # where each took something through this broker
        self._kept: dict[bytes, int] = {}  # when those end that were left here last

    def broker(self, chance: Chance) -> bytes:
        """This broker, since it was started: one that is started again is another."""
        if not self._broker:
            self._broker = chance.take(_ID_BYTES).hex().encode()
        return self._broker

    @property
    def total(self) -> int:
        """Return how many connections have a session."""
        return sum(self._connections.values())

    def counts(self) -> Iterable[tuple[bytes, int]]:
        return self._connections.items()

    def is_of(self, session: bytes) -> bool:
        return session in self._connections

    def join(self, session: bytes) -> None:
        self._connections[session] = self._connections.get(session, 0) + 1
        self._slots.setdefault(session, set())
        self._kept.pop(session, None)

    def leave(self, session: bytes) -> bool:
        """Remove one connection from the session; return whether it had one."""
        count = self._connections.get(session, 0)
        if count > 1:
            self._connections[session] = count - 1
        elif count:
            del self._connections[session]
        return count > 0

    def took(self, session: bytes, slot: int) -> None:
        self._slots[session].add(slot)

    def slots_of(self, session: bytes, is_shared: int) -> Sequence[int] | None:
        """Where it may have taken something; None when that is not known."""
        slots = self._slots.get(session)
        return None if is_shared or slots is None else sorted(slots)

    def keep(self, session: bytes, ends_ms: int) -> None:
        """Note when the session ends, unless a connection of this broker joins it again."""
        if session not in self._connections:
            self._kept[session] = ends_ms

    def ended(self, session: bytes) -> None:
        """Forget a session that has ended, unless a connection has joined it again."""
        if session not in self._connections:
            self._slots.pop(session, None)
            self._kept.pop(session, None)

    def forget(self) -> None:
        """Remove all connections from their sessions."""
        self._connections.clear()

    def trim(self, now_ms: int) -> None:
        """Forget sessions that another broker has ended."""
        late = [it for it, ends_ms in self._kept.items() if ends_ms + _LATE_MS < now_ms]
        for session in late:
            self.ended(session)
