"""An allocation fails in an operation: the store is as it was, or it answers nothing more."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from quinque.errors import NotDone
from quinque.model.ops import Op
from quinque.model.packing import Packing
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import journal
from quinque.stores.embedded.store import EmbeddedStore
from tests.model.effort import EFFORT
from tests.store.picture import check_indexes, picture_of, picture_of_claims
from tests.store.random_everything import EverythingWorker

_testcapi = pytest.importorskip("_testcapi", reason="this Python cannot make allocations fail")

TURNS = 150
ALLOCATIONS = 150  # most operations make fewer
OUT_OF_MEMORY = (MemoryError, SystemError)  # the latter where Python itself forgets the former


def look_of(store: EmbeddedStore) -> object:
    """All that the store knows."""
    return picture_of(store), picture_of_claims(store)


def look_of_copy(folder: Path, clock: ManualClock) -> object:
    """What a restart at that time would read."""
    shutil.copytree(folder / "0", folder / "copy")
    store = EmbeddedStore(folder / "copy", fsync="no", clock=clock)
    store.tick()
    look = look_of(store)
    store.close()
    shutil.rmtree(folder / "copy")
    return look


def without_memory(allocation: int, run: Callable[[], Any]) -> Any:
    """Run it; the allocation of that number fails."""
    _testcapi.set_nomemory(allocation, allocation + 1)
    try:
        return run()
    finally:
        _testcapi.remove_mem_hooks()


class Torn(Exception):
    """The store is unfit."""


class StarvedStore:
    """A store that lacks memory in one of three operations, for one allocation."""

    def __init__(self, store: EmbeddedStore, random: Random) -> None:
        self._store = store
        self._random = random
        self.is_spared = True
        self.refusals = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, op: Op) -> Any:
        store = self._store
        if self.is_spared or self._random.random() < 0.66:
            return store.run(op)
        before = look_of(store)
        try:
            return without_memory(self._random.randrange(ALLOCATIONS), lambda: store.run(op))
        except (*OUT_OF_MEMORY, NotDone) as error:
            if store.torn is not None:
                raise Torn from error
            self.refusals += 1
            assert look_of(store) == before
            check_indexes(store)
            raise NotDone("out of memory") from error


@pytest.mark.skipif(
    not str(journal.__file__).endswith(".py"),
    reason="compiled code that has no memory for a number ends the process by itself",
)
@pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0),
    reason="CPython 3.13.0 itself ends with a segmentation fault when some allocations fail",
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(3 * max(1, EFFORT)))
def test_an_operation_that_lacks_memory_changes_nothing_or_ends_the_store(
    folder: Path, clock: ManualClock, seed: int
) -> None:
    random = Random(seed)
    store = EmbeddedStore(folder / "0", fsync="no", clock=clock)
    starved = StarvedStore(store, random)
    worker = EverythingWorker(cast(EmbeddedStore, starved), clock, seed)
    starved.is_spared = False
    torn = refusals = 0
    for turn in range(TURNS):
        committed, at_us = look_of(store), clock.now_us()
        try:
            worker.work(3)
            store.tick()
            store.commit()
        except Torn:
            torn += 1
            for call in (store.commit, store.tick, partial(store.run, Op())):
                with pytest.raises(OUT_OF_MEMORY):
                    call()
            store.close()
            assert look_of_copy(folder, ManualClock(at_us)) == committed
            store = EmbeddedStore(folder / "0", fsync="no", clock=clock)
            refusals += starved.refusals
            starved = StarvedStore(store, random)
            worker.go_on_with(cast(EmbeddedStore, starved), clock)
            starved.is_spared = False
            store.tick()
            store.commit()
        check_indexes(store)
        if turn % 20 == 0:
            assert look_of_copy(folder, clock) == look_of(store)
    store.close()

    assert torn > 5
    assert refusals + starved.refusals > 5


def test_a_value_that_lacked_memory_is_not_packed_with_the_next_one() -> None:
    packing = Packing()
    for allocation in range(5):
        with suppress(MemoryError):
            without_memory(allocation, lambda: packing.pack([b"first"]))

        assert packing.pack([b"second"]) == b"\x91\xc4\x06second"
