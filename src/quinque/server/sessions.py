"""The session of each client, under which it takes tasks.

Called by   connection.py and tarantool_connection.py (for their dialects), broker.py (a client is
            gone, a second has passed).
Calls       the store: JoinSession, LeaveSession, LeaveSessions.

A client has no session until it needs one. Then it gets a new one or joins an existing one. It
leaves each session that it joined once. A client does not wait until the store knows a new session,
because later requests take effect later.

    of(client)            first take        16 random bytes, joined
    join(client, name)    identify          that session; the one before is left
    leave(client)         it is gone        its tasks come back, at once or after `session-ttr`

Not here: the tasks of a session that ends (the store), the format of sessions (dialects/).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from os import urandom
from typing import Any, Protocol

from quinque.errors import QuinqueError
from quinque.model.ops import Op
from quinque.model.tube_ops import JoinSession, LeaveSession, LeaveSessions
from quinque.server.config import Config
from quinque.stores.pending import Pending, after

log = logging.getLogger("quinque.server")

# A session that a broker makes is as long as a UUID, and is shown as one. An unknown text of that
# length does not create a session, as any other text does.
MADE_BYTES = 16


class Member(Protocol):
    """The part of a client that is used here. `session` is empty until it joins one."""

    session: bytes

    @property
    def is_gone(self) -> bool: ...


class Sessions:
    def __init__(
        self,
        run: Callable[[Any], Any],
        config: Config,
        on_told: Callable[[], None],
        random_bytes: Callable[[int], bytes] = urandom,
    ) -> None:
        self._run = run
        self._config = config
        self._on_told = on_told  # tasks that became ready may be for a blocked client
        self._random_bytes = random_bytes
        self._unknown: set[bytes] = set()  # sessions that the store does not know yet
        self._unleft: list[bytes] = []  # ended sessions that the store does not know yet

    def of(self, member: Member) -> bytes:
        """The client's session; creates one if needed."""
        session = member.session
        if session and not self._unknown:
            return session
        if not session:
            session = member.session = self._random_bytes(MADE_BYTES)
        elif session not in self._unknown:
            return session
        self._unknown.discard(session)
        self._tell(JoinSession(session, is_new=True), lambda: self._unknown.add(session))
        return session

    def join(self, member: Member, session: bytes) -> Any:
        """Let the client join that session and leave the one before. Return None, or a Pending of
        it.

        Raises NoSession for a session of 16 bytes that has no clients and is not kept.
        """
        if session == member.session:
            self.of(member)
            return None
        is_new = len(session) != MADE_BYTES
        joined = self._run(JoinSession(session, is_new))
        return after(joined, lambda _: self._move(member, session))

    def leave(self, member: Member) -> None:
        """The client is of no session any more."""
        session, member.session = member.session, b""
        if session:
            self._unknown.discard(session)
            self._leave(session)

    def leave_earlier_ones(self) -> None:
        """End the sessions that the store was opened with: they have no clients."""
        self._tell(LeaveSessions(self._keep_ms()), _do_nothing)

    def each_second(self) -> None:
        """Send the ends of sessions again that the store did not get."""
        unleft, self._unleft = self._unleft, []
        for session in unleft:
            self._leave(session)

    def _move(self, member: Member, session: bytes) -> None:
        if member.is_gone:  # the client disconnected meanwhile
            self._leave(session)
        else:
            self.leave(member)
            member.session = session

    def _leave(self, session: bytes) -> None:
        op = LeaveSession(session, self._keep_ms())
        self._tell(op, lambda: self._unleft.append(session))

    def _keep_ms(self) -> int:
        return round(self._config.session_ttr * 1000)

    def _tell(self, op: Op, failed: Callable[[], None]) -> None:
        """Send the operation to the store without waiting for it."""

        def succeed(result: Any) -> None:
            self._on_told()

        def fail(error: QuinqueError) -> None:
            log.warning("cannot update a session in the store: %s", error)
            failed()

        try:
            told = self._run(op)
        except QuinqueError as error:
            fail(error)
            return
        if isinstance(told, Pending):
            told.then(succeed, fail)
        else:
            succeed(told)


def _do_nothing() -> None:
    """Ignore the error."""
