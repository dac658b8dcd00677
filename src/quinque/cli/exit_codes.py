"""With which code a command ends that asks a broker: one table, for scripts.

Called by   cli/asking.py; docs/cli.md shows it, and tests/cli/test_exit_codes.py compares them.
Calls       nothing.

Not here: commands that ask no broker, each of which says its codes (cli/check.py, cli/copy.py,
cli/clean.py, cli/pipeline.py).
"""

from __future__ import annotations

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

DONE, NOTHING, ASKED_WRONGLY, REFUSED, NOT_REACHED = range(5)
INTERRUPTED: Final = 130  # as shells have it: 128, and the number of SIGINT

MEANINGS: Final = {
    DONE: "done, or found",
    NOTHING: "there is nothing such: no queue, no message",
    ASKED_WRONGLY: "asked wrongly: no such option, or the queue's family has no such thing",
    REFUSED: "the broker refused, and said why",
    NOT_REACHED: "no broker was reached, or none answered in time",
    INTERRUPTED: "interrupted by Ctrl-C",
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
