"""The former content of an emptied worklist (engine/remains.py).

The order of places is that of the three indexes together with the leased messages, which are in no
order: they are looked for in the chain and sorted first.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from quinque.engine.remains import Remains
from quinque.engine.work.directory import Directory
from quinque.engine.work.message import WorkMessage
from quinque.model.limits import NEVER_MS
from quinque.model.states import State

if TYPE_CHECKING:
    from quinque.engine.work.worklist import Worklist

_LEASED = int(State.LEASED)


class WorkRemains(Remains):
    def __init__(self, queue: Worklist, newest: WorkMessage | None, directory: Directory) -> None:
        """All that is in the worklist, whose chain ends with `newest`; `directory` has it."""
        super().__init__(queue.size, is_shared=not queue.family.owns_ids)
        self.newest = newest
        self._directory = directory
        self._orders = [queue.ready, queue.delayed, queue.dead]
        self._calendars = [queue.dues, queue.expiries]
        self._keys = queue.keys
        self._turns = queue.turns
        self._unsorted = queue.leased  # leased messages that are still to be found
        self._looked: WorkMessage | None = newest
        self._leased: list[tuple[int, int, WorkMessage]] = []  # a heap by place

    def drop_some(self, most: int) -> list[WorkMessage]:
        if self._unsorted:
            self._find_leased(4 * most)
            return []
        gone = self._first(most)
        for message in gone:
            before, after = message.before, message.after
            if before is not None:
                before.after = after
            if after is not None:
                after.before = before
            else:
                self.newest = before
            message.before = message.after = None
            self._directory.remove(message)
            self._let_go(message)
        self.size -= len(gone)
        # Reminders may be more than messages. They and the rest go with them, though not each with
        # its own message.
        for calendar in self._calendars:
            calendar.take(NEVER_MS - 1, 4 * most)
        for _ in range(min(most, len(self._keys))):
            self._keys.popitem()
        if self._turns is not None:
            for _ in range(min(most, len(self._turns))):
                self._turns.popitem()
        return gone

    def _find_leased(self, most: int) -> None:
        message = self._looked
        while message is not None and most and self._unsorted:
            if message.state == _LEASED:
                heappush(self._leased, (message.place, message.number, message))
                self._unsorted -= 1
            message = message.before
            most -= 1
        self._looked = message
        if message is None:
            self._unsorted = 0

    def _first(self, most: int) -> list[WorkMessage]:
        """The messages of the lowest places, which are in no index of their state any more."""
        found: list[WorkMessage] = []
        heads: list[tuple[int, int, WorkMessage]] = []
        for at, order in enumerate(self._orders):
            heads += [(message.place, at, message) for message in order.first(most)]
        for _ in range(min(most, len(self._leased))):
            place, _, message = heappop(self._leased)
            heads.append((place, len(self._orders), message))
        heads.sort(key=_place)
        counts = [0] * (len(self._orders) + 1)
        for _, at, message in heads[:most]:
            counts[at] += 1
            found.append(message)
        for order, count in zip(self._orders, counts, strict=False):
            order.drop_first(count)
        for place, at, message in heads[most:]:
            if at == len(self._orders):
                heappush(self._leased, (place, message.number, message))
        return found

    def _let_go(self, message: WorkMessage) -> None:
        """Remove the last reference to the message."""


def _place(head: tuple[int, int, WorkMessage]) -> int:
    return head[0]
