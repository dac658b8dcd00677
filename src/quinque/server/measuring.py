"""Collect the values of metrics at one moment, without a delay for clients.

Called by   cli/http_port.py, for each page of metrics; commands/queues.py.
Calls       the store (MeasureQueues, MeasureStore), some queues at a time.

If there are very many queues, only the largest are kept. The shards of a queue are added up. If the
store does not answer, queues are left out, and the rest is measured.

Not here: the metrics (metrics.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from time import time
from typing import Any, Final

from quinque.errors import NotDone, QuinqueError
from quinque.model.measure_ops import (
    NO_SHARD,
    MeasureQueues,
    MeasureStore,
    QueueMeasure,
    QueueMeasures,
    StoreMeasure,
)
from quinque.server.broker import Broker
from quinque.stores.pending import Pending

QUEUES_MOST: Final = 1_000  # on a page: about 1.5 MB, which Prometheus reads without complaint
GROUPS_MOST: Final = 20  # of each
_LOOK_S: Final = 0.5  # check after this time whether an answer can still come
_AT_ONCE: Final = 100  # queues, which take about half a millisecond


class Reading:
    """The collected values. `queues` has the largest queues. The counts by family include all
    queues."""

    def __init__(self, broker: Broker, store: StoreMeasure) -> None:
        self.broker = broker
        self.store = store
        self.now_ms = broker.store.now_ms()
        self.now_s = time()
        self.queues: list[QueueMeasure] = []
        self.queues_left_out = 0
        self.groups_left_out = 0
        self.queues_of: Counter[str] = Counter()
        self.leases_of: Counter[str] = Counter()
        self.has_asked = False  # the store has reported all its queues


async def measure(
    broker: Broker,
    names: Collection[bytes] = (),
    sees: Callable[[QueueMeasure], bool] = lambda found: True,
) -> Reading:
    """Collect all values that the table of metrics needs. With `names`, only these queues are in
    it, and only queues that `sees` allows. Other clients are served meanwhile."""
    store: StoreMeasure = broker.store.run(MeasureStore())
    reading = Reading(broker, store)
    if not store.is_silent:
        try:
            await _measure_queues(broker, reading, names, sees)
            reading.has_asked = True
        except QuinqueError:
            reading.store = broker.store.run(MeasureStore())  # as it is by now
    return reading


async def _measure_queues(
    broker: Broker, reading: Reading, names: Collection[bytes], sees: Callable[[QueueMeasure], bool]
) -> None:
    # By name and shard: the store may report a queue twice.
    largest: dict[tuple[bytes, int], QueueMeasure] = {}
    # Names; with shards, names and shards. No tuples without shards: to free a hundred thousand of
    # them takes a while.
    seen: set[object] = set()
    queues = 0
    least = -1  # a queue with no more messages is not among the largest
    cursor: object = None
    while True:
        op = MeasureQueues(_AT_ONCE, cursor, is_counting=True, names=names)
        some: QueueMeasures = await _answer(broker, op)
        for found in some.found:
            if not sees(found):
                continue
            part = found.queue if found.shard == NO_SHARD else (found.queue, found.shard)
            if part not in seen:
                is_new = found.queue not in seen
                seen.update((part, found.queue))
                queues += is_new
                reading.queues_of[found.family.name] += is_new
                reading.leases_of[found.family.name] += found.leased
                if found.kept > least:
                    largest[found.queue, found.shard] = found
        if len(largest) > 2 * QUEUES_MOST:
            largest = {(it.queue, it.shard): it for it in _largest(largest.values())}
            least = min(found.kept for found in largest.values())
        cursor = some.cursor
        if cursor is None:
            break
        await asyncio.sleep(0)
    whole: dict[bytes, QueueMeasure] = {}
    for found in largest.values():
        whole[found.queue] = _joined(whole[found.queue], found) if found.queue in whole else found
    reading.queues = sorted(_largest(whole.values()), key=lambda found: found.queue)
    reading.queues_left_out = queues - len(reading.queues)
    for found in reading.queues:
        reading.groups_left_out += max(0, len(found.groups) - GROUPS_MOST)
        found.groups = nlargest(GROUPS_MOST, found.groups, key=lambda group: group.ready)


def _largest(found: Iterable[QueueMeasure]) -> list[QueueMeasure]:
    """The queues that have most messages; among equals, those where most has happened."""
    return nlargest(QUEUES_MOST, found, key=lambda it: (it.kept, sum(it.changes.values())))


def _joined(one: QueueMeasure, other: QueueMeasure) -> QueueMeasure:
    """Two parts of one worklist; what became of its messages is the same in both."""
    firsts = [it.first_ms for it in (one, other) if it.first_ms is not None]
    return QueueMeasure(
        one.family,
        one.queue,
        one.shard,
        ready=one.ready + other.ready,
        leased=one.leased + other.leased,
        delayed=one.delayed + other.delayed,
        dead=one.dead + other.dead,
        claimed=one.claimed + other.claimed,
        kept=one.kept + other.kept,
        first_ms=min(firsts, default=None),
        changes=one.changes,
    )


async def _answer(broker: Broker, op: MeasureQueues) -> Any:
    """Wait for the answer of the store. Raises NotDone if it takes too long: a scrape does not wait
    as long as a client may."""
    given: Any = broker.store.run(op)
    if not isinstance(given, Pending):
        return given
    told: asyncio.Future[None] = broker.loop.create_future()
    given.then(lambda result: _wake(told), lambda error: _wake(told))
    while not told.done():
        await asyncio.wait([told], timeout=_LOOK_S)
        if not told.done() and broker.store.run(MeasureStore()).is_silent:
            raise NotDone("the store does not answer")
    return given.value()


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():  # the client may be gone
        told.set_result(None)
