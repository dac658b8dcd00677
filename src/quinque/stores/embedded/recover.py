"""Read a folder back: apply every record, in the order it was written.

Called by   store.py when it opens; copy_out.py reads with it and changes nothing.
Calls       records.py (bytes), replay.py (what a record does), journal.py.

A torn tail, which a crash leaves and which was never acknowledged, is cut and reported. Any other
bytes that do not match their checksum stop the start: they were acknowledged, and dropping them
silently is the one thing a queue must not do.

Not here: going on after the last record (journal.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from quinque.errors import JournalDamaged
from quinque.stores.clock import Clock
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.manifest import refuse_missing, segment_numbers, segment_path
from quinque.stores.embedded.record import Recorder
from quinque.stores.embedded.records import Damage, Reading
from quinque.stores.embedded.replay import Recovered, finish, replay_batch


def segments(folder: Path) -> range:
    """The numbers of the segments. Raises JournalDamaged when one is missing."""
    refuse_missing(folder)
    numbers = segment_numbers(folder)
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def recover(
    journal: Journal, bodies: Bodies, clock: Clock, record: Recorder | None = None
) -> Recovered:
    """The queues of the folder; the journal is ready to go on after the last record, and so is the
    record of changes.

    Raises JournalDamaged.
    """
    done = read_segments(journal, bodies, os.O_RDWR, record)
    clock.start_from(max(done.now_ms * 1000, done.stamp_us))
    newest = max(journal.sizes, default=0)
    if newest and journal.sizes[newest]:
        journal.resume(newest, journal.sizes[newest])
    else:
        if newest:  # a segment of which not even the first batch got to the disk
            os.ftruncate(journal.files[newest], 0)
            os.close(journal.files.pop(newest))
        journal.open_segment(max(newest, 1), done.stamp_us, clock.now_us() // 1000)
    if record is not None:
        if record.is_ahead(journal):
            _retell(journal.folder, record)
        record.start(journal, done.queues)
    return done


def read_segments(
    journal: Journal, bodies: Bodies, access: int, record: Recorder | None = None
) -> Recovered:
    """The queues of the folder; its segments are open as `access` says. Raises JournalDamaged."""
    done = Recovered(record=record)
    numbers = segments(journal.folder)
    end = 0
    for number in numbers:
        path = segment_path(journal.folder, number)
        file = os.open(path, access | os.O_CLOEXEC)
        journal.keep_open(number, file)
        reading = Reading(read_whole(file))
        previous_end, end = (
            end,
            replay(done, bodies, number, reading, is_last=number == numbers[-1], path=path),
        )
        if number > numbers[0] and end and previous_end != done.previous_bytes:
            why = f"the file ends here, but was {done.previous_bytes} bytes long"
            raise _damaged(segment_path(journal.folder, number - 1), previous_end, why)
        journal.sizes[number] = end
        journal.seals[number] = reading.seal
    finish(done, bodies)
    return done


def _retell(folder: Path, record: Recorder) -> None:
    """Add what the record does not have. Raises JournalDamaged."""
    journal = Journal(folder, "no", 0)
    try:
        read_segments(journal, Bodies(journal, maxmemory=1), os.O_RDONLY, record)
    finally:
        journal.let_go()


def replay(
    done: Recovered, bodies: Bodies, segment: int, reading: Reading, *, is_last: bool, path: Path
) -> int:
    """Apply all of a segment's records; the offset where its last batch ends."""
    end = 0
    for found in reading.batches():
        if isinstance(found, Damage):
            if not (is_last and found.is_torn):
                raise _damaged(path, found.at, found.why)
            done.cut_bytes = reading.written() - found.at
            done.cut_where = f"{path} at byte {found.at}: {found.why}"
            break
        replay_batch(done, bodies, segment, found, path)
        end = found.end
    if not end and not is_last:
        raise _damaged(path, 0, "the file is empty")
    return end


def _damaged(path: Path, at: int, why: str) -> JournalDamaged:
    return JournalDamaged(
        f"{path} at byte {at}: {why}. To see what can be saved, run: quinque check {path.parent}"
    )


def read_whole(file: int) -> bytes:
    size_bytes = os.fstat(file).st_size
    parts: list[bytes] = []
    at = 0
    while at < size_bytes and (part := os.pread(file, size_bytes - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
