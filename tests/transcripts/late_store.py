"""A store that answers later, as one does that has to ask elsewhere.

Called by   stage.py.
Calls       the embedded store, for the answers.

What is asked in one turn is carried out in the next, all of it together, and answered after that.
So everything in the server that could rely on an answer being there at once, and must not, is
played too.

Not here: what a store promises (stores/base.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from quinque.errors import QuinqueError
from quinque.model.measure_ops import MeasureStore
from quinque.model.ops import Op
from quinque.model.work_ops import LookAtNode, SetNode
from quinque.stats.expirations import Expirations
from quinque.stores.base import Fsync, HasTakers, no_takers
from quinque.stores.consumers import Consumers
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending


class LateStore:
    answers_at_once = False

    def __init__(self, store: EmbeddedStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._asked: list[tuple[Op, Pending]] = []
        self.on_doubt: Callable[[], None] = lambda: None
        self.has_takers: HasTakers = no_takers
        self.failures: dict[str, Exception] = {}  # which commit and tick raise, by these names

    @property
    def ready(self) -> set[bytes]:
        return self._store.ready

    @ready.setter
    def ready(self, queues: set[bytes]) -> None:
        self._store.ready = queues

    @property
    def ready_lanes(self) -> dict[bytes, set[bytes]]:
        return self._store.ready_lanes

    @ready_lanes.setter
    def ready_lanes(self, lanes: dict[bytes, set[bytes]]) -> None:
        self._store.ready_lanes = lanes

    @property
    def expired(self) -> Expirations:
        return self._store.expired

    @property
    def consumers(self) -> Consumers:
        return self._store.consumers

    @property
    def watched(self) -> Collection[bytes]:
        return self._store.watched

    @watched.setter
    def watched(self, names: Collection[bytes]) -> None:
        self._store.watched = names

    @property
    def on_ready(self) -> Callable[[], None]:
        return self._store.on_ready

    @on_ready.setter
    def on_ready(self, tell: Callable[[], None]) -> None:
        self._store.on_ready = tell

    def run(self, op: Op) -> Any:
        # What the node is called, the broker knows; how the store is, it is told at once.
        if isinstance(op, LookAtNode | SetNode | MeasureStore):
            return self._store.run(op)
        if not self._asked:
            self._loop.call_soon(self._carry_out)
        pending = Pending()
        self._asked.append((op, pending))
        return pending

    def _carry_out(self) -> None:
        asked, self._asked = self._asked, []
        answers: list[Callable[[], None]] = []
        for op, pending in asked:
            try:
                result = self._store.run(op)
            except QuinqueError as error:
                answers.append(_failing(pending, error))
            else:
                answers.append(_settling(pending, result))
        self._store.commit()
        for answer in answers:
            self._loop.call_soon(answer)

    def commit(self) -> None:
        if "commit" in self.failures:
            raise self.failures["commit"]
        self._store.commit()

    def tick(self) -> None:
        if "tick" in self.failures:
            raise self.failures["tick"]
        self._store.tick()

    def compact(self) -> bool:
        return self._store.compact()

    def next_due_ms(self) -> int:
        return self._store.next_due_ms()

    def finish_slices(self) -> None:
        self._store.finish_slices()

    def is_awaited(self) -> bool:
        return self._store.is_awaited()

    def now_ms(self) -> int:
        return self._store.now_ms()

    def info(self) -> dict[str, int | str]:
        return self._store.info()

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        self._store.configure(fsync, maxmemory)

    def close(self) -> None:
        self._store.close()


def _failing(pending: Pending, error: QuinqueError) -> Callable[[], None]:
    return lambda: pending.fail(error)


def _settling(pending: Pending, result: Any) -> Callable[[], None]:
    return lambda: pending.settle(result)
