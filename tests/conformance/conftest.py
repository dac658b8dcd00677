"""One fixture, `store`, for every store there is. A new one joins with a row in OPENERS.

The clock is a ManualClock, which stands still until a test moves it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore

Opener = Callable[[Path, ManualClock], Store]
MEMORY = Path("/dev/shm")


def open_embedded(folder: Path, clock: ManualClock) -> Store:
    # Small segments: much of what is asked here is also asked of a journal of many.
    return EmbeddedStore(folder / "data", clock=clock, segment_bytes=4096)


OPENERS: Final[dict[str, Opener]] = {"embedded": open_embedded}


class Reopen:
    """Close the store and open it again, with the clock of the machine as it then is."""

    def __init__(self, opener: Opener, folder: Path) -> None:
        self._opener = opener
        self._folder = folder
        self.store: Store | None = None

    def __call__(self, clock: ManualClock) -> Store:
        if self.store is not None:
            self.store.close()
        self.store = self._opener(self._folder, clock)
        return self.store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=OPENERS)
def reopen(request: pytest.FixtureRequest) -> Iterator[Reopen]:
    folder = tempfile.mkdtemp(prefix="quinque-conform-", dir=MEMORY if MEMORY.is_dir() else None)
    opener: Any = OPENERS[request.param]
    reopen = Reopen(opener, Path(folder))
    yield reopen
    if reopen.store is not None:
        reopen.store.close()
    shutil.rmtree(folder)


@pytest.fixture
def store(reopen: Reopen, clock: ManualClock) -> Store:
    return reopen(clock)
