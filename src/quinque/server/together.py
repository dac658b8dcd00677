"""Neighbouring requests that are alike, run as one operation.

Called by   inbox.py, which finds them.
Calls       dialects (parse, gather, reply), the store (run), dispatch.py (one by one, when it must
            be).

Not here: which requests are alike (inbox.py), requests that run alone (dispatch.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quinque.dialects.command import Command, Wait
from quinque.errors import NoReplicas, NotDone, QuinqueError, StoreUnavailable
from quinque.model.giving_back import HANDING_OUT
from quinque.server.waiters import Waiting
from quinque.stores.pending import Pending

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.connection import Connection
    from quinque.server.dispatch import Dispatch
    from quinque.server.inbox import Alike

log = logging.getLogger("quinque.server")

# These errors apply to each of the requests that were one operation. Another error may be the fault
# of one request, and nothing was changed: then each is run by itself.
FOR_ALL: Final = (StoreUnavailable, NotDone, NoReplicas)


class Together:
    def __init__(self, broker: Broker, dispatch: Dispatch) -> None:
        self._broker = broker
        self._dispatch = dispatch
        self._run = broker.store.run

    def execute(self, alike: Alike) -> None:
        """Run neighbouring requests as one operation, or one by one if that cannot be."""
        started_ns = self._dispatch.clock_ns()
        row = alike.row
        assert row.parse is not None
        assert row.gather is not None
        first = alike.connections[0]
        request: Any = None
        results: Any = None
        share = 0
        may_wait = False
        sessions: list[bytes] = []
        try:
            request = row.parse(alike.first, first) if row.with_session else row.parse(alike.first)
            share = int(row.gather(request, alike.varying))
            if share:
                if row.share is not None:
                    sessions = _sessions(alike)
                    row.share(request, sessions)
                if isinstance(request, Wait):
                    may_wait = request.timeout_ms > 0
                    self._broker.serve_first(request.queues)
                    if may_wait and self._broker.waiters.part_for(request) is not request.op:
                        self._execute_each(alike, 0)  # each stands behind others
                        return
                results = self._broker.store.run(
                    request.op if isinstance(request, Wait) else request
                )
        except QuinqueError:
            results = None
        except Exception:
            log.exception("unexpected error in %s", row.name)
            results = None
        go_on = _Answer(alike, share, may_wait, started_ns, sessions)
        go_on.op = request.op if isinstance(request, Wait) else request
        if isinstance(results, Pending):
            if may_wait and go_on.is_one_each and self._dispatch.may_all_wait(alike.connections):
                # In line from here on, as in dispatch.py.
                self._broker.waiters.expect_all(self._wait_each(alike), results, FOR_ALL)
                row.calls += len(alike.connections)
            else:
                self._ask(go_on, results)
        else:
            self._answer(go_on, results)

    def fail(self, alike: Alike) -> None:
        """Disconnect the clients of requests that a bug left without replies, because later replies
        would be taken for the missing ones."""
        log.exception("unexpected error in %s; disconnecting its clients", alike.row.name)
        for connection in dict.fromkeys(alike.connections):
            connection.drop()

    def _wait_each(self, alike: Alike) -> list[Waiting]:
        """The requests stand in line, each by itself."""
        row = alike.row
        assert row.parse is not None
        waitings: list[Waiting] = []
        for connection, argv in zip(alike.connections, alike.requests(), strict=True):
            self._dispatch.wait(connection, row, row.parse(argv, connection))
            assert connection.waiting is not None
            connection.last_command = row
            waitings.append(connection.waiting)
        return waitings

    def _ask(self, go_on: _Answer, pending: Pending) -> None:
        """All of the clients are held until the store has answered."""
        alike = go_on.alike
        for connection in alike.connections:
            connection.is_asking = True

        pending.then(partial(self._told, go_on), partial(self._told_not, alike))

    def _told(self, go_on: _Answer, results: Any) -> None:
        """The store has answered."""
        self._let_go(go_on.alike)
        try:
            self._answer(go_on, results)
        except Exception:
            self.fail(go_on.alike)

    def _told_not(self, alike: Alike, error: QuinqueError) -> None:
        """The store has refused."""
        self._let_go(alike)
        if isinstance(error, FOR_ALL):
            for connection in alike.connections:
                self._dispatch.refuse(connection, alike.row, error)
        else:
            self._execute_each(alike, 0)

    def _let_go(self, alike: Alike) -> None:
        for connection in alike.connections:
            connection.is_asking = False
            self._broker.turn.add(connection)

    def _answer(self, go_on: _Answer, results: Any) -> None:
        alike = go_on.alike
        row, connections = alike.row, alike.connections
        # No results at all: no request gets one, and requests that may wait do.
        if results is None or (go_on.may_wait and not results):
            self._execute_each(alike, 0)
            return
        replies_of = _replies_each
        words: list[Any] = alike.varying
        if not go_on.is_one_each:
            replies_of = _replies_shares
            words, results = go_on.words(), go_on.shares(results)
        answered = len(results) or len(connections)
        at = 0
        while at < answered:
            connection = connections[at]
            end = at + 1
            while end < answered and connections[end] is connection:
                end += 1
            if row.right == "write":
                connection.mark_write()
            protocol = connection.protocol
            replies = replies_of(row, results[at:end], words[at:end], protocol)
            connection.send_all(replies)
            if results and isinstance(go_on.op, HANDING_OUT):
                connection.hand_each(go_on.op, results[at:end], replies, go_on.sessions[at:end])
            connection.last_command = row
            at = end
        spent_ns = self._dispatch.clock_ns() - go_on.started_ns
        self._dispatch.busy_ns += spent_ns
        row.calls += answered
        row.spent_ns += spent_ns
        if row.none_is is not None and (failed := len([1 for found in results if found is None])):
            row.failed_calls += failed
            self._broker.stats.errors[row.none_is.code] += failed
        if spent_ns > self._broker.slow_ns:
            self._broker.note_slow(connections[0], row, alike.first, spent_ns)
        # Fewer results than requested may be due to their size.
        if answered < len(connections):
            self._execute_each(alike, answered)

    def _execute_each(self, alike: Alike, start: int) -> None:
        held: dict[Connection, list[list[bytes]]] = {}
        for number, argv in enumerate(alike.requests()):
            if number < start:
                continue
            connection = alike.connections[number]
            if connection in held:
                held[connection].append(argv)
            elif connection.is_held:
                held[connection] = [argv]
            else:
                self._dispatch.execute(connection, argv)
        for connection, requests in held.items():
            connection.put_in_line(requests, first=True)


class _Answer:
    """The facts about requests that run as one operation: how many items of the result each gets,
    if their lengths do not tell; whether they wait if there is none; when they started; the session
    of each item, if it matters; and the operation."""

    __slots__ = ("alike", "is_one_each", "may_wait", "op", "sessions", "share", "started_ns")

    def __init__(
        self, alike: Alike, share: int, may_wait: bool, started_ns: int, sessions: list[bytes]
    ) -> None:
        self.sessions = sessions
        self.op: Any = None
        self.alike = alike
        self.share = share
        self.may_wait = may_wait
        self.started_ns = started_ns
        # Nearly always.
        self.is_one_each = (
            share <= 1 and len(alike.varying) == len(alike.connections) * alike.row.words_each
        )

    def shares(self, results: list[Any]) -> list[list[Any]]:
        """The items of each request, as far as there are any."""
        return list(self._parts(results, self.alike.row.words_each))

    def words(self) -> list[list[bytes]]:
        """Return the varying arguments of each request."""
        lengths = self.alike.lengths
        varying = self.alike.varying
        if lengths is None:
            return [[word] for word in varying]
        return list(self._parts(varying, 1))

    def _parts(self, items: list[Any], words_each: int) -> Iterator[list[Any]]:
        at, end = 0, len(items)
        for length in self.alike.lengths or [self.share] * len(self.alike.connections):
            if at >= end:
                return
            count = length // words_each
            yield items[at : at + count]
            at += count


def _sessions(alike: Alike) -> list[bytes]:
    """The session that asks for each item."""
    # Nearly all have one.
    sessions = [client.session or client.taking_session() for client in alike.connections]
    lengths = alike.lengths
    if lengths is None:
        return sessions
    pairs = zip(sessions, lengths, strict=True)
    return [session for session, length in pairs for _ in range(length)]


def _replies_each(row: Command, results: list[Any], words: list[Any], protocol: int) -> list[bytes]:
    """The replies to requests of one client, each of which has one item; or none has any."""
    reply, reply_words = row.reply_each, row.reply_words
    if reply_words is not None:
        return [reply_words(results, protocol, words)]
    assert reply is not None, "a gathered command needs a reply for each"
    if not results:
        return [reply(None, protocol)] * len(words)
    return [reply(result, protocol) for result in results]


def _replies_shares(
    row: Command, results: list[Any], words: list[Any], protocol: int
) -> list[bytes]:
    """The replies to requests of one client, each of which has its share of the items, or none."""
    reply = row.reply_share
    assert reply is not None, "a gathered command needs a reply for the share of each"
    shares = results or [[]] * len(words)
    return [reply(share, protocol, some) for share, some in zip(shares, words, strict=True)]
