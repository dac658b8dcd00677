"""Commands for operators of the broker: TIME SLOWLOG MONITOR SHUTDOWN DEBUG BGREWRITEAOF.

Called by   dispatch.py, through COMMANDS.
Calls       broker.py, slowlog.py, cluster.py.

Not here: INFO (info.py), CONFIG (settings.py), MEMORY (memory.py), LATENCY (latency.py).
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any, Final

from quinque.dialects.command import NO_REPLY, Command, NoReply, no_queues
from quinque.errors import BadArgument, BadRequest
from quinque.model.families import JOBS
from quinque.server.commands.args import read_number, syntax_error
from quinque.server.commands.cluster import empty_jobs
from quinque.server.commands.subcommands import Run, first_word
from quinque.server.connection import Connection
from quinque.server.slowlog import SlowRequest
from quinque.wire.resp import OK, Simple, Value

_SLOW_DEFAULT: Final = 10  # entries, as in Redis
_SECONDS: Final = re.compile(rb"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")


def run_time(connection: Connection, argv: list[bytes]) -> Value:
    """TIME

    Return the wall clock: seconds since 1970, and microseconds of the second.
    """
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    return [b"%d" % seconds, b"%d" % microseconds]


def run_slowlog_get(connection: Connection, argv: list[bytes]) -> Value:
    """SLOWLOG GET [count]

    Return the newest slow commands, 10 or count of them, -1 for all: number, time,
    microseconds, words, client and its name.
    """
    if len(argv) > 3:
        raise syntax_error()
    otherwise = "count should be greater than or equal to -1"
    count = read_number(argv[2], otherwise) if len(argv) == 3 else _SLOW_DEFAULT
    if count < -1:
        raise BadArgument(otherwise)
    requests = list(connection.broker.slowlog.requests)
    return [_slow_entry(request) for request in (requests if count < 0 else requests[:count])]


def run_slowlog_len(connection: Connection, argv: list[bytes]) -> Value:
    """SLOWLOG LEN

    Return the number of stored slow commands.
    """
    return len(connection.broker.slowlog.requests)


def run_slowlog_reset(connection: Connection, argv: list[bytes]) -> Value:
    """SLOWLOG RESET

    Remove the stored slow commands.
    """
    connection.broker.slowlog.requests.clear()
    return OK


def run_monitor(connection: Connection, argv: list[bytes]) -> Value:
    """MONITOR

    Show every command of every client on this connection, without passwords.
    """
    if not connection.is_monitor:
        connection.is_monitor = True
        connection.broker.monitors.append(connection)
    return OK


def run_shutdown(connection: Connection, argv: list[bytes]) -> NoReply:
    """SHUTDOWN [NOSAVE|SAVE|REWRITE-AOF] [NOW] [FORCE] [ABORT]

    Stop the broker cleanly, like SIGTERM. All acknowledged data is on disk, so there is nothing
    to save, rewrite or abort.
    """
    words = [word.upper() for word in argv[1:]]
    ways = {b"NOSAVE", b"SAVE", b"REWRITE-AOF"}
    known = ways | {b"NOW", b"FORCE", b"ABORT"}
    is_vague = len(ways.intersection(words)) > 1
    if not known.issuperset(words) or is_vague or (b"ABORT" in words and len(words) > 1):
        raise syntax_error()
    if words == [b"ABORT"]:
        raise BadRequest("No shutdown in progress.")
    connection.broker.stop()
    connection.close()
    return NO_REPLY


def run_bgrewriteaof(connection: Connection, argv: list[bytes]) -> Value:
    """BGREWRITEAOF

    Compact the journal now, in the background. A store on Redis has no journal.
    """
    if not connection.broker.store.compact():
        raise BadRequest("Background append only file rewriting already in progress")
    return Simple(b"Background append only file rewriting started")


def run_debug_sleep(connection: Connection, argv: list[bytes]) -> Value:
    """DEBUG SLEEP seconds

    Block the whole broker for the given time, to test clients.
    """
    if not _SECONDS.fullmatch(argv[2]):
        raise BadArgument("value is not a valid float")
    time.sleep(float(argv[2]))
    return OK


def run_debug_flushall(connection: Connection, argv: list[bytes]) -> Any:
    """DEBUG FLUSHALL

    Remove all jobs and job queues. Clients that block on jobs get null.
    """
    emptied = empty_jobs(connection)
    connection.mark_write()
    return emptied


def _slow_entry(request: SlowRequest) -> Value:
    return [
        request.id,
        request.at_s,
        request.spent_us,
        [*request.argv],
        request.address.encode(),
        request.client_name,
    ]


def _row(name: str, arity: int, run: Run) -> Command:
    return Command(name, "", "admin", arity, run=run, queues=no_queues)


COMMANDS: Final = [
    Command("TIME", "", "", 1, run=run_time, queues=no_queues),
    first_word(
        "SLOWLOG",
        _row("SLOWLOG|GET", -2, run_slowlog_get),
        _row("SLOWLOG|LEN", 2, run_slowlog_len),
        _row("SLOWLOG|RESET", 2, run_slowlog_reset),
    ),
    replace(_row("MONITOR", 1, run_monitor), in_multi="refused"),
    replace(_row("SHUTDOWN", -1, run_shutdown), in_multi="refused"),
    _row("BGREWRITEAOF", 1, run_bgrewriteaof),
    first_word(
        "DEBUG",
        _row("DEBUG|SLEEP", 3, run_debug_sleep),
        Command("DEBUG|FLUSHALL", JOBS.name, "admin", 2, run=run_debug_flushall, queues=no_queues),
    ),
]
