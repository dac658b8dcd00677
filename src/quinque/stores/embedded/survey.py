"""Look at a data folder: every segment, what is wrong with it and where, and what it all holds.

Called by   cli/check.py, repair.py.
Calls       records.py and replay.py, which read; nothing is changed.

Where a start stops at the first thing that is wrong, this goes on after it: it counts what there
will be after a repair of the damaged places.

Not here: the repair (repair.py), words for people (cli/check.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from quinque.errors import JournalDamaged
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.manifest import (
    missing_segments,
    seal_of,
    segment_numbers,
    segment_path,
)
from quinque.stores.embedded.records import Batch, Damage, Reading, read_batches, seal_in
from quinque.stores.embedded.replay import Recovered, finish, replay_batch

# "empty": only the newest may be, when a crash came before its first batch.
State = Literal["sound", "empty", "torn end", "damaged", "missing"]

_SAYS_NOTHING: Final = -1
_OPENED_MOST_BYTES: Final = 4_096  # more than the first batch of a segment has
_MISSING_MOST: Final = 10_000  # a file with a wrong number must not make a repair that never ends


@dataclass
class Problem:
    """Bytes of a segment that cannot be read, from `at` to `end`; `end` may be past its file."""

    segment: int
    at: int
    end: int
    why: str
    is_torn: bool = False  # a crash left it, and it was never acknowledged
    batches_after: int = 0  # intact ones, in the same segment
    records_after: int = 0


@dataclass
class Segment:
    number: int
    path: Path
    file_bytes: int = 0
    end: int = 0  # where what can be read, or is damaged, ends
    batches: int = 0
    records: int = 0
    state: State = "sound"
    previous_bytes: int | None = None  # how long the one before it is, if it says so
    seal: int = 0


@dataclass
class Survey:
    folder: Path
    segments: list[Segment] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unusable: str = ""  # why nothing can be done with it, if so
    holds: Recovered = field(default_factory=Recovered)
    leases: int = 0
    seal: int = 0  # of the newest segment that could be read, or that of the manifest

    @property
    def damaged(self) -> list[Problem]:
        return [problem for problem in self.problems if not problem.is_torn]


def survey(folder: Path) -> Survey:
    """All there is to know of the folder, whose lock the caller has. Raises OSError."""
    done = Survey(folder)
    gaps = missing_segments(folder)
    if sum(map(len, gaps)) > _MISSING_MOST:
        done.unusable = f"{folder}: {sum(map(len, gaps)):,} segments of the journal are missing"
        return done
    numbers = sorted({*segment_numbers(folder), *chain.from_iterable(gaps)})
    if not numbers:
        done.unusable = f"{folder} contains no journal"
        return done
    journal = Journal(folder, "no", 1 << 20)
    bodies = Bodies(journal, maxmemory=1)  # no body is wanted, only where it is
    done.seal = _any_seal(folder)
    try:
        for number in numbers:
            _look_at(done, bodies, number, is_last=number == numbers[-1])
    except JournalDamaged as exc:
        done.unusable = str(exc)
        return done
    finally:
        journal.let_go()
    finish(done.holds, bodies)
    done.leases = sum(queue.count_leases() for queue in done.holds.queues.values())
    return done


def _look_at(done: Survey, bodies: Bodies, number: int, *, is_last: bool) -> None:
    """Read one segment, and check the length that it gives for the one before it."""
    segment = Segment(number, segment_path(done.folder, number), seal=done.seal)
    found: list[Problem] = []
    if not segment.path.exists():
        segment.state = "missing"
        found.append(Problem(number, 0, 0, "the segment is missing"))
    else:
        data = segment.path.read_bytes()
        segment.file_bytes = len(data)
        done.holds.previous_bytes = _SAYS_NOTHING
        reading = Reading(data, done.seal)
        is_later = any(it.seal for it in done.segments if it.batches)
        if done.seal and not is_later and not reading.headers():
            reading = Reading(data)  # it may be older than the seal
        for part in _parts(number, reading, is_last=is_last):
            if isinstance(part, Problem):
                found.append(part)
                segment.end = part.end
                segment.state = "torn end" if part.is_torn else "damaged"
            else:
                _count(done, bodies, segment, part, found)
        segment.seal = reading.seal
        done.seal = reading.seal or done.seal
        if not segment.batches and not found:
            segment.state = "empty"
            if not is_last:
                segment.state = "damaged"
                found.append(Problem(number, 0, 0, "the file is empty"))
        if done.holds.previous_bytes != _SAYS_NOTHING:
            segment.previous_bytes = done.holds.previous_bytes
            if done.segments:
                _check_length(done, done.segments[-1], segment.previous_bytes)
    done.segments.append(segment)
    done.problems += found


def _any_seal(folder: Path) -> int:
    """The seal of the store, for segments whose own is damaged: that of the manifest, or of the
    first segment that has one."""
    seal = seal_of(folder)
    for number in segment_numbers(folder):
        if seal:
            break
        with open(segment_path(folder, number), "rb") as file:
            first = next(read_batches(file.read(_OPENED_MOST_BYTES)), None)
            seal = seal_in(first) if isinstance(first, Batch) else 0
    return seal


def _parts(number: int, reading: Reading, *, is_last: bool) -> Iterator[Batch | Problem]:
    """The parts of a segment, in order."""
    at: int | None = 0
    while at is not None:
        damage: Damage | None = None
        for found in reading.batches(at):
            if isinstance(found, Batch):
                yield found
            else:
                damage = found
        if damage is None:
            return
        is_torn = is_last and damage.is_torn
        # The next start cuts off a torn end with all that stands after it.
        at = reading.next_batch(damage) if not is_torn else None
        end = at if at is not None else reading.written()
        yield Problem(number, damage.at, end, damage.why, is_torn)


def _count(
    done: Survey, bodies: Bodies, segment: Segment, batch: Batch, before: list[Problem]
) -> None:
    known = done.holds.records
    replay_batch(done.holds, bodies, segment.number, batch, segment.path)
    records = done.holds.records - known
    segment.batches += 1
    segment.records += records
    segment.end = batch.end
    for problem in before:
        problem.batches_after += 1
        problem.records_after += records


def _check_length(done: Survey, previous: Segment, said_bytes: int) -> None:
    """Report a wrong length of the segment before as a problem of that segment."""
    if previous.end == said_bytes:
        return
    known = [problem for problem in done.problems if problem.segment == previous.number]
    if known and known[-1].end == previous.end < said_bytes:
        known[-1].end = said_bytes
    elif previous.end < said_bytes:
        why = f"the segment ends here, but was {said_bytes} bytes long"
        done.problems.append(Problem(previous.number, previous.end, said_bytes, why))
    else:
        why = "the segment continues after its recorded end"
        done.problems.append(Problem(previous.number, said_bytes, previous.end, why))
    previous.end = said_bytes
    if previous.state != "missing":
        previous.state = "damaged"
