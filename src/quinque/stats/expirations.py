"""Count the jobs of each queue that expired unfinished since the last log line.

Called by   the stores, which count; server/expiry_log.py, which logs it.
Calls       nothing.

Not here: counts that only grow (tally.py), which have expired messages of every family.
"""

from __future__ import annotations

from typing import Final

# Names that are kept between two lines of the log; of more queues only the jobs are counted.
_QUEUES_MOST: Final = 100


class Expirations:
    __slots__ = ("by_queue", "of_others")

    def __init__(self) -> None:
        self.by_queue: dict[bytes, int] = {}
        self.of_others = 0  # jobs of queues that are not among these

    def add(self, queue: bytes, count: int) -> None:
        """Count jobs of the queue that expired and were deleted."""
        if queue in self.by_queue or len(self.by_queue) < _QUEUES_MOST:
            self.by_queue[queue] = self.by_queue.get(queue, 0) + count
        else:
            self.of_others += count

    def take(self) -> tuple[dict[bytes, int], int]:
        """Return the counts, and start again from zero."""
        taken = self.by_queue, self.of_others
        self.by_queue, self.of_others = {}, 0
        return taken
