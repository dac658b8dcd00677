"""Work for a store: a long row of operations that touches everything, the same for the same seed.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from random import Random

from quinque.errors import Duplicate
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Flush, Put, Release, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore

QUEUES = (b"q", b"r")
GROUPS = (b"g", b"h")
CHOSEN_IDS = (b"x", b"y", b"z")


class Worker:
    """Does one operation after another, and makes time pass."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.random = Random(seed)
        self.clock = clock
        self.ids: list[bytes] = list(CHOSEN_IDS)

    def work(self, operations: int = 1) -> None:
        for _ in range(operations):
            self.clock.advance(self.random.choice((0.001, 0.3, 1, 20)))
            self.random.choices(
                (
                    self._put,
                    self._put_with_id,
                    self._reserve,
                    self._ack,
                    self._release,
                    self._flush,
                ),
                weights=(30, 20, 40, 30, 5, 1),
            )[0]()

    def turn(self, operations: int = 3) -> None:
        """Some operations, and the commit that ends them."""
        self.work(self.random.randint(1, operations))
        self.store.tick()
        self.store.commit()

    def _put(self) -> None:
        bodies = [self._body() for _ in range(self.random.randint(1, 3))]
        ttl_ms = self.random.choice((0, 30, 400, 60_000))
        self.ids += self.store.run(Put(EVENTS, self._queue(), bodies, ttl_ms))
        del self.ids[: -20 - len(CHOSEN_IDS)]

    def _put_with_id(self) -> None:
        id = self.random.choice(CHOSEN_IDS)
        to_front = self.random.random() < 0.5
        try:
            self.store.run(Put(EVENTS, self._queue(), [self._body()], 0, id, to_front, True))
        except Duplicate:
            self._ack()

    def _reserve(self) -> None:
        lease_ms = self.random.choice((0, 25, 60_000))
        count = self.random.randint(1, 3)
        self.store.run(Reserve(EVENTS, self._queue(), self._group(), lease_ms, count))

    def _ack(self) -> None:
        ids = self.random.sample([*self.ids, *CHOSEN_IDS], 3)
        is_careful = self.random.random() < 0.5
        self.store.run(Ack(EVENTS, self._queue(), self._group(), ids, is_careful))

    def _release(self) -> None:
        ids = self.random.sample([*self.ids, *CHOSEN_IDS], 3)
        self.store.run(Release(EVENTS, self._queue(), self._group(), ids))

    def _flush(self) -> None:
        self.store.run(Flush(EVENTS, self._queue()))

    def _queue(self) -> bytes:
        return self.random.choice(QUEUES)

    def _group(self) -> bytes:
        return self.random.choice(GROUPS)

    def _body(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 10, 200)))
