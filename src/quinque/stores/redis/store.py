"""The Redis store for a program without an event loop: it answers at once.

Called by   cli/ (programs that use a store of their own), tests.
Calls       served.py, on an event loop that runs only while something is asked for.

Not here: the store as a broker uses it (served.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from typing import Any

from quinque.model.ops import Op
from quinque.stats.expirations import Expirations
from quinque.stores.base import Fsync, HasTakers
from quinque.stores.clock import Clock
from quinque.stores.consumers import Consumers
from quinque.stores.keeping import Keeping
from quinque.stores.pending import Pending
from quinque.stores.redis import records, ticks
from quinque.stores.redis.calls import Steps
from quinque.stores.redis.served import ServedRedisStore


class RedisStore:
    answers_at_once: bool = True  # it waits for the answer

    def __init__(
        self,
        url: str,
        *,
        node: str = "quinque",
        clock: Clock | None = None,
        chance: Callable[[int], bytes] = os.urandom,
        timeout_s: float = 5.0,
        may_evict: bool = False,
        takes_fewer: bool = False,
        keeping: Keeping | None = None,
    ) -> None:
        """Connect, and go on from the latest time that is known there.

        Raises StoreUnavailable, NotDone, BadSetting.
        """
        self._loop = asyncio.new_event_loop()
        opening = ServedRedisStore.open(
            url,
            node=node,
            clock=clock,
            chance=chance,
            timeout_s=timeout_s,
            may_evict=may_evict,
            takes_fewer=takes_fewer,
            is_alone=True,
            keeping=keeping,
        )
        try:
            self._store = self._loop.run_until_complete(opening)
        except BaseException:
            self._loop.close()
            raise

    @property
    def ready(self) -> set[bytes]:
        return self._store.ready

    @ready.setter
    def ready(self, ready: set[bytes]) -> None:
        self._store.ready = ready

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
    def on_ready(self) -> Callable[[], None]:
        return self._store.on_ready

    @on_ready.setter
    def on_ready(self, on_ready: Callable[[], None]) -> None:
        self._store.on_ready = on_ready

    @property
    def on_doubt(self) -> Callable[[], None]:
        return self._store.on_doubt

    @on_doubt.setter
    def on_doubt(self, on_doubt: Callable[[], None]) -> None:
        self._store.on_doubt = on_doubt

    @property
    def has_takers(self) -> HasTakers:
        return self._store.has_takers

    @has_takers.setter
    def has_takers(self, has_takers: HasTakers) -> None:
        self._store.has_takers = has_takers

    @property
    def watched(self) -> Collection[bytes]:
        return self._store.watched

    @watched.setter
    def watched(self, watched: Collection[bytes]) -> None:
        self._store.watched = watched

    @property
    def consumers(self) -> Consumers:
        return self._store.consumers

    def run(self, op: Op) -> Any:
        """As stores/base.py says."""
        result = self._store.run(op)
        return self._wait_for(result) if isinstance(result, Pending) else result

    def finish(self, steps: Steps) -> Any:
        """The result of steps that do not belong to an operation."""
        return self._wait_for(self._store.start(steps))

    def commit(self) -> None:
        """Do nothing: the changes of a script are in Redis when it has answered."""

    def tick(self) -> None:
        self._store.tick()
        self._loop.run_until_complete(self._until_idle())

    def next_due_ms(self) -> int:
        return self._store.next_due_ms()

    def is_awaited(self) -> bool:
        return False  # an operation takes all its steps itself

    def finish_slices(self) -> None:
        """Do nothing: no tick carries out an operation."""

    def now_ms(self) -> int:
        return self._store.now_ms()

    def info(self) -> dict[str, int | str]:
        facts: dict[str, int | str] = self.finish(ticks.info(self._store.edge))
        return facts

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        self._store.configure(fsync, maxmemory)

    def compact(self) -> bool:
        """There is no journal."""
        return True

    def trim_record(self) -> None:
        """Remove entries of the record that are too old, or too many."""
        self.finish(records.trim(self._store.edge))

    def close(self) -> None:
        self._loop.run_until_complete(self._store.aclose())
        self._loop.close()

    def _wait_for(self, pending: Pending) -> Any:
        if not pending.is_settled:
            self._loop.run_until_complete(_settled(pending))
        return pending.value()

    async def _until_idle(self) -> None:
        while not self._store.is_idle:
            await asyncio.sleep(0)


async def _settled(pending: Pending) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pending.then(lambda result: future.set_result(None), lambda error: future.set_result(None))
    await future
