"""The bytes of a segment: batches of records, their checksums, and what damage looks like.

Called by   journal.py (writes), recover.py, compact.py and cli/check.py (read).
Calls       msgpack, zlib.

A segment is a row of batches, one per commit, then zeros (room reserved ahead):

    batch   "QnqB" · body length u32 · body crc32 u32 · now_ms u64 · synced u64 · header crc32 u32
            body: records, one after the other, each a msgpack array whose first item is its kind

`synced` is how much of the segment was known to be on the disk when the batch was written. It is
what tells damage from a torn tail: a bad batch that a later one says was synced, or one that is
all there and still does not match its checksum, was damaged after it was acknowledged. A tail that
a crash tore off was never synced, and holds sectors that were never written.

Not here: what a record means (model/events.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from struct import Struct
from typing import Any, Final
from zlib import crc32

import msgpack

VERSION: Final = 1
MAGIC: Final = b"QnqB"
SECTOR_BYTES: Final = 512

_FIELDS: Final = Struct("<4sIIQQ")
_CHECK: Final = Struct("<I")
HEADER_BYTES: Final = _FIELDS.size + _CHECK.size


@dataclass
class Batch:
    """One commit as found in a segment."""

    start: int
    end: int
    now_ms: int
    synced: int
    body: bytes


@dataclass
class Damage:
    """Where a segment stops making sense, and whether what is lost was ever acknowledged."""

    at: int
    is_torn: bool
    why: str


def batch_header(body: bytes, now_ms: int, synced: int) -> bytes:
    fields = _FIELDS.pack(MAGIC, len(body), crc32(body), now_ms, synced)
    return fields + _CHECK.pack(crc32(fields))


def read_batches(data: bytes | mmap, at: int = 0) -> Iterator[Batch | Damage]:
    """The batches from `at` on; last, a Damage if there is something that is no batch."""
    while at < len(data):
        found = _read_batch(data, at)
        if found is None:
            return
        yield found
        if isinstance(found, Damage):
            return
        at = found.end


def next_batch(data: bytes | mmap, damage: Damage) -> int | None:
    """Where the next intact batch after the damage begins.

    If the header at the damage is intact, that is where it says. Else the bytes are searched; a
    body may hold what looks like a batch, so one counts only if another one, or the end, follows,
    or if it says of itself where it stands.
    """
    end = damage.at
    if (length := _length_at(data, damage.at)) is not None:
        end = min(damage.at + HEADER_BYTES + length, len(data))
        if isinstance(_read_batch(data, end), Batch):
            return end
    at = damage.at
    while (at := data.find(MAGIC, at + 1)) >= 0:
        found = _read_batch(data, at)
        if isinstance(found, Batch):
            after = _read_batch(data, found.end)
            if not isinstance(after, Damage) or after.is_torn or found.synced == at:
                return at
    return None


def read_records(batch: Batch) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """The records of a batch, each with the offsets in the segment where it starts and ends."""
    unpacker = msgpack.Unpacker(max_buffer_size=0, use_list=False)
    unpacker.feed(batch.body)
    base = start = batch.start + HEADER_BYTES
    tell = unpacker.tell
    for record in unpacker:
        end = base + tell()
        yield start, end, record
        start = end


def _read_batch(data: bytes | mmap, at: int) -> Batch | Damage | None:
    """The batch at `at`, None where the reserved room begins, or what is wrong there."""
    header = data[at : at + HEADER_BYTES]
    if not any(header) and not any(data[at:]):
        return None
    if len(header) < HEADER_BYTES:
        return Damage(at, True, "the file ends inside a batch header")
    fields = header[: _FIELDS.size]
    (check,) = _CHECK.unpack(header[_FIELDS.size :])
    if crc32(fields) != check:
        return _judge(data, at, at + HEADER_BYTES, "a batch header does not match its checksum")
    magic, length, body_check, now_ms, synced = _FIELDS.unpack(fields)
    if magic != MAGIC:
        return _judge(data, at, at + HEADER_BYTES, "a batch does not begin as one")
    start, end = at + HEADER_BYTES, at + HEADER_BYTES + length
    if end > len(data):
        return _judge(data, at, end, "the file ends inside a batch")
    body = data[start:end]
    if crc32(body) != body_check:
        return _judge(data, at, end, "a batch does not match its checksum")
    return Batch(at, end, now_ms, synced, body)


def _length_at(data: bytes | mmap, at: int) -> int | None:
    """How long the body of the batch at `at` is, if its header is intact."""
    header = data[at : at + HEADER_BYTES]
    if len(header) < HEADER_BYTES or header[:4] != MAGIC:
        return None
    (check,) = _CHECK.unpack(header[_FIELDS.size :])
    if crc32(header[: _FIELDS.size]) != check:
        return None
    length: int = _FIELDS.unpack(header[: _FIELDS.size])[1]
    return length


def _judge(data: bytes | mmap, at: int, end: int, why: str) -> Damage:
    """Torn off by a crash, or damaged after it was acknowledged?"""
    if _synced_later(data, at + 1) > at:
        return Damage(at, False, why + ", and a later batch says it was on the disk")
    if end > len(data):
        return Damage(at, True, why)
    # Killed between two short writes, a process leaves the rest of a batch, and all after it, as
    # it was reserved: zeros.
    if data[end - 1] == 0 and not any(data[end:]):
        return Damage(at, True, why)
    first = at - at % SECTOR_BYTES
    for sector in range(first, end, SECTOR_BYTES):
        part = data[max(sector, at) : min(sector + SECTOR_BYTES, end)]
        if not any(part):
            return Damage(at, True, why)
    return Damage(at, False, why + ", though all of it was written")


def _synced_later(data: bytes | mmap, at: int) -> int:
    """The furthest offset that an intact batch header after `at` says was synced."""
    furthest = 0
    while (at := data.find(MAGIC, at)) >= 0:
        header = data[at : at + HEADER_BYTES]
        if len(header) == HEADER_BYTES:
            (check,) = _CHECK.unpack(header[_FIELDS.size :])
            if crc32(header[: _FIELDS.size]) == check:
                furthest = max(furthest, _FIELDS.unpack(header[: _FIELDS.size])[4])
        at += 1
    return furthest
