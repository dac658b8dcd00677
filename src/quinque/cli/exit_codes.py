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
    DONE: "done, or found",
    NOTHING: "there is nothing such: no queue, no message",
    ASKED_WRONGLY: "asked wrongly: no such option, or the queue's family has no such thing",
    REFUSED: "the broker refused, and said why",
    NOT_REACHED: "no broker was reached, or none answered in time",
    NOT_HERE: "this machine did not let it: stdout is full, or stdin cannot be read",
    HUNG_UP: "the terminal was closed",
    INTERRUPTED: "interrupted by Ctrl-C",
    NOT_READ: "whoever read stdout had enough, as `head` does",
    TERMINATED: "ended by SIGTERM",
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
