"""A request, its row, its operation, its reply.

Called by   connection.py, for each request in turn.
Calls       dialects (parse, reply), the store (run), waiters.py.

The order of checks: is there such a command, has it that many arguments, is the client someone, may
that user do this to these queues. Only then is anything looked at.

Not here: what a command means (dialects/, server/commands/).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from quinque.dialects.command import Command, Later, NoReply, Wait
from quinque.errors import (
    BadRequest,
    Busy,
    LimitReached,
    NoAuth,
    QuinqueError,
    UnknownCommand,
    WrongArity,
    printable,
)
from quinque.model.families import BY_NAME
from quinque.model.ops import Op
from quinque.model.work_ops import FindQueues
from quinque.server.waiters import is_something
from quinque.wire.resp import OK, Value, encode, encode_error

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.connection import Connection
    from quinque.server.inbox import Alike

log = logging.getLogger("quinque.server")

# bananaq's background pool takes its size in workers and ten times as much in waiting.
_LATER_PER_WORKER = 11


class Dispatch:
    def __init__(self, broker: Broker, commands: Iterable[Command]) -> None:
        self._broker = broker
        self._run = broker.store.run
        self.commands = {command.name: command for command in commands}
        # By the name as clients write it. Only names that exist are kept, so it stays small; those
        # with subcommands are looked up with their second word.
        self.rows = {
            name.encode(): command
            for name, command in self.commands.items()
            if command.subcommands is None
        }

    def execute(self, connection: Connection, argv: list[bytes]) -> None:
        """Run one request; its reply, or its place among the waiting, is settled."""
        started_ns = perf_counter_ns()
        row = self.rows.get(argv[0])
        try:
            if row is None:
                row = self._find(argv)
            arity, count = row.arity, len(argv)
            if count != arity and (arity >= 0 or count < -arity):
                raise WrongArity(row.name)
            user = connection.user
            if user is None:
                if not row.is_open:
                    raise NoAuth
            elif not user.is_unlimited:
                user.check(row.name, row.group, row.right, self._queues_of(row, argv))
            if self._broker.monitors:
                self._broker.show_monitors(connection, argv)
            if row.parse is None:
                self._run_directly(connection, row, argv)
            elif row.with_session:
                self._follow(connection, row, row.parse(argv, connection))
            else:
                request = row.parse(argv)
                if isinstance(request, Later):
                    self._run_later(connection, request)
                else:
                    result = self._run(request)
                    if row.reply is not None:
                        self._reply(connection, row, row.reply(result))
                    else:
                        assert row.reply_each is not None, "a command has one of the two"
                        item = result[0] if result else None
                        self._send(connection, row, row.reply_each(item, connection.protocol))
        except QuinqueError as error:
            self._refuse(connection, row, error)
        except Exception:
            log.exception("a bug, in %s", printable(argv[0]))
            connection.send(encode_error("ERR", "internal error; the broker's log has the details"))
        if connection.skip_replies > 0 and connection.waiting is None:
            connection.skip_replies -= 1
        if row is not None:
            spent_ns = perf_counter_ns() - started_ns
            row.calls += 1
            row.spent_ns += spent_ns
            connection.last_command = row
            if spent_ns > self._broker.slow_ns:
                self._broker.note_slow(connection, row, argv, spent_ns)

    def execute_together(self, alike: Alike) -> None:
        """Run neighbouring requests as one operation, or one by one if that cannot be."""
        started_ns = perf_counter_ns()
        row, connections = alike.row, alike.connections
        assert row.parse is not None
        assert row.gather is not None
        first = connections[0]
        try:
            request = row.parse(alike.first, first) if row.with_session else row.parse(alike.first)
            results = None
            if row.gather(request, alike.varying):
                results = self._run(request.op if isinstance(request, Wait) else request)
                # Nothing at all means nothing for anyone; those who would wait for it do.
                if not results and isinstance(request, Wait) and request.timeout_ms:
                    results = None
        except QuinqueError:
            results = None
        except Exception:
            log.exception("a bug, in %s", row.name)
            results = None
        if results is None:
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
        for number in range(start, len(alike.connections)):
            connection, argv = alike.connections[number], alike.request(number)
            if connection.must_wait:
                connection.put_in_line([argv])
            else:
                self.execute(connection, argv)

    def row_of(self, argv: list[bytes]) -> Command | None:
        """The row a request would run, or None."""
        try:
            return self.rows.get(argv[0]) or self._find(argv)
        except BadRequest:
            return None

    def _find(self, argv: list[bytes]) -> Command:
        """The row of a request whose name is not known as it is written."""
        row = self.commands.get(argv[0].upper().decode("latin-1"))
        if row is None:
            raise UnknownCommand(argv[0], argv[1:])
        if row.subcommands is None:
            self.rows[argv[0]] = row
            return row
        if len(argv) == 1:
            if row.run is not None:  # COMMAND is a command and a first word
                return row
            raise WrongArity(row.name)
        subcommand = row.subcommands.get(argv[1].upper())
        if subcommand is None:
            word = printable(argv[1][:128])
            raise BadRequest(row.otherwise or f"unknown subcommand '{word}'. Try {row.name} HELP.")
        return subcommand

    def _queues_of(self, row: Command, argv: list[bytes]) -> Sequence[bytes]:
        """The queues a request is about, and those of the messages it is about."""
        queues = row.queues(argv)
        if row.ids is None:
            return queues
        found = self._run(FindQueues(BY_NAME[row.group], row.ids(argv)))
        return [*queues, *(queue for queue in found if queue is not None)]

    def _reply(self, connection: Connection, row: Command, value: Value) -> None:
        self._send(connection, row, encode(value, connection.protocol))

    def _send(self, connection: Connection, row: Command, reply: bytes) -> None:
        if row.right == "write":
            connection.mark_write()
        connection.send(reply)

    def _run_directly(self, connection: Connection, row: Command, argv: list[bytes]) -> None:
        assert row.run is not None
        value = row.run(connection, argv)
        if not isinstance(value, NoReply):
            connection.send(encode(value, connection.protocol))

    def _follow(self, connection: Connection, row: Command, request: Op | Wait) -> None:
        """Run a request whose reply depends on the session, now or when there is something."""
        assert row.reply is not None
        if isinstance(request, Wait):
            result = self._run(request.op)
            if is_something(result) or not request.timeout_ms:
                self._reply(connection, row, row.reply(request, result, connection))
            else:
                self._wait(connection, row, request)
        else:
            self._reply(connection, row, row.reply(request, self._run(request), connection))

    def _wait(self, connection: Connection, row: Command, wait: Wait) -> None:
        waiters, most = self._broker.waiters, self._broker.config.max_blocked_clients
        if waiters.count >= most:
            raise LimitReached(f"{most} clients are waiting already (max-blocked-clients)")

        def answer(result: Any) -> None:
            connection.waiting = None
            assert row.reply is not None
            self._reply(connection, row, row.reply(wait, result, connection))
            connection.skip_replies -= connection.skip_replies > 0

        def refuse(error: QuinqueError) -> None:
            connection.waiting = None
            self._refuse(connection, row, error)
            connection.skip_replies -= connection.skip_replies > 0

        connection.waiting = waiters.add(wait, answer, refuse)

    def _run_later(self, connection: Connection, request: Later) -> None:
        turn, workers = self._broker.turn, self._broker.config.bg_qadd_pool_size
        if len(turn.later) >= workers * _LATER_PER_WORKER:
            raise Busy(f"too busy to process NOBLOCK event (bg-qadd-pool-size is {workers})")
        turn.later.append(request.op)
        connection.send(encode(OK, connection.protocol))

    def _refuse(self, connection: Connection, row: Command | None, error: QuinqueError) -> None:
        if row is not None:
            row.failed_calls += 1
        self._broker.stats.errors[error.code] += 1
        connection.send_error(error)
        if error.closes:
            connection.close()
