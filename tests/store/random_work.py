"""Work for a store: a long row of operations that touches everything, the same for the same seed.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quinque.errors import Duplicate, NoMessage, QueuePaused, TooLate
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Flush, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    Hold,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore

GROUPS = (b"g", b"h")
CHOSEN_IDS = (b"x", b"y", b"z")
REMEMBERED = 20  # ids


class Worker:
    """Does one operation after another, and makes time pass."""

    queues: tuple[bytes, ...] = (b"q", b"r")

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.random = Random(seed)
        self.clock = clock
        self.ids: list[bytes] = list(CHOSEN_IDS)

    def work(self, operations: int = 1) -> None:
        steps, weights = zip(*self.steps(), strict=True)
        for _ in range(operations):
            self.clock.advance(self.random.choice((0.001, 0.3, 1, 20)))
            self.random.choices(steps, weights)[0]()

    def turn(self, operations: int = 3) -> None:
        """Some operations, and the commit that ends them."""
        self.work(self.random.randint(1, operations))
        self.store.tick()
        self.store.commit()

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        """What may be done, and how often it is."""
        raise NotImplementedError

    def note(self, ids: list[bytes]) -> None:
        self.ids += ids
        del self.ids[: -REMEMBERED - len(CHOSEN_IDS)]

    def some_ids(self) -> list[bytes]:
        return self.random.sample([*self.ids, *CHOSEN_IDS], 3)

    def queue(self) -> bytes:
        return self.random.choice(self.queues)

    def bodies(self) -> list[bytes]:
        return [self.body() for _ in range(self.random.randint(1, 3))]

    def body(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 10, 200)))


class FeedWorker(Worker):
    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            (self._put, 30),
            (self._put_with_id, 20),
            (self._reserve, 40),
            (self._ack, 30),
            (self._release, 5),
            (self._extend, 15),
            (self._flush, 1),
        )

    def _put(self) -> None:
        ttl_ms = self.random.choice((0, 30, 400, 60_000))
        self.note(self.store.run(Put(EVENTS, self.queue(), self.bodies(), ttl_ms)))

    def _put_with_id(self) -> None:
        id = self.random.choice(CHOSEN_IDS)
        to_front = self.random.random() < 0.5
        try:
            self.store.run(Put(EVENTS, self.queue(), [self.body()], 0, id, to_front, True))
        except Duplicate:
            self._ack()

    def _reserve(self) -> None:
        lease_ms = self.random.choice((0, 25, 60_000))
        count = self.random.randint(1, 3)
        self.store.run(Reserve(EVENTS, self.queue(), self._group(), lease_ms, count))

    def _ack(self) -> None:
        is_careful = self.random.random() < 0.5
        self.store.run(Ack(EVENTS, self.queue(), self._group(), self.some_ids(), is_careful))

    def _release(self) -> None:
        self.store.run(Release(EVENTS, self.queue(), self._group(), self.some_ids()))

    def _extend(self) -> None:
        lease_ms = self.random.choice((10, 60, 60_000))
        ids = self.some_ids()
        self.store.run(ExtendLeases(EVENTS, self.queue(), ids, lease_ms, self._group()))

    def _flush(self) -> None:
        self.store.run(Flush(EVENTS, self.queue()))

    def _group(self) -> bytes:
        return self.random.choice(GROUPS)


class WorklistWorker(Worker):
    queues = (b"v", b"w")

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            (self._add, 30),
            (self._add_with_key, 10),
            (self._take, 30),
            (self._finish, 12),
            (self._requeue, 20),
            (self._hold_or_extend, 10),
            (self._configure, 6),
            (self._redrive, 5),
            (self._purge, 1),
        )

    def _terms(self) -> Terms:
        # Leases are short enough to lapse, though they are a quarter of a second longer or shorter.
        return Terms(
            self.random.choice((30, 400, 60_000, 60_000)),
            self.random.choice((0, 0, 5, 25)),
            self.random.choice((0, 255, 300, 60_000)),
            self.random.choice((0, 0, 1, 2)),
        )

    def _add(self) -> None:
        try:
            self.note(self.store.run(Add(JOBS, self.queue(), self.bodies(), self._terms())))
        except QueuePaused:
            self._take()

    def _add_with_key(self) -> None:
        key = self.random.choice(CHOSEN_IDS)
        try:
            self.note(self.store.run(Add(JOBS, self.queue(), [self.body()], self._terms(), key)))
        except QueuePaused:
            self._finish()

    def _take(self) -> None:
        self.store.run(Take(JOBS, self.queues, self.random.randint(1, 4)))

    def _finish(self) -> None:
        self.store.run(Finish(JOBS, self.some_ids()))

    def _requeue(self) -> None:
        is_nack = self.random.random() < 0.7
        delay_ms = self.random.choice((0, 0, 15))
        reason = self.random.choice((b"", b"because"))
        self.store.run(Requeue(JOBS, self.some_ids(), is_nack, delay_ms, reason))

    def _hold_or_extend(self) -> None:
        if self.random.random() < 0.5:
            self.store.run(Hold(JOBS, self.some_ids()))
            return
        try:
            self.store.run(Extend(JOBS, self.random.choice(self.ids)))
        except (NoMessage, TooLate):
            self._take()

    def _configure(self) -> None:
        self.store.run(
            Configure(
                JOBS,
                self.queue(),
                is_paused_in=self.random.random() < 0.2,
                is_paused_out=self.random.random() < 0.2,
                max_deliveries=self.random.randint(0, 2),
                keeps_expired=self.random.random() < 0.3,
                rate=self.random.choice(((0, 0), (0, 0), (5, 20))),
            )
        )
        if self.random.random() < 0.2:
            self.store.run(SetNode(is_leaving=False, is_renamed=True))

    def _redrive(self) -> None:
        if self.random.random() < 0.5:
            self.store.run(Redrive(JOBS, self.some_ids()))
        else:
            self.store.run(Redrive(JOBS, queue=self.queue(), count=self.random.randint(0, 2)))

    def _purge(self) -> None:
        if self.random.random() < 0.3:
            self.store.run(PurgeAll(JOBS))
        else:
            self.store.run(Purge(JOBS, self.queue(), [State.READY, State.DEAD]))


class MixedWorker(Worker):
    """Both, in one journal; and names that go from one family to the other."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        super().__init__(store, clock, seed)
        self._workers = (FeedWorker(store, clock, seed), WorklistWorker(store, clock, seed))

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        both = [step for worker in self._workers for step in worker.steps()]
        return [*both, (self._change_hands, 6)]

    def _change_hands(self) -> None:
        queue = self.store.queues.get(b"both")
        is_feed = queue is not None and queue.family is EVENTS
        self.store.run(Flush(EVENTS, b"both") if is_feed else Purge(JOBS, b"both"))
        if self.random.random() < 0.5:
            self.store.run(Put(EVENTS, b"both", self.bodies()))
        else:
            self.store.run(Add(JOBS, b"both", self.bodies(), Terms(60_000, 0, 300)))


WORKERS: Final = (FeedWorker, WorklistWorker, MixedWorker)
