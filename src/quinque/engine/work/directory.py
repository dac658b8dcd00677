"""The messages of all work queues by id, because a client acks an id without naming the queue.

Called by   worklist.py (they come and go), stores (find, scan).
Calls       nothing.

A worklist that was emptied leaves its messages here until they are removed, a little at a time.
They are not found any more: their numbers are less than all that the worklist has had since.

For scans they are numbered as they come, and lie on shelves of as many numbers each. A shelf on
which nothing is left goes; one that is half empty is tidied up, so that what is gone takes no room
for long. A scan goes on where it stopped, number by number, however much came and went in between.

Not here: the messages of one worklist (worklist.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quinque.model.limits import SCAN_MOST

if TYPE_CHECKING:
    from quinque.engine.work.message import WorkMessage

SHELF_BITS: Final = 8  # 256 numbers: little to tidy up at once


class Shelf:
    __slots__ = ("living", "messages")

    def __init__(self) -> None:
        self.messages: list[WorkMessage] = []
        self.living = 0


class Directory:
    __slots__ = ("_newest", "_shelves", "by_id", "next")

    def __init__(self, next: int = 1) -> None:
        self.by_id: dict[bytes, WorkMessage] = {}
        self.next = next  # number of the next message
        self._newest = Shelf()
        self._shelves: dict[int, Shelf] = {next >> SHELF_BITS: self._newest}

    def get(self, id: bytes) -> WorkMessage | None:
        """The message of that id."""
        message = self.by_id.get(id)
        return message if message is not None and not message.is_gone else None

    def add(self, message: WorkMessage) -> None:
        self.by_id[message.id] = message
        number = self.next
        self.next = number + 1
        shelf = self._newest
        if not number & ((1 << SHELF_BITS) - 1):
            if not shelf.living:
                self._shelves.pop((number >> SHELF_BITS) - 1, None)
            shelf = self._newest = self._shelves[number >> SHELF_BITS] = Shelf()
        message.number = number
        shelf.messages.append(message)
        shelf.living += 1

    def remove(self, message: WorkMessage) -> None:
        """Remove the message, which is here."""
        if self.by_id.get(message.id) is message:  # else another has its id by now
            del self.by_id[message.id]
        at = message.number >> SHELF_BITS
        shelf = self._shelves[at]
        message.number = 0
        shelf.living -= 1
        if 2 * shelf.living < len(shelf.messages):
            if shelf.living or shelf is self._newest:
                shelf.messages = [left for left in shelf.messages if left.number]
            else:
                del self._shelves[at]

    def scan(self, cursor: int, count: int) -> tuple[int, list[WorkMessage]]:
        """The messages numbered `cursor` and more, `count` if there are as many, and the cursor to
        go on with: 0 at the end. Fewer come where many are gone and not removed yet."""
        found: list[WorkMessage] = []
        passed = 0
        for at in sorted(self._shelves):
            if at < cursor >> SHELF_BITS:
                continue
            for message in self._shelves[at].messages:
                if message.number >= max(cursor, 1):
                    if len(found) == count or passed == SCAN_MOST:
                        return message.number, found
                    if message.is_gone:
                        passed += 1
                    else:
                        found.append(message)
        return 0, found
