"""Random operations on items, time and restarts: a store answers what the model answers."""

from __future__ import annotations

from random import Random, SystemRandom

from quinque.model.families import ITEMS
from quinque.model.own_ops import AddItems
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen
from tests.conformance.item_words import clean, complete, extend, lease_data, lengths
from tests.conformance.items_model import ItemsModel
from tests.conformance.words import tick
from tests.model.effort import EFFORT

QUEUES = (b"{i}", b"{i}:item")
IDS = [b"%d" % number for number in range(9)]
STEPS = 250


class Walk:
    """A store and a model of each queue, side by side."""

    def __init__(self, store: Store, reopen: Reopen, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.reopen = reopen
        self.clock = clock
        self.random = Random(seed)
        self.models = {name: ItemsModel() for name in QUEUES}

    def step(self) -> None:
        pass_time = self.random.choices((0, 1, 17, 200, self._to_next_end()), (4, 2, 2, 1, 3))[0]
        self.clock.advance(pass_time)
        if self.random.random() < 0.1:
            tick(self.store)
        queue = self.random.choice(QUEUES)
        model = self.models[queue]
        model.settle(self._now_ms())
        steps = (self._add, self._lease, self._complete, self._extend, self._look, self._clean)
        self.random.choices(steps, (30, 30, 12, 12, 8, 2))[0](queue, model)
        if self.random.random() < 0.02:
            self.store.commit()
            self.store = self.reopen(self.clock)

    def end(self) -> None:
        """Everything comes back, is leased once, and can be completed."""
        self.clock.advance(100_000)
        for queue, model in self.models.items():
            model.settle(self._now_ms())
            given = lease_data(self.store, 100, queue=queue)
            model.check_leased(given, 100, self._now_ms() + 60_000)
            ids = [id for id, _ in given]
            assert complete(self.store, *ids, queue=queue) == model.complete(ids)
            assert model.data == {}
            assert lengths(self.store, queue) == (0, 0)

    def _add(self, queue: bytes, model: ItemsModel) -> None:
        ids = self._ids()
        bodies = [self.random.randbytes(self.random.choice((0, 3, 300))) for _ in ids]
        is_known_new = self.random.random() < 0.3
        are_new = self.store.run(AddItems(ITEMS, queue, ids, bodies, is_known_new))

        assert are_new == model.add(ids, bodies, is_known_new=is_known_new)

    def _lease(self, queue: bytes, model: ItemsModel) -> None:
        count, lease_ms = self.random.randint(1, 4), self.random.choice((1, 20, 300, 60_000))
        given = lease_data(self.store, count, queue=queue, lease_ms=lease_ms)

        model.check_leased(given, count, self._now_ms() + lease_ms)

    def _complete(self, queue: bytes, model: ItemsModel) -> None:
        ids = self._ids()

        assert complete(self.store, *ids, queue=queue) == model.complete(ids)

    def _extend(self, queue: bytes, model: ItemsModel) -> None:
        ids, lease_ms = self._ids(), self.random.choice((1, 50, 60_000))
        extended = extend(self.store, *ids, queue=queue, lease_ms=lease_ms)

        assert extended == model.extend(ids, self._now_ms() + lease_ms)

    def _look(self, queue: bytes, model: ItemsModel) -> None:
        assert lengths(self.store, queue) == model.lengths()

    def _clean(self, queue: bytes, model: ItemsModel) -> None:
        done = clean(self.store, queue=queue, is_deep=self.random.random() < 0.5)

        assert (done.returned, done.dropped, done.doubled) == (0, 0, 0)

    def _ids(self) -> list[bytes]:
        return self.random.choices(IDS, k=self.random.randint(1, 3))

    def _to_next_end(self) -> int:
        """How long it is until a lease ends, exactly."""
        ends = [end for model in self.models.values() for end in model.leases.values()]
        return max(0, min(ends, default=0) - self._now_ms())

    def _now_ms(self) -> int:
        return self.clock.now_us() // 1000


def test_a_store_answers_what_the_model_answers(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    first = SystemRandom().getrandbits(32) if EFFORT else 1
    for seed in range(first, first + 3 * max(1, EFFORT)):
        walk = Walk(store, reopen, clock, seed)
        for step in range(STEPS):
            try:
                walk.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}") from error
        walk.end()
        store = walk.store
