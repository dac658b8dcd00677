"""Reading a list of ids that others change meanwhile, a slice at a time.

Called by   cleaning.py.
Calls       LRANGE.

Ids come in on the left and go on the right:

    new ones ──▶ | a b c d | e f g h | i j k l | ──▶ handed out
                   read      read ↑    to read
                                  last

A new id moves the others to the right: a slice begins with ids that were read, and `last` marks
where the unread ones begin. An id that left the list on the right was read, or a worker holds it.
So every id that stays in the list is read. An id that is removed from the middle moves the others
to the left, and therefore a slice overlaps the one before it.

Not here: the use of the ids (cleaning.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quinque.workqueue.counts import Phase, Progress
from quinque.workqueue.steps import Command, Steps

SLICE: Final = 5_000  # ids: Redis takes 0.2 ms for them, bench/work_queue.py
_OVERLAP: Final = 16  # ids

Visit = Callable[[list[bytes]], None]


def read_list(
    key: bytes, visit: Visit, phase: Phase, *, until: bytes | None = None, size: int = SLICE
) -> Steps[None]:
    """Every id was given to `visit`, in slices, from the left; some perhaps more than once.

    With `until`, only those left of that id, if it is still there.
    """
    total = at = 0
    last: bytes | None = None
    while True:
        start = max(0, at - _OVERLAP)
        ids: list[bytes] = yield Command(("LRANGE", key, start, start + size - 1))
        unread = _after(last, ids)
        if until is not None and until in unread:
            visit(unread[: unread.index(until)])
            return
        visit(unread)
        if len(ids) < size:
            yield Progress(phase, start + len(ids), start + len(ids))
            return
        if not total:
            total = yield Command(("LLEN", key))
        yield Progress(phase, min(total, start + len(ids)), total)
        if last is not None and len(unread) == len(ids):
            # The last slice was not found, because many ids were removed. Read all ids again.
            at = max(0, at - size)
        else:
            at = start + len(ids)
        last = ids[-1]


def _after(last: bytes | None, ids: list[bytes]) -> list[bytes]:
    """Return the ids after the last one that was read, or all of them if it is not in the slice."""
    if last is None:
        return ids
    try:
        return ids[ids.index(last) + 1 :]
    except ValueError:
        return ids
