"""Random operations on queues of the reliable family, and restarts: every store answers what the
model answers, ids included.

Time mostly moves a little, or exactly to where a queue is gone; sometimes nobody looks before the
next operation.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import pytest

from quinque.errors import NoQueue
from quinque.model.families import RELIABLE
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Recover
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.work_ops import Add, LookAt, ScanQueues, Take
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import MEMORY, OPENERS, Opener
from tests.conformance.words import tick
from tests.model.effort import EFFORT
from tests.model.reliable_reference import ReliableReference
from tests.servers.stores import EMBEDDED

WALKS: Final = {EMBEDDED: 8, "redis": 2, "cluster": 1}  # of each kind in a build
STEPS: Final = 250
ALL: Final = 1_000_000

# One slot, so that one sequence of ids is theirs on every store; mostly one queue, so that things
# meet.
NAMES: Final = (b"{r}", b"{r}", b"{r}", b"{r}b", b"\xff{r}\r\n")
BODIES: Final = (b"", b"a", b" 1 -1 \r\n\0", b"b" * 300, b"c" * 1025)
NOBODY: Final = b"1-1"


class Walk:
    """A store and the model, side by side."""

    def __init__(self, opener: Opener, seed: int) -> None:
        self._opener = opener
        self.random = Random(seed)
        self.clock = ManualClock()
        self.store: Store = opener(self.clock)
        self.model = ReliableReference(self.store.now_ms())
        self.ids: list[bytes] = [NOBODY]

    def name(self) -> bytes:
        return self.random.choice(NAMES)

    def push(self) -> None:
        name, bodies = self.name(), self.random.choices(BODIES, k=self.random.choice((1, 1, 2, 7)))
        ids = self.store.run(Add(RELIABLE, name, bodies, RELIABLE_TERMS))
        assert ids == self.model.push(name, bodies)
        self.ids = [*self.ids[-40:], *ids]

    def pop(self) -> None:
        names = list(dict.fromkeys(self.random.choices(NAMES, k=self.random.choice((1, 1, 3)))))
        count = self.random.choice((1, 1, 2, 5, 100))
        given = self.store.run(Take(RELIABLE, names, count, is_drained=True))
        assert [(it.queue, it.message_id, it.body) for it in given] == self.model.pop(names, count)

    def ack(self) -> None:
        name, ids = self.name(), self.random.choices(self.ids, k=self.random.choice((1, 2, 9)))
        found = self.store.run(Complete(RELIABLE, name, ids, is_leased=True))
        assert found == self.model.ack(name, ids)

    def recover(self) -> None:
        name, count = self.name(), self.random.choice((0, 1, 2, 100))
        elapsed_ms = self.random.choice((0, 0, 1, 5, 50, 1_000))
        given = self.store.run(Recover(RELIABLE, name, count, elapsed_ms))
        found = None if given is None else [it.message_id for it in given]
        assert found == self.model.recover(name, count, elapsed_ms)

    def inspect(self) -> None:
        name, is_leased = self.name(), self.random.random() < 0.5
        start, count = self.random.randint(-12, 12), self.random.choice((1, 3, 100))
        assert self._inspected(name, is_leased, start, count) == self.model.inspect(
            name, is_leased, start, count
        )

    def delete(self) -> None:
        names = self.random.choices(NAMES, k=self.random.choice((1, 2)))
        assert self.store.run(DeleteQueues(RELIABLE, names)) == self.model.delete(names)

    def rename(self) -> None:
        name, new_name, only_free = self.name(), self.name(), self.random.random() < 0.5
        try:
            is_done: object = self.store.run(RenameQueue(RELIABLE, name, new_name, only_free))
        except NoQueue:
            is_done = NoQueue
        try:
            wanted: object = self.model.rename(name, new_name, only_free)
        except NoQueue:
            wanted = NoQueue
        assert is_done == wanted

    def expire(self) -> None:
        name, span_ms = self.name(), self.random.choice((0, 5, 50, 5_000, -5))
        expires_ms = self.random.choice((0, self.store.now_ms() + span_ms))
        is_so = self.store.run(SetExpiry(RELIABLE, name, expires_ms))
        assert is_so == self.model.set_expiry(name, expires_ms)

    def wait(self) -> None:
        ends_ms = [it.expires_ms for it in self.model.queues.values() if it.expires_ms]
        spans_ms = [0.001, 1, 1, 5, 50, *(ms - self.model.now_ms for ms in ends_ms)]
        self.clock.advance(self.random.choice(spans_ms))
        self.model.pass_time(self.store.now_ms())
        if self.random.random() < 0.5:
            tick(self.store)

    def restart(self) -> None:
        self.store.close()
        self.store = self._opener(self.clock)

    def compare(self) -> None:
        """All that can be seen is as the model has it."""
        names = sorted(set(NAMES))
        families = self.store.run(FindFamilies(names))
        assert [family is RELIABLE for family in families] == [
            name in self.model.queues for name in names
        ]
        assert self._all_queues() == sorted(self.model.queues)
        for name in names:
            view = self.store.run(LookAt(RELIABLE, name))
            found = None if view is None else (view.ready, view.leased)
            assert found == self.model.lengths(name)
            assert self.store.run(LookAtExpiry(RELIABLE, name)) == self.model.expiry(name)
            for is_leased in (False, True):
                seen = self._inspected(name, is_leased, 0, ALL)
                assert seen == self.model.inspect(name, is_leased, 0, ALL)

    def _inspected(self, name: bytes, is_leased: bool, start: int, count: int) -> Any:
        found = self.store.run(Inspect(RELIABLE, name, is_leased, start, count))
        if found is None:
            return None
        return [(it.message_id, it.body, it.delivered_ms, it.deliveries) for it in found]

    def _all_queues(self) -> list[bytes]:
        names: list[bytes] = []
        cursor = 0
        while True:
            cursor, some = self.store.run(ScanQueues(RELIABLE, cursor, 10))
            names += some
            if not cursor:
                return sorted(names)


STEPS_OF: Final[tuple[tuple[Callable[[Walk], None], int], ...]] = (
    (Walk.push, 24),
    (Walk.pop, 20),
    (Walk.ack, 16),
    (Walk.recover, 10),
    (Walk.inspect, 8),
    (Walk.wait, 14),
    (Walk.rename, 3),
    (Walk.expire, 3),
    (Walk.delete, 1),
    (Walk.restart, 2),
)


@pytest.mark.parametrize("kind", OPENERS)
def test_every_store_answers_what_the_model_answers(
    request: pytest.FixtureRequest, kind: str
) -> None:
    first = SystemRandom().getrandbits(32) if EFFORT else 1
    for seed in range(first, first + WALKS[kind] * max(1, EFFORT)):
        folder = tempfile.mkdtemp(prefix="quinque-walk-", dir=MEMORY if MEMORY.is_dir() else None)
        walk = Walk(OPENERS[kind](request, Path(folder)), seed)
        done: list[str] = []
        try:
            for number in range(STEPS):
                steps, weights = zip(*STEPS_OF, strict=True)
                [step] = walk.random.choices(steps, weights)
                done.append(step.__name__)
                step(walk)
                walk.store.commit()
                if number % 10 == 0:
                    walk.compare()
        except AssertionError as difference:
            difference.add_note(f"seed {seed}, after {', '.join(done[-8:])}")
            raise
        finally:
            walk.store.close()
            shutil.rmtree(folder)
