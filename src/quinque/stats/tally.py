"""Count the state changes of messages by queue. The counts only grow.

Called by   the stores, for each change of messages' states; server/metrics.py (reads).
Calls       nothing.

A change is counted by a code that combines its type and its reason (model/lifecycle.py). In an
events queue, an event is added and removed once, but delivered, acked and returned once for each
group. So the first are counted without a group, and the others with one.

Not here: changes before the broker started.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from quinque.model.families import EVENTS
from quinque.model.lifecycle import Kind, Reason

_ONCE: Final = frozenset({int(Kind.ADDED), int(Kind.EXPIRED), int(Kind.REMOVED)})
_EVENTS: Final = EVENTS.code
_RENAMED: Final = int(Reason.RENAMED)
# Queues that were removed are forgotten when there are this many more of them.
_GONE_MOST: Final = 1_000
# A broker may meet new names without end; then it forgets the one it has known longest.
_QUEUES_MOST: Final = 100_000


def change_code(kind: int, reason: int) -> int:
    return kind << 8 | reason


class Tally:
    __slots__ = ("by_queue",)

    def __init__(self) -> None:
        self.by_queue: dict[bytes, dict[int, int]] = {}  # by code

    def add(
        self, kind: int, reason: int, family: int, queue: bytes, group: bytes, count: int
    ) -> None:
        """Count that `count` messages of the queue changed in this way."""
        if reason == _RENAMED or (family == _EVENTS and (kind in _ONCE) == bool(group)):
            return
        counts = self.by_queue.get(queue)
        if counts is None:
            if len(self.by_queue) >= _QUEUES_MOST:
                del self.by_queue[next(iter(self.by_queue))]
            counts = self.by_queue[queue] = {}
        code = kind << 8 | reason
        counts[code] = counts.get(code, 0) + count

    def forget_all_but(self, queues: Collection[bytes]) -> None:
        """Forget queues that do not exist any more, once there are many."""
        if len(self.by_queue) > 2 * len(queues) + _GONE_MOST:
            self.by_queue = {
                name: counts for name, counts in self.by_queue.items() if name in queues
            }
