"""One fixture, `store`, for every store there is. A new one joins with a row in OPENERS.

The clock is a ManualClock, which stands still until a test moves it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.redis.store import RedisStore
from tests.servers import stores
from tests.servers.patience import PATIENCE_S

Opener = Callable[[ManualClock], Store]
MEMORY = Path("/dev/shm")


def embedded(request: pytest.FixtureRequest, folder: Path) -> Opener:
    # Small segments: much of what is asked here is also asked of a journal of many.
    return lambda clock: EmbeddedStore(folder / "data", clock=clock, segment_bytes=4096)


def shared(kind: str, request: pytest.FixtureRequest, folder: Path) -> Opener:
    url = stores.empty_store_url(request, kind)
    return lambda clock: RedisStore(url, clock=clock, timeout_s=PATIENCE_S)


# For each test: what opens a store that is empty at first and keeps what is in it.
OPENERS: Final[dict[str, Callable[[pytest.FixtureRequest, Path], Opener]]] = {
    stores.EMBEDDED: embedded,
    **{kind: partial(shared, kind) for kind in stores.SHARED},
}


class Reopen:
    """Close the store and open it again, with the clock of the machine as it then is."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self.store: Store | None = None

    def __call__(self, clock: ManualClock) -> Store:
        if self.store is not None:
            self.store.close()
        self.store = self._opener(clock)
        return self.store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=OPENERS)
def reopen(request: pytest.FixtureRequest) -> Iterator[Reopen]:
    folder = tempfile.mkdtemp(prefix="quinque-conform-", dir=MEMORY if MEMORY.is_dir() else None)
    make_opener: Any = OPENERS[request.param]
    reopen = Reopen(make_opener(request, Path(folder)))
    yield reopen
    if reopen.store is not None:
        reopen.store.close()
    shutil.rmtree(folder)


@pytest.fixture
def store(reopen: Reopen, clock: ManualClock) -> Store:
    return reopen(clock)
