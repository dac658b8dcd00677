"""The former content of an emptied queue: no consumer finds it, and it goes a little at a time.

To free a million messages takes as long as to add them. So a queue that is emptied gives all that
was in it to a Remains, which takes no time, and the store removes some of that with each tick.

Not here: the messages of each kind of queue (feed/remains.py, work/remains.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from quinque.model.message import Message


class Remains:
    def __init__(self, size: int, *, is_shared: bool = False) -> None:
        self.size = size  # messages that are left
        self.is_shared = is_shared  # whether they are in the directory of all queues

    def drop_some(self, most: int) -> Sequence[Message]:
        """Remove up to `most` messages in the order of their positions, and return them. Empty
        while the order is being found."""
        raise NotImplementedError
