"""The record of what became of messages: looking at it, and keeping it small.

Called by   served.py (RUNNERS; trim once in a while).
Calls       the scripts find_record, read_record and trim_record.

Each slot has a record of its own, which every script that changes a message's state adds to
(scripts/lib/record.lua): it lies with the messages, and goes where they go. So a slot is a shard.

How large the record is all over is known only here. When it is too large, each slot gives up the
same part of its own.

Not here: what an entry holds (model/lifecycle.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, NamedTuple

from quinque.errors import BadArgument
from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.model.ops import Op
from quinque.stores.redis.calls import Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import SLOTS, slot_key
from quinque.stores.redis.slots import known_slots

_READ_MOST: Final = 100_000  # rows by one call: some ms of work
_READ_MOST_BYTES: Final = 4 << 20
_SLOTS_AT_ONCE: Final = 32
# So that it is not too large again at once.
_SPARE: Final = 0.95
_LOG_BYTES: Final = 6  # an exact number in Lua and in every client


class Extent(NamedTuple):
    """The result of find_record.lua for a slot. `log` distinguishes its log from others, and is
    made when a client first requests it."""

    first: int
    next: int
    first_ms: int
    size_bytes: int
    log: int


def find_records(op: FindRecords, edge: Edge) -> Steps:
    extents: dict[int, Extent] = yield from _extents(edge, is_named=True)
    return [
        Record(slot, *extent[:3], extent.log) for slot, extent in extents.items() if extent.next > 1
    ]


def read_record(op: ReadRecord, edge: Edge) -> Steps:
    if not 0 <= op.shard < SLOTS:
        raise BadArgument(f"no shard {op.shard}")
    argv = [op.start, min(op.count, _READ_MOST), _READ_MOST_BYTES]
    (entries,) = yield [Call("read_record", [slot_key(op.shard)], argv)]
    return entries


def facts(edge: Edge) -> Steps:
    """Return the facts of INFO about the lifecycle log."""
    extents: dict[int, Extent] = yield from _extents(edge)
    return {
        "lifecycle_status": "ok" if edge.keeping.is_on else "off",
        "lifecycle_rows": sum(extent.next - extent.first for extent in extents.values()),
        "lifecycle_bytes": sum(extent.size_bytes for extent in extents.values()),
    }


def trim(edge: Edge) -> Steps:
    """Trim the record of all slots to the maximum age, and to about the maximum size."""
    keeping = edge.keeping
    from_ms = edge.now_ms() - keeping.max_age_ms if keeping.max_age_ms else 0
    begun = edge.empty.begin_look()
    extents: dict[int, Extent] = yield from _extents(edge, edge.empty.blank)
    blank = [slot for slot, extent in extents.items() if extent.first == extent.next]
    edge.empty.note_blank(begun, blank)
    whole_bytes = sum(extent.size_bytes for extent in extents.values())
    is_large = 0 < keeping.max_bytes < whole_bytes
    part = _SPARE * keeping.max_bytes / whole_bytes if is_large else 0.0
    calls = [
        Call("trim_record", [slot_key(slot)], [from_ms, math.ceil(part * extent.size_bytes)])
        for slot, extent in extents.items()
        if is_large or 0 < extent.first_ms < from_ms
    ]
    while calls:
        replies = yield calls
        calls = [call for call, is_more in zip(calls, replies, strict=True) if is_more]


def _extents(edge: Edge, skipped: Collection[int] = (), *, is_named: bool = False) -> Steps:
    """The Extent of each slot, but for those that are skipped."""
    log = 1 + int.from_bytes(edge.chance.take(_LOG_BYTES)) if is_named else 0
    slots: list[int] = yield from known_slots(edge)
    slots = [slot for slot in slots if slot not in skipped]
    rows: list[list[int]] = []
    for first in range(0, len(slots), _SLOTS_AT_ONCE):
        some = slots[first : first + _SLOTS_AT_ONCE]  # others have their turn in between
        rows += yield [Call("find_record", [slot_key(slot)], [log]) for slot in some]
    return dict(zip(slots, map(Extent._make, rows), strict=True))


RUNNERS: Final[dict[type[Op], Runner]] = {FindRecords: find_records, ReadRecord: read_record}
