"""Measure queues for metrics: with one call for each slot, and one or more for each events queue
with groups.

Called by   served.py (RUNNERS; has a Health).
Calls       the scripts measure and measure_groups.

Redis does nothing else while it carries out calls that came together. A few go at a time, and
others have their turn in between, however many queues there are.

The cursor is what is left of the slots there were at first, each with where to go on in it. A slot
is a shard: of a queue that is spread, each slot tells its part.

Not here: what became of messages (edge.tally, which served.py counts in).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, cast

from quinque.model.families import BY_CODE
from quinque.model.measure_ops import (
    GroupMeasure,
    MeasureQueues,
    QueueMeasure,
    QueueMeasures,
    StoreMeasure,
)
from quinque.model.ops import Op
from quinque.stores.redis.calls import Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key
from quinque.stores.redis.slots import known_slots

_Left = list[tuple[int, bytes]]  # slots, and where to go on in each
_START: Final = b"0"
_NOT_KNOWN: Final = -1  # since when something is in its place, or there is nothing
_AT_ONCE: Final = 25  # slots, each with a queue or so; they take Redis about half a millisecond
_GROUPS_AT_ONCE: Final = 50  # which take as long
_SILENT_S: Final = 3.0  # a broker asks for something every second (served.py)


class Health:
    """Whether Redis answers."""

    def __init__(self) -> None:
        self.heard_s = monotonic()
        self.failures = 0

    def measure(self) -> StoreMeasure:
        silent_s = monotonic() - self.heard_s
        is_silent = silent_s > _SILENT_S
        trouble = f"Redis has not answered for {silent_s:.0f} s" if is_silent else ""
        figures = {"silent_s": silent_s, "failures": self.failures}
        return StoreMeasure(trouble, figures, is_silent=is_silent)


def measure_queues(op: MeasureQueues, edge: Edge) -> Steps:
    if op.cursor is None:
        slots: Sequence[int] = yield from known_slots(edge)
        chosen = {slot for name in op.names for slot in edge.spread.read_slots(name)}
        left: _Left = [(slot, _START) for slot in slots if not op.names or slot in chosen]
    else:
        left = cast(_Left, op.cursor)
    now, later = left[:_AT_ONCE], left[_AT_ONCE:]
    replies = yield [Call("measure", [slot_key(slot)], [at, op.count]) for slot, at in now]
    found: list[QueueMeasure] = []
    feeds: list[_Feed] = []
    for (slot, _), (at, rows) in zip(now, replies, strict=True):
        for row in rows:
            if not op.names or row[0] in op.names:
                found.append(_measured(slot, row, edge))
                if row[-1]:
                    feeds.append(_Feed(found[-1], row[-1]))
        if at != _START:
            later.append((slot, at))
    yield from _look_at_groups(feeds)
    return QueueMeasures(found, later or None)


def _measured(slot: int, row: list[Any], edge: Edge) -> QueueMeasure:
    name, family, ready, leased, delayed, dead, claimed, kept, first_ms, _ = row
    return QueueMeasure(
        BY_CODE[family],
        name,
        slot,
        ready,
        leased,
        delayed,
        dead,
        claimed,
        kept,
        _known(first_ms),
        changes=edge.tally.by_queue.get(name, {}),
    )


class _Feed:
    """A feed whose groups are read: about `size` of them, from `cursor` on."""

    def __init__(self, measured: QueueMeasure, size: int) -> None:
        self.measured = measured
        self.size = size
        self.cursor = _START
        self.groups: dict[bytes, GroupMeasure] = {}  # HSCAN may return one twice
        self.first_ms = _NOT_KNOWN

    def call(self) -> Call:
        it = self.measured
        return Call(
            "measure_groups", [slot_key(it.shard)], [it.queue, self.cursor, _GROUPS_AT_ONCE]
        )

    def add(self, rows: list[Any]) -> None:
        for name, ready, leased, *firsts_ms in rows:
            self.groups[name] = GroupMeasure(name, ready, leased)
            firsts_ms = [at_ms for at_ms in (self.first_ms, *firsts_ms) if at_ms >= 0]
            self.first_ms = min(firsts_ms, default=_NOT_KNOWN)

    def end(self) -> None:
        """Complete the measure of the feed from its groups, if it has any."""
        groups, it = list(self.groups.values()), self.measured
        if groups:
            it.ready = max(group.ready for group in groups)
            it.leased = sum(group.leased for group in groups)
            it.first_ms = _known(self.first_ms)
            it.groups = groups


def _look_at_groups(left: list[_Feed]) -> Steps:
    """Add their groups to the measures of the feeds, some groups at a time."""
    while left:
        now: list[_Feed] = []
        groups = 0
        while left and groups < _GROUPS_AT_ONCE:
            now.append(left.pop())
            groups += now[-1].size
        replies = yield [feed.call() for feed in now]
        for feed, (cursor, rows) in zip(now, replies, strict=True):
            feed.cursor = cursor
            feed.add(rows)
            if feed.cursor == _START:
                feed.end()
            else:
                left.append(feed)


def _known(at_ms: int) -> int | None:
    return None if at_ms == _NOT_KNOWN else at_ms


RUNNERS: Final[dict[type[Op], Runner]] = {MeasureQueues: measure_queues}
