"""Run the requests of an event loop iteration in order, and merge similar ones.

Called by   connection.py (requests arrive), turn.py (the turn ends).
Calls       dispatch.py.

If fifty clients add to one queue in the same iteration, the store has one operation and one record,
not fifty. Only consecutive requests are merged, so their order never changes.

The requests of one client run for some milliseconds in an iteration. The others wait for the next
iteration, so that other clients are served in between.

Not here: which requests can be merged (the `gather` of a command), what holds a client
(connection.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quinque.dialects.command import Command
from quinque.model.limits import TOGETHER_MOST, TOGETHER_MOST_BYTES
from quinque.server.client import BUDGET_NS

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.connection import Connection


class Alike:
    """Neighbouring requests that are one operation. `varying` is what varies in all of them, one
    after the other; each has as many of these as its `lengths` say, and one if there are none."""

    __slots__ = (
        "connections",
        "first",
        "head",
        "lengths",
        "row",
        "size_bytes",
        "step",
        "varies",
        "varying",
    )

    def __init__(self, row: Command, connection: Connection, argv: list[bytes]) -> None:
        self.row = row
        self.first = argv
        self.varies = row.varies if row.varies >= 0 else len(argv) - 1
        self.step = row.words_each if row.varies_on else 0  # 0: no argument varies after that one
        self.head = argv[: self.varies]
        self.connections = [connection]
        self.lengths: list[int] | None = None
        self.varying = [argv[self.varies]]
        self.size_bytes = len(argv[self.varies])
        if self.step and len(argv) > self.varies + 1:
            self.add_rest(argv)

    def takes(self, argv: list[bytes]) -> bool:
        """Return whether the request can be merged."""
        first, varies = self.first, self.varies
        if self.step:
            words = len(argv) - varies
            if not 0 < words <= TOGETHER_MOST or words % self.step:
                return False
            if varies == 2:  # a command and a queue, as mostly
                return argv[1] == first[1] and argv[0] == first[0]
            return argv[:varies] == self.head
        if len(argv) != len(first):
            return False
        if not varies:
            return argv == first
        # Rarely more than one argument follows the one that varies.
        for at in range(varies + 1, len(argv)):
            if argv[at] != first[at]:
                return False
        return argv[:varies] == self.head

    def add_rest(self, argv: list[bytes]) -> None:
        """Add the other varying arguments of the last request, whose first one was added. From here
        on the number of arguments of each request is recorded."""
        rest = argv[self.varies + 1 :]
        if self.lengths is None:
            self.lengths = [1] * (len(self.connections) - 1)
        self.lengths.append(1 + len(rest))
        self.varying += rest
        self.size_bytes += sum(map(len, rest))

    def requests(self) -> Iterator[list[bytes]]:
        """Each of them."""
        at = 0
        for length in self.lengths or [1] * len(self.connections):
            argv = list(self.first)
            if self.step:
                argv[self.varies :] = self.varying[at : at + length]
            else:
                argv[self.varies] = self.varying[at]
            yield argv
            at += length


class Inbox:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._arrived: list[tuple[Connection, list[list[bytes]]]] = []

    def add(self, connection: Connection, requests: list[list[bytes]]) -> None:
        self._arrived.append((connection, requests))

    @property
    def has_some(self) -> bool:
        return bool(self._arrived)

    def run(self) -> None:
        """Every request has run, or waits in its client's line."""
        arrived = self._arrived
        if not arrived:
            return
        self._arrived = []
        alike: Alike | None = None
        ending: dict[Connection, None] = {}  # in their order, each once
        for connection, requests in arrived:
            size_bytes = -1
            if connection.must_wait:
                # Requests join the line. Without new ones, the client continues with its line
                # (go_on).
                if requests or connection.is_held:
                    connection.put_in_line(requests)
                    if connection.user is None:
                        connection.bound_stranger()
                    continue
                requests, size_bytes = connection.take_line()
            if self._is_plain(connection):
                alike = self._run_plain(connection, requests, alike, size_bytes)
            else:
                if alike is not None:
                    self._finish(alike)
                    alike = None
                is_stranger = connection.user is None
                self._run_each(connection, requests, size_bytes)
                if is_stranger:
                    connection.bound_stranger()
            if connection.is_ending:
                ending[connection] = None
        if alike is not None:
            self._finish(alike)
        # Last: the bytes of a client may have come in several pieces, and only the last was broken.
        for connection in ending:
            connection.end()

    def _run_plain(
        self,
        connection: Connection,
        requests: list[list[bytes]],
        alike: Alike | None,
        size_bytes: int,
    ) -> Alike | None:
        """Run the requests. Return what can still be merged with requests of the next client, which
        was not run. They take `size_bytes`; -1 means unknown."""
        dispatch = self._broker.dispatch
        rows, execute = dispatch.rows, dispatch.execute
        most_ns = dispatch.busy_ns + BUDGET_NS
        for number, argv in enumerate(requests):
            if alike is not None:
                if alike.takes(argv):
                    word = argv[alike.varies]
                    alike.connections.append(connection)
                    alike.varying.append(word)
                    alike.size_bytes += len(word)
                    if alike.step and (alike.lengths is not None or len(argv) > alike.varies + 1):
                        alike.add_rest(argv)
                    if (
                        len(alike.varying) >= TOGETHER_MOST
                        or alike.size_bytes > TOGETHER_MOST_BYTES
                    ):
                        self._finish(alike)
                        alike = None
                        if self._stops(connection, requests, number + 1, size_bytes, most_ns):
                            return None
                    continue
                self._finish(alike)
                alike = None
                if self._stops(connection, requests, number, size_bytes, most_ns):
                    return None
            row = rows.get(argv[0])
            if (
                row is not None
                and row.gather is not None
                and 1 < len(argv) <= TOGETHER_MOST
                and len(argv) >= -row.arity
            ):
                alike = Alike(row, connection, argv)
                continue
            execute(connection, argv)
            if connection.is_held:
                connection.put_in_line(requests, number + 1, size_bytes)
                return None
            if dispatch.busy_ns > most_ns:
                connection.put_off(requests, number + 1, size_bytes)
                return None
            if not self._is_plain(connection):
                self._run_each(connection, requests[number + 1 :])
                return None
        return alike

    def _stops(
        self,
        connection: Connection,
        requests: list[list[bytes]],
        start: int,
        size_bytes: int,
        most_ns: int,
    ) -> bool:
        """Return whether the requests from number `start` on wait, because the client is held, or
        has used its share of the iteration. At least one of them runs."""
        if connection.must_wait:
            connection.put_in_line(requests, start, size_bytes)
            return True
        if start and self._broker.dispatch.busy_ns > most_ns:
            connection.put_off(requests, start, size_bytes)
            return True
        return False

    def _is_plain(self, connection: Connection) -> bool:
        """Return whether only the store decides the results of the client's requests."""
        broker, user = self._broker, connection.user
        return (
            user is not None
            and user.is_unlimited
            and connection.transaction is None
            and not connection.skip_replies
            and not broker.pause_mode
            and not broker.monitors
        )

    def _run_each(
        self, connection: Connection, requests: list[list[bytes]], size_bytes: int = -1
    ) -> None:
        """Run the requests one by one, until something holds the client or it has had its part of
        the turn."""
        broker = self._broker
        dispatch = broker.dispatch
        most_ns = dispatch.busy_ns + connection.budget_ns
        for number, argv in enumerate(requests):
            if broker.pause_mode and broker.must_pause(connection, dispatch.row_of(argv)):
                connection.put_in_line(requests, number, size_bytes)
                return
            dispatch.execute(connection, argv)
            if connection.is_held:
                connection.put_in_line(requests, number + 1, size_bytes)
                return
            if dispatch.busy_ns > most_ns:
                connection.put_off(requests, number + 1, size_bytes)
                return

    def _finish(self, alike: Alike) -> None:
        if len(alike.connections) == 1:
            self._broker.dispatch.execute(alike.connections[0], alike.first)
            return
        try:
            self._broker.together.execute(alike)
        except Exception:
            self._broker.together.fail(alike)
