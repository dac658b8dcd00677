"""Worklists that are spread over several slots, and which of those have something.

Called by   the steps of operations (taking.py, worklists.py, looks.py), store.py (what was heard).
Calls       nothing.

A worklist lies in the slot of its name. If it is too hot for one server, it is spread over several
slots, its partitions; each is a worklist of that name in its slot. Their places are fixed, far from
each other, so that there can be more later:

    partition  0      1           2           3            …
    slot       home   home+8192   home+4096   home+12288

Fewer partitions may be written to than are read from: what lies in the others is still handed out.

A reader does not ask all partitions each time. It goes where something is believed to be: where a
message went, or where the last reader left something. Only when nothing is believed anywhere, all
are asked, at the same time.

Not here: how many partitions there are to be (the key `partitions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quinque.stores.redis.keys import SLOTS, slot_of


class Counts(NamedTuple):
    written: int
    read: int


class Spread:
    def __init__(self) -> None:
        self._counts: dict[bytes, Counts] = {}
        self._turns: dict[bytes, int] = {}  # the partition that gets the next message
        self._believed: dict[bytes, dict[int, None]] = {}  # slots, the next to be read from first

    def learn(self, rows: Sequence[bytes]) -> None:
        """Record the partitioned work queues that find_partitions returned."""
        self._counts = {
            name: Counts(*map(int, counts.split()))
            for name, counts in zip(rows[::2], rows[1::2], strict=True)
        }
        for gone in self._believed.keys() - self._counts.keys():
            del self._believed[gone]

    def set(self, queue: bytes, written: int, read: int) -> None:
        """The worklist is spread like this from here on."""
        if read > 1:
            self._counts[queue] = Counts(written, read)
        else:
            self._counts.pop(queue, None)

    def is_spread(self, queue: bytes) -> bool:
        return queue in self._counts

    def partitions(self, queue: bytes) -> int:
        """Return how many partitions accept messages."""
        counts = self._counts.get(queue)
        return counts.written if counts is not None else 1

    def read_slots(self, queue: bytes) -> Sequence[int]:
        """Where something of the worklist may lie; its home first."""
        counts = self._counts.get(queue)
        if counts is None:
            return (slot_of(queue),)
        return [slot_of_partition(queue, number) for number in range(counts.read)]

    def next_slot(self, queue: bytes) -> int:
        """Where the next message goes."""
        counts = self._counts.get(queue)
        if counts is None:
            return slot_of(queue)
        turn = self._turns.get(queue, 0) % counts.written
        self._turns[queue] = turn + 1
        return slot_of_partition(queue, turn)

    # -- where something is believed to be -------------------------------------------------------

    def believe(self, queue: bytes, slots: Iterable[int]) -> None:
        """There is something in these slots."""
        if queue in self._counts:
            self._believed.setdefault(queue, {}).update(dict.fromkeys(slots))

    def next_believed(self, queue: bytes) -> int | None:
        """A slot where something is believed to be. The next reader gets another one."""
        believed = self._believed.get(queue)
        if not believed:
            return None
        slot = next(iter(believed))
        del believed[slot]
        believed[slot] = None
        return slot

    def doubt(self, queue: bytes, slot: int) -> None:
        """Do not expect messages of the queue in the slot."""
        believed = self._believed.get(queue)
        if believed is not None:
            believed.pop(slot, None)


def slot_of_partition(queue: bytes, number: int) -> int:
    """The slot of a partition: the bits of its number, read backwards, are how far it is from
    home."""
    offset = int(f"{number:014b}"[::-1], 2)
    return (slot_of(queue) + offset) % SLOTS
