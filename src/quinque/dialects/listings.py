"""The limit of replies that list all objects of a type, such as all tubes.

Called by   tube_catalog.py, tarantool_tubes.py, claim_replies.py, stages.py.
Calls       nothing.

A reply is made in one go, and no other client is served meanwhile. So it has a limit, like the
replies of QSTATUS and QINFO. The error says how to get the rest.

Not here: the counts of events queues (bananaq.py), scans (keys.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quinque.dialects.command import Session
from quinque.errors import LimitReached
from quinque.model.limits import COUNTS_MOST, COUNTS_MOST_BYTES

NAME_A_TUBE = "name a tube; over RESP, SCAN 0 TYPE tubes lists the names"


def seen_by(session: Session) -> Callable[[bytes], bool] | None:
    """Return a function that tells whether the user may see a queue, or None if that is every
    queue."""
    return None if session.sees_all() else session.sees


def check_listing(what: str, rows: int, names: Sequence[bytes], instead: str) -> None:
    """Raise LimitReached if there are too many rows, or too many bytes of names, for one reply."""
    if rows > COUNTS_MOST:
        raise LimitReached(f"{what} are over {COUNTS_MOST} rows in one reply: {instead}")
    size_bytes = sum(map(len, names))
    if size_bytes > COUNTS_MOST_BYTES:
        raise LimitReached(
            f"the names of {what} have {size_bytes} bytes, and at most {COUNTS_MOST_BYTES} are sent"
            f" in one reply: {instead}"
        )
