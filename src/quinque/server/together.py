"""Neighbouring requests that are alike, run as one operation.

Called by   inbox.py, which finds them.
Calls       dialects (parse, gather, reply), the store (run), dispatch.py (one by one, when it must
            be).

Not here: which requests are alike (inbox.py), requests that run alone (dispatch.py).
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from quinque.dialects.command import Command, Wait
from quinque.errors import NoReplicas, NotDone, QuinqueError, StoreUnavailable
from quinque.stores.pending import Pending

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.connection import Connection
    from quinque.server.dispatch import Dispatch
    from quinque.server.inbox import Alike

log = logging.getLogger("quinque.server")

# What these say is true of each of the requests that were one operation. What others say may be the
# fault of one, and nothing was changed: then each is run by itself.
_FOR_ALL: Final = (StoreUnavailable, NotDone, NoReplicas)


class Together:
    def __init__(self, broker: Broker, dispatch: Dispatch) -> None:
        self._broker = broker
        self._dispatch = dispatch
        self._run = broker.store.run

    def execute(self, alike: Alike) -> None:
        """Run neighbouring requests as one operation, or one by one if that cannot be."""
        started_ns = perf_counter_ns()
        row = alike.row
        assert row.parse is not None
        assert row.gather is not None
        first = alike.connections[0]
        request: Any = None
        results: Any = None
        may_wait = False
        try:
            request = row.parse(alike.first, first) if row.with_session else row.parse(alike.first)
            if row.gather(request, alike.varying):
                may_wait = isinstance(request, Wait) and request.timeout_ms > 0
                results = self._broker.store.run(
                    request.op if isinstance(request, Wait) else request
                )
        except QuinqueError:
            results = None
        except Exception:
            log.exception("a bug, in %s", row.name)
            results = None
        if isinstance(results, Pending):
            self._ask(alike, request, results, may_wait, started_ns)
        else:
            self._answer(alike, results, may_wait, started_ns)

    def _ask(
        self, alike: Alike, request: Any, pending: Pending, may_wait: bool, started_ns: int
    ) -> None:
        """All of the clients are held until the store has answered."""
        for connection in alike.connections:
            connection.is_asking = True

        def let_go() -> None:
            for connection in alike.connections:
                connection.is_asking = False
                self._broker.turn.add(connection)

        def answer(results: Any) -> None:
            let_go()
            if any(connection.is_gone for connection in alike.connections):
                pairs = zip(alike.connections, results or (), strict=False)
                self._dispatch.give_back(
                    request, [found for client, found in pairs if client.is_gone]
                )
            self._answer(alike, results, may_wait, started_ns)

        def refuse(error: QuinqueError) -> None:
            let_go()
            if isinstance(error, _FOR_ALL):
                for connection in alike.connections:
                    self._dispatch.refuse(connection, alike.row, error)
            else:
                self._execute_each(alike, 0)

        pending.then(answer, refuse)

    def _answer(self, alike: Alike, results: Any, may_wait: bool, started_ns: int) -> None:
        row, connections = alike.row, alike.connections
        # Nothing at all means nothing for anyone; those who would wait for it do.
        if results is None or (may_wait and not results):
            self._execute_each(alike, 0)
            return
        answered = len(results) or len(connections)
        at = 0
        while at < answered:
            connection = connections[at]
            end = at + 1
            while end < answered and connections[end] is connection:
                end += 1
            self._reply_all(connection, row, results[at:end] or [None] * (end - at))
            at = end
        spent_ns = perf_counter_ns() - started_ns
        row.calls += answered
        row.spent_ns += spent_ns
        if spent_ns > self._broker.slow_ns:
            self._broker.note_slow(connections[0], row, alike.first, spent_ns)
        # Less than was asked for may be a matter of size.
        if answered < len(connections):
            self._execute_each(alike, answered)

    def _reply_all(self, connection: Connection, row: Command, results: list[Any]) -> None:
        reply, protocol = row.reply_each, connection.protocol
        assert reply is not None, "what is gathered has a reply for each"
        if row.right == "write":
            connection.mark_write()
        connection.send_all([reply(result, protocol) for result in results])
        connection.last_command = row

    def _execute_each(self, alike: Alike, start: int) -> None:
        held: dict[Connection, list[list[bytes]]] = {}
        for number in range(start, len(alike.connections)):
            connection, argv = alike.connections[number], alike.request(number)
            if connection in held:
                held[connection].append(argv)
            elif connection.is_held:
                held[connection] = [argv]
            else:
                self._dispatch.execute(connection, argv)
        for connection, requests in held.items():
            connection.put_in_line(requests, first=True)
