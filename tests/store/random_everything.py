"""Work of all families at once: they share a few names and ids, and pass names on to each other.

Called by   test_crash_walk.py, tests/copying/test_crash_walk.py.
Calls       the store it is handed, the workers beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack

from quinque.errors import JournalDamaged, QuinqueError
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE, TUBES, Family
from quinque.model.ops import Ack, Flush, Put, Reserve
from quinque.model.queue_ops import DeleteQueues, RenameQueue
from quinque.model.stage_ops import Stage
from quinque.model.tube_ops import DropTube, JoinSession, MakeTube, ReturnTasks
from quinque.model.work_ops import Configure, Purge
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.random_claims import NAMES, ClaimWorker
from tests.store.random_items import ItemWorker
from tests.store.random_reliable import ReliableWorker
from tests.store.random_tubes import KINDS, SESSIONS, TubeWorker
from tests.store.random_work import CHOSEN_IDS, GROUPS, FeedWorker, Worker, WorklistWorker

SHARED: Final = (b"a", b"b", b"c", b"d")
CLAIMABLE: Final = (EVENTS, JOBS, RELIABLE, ITEMS)


class AnyClaimWorker(ClaimWorker):
    """Claims and batches on queues of whichever family has the name."""

    def _any(self) -> tuple[bytes, bytes]:
        return self.random.choice(SHARED), self.random.choice(NAMES)

    def _family(self, queue: bytes) -> Family:
        found = self.store.queues.get(queue)
        if found is not None and found.family is not TUBES and self.random.random() < 0.9:
            return found.family
        return self.random.choice(CLAIMABLE)

    def _open(self) -> None:
        queue, name = self._any()
        family = self._family(queue)
        group = b"" if family.is_worklist else GROUPS[NAMES.index(name)]
        release_ms = self.random.choice((0, 0, 50))
        self._try(OpenClaims(family, queue, name, group, 100, release_ms))

    def _stage(self) -> None:
        queue = self.random.choice(SHARED)
        name = self.random.choice((None, *CHOSEN_IDS))
        ttl_ms, retry_ms = self.random.choice((0, 30, 400)), self.random.choice((-1, 0, 300))
        runs = [
            [ttl_ms, 0, retry_ms, 1, None, self.bodies()],
            [ttl_ms, 0, -1, 0, name, [self.body()]],
        ]
        number, part, chunk = (self.random.randint(0, 1) for _ in range(3))
        number += self.clock.now_us() // 200_000 % 1_000_000
        rows = msgpack.packb(runs)
        self._try(Stage(self._family(queue), queue, b"k", b"r", number, part, 0, chunk, rows))


class EverythingWorker(Worker):
    """Each step is one of another worker, or passes a name on. What is refused changes nothing."""

    queues = SHARED

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        super().__init__(store, clock, seed)
        kinds: Sequence[type[Worker]] = (
            FeedWorker,
            WorklistWorker,
            ReliableWorker,
            ItemWorker,
            TubeWorker,
        )
        self._claims = AnyClaimWorker(store, clock, seed)
        self._workers = [*(kind(store, clock, seed) for kind in kinds), self._claims]
        for worker in self._workers:
            worker.queues = SHARED
            worker.random = self.random

    def go_on_with(self, store: EmbeddedStore, clock: ManualClock) -> None:
        """The work goes on in another store, which was opened on what this one wrote."""
        for worker in (self, *self._workers, *self._claims._workers):
            worker.store = store
            worker.clock = clock
        for session in SESSIONS:
            store.run(JoinSession(session, is_new=True))

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        steps: list[tuple[Callable[[], None], int]] = []
        for worker in self._workers:
            own = worker.steps()
            if worker is self._claims:  # without those of the feeds and worklists it has
                own = own[-9:]
            # All families have the same share.
            total = sum(weight for _, weight in own)
            steps += [(step, weight * 1_000 // total) for step, weight in own]
        steps += [(self._make_tube, 60), (self._give_up, 350), (self._rename, 150)]
        steps += [(self._flush_and_put_again, 150), (self._ack_chosen, 150)]
        return steps

    def work(self, operations: int = 1) -> None:
        steps, weights = zip(*self.steps(), strict=True)
        for _ in range(operations):
            self.clock.advance(self.random.choice((0.001, 0.3, 1, 20)))
            for _ in range(10):  # most are refused: another family has the name
                try:
                    self.random.choices(steps, weights)[0]()
                    break
                except JournalDamaged:
                    raise
                except QuinqueError:
                    continue

    def _make_tube(self) -> None:
        kind, settings = self.random.choice(list(KINDS.values()))
        self.store.run(MakeTube(self.queue(), kind, settings))

    def _rename(self) -> None:
        """Another family may have the old name at once."""
        name, new_name = self.random.sample(SHARED, 2)
        self.store.run(RenameQueue(RELIABLE, name, new_name, only_free=False))
        if self.random.random() < 0.5:
            self.store.run(Put(EVENTS, name, self.bodies()))

    def _flush_and_put_again(self) -> None:
        """A group that holds a message gets to see another one of its id."""
        name, id = self.queue(), self.random.choice(CHOSEN_IDS)
        for group in GROUPS:
            self.store.run(Reserve(EVENTS, name, group, 60_000, 3))
        self.store.run(Flush(EVENTS, name))
        self.store.run(Put(EVENTS, name, [self.body()]))
        for group in GROUPS:
            self.store.run(Reserve(EVENTS, name, group, 60_000))
        self.store.run(Put(EVENTS, name, [self.body()], 0, id, to_front=True, is_single=True))

    def _ack_chosen(self) -> None:
        name, id = self.queue(), self.random.choice(CHOSEN_IDS)
        for group in GROUPS:
            self.store.run(Ack(EVENTS, name, group, [id], held_only=True))

    def _give_up(self) -> None:
        """The name is free, mostly: another family may have it."""
        name = self.queue()
        queue: Any = self.store.queues.get(name)
        if queue is None:
            return
        if queue.family is EVENTS:
            self.store.run(Flush(EVENTS, name))
        elif queue.family is TUBES:
            self.store.run(ReturnTasks(name))
            self.store.run(DropTube(name))
        elif queue.family is JOBS and self.random.random() < 0.5:
            self.store.run(Configure(JOBS, name, False, False, 0, rate=(0, 0)))
            self.store.run(Purge(JOBS, name))
        else:
            self.store.run(DeleteQueues(queue.family, [name]))
