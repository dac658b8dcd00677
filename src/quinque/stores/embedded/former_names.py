"""Names that worklists had before: older records of the journal call them so.

Called by   queue_operations.py and replay.py (a worklist is renamed), compact.py (looks for what
            a record is about).
Calls       nothing.

A name is remembered as long as there may be records under it: until every segment up to the one
with the renaming is gone.

Not here: renaming itself (queue_operations.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from quinque.engine.queue import Queue
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist


class FormerNames:
    def __init__(self) -> None:
        # By name, those that had it, each with the segment that says it was renamed.
        self._worklists: dict[bytes, list[tuple[int, Worklist]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._worklists.values()))

    def add(self, name: bytes, queue: Worklist, segment: int) -> None:
        """The worklist had that name until then."""
        self._worklists.setdefault(name, []).append((segment, queue))

    def find(self, name: bytes, id: bytes) -> list[WorkMessage]:
        """The messages of that id in worklists that had the name."""
        found = [queue.find(id) for _, queue in self._worklists.get(name, ())]
        return [message for message in found if message is not None]

    def drop(self, first_segment: int, queues: Mapping[bytes, Queue]) -> None:
        """What was renamed before that segment, or is not among the queues, is not remembered."""
        self._worklists = {
            name: left
            for name, had in self._worklists.items()
            if (
                left := [
                    (segment, queue)
                    for segment, queue in had
                    if segment >= first_segment and queues.get(queue.name) is queue
                ]
            )
        }
