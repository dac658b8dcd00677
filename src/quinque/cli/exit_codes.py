"""With which code a command ends that asks a broker: one table, for scripts.

Called by   cli/asking.py; docs/cli.md shows it, and tests/cli/test_exit_codes.py compares them.
Calls       nothing.

Not here: commands that ask no broker, each of which says its codes (cli/check.py, cli/copy.py,
cli/clean.py, cli/pipeline.py).
"""

from __future__ import annotations

import signal
from typing import Final

from quinque.errors import (
    BadSetting,
    EmptyKey,
    NoMessage,
    NoQueue,
    NoTask,
    NotDone,
    QuinqueError,
    StoreUnavailable,
)

DONE, NOTHING, ASKED_WRONGLY, REFUSED, NOT_REACHED, NOT_HERE = range(6)
# As shells have it: 128, and the number of the signal.
HUNG_UP, INTERRUPTED, NOT_READ, TERMINATED = (
    128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
)

MEANINGS: Final = {
    DONE: "success",
    NOTHING: "not found: the queue or the message does not exist",
    ASKED_WRONGLY: "wrong usage: unknown option, or not supported by the family of the queue",
    REFUSED: "the broker refused the request and returned the reason",
    NOT_REACHED: "no broker could be reached, or none answered in time",
    NOT_HERE: "a local failure: stdout is full, or stdin cannot be read",
    HUNG_UP: "the terminal was closed",
    INTERRUPTED: "interrupted by Ctrl-C",
    NOT_READ: "the reader of stdout closed it, for example `head`",
    TERMINATED: "terminated by SIGTERM",
}


def code_of(error: QuinqueError) -> int:
    """The code of a command that ended with the error."""
    match error:
        case BadSetting():
            return ASKED_WRONGLY
        case NoQueue() | EmptyKey() | NoMessage() | NoTask():
            return NOTHING
        case NotDone() | StoreUnavailable():
            return NOT_REACHED
    return REFUSED
