"""The bytes of the record: entries in frames, their checksums.

Called by   record_files.py.
Calls       msgpack, zlib.

    frame   "QnqR" · body length u32 · body crc32 u32 · first row u64 · rows u32 · entries u32 ·
            at_ms u64 · is_end u32 · segment u64 · offset u64 · beyond u64 · header crc32 u32
            body: the length of each entry, u32; then the entries

A frame says how far in the journal it has come: to `offset` in `segment`, and by `beyond` rows
further. With `is_end`, recording was turned off after it.

Not here: what an entry says (model/lifecycle.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct, unpack_from
from struct import pack as pack_struct
from typing import Final, NamedTuple
from zlib import crc32

import msgpack

_MAGIC: Final = b"QnqR"
_FIELDS: Final = Struct("<4sIIQIIQIQQQ")
_CHECK: Final = Struct("<I")
HEADER_BYTES: Final = _FIELDS.size + _CHECK.size


class Position(NamedTuple):
    """A position in the journal, and the number of rows after it."""

    segment: int
    offset: int
    beyond: int


@dataclass
class Frame:
    """A frame as it stands in a file, from `start` to `end`."""

    start: int
    end: int
    check: int
    first: int
    rows: int
    entries: int
    at_ms: int
    is_end: bool
    position: Position

    @property
    def next(self) -> int:
        """The row after it."""
        return self.first + self.rows


def frame_bytes(
    first: int,
    rows: int,
    entries: Sequence[bytes],
    at_ms: int,
    position: Position,
    *,
    is_end: bool = False,
) -> bytes:
    lengths = pack_struct(f"<{len(entries)}I", *map(len, entries))
    body = b"".join((lengths, *entries))
    fields = _FIELDS.pack(
        _MAGIC, len(body), crc32(body), first, rows, len(entries), at_ms, is_end, *position
    )
    return b"".join((fields, _CHECK.pack(crc32(fields)), body))


def read_frame(file: int, start: int) -> Frame | None:
    """The frame there, by its header; None where the file ends or there is something else."""
    header = os.pread(file, HEADER_BYTES, start)
    if len(header) < HEADER_BYTES:
        return None
    fields = header[: _FIELDS.size]
    if header[:4] != _MAGIC or _CHECK.unpack(header[_FIELDS.size :]) != (crc32(fields),):
        return None
    _, length, check, first, rows, entries, at_ms, is_end, *position = _FIELDS.unpack(fields)
    return Frame(
        start,
        start + HEADER_BYTES + length,
        check,
        first,
        rows,
        entries,
        at_ms,
        bool(is_end),
        Position(*position),
    )


def read_body(file: int, frame: Frame) -> bytes | None:
    """Return the contents of the frame, or None if its checksum does not match."""
    at = frame.start + HEADER_BYTES
    body = os.pread(file, frame.end - at, at)
    return body if len(body) == frame.end - at and crc32(body) == frame.check else None


def entries_of(frame: Frame, body: bytes) -> list[bytes]:
    entries: list[bytes] = []
    at = 4 * frame.entries
    for length in unpack_from(f"<{frame.entries}I", body):
        entries.append(body[at : at + length])
        at += length
    return entries


def entries_between(entries: list[bytes], start: int, end: int) -> list[bytes]:
    """The entries that hold rows from `start` up to before `end`."""
    low = _entries_before(entries, start + 1)
    return entries[max(0, low - 1) : _entries_before(entries, end)]


def _entries_before(entries: list[bytes], row: int) -> int:
    """Return how many of them begin before that row."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        number: int = msgpack.unpackb(entries[middle], raw=True)[0]
        if number < row:
            low = middle + 1
        else:
            high = middle
    return low
