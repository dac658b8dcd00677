"""A random walk as in walk.py, with claims and published batches beside all else.

Called by   test_random_claims.py.
Calls       pair.py, which compares all answers.

Two subscriptions read one feed and one worklist each, and are opened, fenced, forfeited and dropped
while consumers work the same queues.

Not here: what is compared (pair.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgpack

from quinque.engine.feed.feed import Feed
from quinque.model.claim_ops import (
    DropClaims,
    FillClaim,
    FindClaims,
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
    SubscriptionView,
)
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Op
from quinque.model.stage_ops import DropStage, FindStages, Part, Publish, Stage
from quinque.model.work_ops import Add, AwaitEnd
from tests.model.pair import Pair
from tests.model.walk import CHOSEN_IDS, GROUPS, KEYS, ODD, REASONS, SAME_SLOT, Steps, Walk

NAMES: Final = (b"s", ODD)
RUNS: Final = (b"r", b"r", ODD)
LISTS: Final = (b"v",) * 6 + (b"both", SAME_SLOT)
FEEDS: Final = (b"q",) * 6 + (b"both", SAME_SLOT)


class ClaimWalk(Walk):
    def __init__(self, pair: Pair, seed: int, kind: str) -> None:
        self._queues = FEEDS if kind == "feeds" else LISTS if kind == "lists" else FEEDS + LISTS
        self._views: dict[tuple[bytes, bytes], list[SubscriptionView]] = {}
        super().__init__(pair, seed, kind)
        pair.may_wake_in_vain = True  # when a claim is settled in which something is marked

    def _more_steps(self, kind: str) -> Steps:
        return (
            (self._open, 12),
            (self._fill, 40),
            (self._read, 6),
            (self._play, 6),
            (self._mark, 12),
            (self._settle, 14),
            (self._release_claims, 8),
            (self._renew, 4),
            (self._purge_claims, 3),
            (self._drop, 2),
            (self._look_at_claims, 6),
            (self._stage, 16),
            (self._publish, 10),
            (self._drop_stage, 2),
        )

    def _clear_out(self) -> None:
        for view in self._pair.run(FindClaims(), self._by):
            self._run(DropClaims(view.queue, view.subscription))
        for batch in self._run(FindStages()):
            self._run(DropStage(batch.queue, batch.sink, batch.run, batch.number))

    def _add_both(self, op: Add) -> None:
        super()._add_both(op)
        # Of claimed messages ends are told only where somebody has asked for some.
        self._run(AwaitEnd(JOBS, self._pair.watched_ids()))

    def _pass(self, ms: float) -> None:
        # From one instant to the next, and each time somebody ticks: claims that nobody renewed are
        # back in the queue then, not before, and who is seen to first is up to the store.
        end_ms = self._pair.clock.now_us() / 1000 + ms
        while self._pair.now_ms() < (due_ms := self._pair.next_instant_ms()) <= end_ms:
            super()._pass(due_ms - self._pair.clock.now_us() / 1000)
            self._pair.tick()
        super()._pass(end_ms - self._pair.clock.now_us() / 1000)
        self._pair.tick()

    def _restart_all(self) -> None:
        super()._restart_all()
        self._pair.tick()  # what was forgotten without a record is forgotten again
        # Leases begin anew when an embedded store is opened; on Redis they run on.
        for found in self._pair.embedded.subscriptions.all():
            self._run(RenewClaims(found.queue, found.name, found.epoch))

    def _run(self, op: Op) -> Any:
        found = super()._run(op)
        epoch = getattr(op, "epoch", 0)
        if epoch and isinstance(found, tuple):
            # Whether a request that is refused renews the lease is up to the store.
            super()._run(RenewClaims(op.queue, op.subscription, epoch))  # type: ignore[attr-defined]
        if hasattr(op, "subscription"):
            # What was put back may have expired meanwhile; who notices is up to the store.
            self._pair.tick()
        return found

    def _event_ids(self, queue: bytes, group: bytes) -> list[bytes]:
        """A consumer that gives back what is claimed for its group may have it in two claims."""
        feed: Any = self._pair.embedded.queues.get(queue)
        held = feed.groups[group].held if isinstance(feed, Feed) and group in feed.groups else {}
        drawn = super()._event_ids(queue, group)
        return [id for id in drawn if id not in held or held[id].deadline_ms < NEVER_MS]

    def _open(self) -> None:
        queue, name = self._one(self._queues), self._one(NAMES)
        family = EVENTS if queue in FEEDS and (queue not in LISTS or self._flip()) else JOBS
        group = self._one(GROUPS) if family is EVENTS else b""
        # Not when something else is due: which of both is first is up to the store.
        lease_ms, release_ms = self._one((500, 1_000)), self._one((0, 1_003, 60_007))
        view = self._run(OpenClaims(family, queue, name, group, lease_ms, release_ms))
        if isinstance(view, SubscriptionView):
            self._views.setdefault((queue, name), []).append(view)

    def _fill(self) -> None:
        queue, name, epoch = self._subscription()
        for _ in range(self._one((1, 1, 2))):
            count = self._one((0, 1, 2, 3, 100))
            op = FillClaim(queue, name, epoch, self._number(queue, name), count)
            op.seals = self._flip() or count == 0
            self._run(op)

    def _read(self) -> None:
        queue, name, _ = self._subscription()
        op = ReadClaim(queue, name, self._number(queue, name), self._one((0, 0, 99)), 100)
        self.trace.append(f"    {op}")
        self._pair.read_claim(op, self._by)

    def _play(self) -> None:
        queue, name, epoch = self._subscription()
        keep = self._one((0, 1, 2, 5))
        self._run(PlayClaim(queue, name, epoch, self._number(queue, name), keep))

    def _mark(self) -> None:
        queue, name, epoch = self._subscription()
        number = self._number(queue, name)
        outcome, delay_ms = self._one(tuple(Outcome)), self._one((0, 0, 1, 1_000))
        ids = self._claimed_ids(queue, name, number)
        mark = MarkClaim(queue, name, number, outcome, ids, delay_ms, self._one(REASONS))
        mark.epoch = self._one((0, epoch))
        self._run(mark)

    def _settle(self) -> None:
        queue, name, epoch = self._subscription()
        self._run(SettleClaims(queue, name, epoch, self._number(queue, name)))

    def _release_claims(self) -> None:
        queue, name, epoch = self._subscription()
        self._run(ReleaseClaims(queue, name, epoch, self._number(queue, name)))

    def _renew(self) -> None:
        queue, name, epoch = self._subscription()
        self._run(RenewClaims(queue, name, epoch))

    def _purge_claims(self) -> None:
        queue, name, _ = self._subscription()
        self._run(PurgeClaims(queue, name, self._number(queue, name)))

    def _drop(self) -> None:
        queue, name, _ = self._subscription()
        self._run(DropClaims(queue, name))

    def _look_at_claims(self) -> None:
        queue, name, _ = self._subscription()
        self._run(LookAtClaims(queue, name))
        self._run(FindClaims(queue))
        self._run(FindClaims())

    def _stage(self) -> None:
        queue, family = self._queue_of_a_batch()
        runs = []
        for _ in range(self.random.randint(1, 3)):
            name, bodies = None, self._bodies()
            if self._flip():
                name, bodies = self._one(KEYS if family is JOBS else CHOSEN_IDS), bodies[:1]
            ttl_ms, delay_ms = self._one((0, 0, 1_000, 60_000)), self._one((0, 0, 500))
            runs.append(
                [ttl_ms, delay_ms, self._one((-1, 0, 1_000)), self._one((0, 1)), name, bodies]
            )
        part, attempt, chunk = (self._one((0, 0, 1)) for _ in range(3))
        rows, number = msgpack.packb(runs), self.random.randint(1, 3)
        self._run(Stage(family, queue, b"k", self._one(RUNS), number, part, attempt, chunk, rows))
        if self._flip():
            self._run(FindStages())

    def _publish(self) -> None:
        queue, family = self._queue_of_a_batch()
        parts = [Part(part, self._one((0, 0, 1)), self._one((0, 1, 1, 2))) for part in range(2)]
        number, keep_ms = self.random.randint(1, 3), self._one((1_007, 50_011))
        parts = parts[: self._one((1, 1, 2))]
        op = Publish(family, queue, b"k", self._one(RUNS), number, parts, self._count(), keep_ms)
        self.trace.append(f"    {op}")
        self._pair.publish(op, self._by)
        self._pair.tick()

    def _drop_stage(self) -> None:
        queue, _ = self._queue_of_a_batch()
        self._run(DropStage(queue, b"k", self._one(RUNS), self.random.randint(1, 3)))

    def _queue_of_a_batch(self) -> tuple[bytes, Family]:
        queue = self._one(self._queues)
        return queue, EVENTS if queue in FEEDS and (queue not in LISTS or self._flip()) else JOBS

    # -- what is drawn ---------------------------------------------------------------------------

    def _subscription(self) -> tuple[bytes, bytes, int]:
        """One that was opened, with its epoch; now and then an old one, or one that never was."""
        known = list(self._views)
        if not known or self.random.random() < 0.05:
            return self._one(self._queues), self._one(NAMES), 1
        queue, name = self._one(known)
        views = self._views[queue, name]
        view = views[-1] if self.random.random() < 0.9 else self._one(views)
        return queue, name, view.epoch

    def _number(self, queue: bytes, name: bytes) -> int:
        """Of one of its claims, or the next."""
        found: Any = self._pair.embedded.subscriptions.find(queue, name)
        newest: int = found.newest if found is not None else 0
        step: int = self._one((-2, -1, 0, 0, 0, 1, 1, 1, 1, 2))
        return max(1, newest + step)

    def _claimed_ids(self, queue: bytes, name: bytes, number: int) -> Sequence[bytes]:
        found: Any = self._pair.embedded.subscriptions.find(queue, name)
        claim = found.claims.get(number) if found is not None else None
        known = [b"nobody"]
        if claim is not None:
            for chunk in claim.in_order():
                known += msgpack.unpackb(chunk.ids, raw=True) * 3
        return [self._one(known) for _ in range(self.random.randint(1, 3))]
