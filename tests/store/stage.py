"""A store whose segments and compaction a test holds in its hands.

Called by   the tests beside this file.
Calls       the store, its journal and its compactor.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Put, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk
from tests.store.picture import check_indexes

HOUR_MS = 3_600_000


class Stage:
    """A store whose turns each fill a segment, so that a test says what is compacted when."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.store = self.open()

    def open(self, maxmemory: int = 0) -> EmbeddedStore:
        self.store = EmbeddedStore(
            self.folder, clock=self.clock, segment_bytes=1, fsync="no", maxmemory=maxmemory
        )
        return self.store

    def put(self, body: bytes, **options: Any) -> bytes:
        self.clock.advance(0.001)
        ids: list[bytes] = self.store.run(Put(EVENTS, b"q", [body], **options))
        return ids[0]

    def take(self, group: bytes = b"g", lease_ms: int = HOUR_MS, count: int = 1) -> list[bytes]:
        given = self.store.run(Reserve(EVENTS, b"q", group, lease_ms, count))
        return [delivery.body for delivery in given]

    def ack(self, *ids: bytes, group: bytes = b"g") -> list[bool]:
        results: list[bool] = self.store.run(Ack(EVENTS, b"q", group, ids))
        return results

    def compact_first(self) -> Iterator[None]:
        """Compact the oldest segment, pausing wherever the compactor pauses."""
        return self.store._compactor._compact(min(self.store.journal.sizes))

    def compact_all(self) -> None:
        """Compact every segment there is but the newest."""
        for _ in range(len(self.store.journal.sizes) - 1):
            for _ in self.compact_first():
                self.turn()

    def turn(self) -> None:
        """End the turn, without the compaction that a store does by itself."""
        journal, store = self.store.journal, self.store
        journal.commit(store.at_ms)
        store._record.committed(journal, store.at_ms)
        store.bodies.committed()
        journal.rotate(store.stamp_us, store.at_ms)

    def fill(self, disk: Disk) -> None:
        """There is no room for a record, until the disk is healed."""
        self.turn()
        self.store.journal._reserved = self.store.journal._at
        disk.fail("posix_fallocate", errno.ENOSPC)

    def reopened(self, maxmemory: int = 0) -> EmbeddedStore:
        """The store as the folder has it."""
        self.store.close()
        store = self.open(maxmemory)
        check_indexes(store)
        return store

    def copied(self) -> Path:
        """A copy of the folder as it is: what a crash would leave."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns("copy", "lock"))
        return copy


def watch_compaction(store: EmbeddedStore, segments: int, look: Callable[[], object]) -> None:
    """While the store compacts its next `segments`, `look` is called whenever the compactor pauses
    and after each of them."""
    compactor = store._compactor

    def work() -> Iterator[None]:
        for _ in range(segments):
            while not compactor._is_worth_it():
                yield
            for _ in compactor._compact(min(store.journal.sizes)):
                look()
                yield
            look()

    compactor._work = work()
