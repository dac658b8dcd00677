"""A folder without a disk behind it, where there is one: these tests open thousands of stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.engine.claims import returning
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import books, compact, slices
from tests.store.disk import Disk
from tests.store.stage import Stage

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; it is gone after the test."""
    made = tempfile.mkdtemp(prefix="quinque-store-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(made)
    shutil.rmtree(made)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk that works until it is told not to."""
    with pytest.MonkeyPatch.context() as patch:
        yield Disk(patch)


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    stage = Stage(folder)
    yield stage
    stage.store.close()


@pytest.fixture
def compaction_pauses_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "STEP_BYTES", 60)
    monkeypatch.setattr(compact, "MARKS_MOST", 1)


@pytest.fixture
def queues_are_emptied_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is emptied loses one message with each tick."""
    monkeypatch.setattr(books, "EMPTIED_AT_ONCE_MOST", 1)


@pytest.fixture
def requests_are_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tick carries out a request for one message or queue."""
    monkeypatch.setattr(slices, "SLICE_MOST", 1)
    monkeypatch.setattr(slices, "SLICE_QUEUES_MOST", 1)


@pytest.fixture
def one_chunk_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a small claim is closed in several steps."""
    monkeypatch.setattr(returning, "CLOSE_MOST", 1)
