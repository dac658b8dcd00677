"""Run a request: find its row, run its operation, send its reply.

Called by   connection.py, for each request in turn.
Calls       dialects (parse, reply), the store (run), waiters.py.

The order of checks: the command exists, the number of arguments is right, the client has
authenticated, and its user has the permission for these queues. Only then is a queue read.

Not here: requests that are merged into one operation (together.py), the commands (dialects/,
server/commands/).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from quinque.dialects.command import Command, Later, NoReply, Wait
from quinque.errors import (
    BadArgument,
    BadRequest,
    Busy,
    HttpRequest,
    LimitReached,
    NoAuth,
    NoPermission,
    NotDone,
    QuinqueError,
    StoreUnavailable,
    UnknownCommand,
    WrongArity,
    printable,
)
from quinque.model.claim_ops import FindClaims
from quinque.model.families import BY_NAME, Family
from quinque.model.limits import RENAMES_MOST, WORDS_MOST
from quinque.model.ops import Op
from quinque.model.stage_ops import FindStages
from quinque.model.work_ops import FindQueues, Take
from quinque.server.client import READING_MOST_NS, RENAMES, Transaction, size_of
from quinque.server.waiters import is_something
from quinque.stores.pending import Pending, after
from quinque.wire.resp import OK, Value, encode, encode_error

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.connection import Connection
    from quinque.server.users import User

log = logging.getLogger("quinque.server")

QUEUED = b"+QUEUED\r\n"
_NOT_IN_MULTI = "Command not allowed inside a transaction"
# A web page can make a browser send a POST to any port, whose body has lines of requests. All lines
# of HTTP are inline requests. As in Redis, the first line, or the one that each request has next,
# ends the connection before the body is read.
_OF_HTTP = (b"POST", b"HOST:")

# bananaq's background pool takes its size in workers and ten times as much in waiting.
_LATER_PER_WORKER = 11


class Dispatch:
    def __init__(self, broker: Broker, commands: Iterable[Command]) -> None:
        self._broker = broker
        # Any: the result may be a Pending of the operation's result. Compiled code would need a
        # list if the type of the store is known.
        self._run: Callable[[Any], Any] = broker.store.run
        # How long requests take. Not the loop's time, which uvloop reads once in a turn.
        self.clock_ns: Callable[[], int] = perf_counter_ns
        self.busy_ns = 0  # how long all requests took, also those that were refused or queued
        self.commands = {command.name: command for command in commands}
        # By the name as clients write it, in upper or in lower case. Commands with subcommands are
        # looked up with the second word.
        self.rows = {
            name.encode(): command
            for name, command in self.commands.items()
            if command.subcommands is None
        }

    def execute(self, connection: Connection, argv: list[bytes]) -> None:
        """Run one request; its reply, or its place among the waiting, is settled."""
        started_ns = self.clock_ns()
        row = self.rows.get(argv[0])
        try:
            if row is None:
                row = self._find(argv)
            arity, count = row.arity, len(argv)
            if count != arity and (arity >= 0 or count < -arity):
                raise WrongArity(row.name)
            if count > WORDS_MOST:
                said = f"{row.name} has {count} arguments in one request; at most {WORDS_MOST}"
                raise BadArgument(said)
            user = connection.user
            if user is None and not row.is_open:
                raise NoAuth
            if connection.transaction is not None and row.in_multi != "run":
                self._check_room(connection.transaction, row, argv)
                self._check(connection, row, argv, user, self._queue)
            elif user is None or user.is_unlimited:
                self._perform(connection, row, argv)
            else:
                self._check(connection, row, argv, user, self._perform)
        except QuinqueError as error:
            self.refuse(connection, row, error)
        except Exception:
            log.exception("unexpected error in %s", printable(argv[0]))
            connection.send(encode_error("ERR", "internal error; the broker's log has the details"))
        if (
            connection.skip_replies > 0
            and connection.waiting is None
            and not connection.is_asking
            and connection.executing is None
        ):
            connection.skip_replies -= 1
        spent_ns = self.clock_ns() - started_ns
        self.busy_ns += spent_ns
        # A request that is queued is a call of its command when it is run.
        if row is not None and (connection.transaction is None or row.in_multi == "run"):
            row.calls += 1
            row.spent_ns += spent_ns
            connection.last_command = row
            if spent_ns > self._broker.slow_ns:
                self._broker.note_slow(connection, row, argv, spent_ns)

    def _perform(self, connection: Connection, row: Command, argv: list[bytes]) -> None:
        """Run a request that its client may make."""
        if self._broker.monitors and row.name != "EXEC":  # which is shown after its requests
            self._broker.show_monitors(connection, argv)
        if row.parse is None:
            self._run_directly(connection, row, argv)
        elif row.with_session:
            self._follow(connection, row, row.parse(argv, connection))
        else:
            request = row.parse(argv)
            if isinstance(request, Later):
                if connection.executing is None:
                    self._run_later(connection, request)
                else:  # in a transaction it is part of the transaction
                    done = after(self._run(request.op), lambda _: OK)
                    self._reply_when_there(connection, row, done)
            else:
                result = self._run(request)
                if isinstance(result, Pending):
                    go_on = partial(self._answer_later, connection, row, request)
                    self._ask(connection, row, result, go_on)
                else:
                    self._answer(connection, row, result)
                    connection.hand(request, result)

    def _answer_later(self, connection: Connection, row: Command, request: Op, result: Any) -> None:
        if connection.is_gone:
            self._broker.give_back(request, result)
        else:
            self._answer(connection, row, result)
            connection.hand(request, result)

    def _answer(self, connection: Connection, row: Command, result: Any) -> None:
        """Reply to a request that ran alone."""
        if row.reply is not None:
            self._reply(connection, row, row.reply(result))
        else:
            assert row.reply_each is not None, "a command has one of the two"
            item = result[0] if result else None
            self._send(connection, row, row.reply_each(item, connection.protocol))

    def _ask(
        self,
        connection: Connection,
        row: Command,
        pending: Pending,
        go_on: Callable[[Any], None],
    ) -> None:
        """Hold the client until the store has answered.

        Raises BadRequest within a transaction that must not be interrupted, because the wait would
        not be for the store. Such commands are refused when they are queued, if they are marked.
        This check is for commands without the mark.
        """
        # A large claim is closed in several steps, and other clients are served between them.
        if (
            connection.executing is not None
            and self._broker.store.answers_at_once
            and not row.name.startswith("CLAIM.")
        ):
            # Nothing may come between the slices of a request that takes many ticks.
            self._broker.store.finish_slices()
            if not pending.is_settled:
                raise BadRequest(_NOT_IN_MULTI)
        connection.is_asking = True

        pending.then(
            partial(self._told, connection, row, go_on), partial(self._told_not, connection, row)
        )

    def _told(
        self, connection: Connection, row: Command, go_on: Callable[[Any], None], result: Any
    ) -> None:
        """The store has answered."""
        connection.is_asking = False
        try:
            go_on(result)
        except QuinqueError as error:
            self.refuse(connection, row, error)
        except Exception:
            self._apologize(connection, row)
        self._let_go(connection)

    def _told_not(self, connection: Connection, row: Command, error: QuinqueError) -> None:
        """The store has refused."""
        connection.is_asking = False
        self.refuse(connection, row, error)
        self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        """The client is held by the store no longer."""
        if connection.executing is not None and not connection.is_asking:
            self._execute_rest(connection, connection.executing)
        if connection.waiting is None and not connection.is_asking and connection.executing is None:
            connection.skip_replies -= connection.skip_replies > 0
        self._broker.turn.add(connection)

    def _apologize(self, connection: Connection, row: Command) -> None:
        log.exception("unexpected error in %s", row.name)
        connection.send(encode_error("ERR", "internal error; the broker's log has the details"))

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
            if argv[0].upper() in _OF_HTTP:
                raise HttpRequest
            raise UnknownCommand(argv[0], argv[1:])
        if row.subcommands is None:
            # A name can be written in thousands of ways, and anyone may try all of them.
            if argv[0].islower():
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

    # -- transactions -------------------------------------------------------------------------

    def _check_room(self, transaction: Transaction, row: Command, argv: list[bytes]) -> None:
        """Raise BadRequest or LimitReached if the request cannot be part of the transaction."""
        if row.in_multi == "refused":
            raise BadRequest(_NOT_IN_MULTI)
        config = self._broker.config
        if len(transaction.requests) >= config.transaction_max_commands:
            most = config.transaction_max_commands
            raise LimitReached(
                f"a transaction can have at most {most} commands (transaction-max-commands)"
            )
        if transaction.size_bytes + size_of(argv) > config.transaction_max_size:
            most = config.transaction_max_size
            raise LimitReached(
                f"a transaction can have at most {most} bytes (transaction-max-size)"
            )
        if row.name in RENAMES and transaction.renames >= RENAMES_MOST:
            raise LimitReached(f"a transaction can rename at most {RENAMES_MOST} queues")

    def _queue(self, connection: Connection, row: Command, argv: list[bytes]) -> None:
        """Queue the request for EXEC, unless another one was refused. Raises NoPermission."""
        if row.with_session and connection.user is not None and not connection.user.is_unlimited:
            # The rights of some commands depend on their arguments. Other errors in the arguments
            # are reported by EXEC, as in Redis.
            assert row.parse is not None
            try:
                row.parse(argv, connection)
            except NoPermission:
                raise
            except QuinqueError:
                pass
        if connection.transaction is not None and not connection.transaction.is_broken:
            connection.transaction.add(row, argv)
        connection.send(QUEUED)

    def execute_all(self, connection: Connection, transaction: Transaction) -> None:
        """Run the requests of a transaction and send their replies, as one array.

        If the store answers at once, nothing else runs in between.
        """
        # Blocked clients get the messages of this turn first, and nothing while the requests run.
        self._broker.serve_first(list(self._broker.store.ready))
        # If the turn cannot be made durable, no part of the array goes out.
        connection.mark_write()
        connection.send(b"*%d\r\n" % len(transaction.requests))
        connection.executing = transaction
        self._execute_rest(connection, transaction)

    def _execute_rest(self, connection: Connection, transaction: Transaction) -> None:
        """Go on with a transaction until a request has to wait for the store, or to the end."""
        if transaction.is_looping:  # the answer came at once
            return
        transaction.is_looping = True
        requests = transaction.requests
        most = self._broker.config.output_buffer_limit
        while requests and not connection.is_asking:
            argv = requests.popleft()
            if transaction.is_cut:
                self.refuse(connection, None, NotDone("the store failed earlier in this EXEC"))
            elif connection.out_bytes > most:
                said = (
                    f"the replies of this EXEC are larger than {most} bytes (output-buffer-limit)"
                )
                self.refuse(connection, None, LimitReached(f"{said}: this command was not run"))
            else:
                self._execute_next(connection, transaction, argv)
        transaction.is_looping = False
        if not connection.is_asking:
            connection.executing = None
            if connection.is_gone:  # one of the requests may have begun a session since it left
                self._broker.sessions.leave(connection)
            if self._broker.monitors:
                self._broker.show_monitors(connection, [b"EXEC"])

    def _execute_next(
        self, connection: Connection, transaction: Transaction, argv: list[bytes]
    ) -> None:
        """Run one of the requests, unless it only reads and such requests have kept all others
        waiting for too long. Requests that write are all run: their number has a limit."""
        row = self.row_of(argv)
        is_write = row is not None and row.is_write
        if transaction.has_read_enough and not is_write:
            self.refuse(connection, None, _read_enough())
            return
        before_ns = self.busy_ns
        transaction.is_reading = not is_write
        self.execute(connection, argv)
        if transaction.is_reading:
            transaction.reading_ns += self.busy_ns - before_ns

    # -- rights -------------------------------------------------------------------------------

    def _check(
        self,
        connection: Connection,
        row: Command,
        argv: list[bytes],
        user: User | None,
        perform: Callable[[Connection, Command, list[bytes]], None],
    ) -> None:
        """Run or queue a request if its user may do that to its queues, and to those of its
        messages."""
        if user is None or user.is_unlimited:
            perform(connection, row, argv)
            return

        def go_on_of(families: Iterable[str]) -> None:
            for family in set(families) or {""}:
                user.check(row.name, family, row.right, row.queues(argv))
            perform(connection, row, argv)

        def go_on_with(found: list[bytes | None]) -> None:
            for id, queue in zip(ids, found, strict=True):
                if queue is not None and not user.sees(queue):
                    # Without the name of that queue, which the user may not know.
                    raise NoPermission(
                        f"User {user.name} has no permissions to access the queue of"
                        f" '{printable(id[:128])}'"
                    )
            perform(connection, row, argv)

        found: Any = []
        ids: Sequence[bytes] = ()
        go_on: Callable[[Any], None] = go_on_with
        # The next lookups may be for this user.
        family = row.group if row.family is None else ""
        user.check(row.name, family, row.right, row.queues(argv))
        if row.family is not None:
            found, go_on = self._families(row.family(argv), user), go_on_of
        elif row.ids is not None:
            ids = row.ids(argv)
            found = self._run(FindQueues(BY_NAME[row.group], ids))
        if isinstance(found, Pending):
            self._ask(connection, row, found, go_on)
        else:
            go_on(found)

    def _families(self, named: Family | FindClaims | FindStages | None, user: User) -> Any:
        """The names of the families that a request is about, or a Pending of them."""
        if isinstance(named, Family):
            return [named.name]
        if named is None or user.families is None:
            return []
        return after(
            self._run(named), lambda views: [view.family.name for view in views if view.family]
        )

    def _reply(self, connection: Connection, row: Command, value: Value) -> None:
        self._send(connection, row, encode(value, connection.protocol))

    def _send(self, connection: Connection, row: Command, reply: bytes) -> None:
        if row.right == "write":
            connection.mark_write()
        connection.send(reply)

    def _run_directly(self, connection: Connection, row: Command, argv: list[bytes]) -> None:
        assert row.run is not None
        self._reply_when_there(connection, row, row.run(connection, argv))

    def _reply_when_there(self, connection: Connection, row: Command, value: Any) -> None:
        if isinstance(value, Pending):
            self._ask(connection, row, value, partial(self._reply, connection, row))
        elif not isinstance(value, NoReply):
            connection.send(encode(value, connection.protocol))

    def _follow(self, connection: Connection, row: Command, request: Op | Wait) -> None:
        """Run a request whose reply depends on the session, now or when there is something."""
        if isinstance(request, Wait):
            if connection.executing is None:
                is_of_any = bool(request.patterns) and isinstance(request.op, Take)
                self._broker.serve_first(
                    list(self._broker.store.ready) if is_of_any else request.queues
                )
            else:
                if request.patterns:  # it may look at all queues, and find nothing each time
                    if connection.executing.has_read_enough:
                        raise _read_enough()
                    connection.executing.is_reading = True
                request.timeout_ms = 0  # nothing waits within a transaction
                if isinstance(request.op, Take):
                    request.op.is_waiting = False
            if request.timeout_ms:
                op = self._broker.waiters.part_for(request)
                if op is not request.op:
                    self._wait_behind(connection, row, request, op)
                    return
        result = self._run(request.op if isinstance(request, Wait) else request)
        if not isinstance(result, Pending):
            self._reply_or_wait(connection, row, request, result)
            op = request.op if isinstance(request, Wait) else request
            connection.hand(op, result)
        elif (
            isinstance(request, Wait)
            and request.timeout_ms
            and self._has_room()
            and not connection.is_over
        ):
            # In line from here on: clients that come meanwhile stand behind, and notifications of
            # the store are not missed.
            self.wait(connection, row, request)
            assert connection.waiting is not None
            self._broker.waiters.expect(connection.waiting, result)
        else:
            go_on = partial(self._reply_or_give_back, connection, row, request)
            self._ask(connection, row, result, go_on)

    def _wait_behind(self, connection: Connection, row: Command, wait: Wait, op: Op | None) -> None:
        """Put the client in line behind others. Ask the store only about queues where it is the
        first, if there are any."""
        self.wait(connection, row, wait)
        if connection.waiting is not None:
            waiters = self._broker.waiters
            waiters.stand(connection.waiting)
            if isinstance(op, Take):
                found: Any = self._run(op)
                waiters.expect(connection.waiting, found, op.queues)

    def _reply_or_give_back(
        self, connection: Connection, row: Command, request: Op | Wait, result: Any
    ) -> None:
        op = request.op if isinstance(request, Wait) else request
        if connection.is_gone:
            self._broker.give_back(op, result)
        else:
            self._reply_or_wait(connection, row, request, result)
            connection.hand(op, result)
            if connection.waiting is not None:
                self._broker.waiters.serve_late(connection.waiting)

    def _reply_or_wait(
        self, connection: Connection, row: Command, request: Op | Wait, result: Any
    ) -> None:
        assert row.reply is not None
        if isinstance(request, Wait) and request.timeout_ms and not is_something(result):
            self.wait(connection, row, request)
        else:
            self._reply(connection, row, row.reply(request, result, connection))

    def wait(self, connection: Connection, row: Command, wait: Wait) -> None:
        if connection.is_over:  # it has closed, and would not get what it waits for
            connection.close()
            return
        if not self._has_room():
            most = self._broker.config.max_blocked_clients
            are = "client is" if most == 1 else "clients are"
            raise LimitReached(f"{most} {are} blocked already (max-blocked-clients)")

        def answer(result: Any) -> None:
            connection.waiting = None
            assert row.reply is not None
            try:
                self._reply(connection, row, row.reply(wait, result, connection))
                connection.hand(wait.op, result)
            except QuinqueError as error:
                self.refuse(connection, row, error)
            except Exception:
                self._apologize(connection, row)
            connection.skip_replies -= connection.skip_replies > 0

        def refuse(error: QuinqueError) -> None:
            connection.waiting = None
            self.refuse(connection, row, error)
            connection.skip_replies -= connection.skip_replies > 0

        connection.waiting = self._broker.waiters.add(connection, wait, answer, refuse)

    def may_all_wait(self, connections: Sequence[Connection]) -> bool:
        """Return whether each of these clients may wait for one request."""
        waiters, most = self._broker.waiters, self._broker.config.max_blocked_clients
        return (
            len(set(connections)) == len(connections)
            and waiters.count + len(connections) <= most
            and not any(connection.is_over for connection in connections)
        )

    def _has_room(self) -> bool:
        """Return whether one more client may wait."""
        return self._broker.waiters.count < self._broker.config.max_blocked_clients

    def _run_later(self, connection: Connection, request: Later) -> None:
        turn, workers = self._broker.turn, self._broker.config.bg_qadd_pool_size
        if turn.later_count >= workers * _LATER_PER_WORKER:
            raise Busy(f"too busy to process NOBLOCK event (bg-qadd-pool-size is {workers})")
        turn.later.append(request.op)
        connection.send(encode(OK, connection.protocol))

    def refuse(self, connection: Connection, row: Command | None, error: QuinqueError) -> None:
        if row is not None:
            row.failed_calls += 1
        # As in Redis, WATCH and a second MULTI are refused and spoil nothing.
        is_queued = row is None or row.in_multi != "run" or isinstance(error, WrongArity)
        if connection.transaction is not None and is_queued:
            connection.transaction.spoil()
        if connection.executing is not None and isinstance(error, NotDone | StoreUnavailable):
            connection.executing.is_cut = True
        self._broker.stats.errors[error.code] += 1
        connection.send_error(error)
        if error.closes:
            log.warning("disconnecting client at %s: %s", connection.address, error)
            connection.close()


def _read_enough() -> LimitReached:
    most_ms = READING_MOST_NS // 1_000_000
    return LimitReached(
        f"the commands of this EXEC that only read, or take by pattern, took over {most_ms} ms:"
        " this command was not run"
    )
