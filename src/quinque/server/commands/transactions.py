"""Transactions: MULTI EXEC DISCARD WATCH UNWATCH.

Between MULTI and EXEC the dispatcher checks requests and queues them. EXEC runs them in one turn
where the store answers at once, which makes them one batch of the journal.

Not here: how requests are queued and run (dispatch.py).
"""

from __future__ import annotations

from typing import Final

from quinque.dialects.command import NO_REPLY, Command, NoReply, no_queues
from quinque.errors import BadRequest, TransactionBroken
from quinque.server.client import Transaction
from quinque.server.commands.subcommands import Run
from quinque.server.connection import Connection
from quinque.wire.resp import OK, Value


def run_multi(connection: Connection, argv: list[bytes]) -> Value:
    """MULTI

    Start a transaction: the broker queues the following commands until EXEC runs them.
    """
    if connection.transaction is not None:
        raise BadRequest("MULTI calls can not be nested")
    if connection.is_monitor:  # the lines of MONITOR would come between the replies of EXEC
        raise BadRequest("MULTI is not allowed on a connection that uses MONITOR")
    connection.transaction = Transaction()
    return OK


def run_exec(connection: Connection, argv: list[bytes]) -> NoReply:
    """EXEC

    Run all queued commands in order and return an array of their replies.
    """
    transaction = _end(connection, "EXEC")
    if transaction.is_broken:
        raise TransactionBroken
    connection.broker.dispatch.execute_all(connection, transaction)
    return NO_REPLY


def run_discard(connection: Connection, argv: list[bytes]) -> Value:
    """DISCARD

    End the transaction and run none of its commands.
    """
    _end(connection, "DISCARD")
    return OK


def run_watch(connection: Connection, argv: list[bytes]) -> Value:
    """WATCH queue [queue ...]

    Refused: a queue has no version that EXEC could compare.
    """
    if connection.transaction is not None:
        raise BadRequest("WATCH inside MULTI is not allowed")
    raise BadRequest("WATCH is not supported: a queue has no version that EXEC could compare")


def run_unwatch(connection: Connection, argv: list[bytes]) -> Value:
    """UNWATCH

    Return OK: no queue is ever watched.
    """
    return OK


def _end(connection: Connection, command: str) -> Transaction:
    transaction, connection.transaction = connection.transaction, None
    if transaction is None:
        raise BadRequest(f"{command} without MULTI")
    return transaction


def _row(name: str, arity: int, run: Run) -> Command:
    return Command(name, "", "", arity, run=run, queues=no_queues, in_multi="run")


COMMANDS: Final = [
    _row("MULTI", 1, run_multi),
    _row("EXEC", 1, run_exec),
    _row("DISCARD", 1, run_discard),
    _row("WATCH", -2, run_watch),
    Command("UNWATCH", "", "", 1, run=run_unwatch, queues=no_queues),
]
