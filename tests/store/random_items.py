"""Work on queues of items: a long row of operations that touches everything about them.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quinque.model.families import ITEMS
from quinque.model.own_ops import AddItems, CleanItems, Complete, ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import Purge, Take
from tests.store.random_work import Worker

IDS = 8  # that a queue's items may have: few, so that they come again and again


class ItemWorker(Worker):
    queues = (b"i", b"j")

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            (self._add, 40),
            (self._lease, 40),
            (self._complete, 15),
            (self._extend, 15),
            (self._clean, 2),
            (self._purge, 1),
        )

    def _add(self) -> None:
        queue = self.queue()
        ids = self._ids(queue)
        bodies = [self.body() for _ in ids]
        is_known_new = self.random.random() < 0.4
        self.store.run(AddItems(ITEMS, queue, ids, bodies, is_known_new))

    def _lease(self) -> None:
        # Short enough to lapse, mostly.
        lease_ms = self.random.choice((1, 15, 40, 60_000))
        self.store.run(Take(ITEMS, [self.queue()], self.random.randint(1, 3), lease_ms=lease_ms))

    def _complete(self) -> None:
        queue = self.queue()
        self.store.run(Complete(ITEMS, queue, self._ids(queue), is_leased=False))

    def _extend(self) -> None:
        queue = self.queue()
        lease_ms = self.random.choice((1, 30, 60_000))
        self.store.run(ExtendLeases(ITEMS, queue, self._ids(queue), lease_ms))

    def _clean(self) -> None:
        self.store.run(CleanItems(ITEMS, self.queue(), self.random.random() < 0.5))

    def _purge(self) -> None:
        self.store.run(Purge(ITEMS, self.queue(), self.random.choice(((), [State.READY]))))

    def _ids(self, queue: bytes) -> list[bytes]:
        """Some, which no other queue has: the record is looked through by id."""
        numbers = self.random.choices(range(IDS), k=self.random.randint(1, 3))
        return [b"%b%d" % (queue, number) for number in numbers]
