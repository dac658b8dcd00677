"""Work on reliable queues: a long row of operations that touches everything about them.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quinque.errors import NoQueue
from quinque.model.families import RELIABLE
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Recover
from quinque.model.queue_ops import DeleteQueues, RenameQueue, SetExpiry
from quinque.model.work_ops import Add, Take
from tests.store.random_work import Worker


class ReliableWorker(Worker):
    queues = (b"m", b"n", b"o")

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            (self._push, 30),
            (self._pop, 30),
            (self._complete, 25),
            (self._recover, 15),
            (self._rename, 8),
            (self._set_expiry, 4),
            (self._delete, 2),
        )

    def _push(self) -> None:
        self.note(self.store.run(Add(RELIABLE, self.queue(), self.bodies(), RELIABLE_TERMS)))

    def _pop(self) -> None:
        count = self.random.randint(1, 4)
        self.store.run(Take(RELIABLE, self.random.sample(self.queues, 2), count, is_drained=True))

    def _complete(self) -> None:
        ids = self.some_ids()
        for queue in self.queues:
            self.store.run(Complete(RELIABLE, queue, ids, self.random.random() < 0.7))

    def _recover(self) -> None:
        elapsed_ms = self.random.choice((0, 5, 50))
        self.store.run(Recover(RELIABLE, self.queue(), self.random.randint(1, 4), elapsed_ms))

    def _rename(self) -> None:
        try:
            is_free = self.random.random() < 0.6
            self.store.run(RenameQueue(RELIABLE, self.queue(), self.queue(), is_free))
        except NoQueue:
            self._push()

    def _set_expiry(self) -> None:
        expires_ms = self.random.choice((0, self.store.now_ms() + 30, self.store.now_ms() + 10_000))
        self.store.run(SetExpiry(RELIABLE, self.queue(), expires_ms))

    def _delete(self) -> None:
        self.store.run(DeleteQueues(RELIABLE, self.random.sample(self.queues, 2)))
