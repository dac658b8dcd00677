"""The record after a crash: nothing is missing, nothing is there twice, numbers stay what they are.

A crash is a copy of the folder as it is at that moment; a power cut also takes the end of a file.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest

from quinque.model.families import JOBS
from quinque.model.look_ops import FindRecords
from quinque.model.work_ops import PurgeAll
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import record
from quinque.stores.embedded.record import Keeping
from quinque.stores.embedded.record_frames import HEADER_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.record_words import Row, rows
from tests.store.random_claims import ClaimWorker
from tests.store.random_reliable import ReliableWorker
from tests.store.random_tubes import TubeWorker
from tests.store.random_work import WORKERS, MixedWorker, Worker
from tests.store.record_model import check_record
from tests.store.stage import Stage

WORKING = """
import sys
from pathlib import Path
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import record
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.random_claims import ClaimWorker

record._NOTES_MOST = 20
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
clock = ManualClock()
store = EmbeddedStore(folder, clock=clock, fsync="no", segment_bytes=4096)
worker = ClaimWorker(store, clock, seed)
while True:
    worker.turn()
    print("turn", flush=True)
"""


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame may end in the middle of a turn, and the next one is not written."""
    monkeypatch.setattr(record, "_NOTES_MOST", 13)
    monkeypatch.setattr(record, "FRAME_BYTES", 300)


def crashed(folder: Path, number: int) -> Path:
    copy = folder.parent / f"{folder.name}-{number}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("lock"))
    return copy


def rows_in(folder: Path) -> list[Row]:
    """What the record of the folder tells when it is opened; it agrees with the store."""
    store = EmbeddedStore(folder, clock=ManualClock(), fsync="no")
    try:
        return check_record(store)
    finally:
        store.close()
        shutil.rmtree(folder)


@pytest.mark.usefixtures("small_frames")
@pytest.mark.parametrize(
    ("kind", "segment_bytes"),
    [
        *product([*WORKERS, ClaimWorker], [1 << 20, 2048]),
        (ReliableWorker, 2048),
        (TubeWorker, 2048),
    ],
)
def test_a_crash_at_any_turn_leaves_the_same_rows(
    folder: Path, clock: ManualClock, kind: type[Worker], segment_bytes: int
) -> None:
    """With small segments there is compaction all the time."""
    work = folder / "work"
    store = EmbeddedStore(work, clock=clock, fsync="no", segment_bytes=segment_bytes)
    worker = kind(store, clock, seed=3)
    for turn in range(120):
        worker.turn()
        if turn % 5 == 0:
            copy = crashed(work, turn)
            found = rows_in(copy)
            if turn % 10 == 0:  # whoever reads has it written
                assert found == rows(store)
    store.close()


@pytest.mark.usefixtures("small_frames", "queues_are_emptied_slowly")
@pytest.mark.parametrize("kind", [*WORKERS, ClaimWorker, ReliableWorker, TubeWorker])
def test_a_crash_while_queues_are_being_emptied_leaves_the_same_rows(
    folder: Path, clock: ManualClock, kind: type[Worker]
) -> None:
    """The record names their messages one by one, and all that came after them waits."""
    work = folder / "work"
    store = EmbeddedStore(work, clock=clock, fsync="no", segment_bytes=2048)
    worker = kind(store, clock, seed=8)
    behind = 0
    for turn in range(240):
        worker.turn()
        if turn % 12 == 0:
            store.run(PurgeAll(JOBS))
            store.commit()
        if turn % 7 == 0:
            found = rows_in(crashed(work, turn))
            told = rows(store)
            assert told == found[: len(told)]
            assert store._record.is_behind or store.leaving or told == found
            behind += told != found
    found = rows_in(crashed(work, -1))
    while store.next_due_ms() <= store.now_ms():
        store.tick()
        store.commit()
    assert rows(store)[: len(found)] == found
    store.close()
    assert behind


@pytest.mark.usefixtures("small_frames")
def test_what_a_power_cut_took_of_the_record_is_told_again(
    folder: Path, clock: ManualClock
) -> None:
    work = folder / "work"
    store = EmbeddedStore(work, clock=clock, fsync="no")
    worker = MixedWorker(store, clock, seed=1)
    for _ in range(60):
        worker.turn()
    whole = rows(store)
    (path,) = (work / "lifecycle").iterdir()
    size_bytes = path.stat().st_size
    # The first frame, which has no rows, was synced at the start.
    cuts = Random(1).sample(range(HEADER_BYTES, size_bytes), 25)
    for number, cut in enumerate([HEADER_BYTES, HEADER_BYTES + 1, size_bytes - 1, *cuts]):
        copy = crashed(work, number)
        torn = copy / "lifecycle" / path.name
        os.truncate(torn, cut)
        if number % 2:  # the file was made longer before it was written
            os.truncate(torn, size_bytes)

        assert rows_in(copy) == whole
    store.close()


@pytest.mark.usefixtures("small_frames")
def test_a_record_that_came_further_than_the_journal_goes_back(
    folder: Path, clock: ManualClock
) -> None:
    """Without a sync, a power cut may take the journal and leave the record."""
    work = folder / "work"
    store = EmbeddedStore(work, clock=clock, fsync="no")
    worker = MixedWorker(store, clock, seed=2)
    known: list[tuple[int, list[Row]]] = []
    for _ in range(40):
        worker.turn()
        known.append((store.journal.sizes[1], rows(store)))
    for number, (end, before) in enumerate(known):
        copy = crashed(work, number)
        os.truncate(copy / "0000000001.journal", end)

        assert rows_in(copy) == before
    store.close()


def test_the_journal_goes_only_after_the_record_of_it_is_written(stage: Stage) -> None:
    for number in range(5):
        stage.put(b"%d" % number)
        stage.store.commit()
    stage.compact_all()
    copy = stage.copied()

    store = EmbeddedStore(copy, clock=ManualClock(), fsync="no")

    assert [row.number for row in rows(store)] == [1, 2, 3, 4, 5]
    store.close()


def test_a_journal_that_went_without_its_record_leaves_a_number_out(
    folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore(folder / "a", clock=clock)
    MixedWorker(store, clock, seed=1).turn(10)
    before = store.run(FindRecords())[0]
    store.close()
    for path in (folder / "a").glob("*.journal"):
        path.rename(path.with_stem("0000000007"))
    for path in (folder / "a").glob("*.manifest"):
        path.unlink()

    store = EmbeddedStore(folder / "a", clock=clock)

    assert "missing in the lifecycle log" in caplog.text
    assert store.run(FindRecords())[0].first == before.first
    MixedWorker(store, clock, seed=5).turn(10)
    store.commit()
    assert store.run(FindRecords())[0].next > before.next + 1
    store.close()


def test_off_after_a_crash_and_on_again_leaves_no_gap(folder: Path, clock: ManualClock) -> None:
    work = folder / "work"
    store = EmbeddedStore(work, clock=clock, fsync="no")
    worker = MixedWorker(store, clock, seed=4)
    for _ in range(10):
        worker.turn()
    copy = crashed(work, 0)
    whole = rows(store)
    store.close()
    store = EmbeddedStore(copy, clock=clock, fsync="no", keeping=Keeping(is_on=False))
    worker = MixedWorker(store, clock, seed=5)
    for _ in range(10):
        worker.turn()
    store.close()

    store = EmbeddedStore(copy, clock=clock, fsync="no")
    MixedWorker(store, clock, seed=6).turn(10)

    found = rows(store)
    assert found[: len(whole)] == whole
    assert all(after.number == before.number + 1 for before, after in pairwise(found))
    store.close()


def test_killed_again_and_again_the_record_tells_what_the_store_holds(folder: Path) -> None:
    random = Random(9)
    work = folder / "work"
    for seed in range(6):
        command = [sys.executable, "-c", WORKING, str(work), str(seed)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(random.randint(1, 200)):
            assert process.stdout.readline() == b"turn\n"
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()

    store = EmbeddedStore(work, clock=ManualClock(), fsync="no", segment_bytes=4096)

    assert len(check_record(store)) > 100
    store.close()
