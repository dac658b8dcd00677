"""When each queue next has something due: what a store's ticks go by.

Called by   books.py (sets), store.py (ticks).
Calls       nothing.

An alarm only reminds: its queue may since have an earlier one, or be gone, so each is checked when
it comes up.

Not here: what is due (engine/feed/due.py).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from quinque.engine.queue import Queue
from quinque.model.limits import NEVER_MS


class Alarms:
    def __init__(self, queues: dict[bytes, Queue]) -> None:
        self._queues = queues
        self._heap: list[tuple[int, bytes]] = []
        for queue in queues.values():
            self.set(queue)

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, queue: Queue) -> None:
        """The queue is taken when it next has something due."""
        queue.alarm_ms = queue.soonest_ms
        if queue.alarm_ms >= NEVER_MS:
            return
        heappush(self._heap, (queue.alarm_ms, queue.name))
        # Those of queues that came and went would pile up until they are due.
        if len(self._heap) > 2 * len(self._queues) + 1024:
            living = [it for it in self._queues.values() if it.alarm_ms < NEVER_MS]
            self._heap = [(it.alarm_ms, it.name) for it in living]
            heapify(self._heap)

    def take(self, now_ms: int) -> Queue | None:
        """A queue that has something due by now; it has no alarm until one is set."""
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, name = heappop(self._heap)
            queue = self._queues.get(name)
            if queue is not None and queue.alarm_ms == due_ms:
                queue.alarm_ms = NEVER_MS
                return queue
        return None

    def next_ms(self) -> int:
        """When the next one comes up."""
        return self._heap[0][0] if self._heap else NEVER_MS
