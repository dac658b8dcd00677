"""Work with claims and staged batches: a long row of operations, the same for the same seed.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgpack

from quinque.errors import (
    BadArgument,
    BadClaim,
    NoClaim,
    NoStage,
    NoSubscription,
    OtherBatch,
    QueuePaused,
    Superseded,
    WrongType,
)
from quinque.model.claim_ops import (
    DropClaims,
    FillClaim,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Op, Put
from quinque.model.stage_ops import DropStage, Part, Publish, Stage
from quinque.model.work_ops import Add, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.random_work import CHOSEN_IDS, GROUPS, FeedWorker, Worker, WorklistWorker

REFUSALS: Final = (
    BadArgument,
    BadClaim,
    NoClaim,
    NoStage,
    NoSubscription,
    OtherBatch,
    QueuePaused,
    Superseded,
    WrongType,
)
NAMES: Final = (b"s", b"t")
CLAIMED: Final = (b"q", b"w")


class ClaimWorker(Worker):
    """Claims and batches on feeds and worklists that are worked otherwise as well."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        super().__init__(store, clock, seed)
        self._workers = (FeedWorker(store, clock, seed), WorklistWorker(store, clock, seed))

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        both = [step for worker in self._workers for step in worker.steps()]
        return [
            *both,
            (self._open, 20),
            (self._fill, 90),
            (self._play, 10),
            (self._mark, 20),
            (self._settle, 25),
            (self._release, 10),
            (self._tidy, 6),
            (self._stage, 20),
            (self._publish, 20),
        ]

    def _try(self, op: Op) -> object:
        try:
            return self.store.run(op)
        except REFUSALS:
            return None

    def _any(self) -> tuple[bytes, bytes]:
        return self.random.choice(CLAIMED), self.random.choice(NAMES)

    def _open(self) -> None:
        queue, name = self._any()
        release_ms = self.random.choice((0, 0, 50))
        if queue == b"w":
            self._try(OpenClaims(JOBS, queue, name, b"", 100, release_ms))
        else:
            group = GROUPS[NAMES.index(name)]
            self._try(OpenClaims(EVENTS, queue, name, group, 100, release_ms))

    def _fill(self) -> None:
        queue, name = self._any()
        view = self.store.run(LookAtClaims(queue, name))
        if view is None:
            self._open()
            return
        newest = max([view.settled, *(claim.number for claim in view.claims)])
        number = newest + self.random.choice((0, 1, 1))
        seals = self.random.random() < 0.5
        count = self.random.randint(0, 3)
        self._try(FillClaim(queue, name, view.epoch, max(1, number), count, seals=seals))

    def _number(self, queue: bytes, name: bytes) -> tuple[int, int]:
        """The epoch, and the number of some claim."""
        view = self.store.run(LookAtClaims(queue, name))
        if view is None:
            return 0, 1
        return view.epoch, self.random.choice([claim.number for claim in view.claims] or [1])

    def _play(self) -> None:
        queue, name = self._any()
        epoch, number = self._number(queue, name)
        self._try(PlayClaim(queue, name, epoch, number, self.random.randint(0, 2)))
        self._try(RenewClaims(queue, name, epoch))

    def _mark(self) -> None:
        queue, name = self._any()
        _, number = self._number(queue, name)
        try:
            packed = self.store.run(ReadClaim(queue, name, number, 0, 9))
        except NoClaim:
            return
        ids = [row[0] for chunk in packed for row in msgpack.unpackb(chunk)]
        some = self.random.sample(ids, self.random.randint(1, len(ids)))
        outcome = self.random.choice(list(Outcome))
        delay_ms = self.random.choice((0, 15))
        self._try(MarkClaim(queue, name, number, outcome, some, delay_ms, b"because"))

    def _settle(self) -> None:
        queue, name = self._any()
        self._try(SettleClaims(queue, name, *self._number(queue, name)))

    def _release(self) -> None:
        queue, name = self._any()
        self._try(ReleaseClaims(queue, name, *self._number(queue, name)))

    def _tidy(self) -> None:
        queue, name = self._any()
        if self.random.random() < 0.7:
            self._try(PurgeClaims(queue, name, self._number(queue, name)[1]))
        else:
            self._try(DropClaims(queue, name))

    def _stage(self) -> None:
        queue = self.random.choice(CLAIMED)
        family = JOBS if queue == b"w" else EVENTS
        key = self.random.choice((None, *CHOSEN_IDS))
        runs = [[400, 0, 300, 1, None, self.bodies()], [0, 0, -1, 0, key, [self.body()]]]
        number, part, chunk = (self.random.randint(0, 1) for _ in range(3))
        number += self.clock.now_us() // 200_000 % 1_000_000
        rows = msgpack.packb(runs)
        writer = b"" if self.random.random() < 0.8 else self.random.choice((b"1", b"2", b"3"))
        self._try(Stage(family, queue, b"k", b"r", number, part, 0, chunk, rows, writer))

    def _publish(self) -> None:
        if not self.store.stages.batches:
            self._stage()
            return
        name, batch = self.random.choice(sorted(self.store.stages.batches.items()))
        if self.random.random() < 0.1:
            self._try(DropStage(*name))
            return
        counts: dict[int, int] = {}
        for part, _, _ in batch.chunks:
            counts[part] = counts.get(part, 0) + 1
        parts = [Part(part, 0, count) for part, count in sorted(counts.items())]
        count, keep_ms = self.random.choice((1, 5)), self.random.choice((0, 100))
        self._try(Publish(batch.family, *name, parts, count, keep_ms, b"%d" % name[3]))


class ManyChunksWorker(ClaimWorker):
    """Claims of many chunks, which take many steps to be closed."""

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return [*super().steps(), (self._fill_much, 100)]

    def go_on_with(self, store: EmbeddedStore, clock: ManualClock) -> None:
        """The work goes on in another store, which was opened on what this one wrote."""
        for worker in (self, *self._workers):
            worker.store = store
            worker.clock = clock

    def _fill_much(self) -> None:
        """A chunk has one message or two."""
        queue, name = self._any()
        bodies = [b"x"] * 8
        if queue == b"w":
            self._try(Add(JOBS, queue, bodies, Terms(86_400_000, 0, 60_000)))
        else:
            self._try(Put(EVENTS, queue, bodies, is_single=self.random.random() < 0.3))
        view = self.store.run(LookAtClaims(queue, name))
        if view is None:
            return
        number = max([view.settled, *(claim.number for claim in view.claims)]) + 1
        for count in (1, 2, 1, 2):
            self._try(FillClaim(queue, name, view.epoch, number, count))
        self._try(FillClaim(queue, name, view.epoch, number, 0, seals=True))
