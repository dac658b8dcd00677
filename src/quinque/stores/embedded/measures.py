"""Measure queues and the store, for metrics and probes.

Called by   store.py.
Calls       record.py (what became of messages), the file system (how much room there is).

Queues keep the numbers that are asked for, so that measuring one costs the same whatever is in it;
and many are measured some at a time, and so are many groups of one. The cursor is what is left of
the queues there were at first.

Not here: what is made of it (server/metrics.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, cast

from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.engine.queue import Queue
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.worklist import Worklist
from quinque.model.measure_ops import (
    NO_SHARD,
    GroupMeasure,
    MeasureQueues,
    MeasureStore,
    QueueMeasure,
    QueueMeasures,
    Spread,
    StoreMeasure,
)
from quinque.model.message import FeedMessage
from quinque.stats.doublings import Doublings
from quinque.stores.embedded.books import Books
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.record import Recorder

# Syncs of 64 µs to 8 s; batches of 1 to 8,192 records. Larger ones are counted too.
_SYNC_POWERS: Final = (6, 23)
_BATCH_POWERS: Final = (1, 13)
_GROUPS_AT_ONCE: Final = 500  # which take about half a millisecond


class Measures:
    def __init__(self, books: Books, record: Recorder) -> None:
        self._books = books
        self._record = record
        self.runners: dict[type, Callable[[Any], Any]] = {
            MeasureQueues: self._measure_queues,
            MeasureStore: self._measure_store,
        }

    def _measure_queues(self, op: MeasureQueues) -> QueueMeasures:
        if op.cursor is None:
            self._record.write()  # what was committed is counted
            if op.is_counting:
                self._record.count()
            queues = self._books.queues
            chosen = [queues[name] for name in op.names or queues if name in queues]
            left = self._measure_each(chosen)
        else:
            left = cast(Iterator[QueueMeasure | None], op.cursor)
        found: list[QueueMeasure] = []
        for measured in islice(left, op.count):
            if measured is None:
                return QueueMeasures(found, left)
            found.append(measured)
        return QueueMeasures(found, left if len(found) == op.count else None)

    def _measure_each(self, queues: Sequence[Queue]) -> Iterator[QueueMeasure | None]:
        """Each queue; None where it is time for others, because there were many groups."""
        looked_at = 0
        for queue in queues:
            if isinstance(queue, Worklist):
                measured = _of_worklist(queue)
            elif isinstance(queue, Feed):
                measured = _of_feed(queue)
                groups = list(queue.groups.values())
                for at in range(0, len(groups), _GROUPS_AT_ONCE):
                    some = groups[at : at + _GROUPS_AT_ONCE]
                    looked_at += len(some)
                    if looked_at > _GROUPS_AT_ONCE:
                        yield None
                        looked_at = len(some)
                    _add_groups(measured, queue, some)
            else:
                continue
            measured.changes = self._record.tally.by_queue.get(queue.name, {})
            yield measured

    def _measure_store(self, op: MeasureStore) -> StoreMeasure:
        books, journal, record = self._books, self._books.journal, self._record
        figures: dict[str, float] = {
            "journal_bytes": journal.total_bytes,
            "journal_segments": len(journal.sizes),
            "body_bytes_in_memory": books.bodies.in_memory,
            "bodies_on_disk": books.bodies.on_disk,
            "lifecycle_lost_rows": record.lost_rows,
        }
        spreads = {
            "journal_syncs": _spread(journal.syncs, *_SYNC_POWERS),
            "journal_batches": _spread(journal.batches, *_BATCH_POWERS),
        }
        return StoreMeasure(self._trouble(), figures, spreads)

    def _trouble(self) -> str:
        journal = self._books.journal
        if journal.failed:
            return journal.failed
        try:
            disk = os.statvfs(journal.folder)
        except OSError as exc:
            return f"cannot use the data directory: {exc.strerror}"
        if journal.is_stuck or disk.f_bavail * disk.f_frsize < SPARE_BYTES:
            return "the disk is full"
        return ""


def _of_worklist(queue: Worklist) -> QueueMeasure:
    first_ms = None
    if isinstance(queue, Tube):
        # The place of a task says nothing of time.
        for task in queue.first(1, None):
            assert isinstance(task, Task)
            first_ms = task.created_ms
    else:
        for message in queue.ready.first(1):
            first_ms = message.place // 1000
    return QueueMeasure(
        queue.family,
        queue.name,
        shard=NO_SHARD,
        ready=queue.ready.size,
        leased=queue.leased,
        delayed=queue.delayed.size,
        dead=queue.dead.size,
        claimed=queue.claimed,
        kept=queue.size + queue.claimed,
        first_ms=first_ms,
    )


def _of_feed(queue: Feed) -> QueueMeasure:
    """As it is for a new group."""
    kept = len(queue.messages)
    return QueueMeasure(
        queue.family,
        queue.name,
        shard=NO_SHARD,
        ready=kept,
        leased=0,
        kept=kept,
        first_ms=None if queue.head is None else queue.head.place // 1000,
    )


def _add_groups(measured: QueueMeasure, queue: Feed, groups: Sequence[Group]) -> None:
    """Add these groups to the measure of the feed."""
    kept = len(queue.messages)
    if not measured.groups:
        measured.ready, measured.first_ms = 0, None
    firsts_ms = [] if measured.first_ms is None else [measured.first_ms]
    for group in groups:
        ready, leased = kept - group.passed + len(group.again), len(group.held)
        measured.groups.append(GroupMeasure(group.name, ready, leased))
        measured.ready = max(measured.ready, ready)
        measured.leased += leased
        firsts_ms += [it.place // 1000 for it in _next_of(queue, group) if it is not None]
    measured.first_ms = min(firsts_ms, default=None)


def _next_of(queue: Feed, group: Group) -> tuple[FeedMessage | None, FeedMessage | None]:
    """The group's next messages: the next one that it has not passed, the next one to redeliver.
    Either may have expired and not be removed yet."""
    return (queue.head if group.at is None else group.at.after, group.next_again())


def _spread(sizes: Doublings, first: int, last: int) -> Spread:
    return Spread(sizes.up_to(first, last), sizes.count, sizes.total)
