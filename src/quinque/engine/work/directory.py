"""The messages of all worklists, by id: a client that acks names an id and no queue.

Called by   worklist.py (they come and go), stores (find, scan).
Calls       nothing.

For scans they are numbered as they come, and lie on shelves of as many numbers each. A shelf on
which nothing is left goes; one that is half empty is tidied up, so that what is gone takes no room
for long. A scan goes on where it stopped, number by number, however much came and went in between.

Not here: the messages of one worklist (worklist.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quinque.engine.work.message import WorkMessage

SHELF_BITS: Final = 8  # 256 numbers: little to tidy up at once


class Shelf:
    __slots__ = ("living", "messages")

    def __init__(self) -> None:
        self.messages: list[WorkMessage] = []
        self.living = 0


class Directory:
    __slots__ = ("_newest", "_next", "_shelves", "by_id")

    def __init__(self) -> None:
        self.by_id: dict[bytes, WorkMessage] = {}
        self._next = 1
        self._newest = Shelf()
        self._shelves: dict[int, Shelf] = {0: self._newest}

    def add(self, message: WorkMessage) -> None:
        self.by_id[message.id] = message
        number = self._next
        self._next = number + 1
        shelf = self._newest
        if not number & ((1 << SHELF_BITS) - 1):
            if not shelf.living:
                del self._shelves[(number >> SHELF_BITS) - 1]
            shelf = self._newest = self._shelves[number >> SHELF_BITS] = Shelf()
        message.number = number
        shelf.messages.append(message)
        shelf.living += 1

    def remove(self, message: WorkMessage) -> None:
        """The message, which is here, is here no more."""
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
        go on with: 0 at the end."""
        found: list[WorkMessage] = []
        for at in sorted(self._shelves):
            if at < cursor >> SHELF_BITS:
                continue
            for message in self._shelves[at].messages:
                if message.number >= max(cursor, 1):
                    if len(found) == count:
                        return message.number, found
                    found.append(message)
        return 0, found
