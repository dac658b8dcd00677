"""Messages in the order of their places, where any of them may go at any time.

Called by   worklist.py.
Calls       nothing.

    separators   [0,           5120,           9001]       no place in a block is less than its own,
    blocks       [[17, 40, …], [5120, 5133, …], [9001, …]]  and all are less than the next block's
    untils       [1000,        never,          2000]       by then all of a block have expired

A list of short sorted lists. New messages have the largest place, so adding is an append to the
last block; the first ones are cut off the first block, many at once; one in the middle is found by
two bisections. A block is short enough that shifting it costs less than finding the place.

Messages that have expired stay until the store removes them, a few at a time. A reader steps over a
whole block of them at once, so a million that expired together are a thousand steps.

Not here: which messages are in it (worklist.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from quinque.engine.work.message import WorkMessage
from quinque.model.limits import NEVER_MS

# Half of 1,024 pointers are 4 KiB to shift, which takes about 0.1 µs. Not Final: compiled, a test
# could not make blocks short.
BLOCK_MOST = 1024


class Order:
    __slots__ = ("_block_most", "_blocks", "_separators", "_untils", "size")

    def __init__(self, messages: Sequence[WorkMessage] = ()) -> None:
        """`messages` are in the order of their places."""
        self.size = len(messages)
        self._block_most = most = BLOCK_MOST
        if not messages:  # as in each queue that is new or was emptied
            self._blocks: list[list[WorkMessage]] = [[]]
            self._separators = [0]
            self._untils = [0]
            return
        starts = range(0, len(messages), most)
        self._blocks = [list(messages[at : at + most]) for at in starts]
        self._separators = [0, *(block[0].place for block in self._blocks[1:])]
        self._untils = [_until(block) for block in self._blocks]

    def add(self, message: WorkMessage) -> None:
        block = self._blocks[-1]
        if block and message.place < block[-1].place:
            self._add_within(message)
        elif len(block) < self._block_most:
            block.append(message)
            self._untils[-1] = max(self._untils[-1], message.expires_ms or NEVER_MS)
        else:
            self._blocks.append([message])
            self._separators.append(message.place)
            self._untils.append(message.expires_ms or NEVER_MS)
        self.size += 1

    def add_last(self, messages: Sequence[WorkMessage]) -> None:
        """Messages, in their order, whose places are larger than all that are here."""
        block = self._blocks[-1]
        if len(block) + len(messages) <= self._block_most:
            block += messages
            self.size += len(messages)
            self._untils[-1] = max(self._untils[-1], _until(messages))
        else:
            for message in messages:
                self.add(message)

    def remove(self, message: WorkMessage) -> None:
        """Remove the message, which is here."""
        at = self._block_of(message.place)
        block = self._blocks[at]
        where = _position(block, message.place)
        assert block[where] is message, "a message is where its place is"
        del block[where]
        self.size -= 1
        if not block:
            self._drop(at)

    def first(self, most: int) -> list[WorkMessage]:
        """Return the first messages, at most `most`."""
        block = self._blocks[0]
        if most <= len(block) or len(self._blocks) == 1:
            return block[:most]
        found: list[WorkMessage] = []
        for block in self._blocks:
            found += block[: most - len(found)]
            if len(found) == most:
                break
        return found

    def living(self, most: int, now_ms: int) -> list[WorkMessage]:
        """Return the first messages that have not expired, at most `most`."""
        found = self.first(most)
        for message in found:
            if 0 < message.expires_ms <= now_ms:
                break
        else:
            return found  # as nearly always
        found = []
        for at, block in enumerate(self._blocks):
            if self._untils[at] <= now_ms:
                continue
            before = len(found)
            for message in block:
                if not 0 < message.expires_ms <= now_ms:
                    found.append(message)
                    if len(found) == most:
                        return found
            if len(found) == before:
                self._untils[at] = _until(
                    block
                )  # the message with the longest time to live was removed
        return found

    def last(self, most: int) -> list[WorkMessage]:
        """Return the last messages, the last one first. `most` is greater than 0."""
        found: list[WorkMessage] = []
        for block in reversed(self._blocks):
            some = block[-(most - len(found)) :]
            some.reverse()
            found += some
            if len(found) == most:
                break
        return found

    def slice(self, start: int, count: int) -> list[WorkMessage]:
        """`count` messages from the one at `start` on, counted from 0; fewer at the end."""
        found: list[WorkMessage] = []
        for block in self._blocks:
            if start < len(block):
                found += block[start : start + count - len(found)]
                if len(found) == count:
                    break
            start = max(0, start - len(block))
        return found

    def after(self, place: int, most: int) -> list[WorkMessage]:
        """Return the first messages with a later position, at most `most`."""
        found: list[WorkMessage] = []
        at = self._block_of(place + 1)
        start = _position(self._blocks[at], place + 1)
        while at < len(self._blocks) and len(found) < most:
            found += self._blocks[at][start : start + most - len(found)]
            at, start = at + 1, 0
        return found

    def before(self, place: int) -> WorkMessage | None:
        """The last one of a smaller place, if there is one."""
        at = self._block_of(place)
        where = _position(self._blocks[at], place)
        if where:
            return self._blocks[at][where - 1]
        return self._blocks[at - 1][-1] if at else None

    def samples(self) -> list[tuple[int, int]]:
        """Places in their order, each with how many there are up to it, from the one before on."""
        return [(block[-1].place, len(block)) for block in self._blocks if block]

    def drop_first(self, count: int) -> None:
        """Remove the first `count`, which are here."""
        self.size -= count
        while count:
            block = self._blocks[0]
            some = min(count, len(block))
            del block[:some]
            count -= some
            if not block:
                self._drop(0)

    def __iter__(self) -> Iterator[WorkMessage]:
        for block in self._blocks:
            yield from block

    def _add_within(self, message: WorkMessage) -> None:
        at = self._block_of(message.place)
        block = self._blocks[at]
        block.insert(_position(block, message.place), message)
        self._untils[at] = max(self._untils[at], message.expires_ms or NEVER_MS)
        if len(block) > self._block_most:
            half = len(block) // 2
            self._blocks.insert(at + 1, block[half:])
            self._separators.insert(at + 1, block[half].place)
            self._untils.insert(at + 1, self._untils[at])
            del block[half:]

    def _block_of(self, place: int) -> int:
        return max(0, bisect_right(self._separators, place) - 1)

    def _drop(self, at: int) -> None:
        """The block is empty; the last one left stays."""
        if len(self._blocks) > 1:
            del self._blocks[at]
            del self._separators[at]
            del self._untils[at]
            self._separators[0] = 0
        else:
            self._untils[0] = 0


def _until(messages: Sequence[WorkMessage]) -> int:
    """Return when all of the messages have expired."""
    return max((message.expires_ms or NEVER_MS for message in messages), default=0)


def _position(block: list[WorkMessage], place: int) -> int:
    """Return the index of the first message with at least that position."""
    # Like bisect_left, which would need a second list with the positions.
    low, high = 0, len(block)
    while low < high:
        middle = (low + high) // 2
        if block[middle].place < place:
            low = middle + 1
        else:
            high = middle
    return low
