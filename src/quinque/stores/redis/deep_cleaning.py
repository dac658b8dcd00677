"""Deep cleaning of a queue of items: every item is in one list once, and nothing else is in any.

Called by   cleaning.py.
Calls       the scripts items_read, items_drop, items_keys and items_lost.

    1  `processing` is cleaned lightly, and read
    2  `queue` is read; ids without an item, and those that are there twice, are dropped
    3  all items are looked for among the keys; those that were in neither list may be lost
    4  what is lost goes back, each after one more look at the lists

Both lists change while they are read, so what was read is only a suspicion, and every script looks
for itself before it changes something. No script takes long, however long the lists are.

It is steps like an operation's, which stop when enough was done. The next call with the cursor goes
on with them. A broker that does not have them, because another one began, starts from the
beginning.

Not here: light cleaning (cleaning.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from quinque.model.families import ITEMS
from quinque.model.own_ops import Cleaned
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.items import items_call
from quinque.stores.redis.keys import slot_key, slot_of

_READ_MOST: Final = 1_000  # ids of a list, or keys, looked at by one call: 1 ms
_DROP_MOST: Final = 20  # by one call, each with two looks at 500 ids: 2 ms
_LOST_MOST: Final = 100
_READINGS_MOST: Final = 3  # of a very long queue to which much is added meanwhile

_NO_ITEM: Final = -1  # as items_drop.lua has them
_HELD: Final = -2
_GONE: Final = ord("g")  # as items_read.lua has it
_SPECIAL: Final = re.compile(rb"([\\*?\[\]])")  # in patterns of Redis


class DeepCleaning:
    """A deep cleaning that is under way, in slices."""

    def __init__(self, queue: bytes, edge: Edge) -> None:
        self.queue = queue
        self._edge = edge
        self._found = Cleaned(0, 0, 0, 0, 0)  # by this slice
        self._work = 0  # ids and keys that it looked at
        self._places: dict[bytes, int] = {}  # of the ids in `queue`, from the left
        self._held: set[bytes] = set()  # the ids in `processing`
        self._steps = self._clean()
        self._results: list[Any] | None = None

    def go_on(self, count: int) -> Steps:
        """A slice: about `count` ids and keys are looked at. What it found, and whether that was
        the end."""
        self._found = Cleaned(0, 0, 0, 0, 0)
        self._work = 0
        while self._work < count:
            try:
                calls = (
                    next(self._steps) if self._results is None else self._steps.send(self._results)
                )
            except StopIteration:
                return self._found, True
            self._results = yield calls
        return self._found, False

    def _clean(self) -> Steps:
        yield from self._clean_lightly()
        yield from self._read_processing()
        yield from self._read_queue()
        suspects: list[bytes] = yield from self._find_unlisted()
        yield from self._return(suspects)

    def _clean_lightly(self) -> Steps:
        skipped = 0
        while skipped >= 0:
            (reply,) = yield [self._call("items_clean", skipped, _READ_MOST // 2, 0)]
            skipped, looked_at, returned, dropped, doubled = reply or (-1, 0, 0, 0, 0)
            self._looked_at(looked_at)
            self._found.returned += returned
            self._found.dropped += dropped
            self._found.doubled += doubled

    def _read_processing(self) -> Steps:
        at = 0
        while ids := (yield from self._read(b"processing", at))[0]:
            self._held.update(ids)
            at += len(ids)

    def _read_queue(self) -> Steps:
        at = 0
        while True:
            ids, letters = yield from self._read(b"queue", at)
            if not ids:
                return
            dropped = yield from self._drop(list(self._unwanted(ids, letters, at)))
            at += len(ids) - dropped

    def _unwanted(self, ids: Sequence[bytes], letters: bytes, at: int) -> Iterator[Sequence[Arg]]:
        """The ids that should not be there, as arguments of items_drop.lua; note the others."""
        for place, (id, letter) in enumerate(zip(ids, letters, strict=True), at):
            if letter == _GONE:
                yield id, place, _NO_ITEM
            elif id in self._places:
                # It may be the same one, if some were added on the left since it was read.
                yield id, self._places[id], place
            else:
                self._places[id] = place
                if id in self._held:
                    yield id, place, _HELD

    def _drop(self, unwanted: Sequence[Sequence[Arg]]) -> Steps:
        """Remove the ids. Return how many were removed."""
        before = self._found.dropped + self._found.doubled
        for some in _slices(unwanted, _DROP_MOST):
            (reply,) = yield [self._call("items_drop", *(arg for row in some for arg in row))]
            self._found.dropped += reply[0]
            self._found.doubled += reply[1]
        return self._found.dropped + self._found.doubled - before

    def _find_unlisted(self) -> Steps:
        """Items that were in no list when it was read."""
        key = slot_key(slot_of(self.queue))
        pattern = _SPECIAL.sub(rb"\\\1", self.queue) + b":item:*"
        found: dict[bytes, None] = {}
        cursor = b"0"
        while True:
            argv: list[Arg] = [ITEMS.code, self.queue, pattern, cursor, _READ_MOST]
            (reply,) = yield [Call("items_keys", [key], argv)]
            cursor, ids = reply
            self._work += _READ_MOST
            self._found.looked_at += len(ids)
            unlisted = (id for id in ids if id not in self._places and id not in self._held)
            found.update(dict.fromkeys(unlisted))
            if cursor == b"0":
                return list(found)

    def _return(self, suspects: Sequence[bytes]) -> Steps:
        """Return the lost items to the queue."""
        landmark: bytes | None = None
        readings = 0
        left = list(suspects)
        while left:
            some = left[:_LOST_MOST]
            argv: list[Arg] = [int(landmark is not None), landmark or b"", *some]
            (reply,) = yield [self._call("items_lost", *argv)]
            looked_at, returned = reply
            self._found.returned += returned
            left = left[looked_at:]
            if not looked_at:
                if readings == _READINGS_MOST:
                    return  # the next deep cleaning finds them
                readings += 1
                landmark = yield from self._read_again(left)

    def _read_again(self, suspects: list[bytes]) -> Steps:
        """The queue's first id on the left. Remove suspects that are in the queue after all."""
        first: bytes | None = None
        wanted, listed = set(suspects), set[bytes]()
        at = 0
        while ids := (yield from self._read(b"queue", at))[0]:
            first = first if first is not None else ids[0]
            listed.update(wanted.intersection(ids))
            at += len(ids)
        suspects[:] = [id for id in suspects if id not in listed]
        return first

    def _read(self, kind: bytes, at: int) -> Steps:
        (reply,) = yield [self._call("items_read", kind, at, _READ_MOST)]
        self._looked_at(len(reply[0]))
        return reply

    def _looked_at(self, count: int) -> None:
        self._found.looked_at += count
        self._work += count

    def _call(self, script: str, *argv: Arg) -> Call:
        return items_call(script, self.queue, self._edge, *argv)


def _slices(rows: Sequence[Sequence[Arg]], most: int) -> Iterator[Sequence[Sequence[Arg]]]:
    for at in range(0, len(rows), most):
        yield rows[at : at + most]
