"""Make a damaged folder open again: put the damaged bytes aside, keep every batch that is intact.

Called by   cli/check.py, after it has said what will be done.
Calls       survey.py for what is wrong.

Nothing moves. The place of damaged bytes is filled with a batch of the same length that says that
something was lost here (a Lost record), so everything else stays where the rest of the journal
says it is. Bytes that are overwritten or cut are first copied into a file next to the journal:

    damaged-<segment>-<offset>.bin

Not here: what is damaged and what is only torn (records.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgpack

from quinque.errors import JournalDamaged
from quinque.model.events import LOST, OPENED, Opened
from quinque.stores.embedded.disk import sync_file
from quinque.stores.embedded.journal import write_all
from quinque.stores.embedded.records import HEADER_BYTES, NIL, SEAL_BYTES, VERSION, batch_header
from quinque.stores.embedded.survey import Problem, Segment, Survey

_ARRAY_OF: Final = 0x90  # MessagePack: an array of up to 15 items, its length in the low bits
_BIN32: Final = 0xC6


@dataclass
class Step:
    """Bytes `at` to `end` of a file are copied aside and `filling` takes their place; `is_tail`
    says that the file ends there."""

    path: Path
    segment: int
    at: int
    end: int
    filling: bytes
    is_tail: bool

    def __str__(self) -> str:
        if not self.path.exists():
            return f"create {self.path.name} and mark all its data as lost"
        copied = min(self.end, self.path.stat().st_size) - self.at
        done = "fill the gap" if self.filling else "truncate the file there"
        if copied <= 0:
            return f"fill {self.path.name} from byte {self.at} to {self.end}"
        return (
            f"copy {copied} bytes of {self.path.name}, from byte {self.at} on, to "
            f"{aside_path(self).name}, and {done}"
        )


def plan(found: Survey) -> list[Step]:
    """Return the repairs in order. Raises JournalDamaged if the directory cannot be repaired."""
    steps: list[Step] = []
    previous_bytes = 0
    for segment, following in zip(found.segments, [*found.segments[1:], None], strict=True):
        length = segment.end
        for problem in found.damaged:
            if problem.segment == segment.number:
                step = _step(found, segment, following, problem, previous_bytes)
                steps.append(step)
                if step.is_tail:
                    length = step.at + len(step.filling)
        previous_bytes = length
    return steps


def carry_out(step: Step) -> None:
    """The step is done and on the disk. Raises OSError."""
    if not step.path.exists():
        unfinished = step.path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        _write(unfinished, step.filling)
        unfinished.rename(step.path)
        _sync(step.path.parent)
        return
    with open(step.path, "r+b") as file:
        file.seek(step.at)
        damaged = file.read(step.end - step.at)
        if damaged:
            _write(aside_path(step), damaged)
            _sync(step.path.parent)
        write_all(file.fileno(), step.filling, step.at)
        if step.is_tail:
            file.truncate(step.at + len(step.filling))
    _sync(step.path)


def aside_path(step: Step) -> Path:
    """Where the damaged bytes go; a file that is there already is not touched."""
    name = f"damaged-{step.segment}-{step.at}"
    path = step.path.with_name(f"{name}.bin")
    number = 2
    while path.exists():
        path = step.path.with_name(f"{name}-{number}.bin")
        number += 1
    return path


def _step(
    found: Survey,
    segment: Segment,
    following: Segment | None,
    problem: Problem,
    previous_bytes: int,
) -> Step:
    """Return the repair of one place, after which the segment has the length that the next one
    records."""
    is_tail = problem.batches_after == 0
    at = problem.at if segment.batches else 0
    seal = segment.seal
    opened = Opened(
        OPENED,
        VERSION,
        segment.number,
        found.holds.stamp_us,
        previous_bytes,
        seal.to_bytes(SEAL_BYTES),
    )
    first = opened if at == 0 else None
    if not is_tail:
        filling = _filling(problem.end - at, first, found.holds.now_ms, seal)
    elif following is None:
        filling = b""  # the next start makes an empty segment again
    elif following.previous_bytes is not None:
        filling = _filling(following.previous_bytes - at, first, found.holds.now_ms, seal)
    else:
        # Its length is unknown: it ends here, and the next segment, made again, will say so.
        size_bytes = HEADER_BYTES + len(_packed(first)) if first is not None else 0
        filling = _filling(size_bytes, first, found.holds.now_ms, seal)
    return Step(segment.path, segment.number, at, problem.end, filling, is_tail)


def _packed(opened: Opened) -> bytes:
    """The record; without a seal it is that of version 1."""
    record = opened if any(opened.seal) else opened._replace(version=1)[:5]
    packed: bytes = msgpack.packb(record)
    return packed


def _filling(size_bytes: int, opened: Opened | None, now_ms: int, seal: int) -> bytes:
    """A batch of that size, which opens its segment if it is the first, and says that something
    was lost. Raises JournalDamaged when there is no batch of that size."""
    if size_bytes == 0:
        return b""
    body = b"" if opened is None else _packed(opened)
    if opened is not None and HEADER_BYTES + len(body) > size_bytes:
        # The first segment of all began with no stamp, which is shorter.
        body = _packed(opened._replace(stamp_us=0))
    room_bytes = size_bytes - HEADER_BYTES - len(body)
    if room_bytes < 0:
        raise JournalDamaged(f"{size_bytes} bytes are too few for the batch that replaces them")
    if room_bytes >= 7:
        body += bytes((_ARRAY_OF | 2, LOST, _BIN32)) + (room_bytes - 7).to_bytes(4, "big")
        body += bytes(room_bytes - 7)
    elif room_bytes > 1:
        body += bytes((_ARRAY_OF | room_bytes - 1, LOST)) + NIL * (room_bytes - 2)
    elif room_bytes:
        body += NIL
    return batch_header(body, now_ms, 0, 0 if opened is not None else seal) + body


def _write(path: Path, data: bytes) -> None:
    """A new file, for its owner only, is on the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(file, data, 0)
        sync_file(file)
    finally:
        os.close(file)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(file)
    finally:
        os.close(file)
