"""Short words for the record: the rows of a queue as they came, each in one line.

Called by   test_records.py, tests/store, tests/redis.
Calls       the store they are handed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgpack

from quinque.model.lifecycle import Entry, Kind, Reason
from quinque.model.look_ops import FindRecords, ReadRecord
from quinque.stores.base import Store


class Seen(NamedTuple):
    """A row, without its number and its time."""

    kind: Kind
    reason: Reason
    id: bytes
    group: bytes = b""
    claim: int = 0
    size: int | None = None


class Row(NamedTuple):
    shard: int
    number: int
    at_ms: int
    family: int
    queue: bytes
    seen: Seen


def rows(store: Store, count: int = 1_000) -> list[Row]:
    """All rows of all shards, `count` at a time, without a gap; what the turn did is committed."""
    store.commit()
    found: list[Row] = []
    for record in store.run(FindRecords()):
        start = record.first
        while entries := store.run(ReadRecord(record.shard, start, count)):
            for row in rows_of(record.shard, entries):
                if row.number >= start:  # an entry may begin before the row that was asked for
                    assert row.number == start, "there is a gap"
                    found.append(row)
                    start += 1
        assert start == record.next
    return found


def seen(store: Store, queue: bytes) -> list[Seen]:
    """What is on record of the queue."""
    return [row.seen for row in rows(store) if row.queue == queue]


def kinds(store: Store, queue: bytes) -> list[tuple[Kind, Reason]]:
    """What happened in the queue, whichever message it was about."""
    return [(row.kind, row.reason) for row in seen(store, queue)]


def rows_of(shard: int, entries: list[bytes]) -> Iterator[Row]:
    for packed in entries:
        entry = Entry(*msgpack.unpackb(packed, raw=True))
        ids = msgpack.unpackb(entry.ids, raw=True)
        sizes = [None] * len(ids) if entry.sizes is None else msgpack.unpackb(entry.sizes)
        for at, (id, size) in enumerate(zip(ids, sizes, strict=True)):
            kind, reason = Kind(entry.kind), Reason(entry.reason)
            row = Seen(kind, reason, id, entry.group, entry.claim, size)
            yield Row(shard, entry.number + at, entry.at_ms, entry.family, entry.queue, row)
