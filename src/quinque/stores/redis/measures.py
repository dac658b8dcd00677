"""How much is in each queue, for metrics: one call for a slot, or a few where it has very many.

Called by   served.py (RUNNERS; has a Health).
Calls       the script measure.

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
_SILENT_S: Final = 3.0  # a broker asks for something every second (served.py)


class Health:
    """Whether Redis answers."""

    def __init__(self) -> None:
        self.heard_s = monotonic()
        self.failures = 0

    def measure(self) -> StoreMeasure:
        silent_s = monotonic() - self.heard_s
        trouble = f"Redis has not answered for {silent_s:.0f} s" if silent_s > _SILENT_S else ""
        return StoreMeasure(trouble, {"silent_s": silent_s, "failures": self.failures})


def measure_queues(op: MeasureQueues, edge: Edge) -> Steps:
    if op.cursor is None:
        slots: Sequence[int] = yield from known_slots(edge)
        left: _Left = [(slot, _START) for slot in slots]
    else:
        left = cast(_Left, op.cursor)
    # Most slots have one queue.
    now, later = left[: op.count], left[op.count :]
    replies = yield [Call("measure", [slot_key(slot)], [at, op.count]) for slot, at in now]
    found: list[QueueMeasure] = []
    for (slot, _), (at, rows) in zip(now, replies, strict=True):
        found += [_measured(slot, row, edge) for row in rows]
        if at != _START:
            later.append((slot, at))
    return QueueMeasures(found, later or None)


def _measured(slot: int, row: list[Any], edge: Edge) -> QueueMeasure:
    name, family, ready, leased, delayed, dead, claimed, kept, first_ms, groups = row
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
        None if first_ms < 0 else first_ms,
        [GroupMeasure(*groups[at : at + 3]) for at in range(0, len(groups), 3)],
        edge.tally.by_queue.get(name, {}),
    )


RUNNERS: Final[dict[type[Op], Runner]] = {MeasureQueues: measure_queues}
