"""A copy of random work of all families, killed at every call of the file system, goes on."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from quinque.errors import CopyUnfinished, DiskFull, QueuePaused, WrongType
from quinque.model.stage_ops import Publish
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.copying.places import FolderPlace, copy
from tests.model.effort import EFFORT
from tests.store.crash_walk import stops
from tests.store.picture import check_indexes, picture_of, picture_of_claims
from tests.store.random_everything import EverythingWorker

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    made = mkdtemp(prefix="quinque-copy-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(made)
    shutil.rmtree(made)


@pytest.mark.parametrize("seed", range(2 * max(1, EFFORT)))
def test_killed_at_any_call_of_the_file_system_a_copy_goes_on_and_is_the_same(
    folder: Path, seed: int
) -> None:
    source, whole = FolderPlace(folder / "source"), FolderPlace(folder / "whole")
    now_us = fill(source, seed)
    killed: list[FolderPlace] = []
    seen: list[object] = []

    def kill() -> None:
        files = [(path.name, path.read_bytes()) for path in sorted(whole.folder.glob("*.*"))]
        if files not in seen:
            seen.append(files)
            killed.append(FolderPlace(folder / f"killed-{len(killed)}"))
            ignored = shutil.ignore_patterns("lock")
            shutil.copytree(whole.folder, killed[-1].folder, ignore=ignored)

    with stops(kill, lambda: False):
        tallies = copy(source, whole)

    before = look_of(source, now_us)
    assert look_of(whole, now_us) == before
    assert len(killed) > 20
    for place in killed:
        if is_whole(place, now_us):
            assert look_of(place, now_us) == before
        else:
            assert copy(source, place) == tallies
            assert look_of(place, now_us) == before
        shutil.rmtree(place.folder)


def test_a_copy_to_a_disk_that_becomes_full_fails_and_goes_on_when_there_is_room(
    folder: Path,
) -> None:
    source = FolderPlace(folder / "source")
    now_us = fill(source, seed=1)
    before = look_of(source, now_us)
    failed = 0

    while not copied_with_room(source, place := FolderPlace(folder / f"full-{failed}"), failed):
        assert not is_whole(place, now_us)
        copy(source, place)
        assert look_of(place, now_us) == before
        failed += 1

    assert look_of(place, now_us) == before
    assert failed > 2


def copied_with_room(source: FolderPlace, target: FolderPlace, times: int) -> bool:
    """Whether the copy ends if the disk has room for files to grow only so many times."""
    asked = count()
    with stops(lambda: None, lambda: next(asked) >= times):
        try:
            copy(source, target)
        except DiskFull:
            return False
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
    return True


def fill(place: FolderPlace, seed: int) -> int:
    """There is random work of all families; the time after it."""
    clock = ManualClock()
    with closing(place.open(clock)) as store:
        worker = EverythingWorker(store, clock, seed)
        for _ in range(60):
            worker.turn()
        finish_batches(store, worker)
    return clock.now_us() + 1_000


def finish_batches(store: EmbeddedStore, worker: EverythingWorker) -> None:
    """No batch is half published: such a batch is not copied."""
    for _ in range(1_000):
        decided = [(name, it) for name, it in store.stages.batches.items() if it.is_decided]
        if not decided:
            store.commit()
            return
        name, batch = decided[0]
        try:
            store.run(Publish(batch.family, *name, [], 100))
        except (QueuePaused, WrongType):
            worker.work()
    raise AssertionError("the batch cannot be published")


def is_whole(place: FolderPlace, now_us: int) -> bool:
    """Whether a broker starts on the folder, and finds a queue in it."""
    try:
        with closing(place.open(ManualClock(now_us))) as store:
            return bool(store.queues)
    except CopyUnfinished:
        return False


def look_of(place: FolderPlace, now_us: int) -> object:
    """All that a copy takes along."""
    with closing(place.open(ManualClock(now_us))) as store:
        assert isinstance(store, EmbeddedStore)
        check_indexes(store)
        claims: Any = picture_of_claims(store)
        return picture_of(store), claims[0], claims[3]
