"""The exit codes of all commands and their meanings: one table, for scripts.

Called by   cli/asking.py; docs/cli.md shows it, and tests/cli/test_exit_codes.py compares them.
Calls       nothing.

Not here: the modules of other commands, which return their codes (cli/check.py, cli/copy.py,
cli/clean.py, cli/pipeline_run.py, cli/serve.py, cli/spark.py, worker/supervisor.py).
"""

from __future__ import annotations

import signal
from typing import Final

from quinque.errors import (
    BadSetting,
    EmptyKey,
    NoMessage,
    NoQueue,
    NotABroker,
    NoTask,
    NotDone,
    QuinqueError,
    StoreUnavailable,
)

DONE, NOTHING, ASKED_WRONGLY, REFUSED, NOT_REACHED, NOT_HERE = range(6)
# As in shells: 128 plus the number of the signal.
HUNG_UP, INTERRUPTED, NOT_READ, TERMINATED = (
    128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
)

# The commands that send requests to a broker. They share their codes.
BROKER_COMMANDS: Final = ("queue", "message", "dead", "claims", "top", "bench", "cli")

MEANINGS: Final = {
    DONE: "Success.",
    NOTHING: "Nothing found: the queue, the message or the subscription does not exist, there is no"
    " message to take, or `--id` is used already.",
    ASKED_WRONGLY: "Wrong usage: an option is unknown, the family of the queue does not support the"
    " command, or a confirmation is missing.",
    REFUSED: "The broker refused the request. The error is its reply.",
    NOT_REACHED: "No broker answered in time.",
    NOT_HERE: "A local failure: stdout cannot be written or stdin cannot be read.",
    HUNG_UP: "The terminal was closed (SIGHUP).",
    INTERRUPTED: "Interrupted by Ctrl-C (SIGINT).",
    NOT_READ: "The reader of stdout closed it, for example `head`.",
    TERMINATED: "Terminated by SIGTERM.",
}

# By command, in the order of the help; the broker commands are one entry.
CODES: Final = {
    "broker commands": MEANINGS,
    "serve": {
        0: "The broker stopped cleanly, after a signal or `SHUTDOWN`.",
        1: "The broker cannot start until you act: the journal is corrupted, or Redis is not set up"
        " for a broker, because its `maxmemory-policy`, the password or a right of the user is"
        " wrong.",
        2: "A setting or an argument is wrong.",
        4: "The broker cannot start now, but may start later: Redis does not answer, or another"
        " process uses the data directory or an address of the broker. Or an unexpected error ended"
        " it while it ran.",
    },
    "check": {
        0: "The data directory is intact, or was repaired.",
        1: "The data directory is corrupted, or another process uses it.",
        2: "Wrong usage, or the path is not a readable data directory.",
    },
    "copy": {
        0: "The copy is complete and identical.",
        1: "The copy failed or was interrupted. Run the same command again to continue.",
        2: "Wrong usage, or the copy is refused because of the source or the target.",
        3: "The copy is complete, but differs from the source.",
    },
    "work": {
        0: "The worker stopped cleanly.",
        1: "A process did not stop cleanly, or messages could not be returned.",
        2: "Wrong usage, or the app does not exist.",
        4: "The address of `--http-listen` is in use.",
    },
    "pipeline": {
        0: "The job is done. For `audit`: the audit passed.",
        1: "The job failed or was interrupted. For `audit`: the audit failed.",
        2: "Wrong usage, or a package or Java is missing.",
    },
    "spark": {
        0: "The environment was printed. With a PROGRAM, the code is that of the program.",
        2: "A package or Java is missing, or PROGRAM cannot be run.",
    },
    "clean": {
        0: "The cleaning is done (`--once`), or a signal stopped the command.",
        1: "Redis did not answer, or a key has the wrong type. Without `--once` the command"
        " retries, unless a cluster does not answer at the start.",
        2: "Wrong usage.",
        3: "A dry run found something to repair.",
    },
    "completion": {
        0: "The script was printed.",
        2: "Wrong usage.",
    },
}


def code_of(error: QuinqueError) -> int:
    """Return the code of a command that ended with the error."""
    match error:
        case NotABroker():
            return NOT_REACHED
        case BadSetting():
            return ASKED_WRONGLY
        case NoQueue() | EmptyKey() | NoMessage() | NoTask():
            return NOTHING
        case NotDone() | StoreUnavailable():
            return NOT_REACHED
    return REFUSED
