"""The crash rule: cut the journal at any byte, and all that was acknowledged before is there.

    QUINQUE_EFFORT=1 pytest tests/store/test_crash.py    at each byte, and not at some of them

A journal is made by random work; after each commit the store is pictured. Then the file is cut,
or its end is replaced by what a failing machine leaves, and opened again: the store must look as
it did at the last commit before the cut, say what was cut, and go on.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quinque.errors import JournalDamaged
from quinque.model.families import EVENTS
from quinque.model.ops import Put
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import Fsync
from quinque.stores.embedded.records import HEADER_BYTES, SECTOR_BYTES, Batch, read_batches
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from tests.model.effort import EFFORT
from tests.store.picture import check_indexes, messages_of, picture_of
from tests.store.random_work import WORKERS, FeedWorker, Worker

SEGMENT = "0000000001.journal"


@dataclass
class Past:
    """A journal, and what the store looked like whenever it had come to an end of a batch."""

    data: bytes
    pictures: dict[int, dict[bytes, Any]]

    @property
    def ends(self) -> list[int]:
        return sorted(self.pictures)

    def before(self, cut: int) -> int:
        """The end of the last batch that is wholly before the cut; 0 if there is none."""
        return max((end for end in self.ends if end <= cut), default=0)


def make_past(
    folder: Path,
    seed: int,
    turns: int,
    fsync: Fsync = "always",
    last_bytes: int = 0,
    kind: type[Worker] = FeedWorker,
) -> Past:
    """Random work, and a last turn that stores so many bytes."""
    clock = ManualClock()
    chance = Random(seed).randbytes
    store = EmbeddedStore(folder / "made", clock=clock, fsync=fsync, chance=chance)
    pictures: dict[int, dict[bytes, Any]] = {0: {}, store.journal.sizes[1]: {}}
    worker = kind(store, clock, seed)
    for _ in range(turns):
        worker.turn()
        pictures[store.journal.sizes[1]] = picture_of(store)
    if last_bytes:
        store.run(Put(EVENTS, b"last", [worker.random.randbytes(last_bytes)]))
        store.commit()
        pictures[store.journal.sizes[1]] = picture_of(store)
    data = (folder / "made" / SEGMENT).read_bytes()[: store.journal.sizes[1]]
    store.close()
    return Past(data, pictures)


def open_with(folder: Path, data: bytes, *, records: bool = True) -> EmbeddedStore:
    """A store on a folder whose only segment holds `data`."""
    shutil.rmtree(folder / "opened", ignore_errors=True)
    (folder / "opened").mkdir()
    (folder / "opened" / SEGMENT).write_bytes(data)
    return EmbeddedStore(folder / "opened", clock=ManualClock(), keeping=Keeping(is_on=records))


def check_opened(store: EmbeddedStore, past: Past, end: int) -> None:
    """The store is as it was when the journal ended at `end`."""
    assert picture_of(store) == past.pictures[end]
    check_indexes(store)


def check_goes_on(store: EmbeddedStore) -> None:
    """What is added now is there after the next opening, behind all else."""
    bodies = messages_of(store)
    store.run(Put(EVENTS, b"more", [b"1", b"2"]))
    store.close()
    again = EmbeddedStore(store.journal.folder, clock=ManualClock())
    assert messages_of(again) == {**bodies, b"more": [b"1", b"2"]}
    assert again.recovered.cut_bytes == 0, "a tail is cut once"
    again.close()


def cuts(past: Past) -> list[int]:
    """Every byte with QUINQUE_EFFORT; else every seventh, and those at the ends of batches and of
    their headers."""
    size = len(past.data)
    if EFFORT:
        return list(range(size + 1))
    bounds = {end + after for end in past.ends for after in (0, HEADER_BYTES)}
    near = {bound + by for bound in bounds for by in range(-2, 3)}
    return sorted({*range(0, size, 7), *(cut for cut in near if 0 <= cut <= size)})


@pytest.mark.parametrize("kind", WORKERS)
@pytest.mark.parametrize("seed", range(max(1, EFFORT)))
def test_cut_at_any_byte_the_journal_keeps_all_that_was_acknowledged_before(
    folder: Path, seed: int, kind: type[Worker]
) -> None:
    past = make_past(folder, seed, turns=10, kind=kind)

    for cut in cuts(past):
        # tests/store/test_record_crash.py does the same with the record.
        store = open_with(folder, past.data[:cut], records=cut % 10 == 0)
        end = past.before(cut)
        check_opened(store, past, end)
        assert store.recovered.cut_bytes == len(past.data[end:cut].rstrip(b"\0"))
        if cut > end:
            assert f"{SEGMENT} at byte {end}:" in store.recovered.cut_where
        if cut % 10:
            store.close()
        else:
            check_goes_on(store)


@pytest.mark.parametrize("fsync", ["always", "no"])
def test_sectors_that_were_not_written_yet_take_only_what_nobody_was_told_of(
    folder: Path, fsync: Fsync
) -> None:
    """The disk writes the sectors of what is not synced in any order, and the machine stops."""
    past = make_past(folder, seed=5, turns=12, fsync=fsync, last_bytes=1_500)
    # With `always`, one batch may be on its way to the disk; with `no`, any number.
    unsynced = past.ends[-2 if fsync == "always" else -6]
    bounds = [unsynced, *range(_next_sector(unsynced), len(past.data), SECTOR_BYTES)]
    sectors = list(zip(bounds, [*bounds[1:], len(past.data)], strict=True))
    assert len(sectors) > 1

    for missing in product((False, True), repeat=len(sectors)):
        data = bytearray(past.data + bytes(4096))
        for (start, end), is_missing in zip(sectors, missing, strict=True):
            if is_missing:
                data[start:end] = bytes(end - start)
        wrong = [at for at, byte in enumerate(past.data) if data[at] != byte]
        store = open_with(folder, bytes(data))
        check_opened(store, past, past.before(wrong[0]) if wrong else len(past.data))
        store.close()


def test_a_second_crash_while_the_tail_of_the_first_is_cut_changes_nothing(folder: Path) -> None:
    past = make_past(folder, seed=3, turns=6)
    end = past.ends[-2]
    torn = past.data[: end + 20]

    first = open_with(folder, torn)
    left = (folder / "opened" / SEGMENT).read_bytes()
    first.close()
    second = open_with(folder, left)

    check_opened(second, past, end)
    check_goes_on(second)


@pytest.mark.parametrize("size_bytes", [1, 31, 32, 33, 600])
def test_bytes_from_elsewhere_after_the_end_are_never_taken_for_records(
    folder: Path, size_bytes: int
) -> None:
    """No crash leaves them: room is reserved as zeros. Too short for a header they are cut; else
    they may have been a batch, so the start stops and `quinque check` puts them aside."""
    past = make_past(folder, seed=4, turns=5)
    garbage = Random(size_bytes).randbytes(size_bytes)

    if size_bytes < 32:
        store = open_with(folder, past.data + garbage)
        assert store.recovered.cut_bytes == size_bytes
        check_opened(store, past, len(past.data))
        check_goes_on(store)
    else:
        with pytest.raises(JournalDamaged, match=f"at byte {len(past.data)}"):
            open_with(folder, past.data + garbage)


def test_every_batch_of_the_journal_is_one_commit(folder: Path) -> None:
    """What the other tests rely on: the pictures are of the ends of batches, and of all of them."""
    past = make_past(folder, seed=0, turns=20)

    ends = [found.end for found in read_batches(past.data) if isinstance(found, Batch)]

    assert [0, *ends] == past.ends


def _next_sector(at: int) -> int:
    return at - at % SECTOR_BYTES + SECTOR_BYTES
