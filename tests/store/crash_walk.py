"""A walk through random work of all families that stops at every call of the file system.

Called by   test_crash_walk.py, tests/copying/test_crash_walk.py.
Calls       random_everything.py (the work), picture.py (what a store knows).

Whenever the store is about to change a file, the folder is copied as it is: that is what a kill
would leave then. Each copy is opened. It must hold what the last commit acknowledged, or all that
the commit under way is about to acknowledge, and nothing else.

Not here: a machine that stops, where a disk may have written later sectors first (test_crash.py).
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from quinque.model.limits import NEVER_MS
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.keeping import Keeping
from tests.store.picture import check_indexes
from tests.store.random_claims import ManyChunksWorker
from tests.store.random_everything import EverythingWorker

CALLS: Final = ("fdatasync", "fsync", "ftruncate", "pwrite", "rename", "replace", "unlink")
SEGMENT_BYTES: Final = 1_500

Look = Callable[[EmbeddedStore], object]


@contextmanager
def stops(look: Callable[[], None], is_full: Callable[[], bool]) -> Iterator[None]:
    """`look` is called before each call that changes a file, and in the middle of a write. No room
    is taken ahead, so that files are small; when the disk is full, there is none."""
    is_looking = False

    def looked() -> None:
        nonlocal is_looking
        if not is_looking:
            is_looking = True
            try:
                look()
            finally:
                is_looking = False

    def stopping(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **named: Any) -> Any:
            looked()
            if name != "pwrite" or is_looking:
                return real(*args, **named)
            file, data, at = args
            half = len(data) // 2
            real(file, data[:half], at)
            looked()
            return half + real(file, data[half:], at + half)

        return call

    def take_room(file: int, at: int, size_bytes: int) -> None:
        if not is_looking and is_full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, stopping(name))
        patch.setattr(os, "posix_fallocate", take_room)
        yield


class Walk:
    """A store that is worked on, and the copies that are made of its folder on the way."""

    def __init__(self, folder: Path, seed: int, look: Look) -> None:
        self._folder = folder
        self._seed = seed
        self._random = Random(seed)
        self._maxmemory = (0, 1, 40)[seed % 3]
        self._look = look
        self._number = 0
        self._seen: object = None
        self._is_ready = False
        # What may be found: how the store looked when it was last committed, and how it looks while
        # it is being committed; and the time then.
        self._may_be: list[tuple[int, object]] = []
        self.is_full = False
        self.copies = 0
        self.emptied = 0  # turns in which messages of an emptied queue were still to be removed
        self.dropped = 0
        self.is_closing = 0  # turns that began while claims were being closed

    def go(self, turns: int) -> None:
        """Work for these turns. After some of them the store is opened again, closed or killed."""
        with stops(self._check, lambda: self.is_full):
            self.clock = ManualClock()
            self.store = self._opened(self._folder / "0", self.clock)
            self.worker = self.make_worker()
            self._is_committed()
            for _ in range(turns):
                self._turn()
                if self._random.random() < 0.05:
                    self._open_again(is_killed=self._random.random() < 0.5)
            self._close()

    def make_worker(self) -> EverythingWorker | ManyChunksWorker:
        return EverythingWorker(self.store, self.clock, self._seed)

    def before_turn(self) -> None:
        """A walk that changes the disk does it here."""

    def settle(self, store: EmbeddedStore) -> None:
        """The store carries out what is due by now, or a part of it."""
        store.tick()

    def _turn(self) -> None:
        self.before_turn()
        for _ in range(self._random.randint(1, 4)):
            self.worker.work()
            check_indexes(self.store)
        self.settle(self.store)
        check_indexes(self.store)
        self._may_be.append(self._now())
        self.store.commit()
        self._is_committed()
        self._check()
        check_indexes(self.store)
        self.emptied += bool(self.store.leaving)
        compact_always(self.store)

    def _is_committed(self) -> None:
        self._may_be = [self._now()]
        self._is_ready = True

    def _now(self) -> tuple[int, object]:
        return self.clock.now_us(), self._look(self.store)

    def _open_again(self, *, is_killed: bool) -> None:
        folder = self._copied() if is_killed else self.store.journal.folder
        self._close()
        self.store = self._opened(folder, self.clock)
        self.settle(self.store)
        assert self._look(self.store) == self._may_be[0][1]
        check_indexes(self.store)
        self.worker.go_on_with(self.store, self.clock)
        self.store.commit()
        self._is_committed()

    def _close(self) -> None:
        self._is_ready = False
        self.dropped += self.store._compactor.dropped
        self.store.close()

    def _check(self) -> None:
        """The folder as it is now, opened, is as it may be."""
        if not self._is_ready:
            return
        files = [
            (path.name, path.read_bytes())
            for path in sorted(self.store.journal.folder.iterdir())
            if path.is_file() and path.name != "lock"
        ]
        if files == self._seen:
            return
        self._seen = files
        self.copies += 1
        found = []
        for at_us, look in self._may_be:
            found.append(self._found(at_us))
            if found[-1] == look:
                return
        for seen, (_, look) in zip(found, self._may_be, strict=True):
            assert seen == look, f"copy {self.copies}"

    def _found(self, at_us: int) -> object:
        """What a copy holds that is opened at that time, and again."""
        folder = self._copied()
        looks = []
        for _ in range(2 if self.copies % 4 == 0 else 1):
            store = self._opened(folder, ManualClock(at_us))
            self.settle(store)
            check_indexes(store)
            looks.append(self._look(store))
            store.close()
        shutil.rmtree(folder)
        assert looks[0] == looks[-1], "opened once more, it is as it was"
        return looks[0]

    def _copied(self) -> Path:
        self._number += 1
        copy = self._folder / str(self._number)
        ignored = shutil.ignore_patterns("lock", "lifecycle")
        shutil.copytree(self.store.journal.folder, copy, ignore=ignored)
        return copy

    def _opened(self, folder: Path, clock: ManualClock) -> EmbeddedStore:
        return EmbeddedStore(
            folder,
            clock=clock,
            segment_bytes=SEGMENT_BYTES,
            maxmemory=self._maxmemory,
            chance=self._random.randbytes,
            keeping=Keeping(is_on=False),
        )


class ClosingWalk(Walk):
    """Claims are closed by a step before each turn, and by none when a copy is opened: that is how
    the walk finds one that was left in the middle of it."""

    def make_worker(self) -> EverythingWorker | ManyChunksWorker:
        return ManyChunksWorker(self.store, self.clock, self._seed)

    def before_turn(self) -> None:
        self.is_closing += any(it.is_closing() for it in self.store.subscriptions.all())
        self.store.tick()

    def settle(self, store: EmbeddedStore) -> None:
        store.subscriptions.soonest_ms = NEVER_MS
        store.tick()
        store.subscriptions.set_soonest()


class FullDiskWalk(Walk):
    """The disk is full at times, and then time passes. What that made due need not be on record, so
    each store carries it out before the walk looks at it."""

    def before_turn(self) -> None:
        if self.is_full:
            self.is_full = self._random.random() < 0.6
        elif self._random.random() < 0.3:
            self.is_full = True
            journal = self.store.journal
            journal._reserved = journal._at + self._random.choice((0, 0, 100, 300))
            self.clock.advance(self._random.choice((1, 30, 300, 61_000)))

    def settle(self, store: EmbeddedStore) -> None:
        for _ in range(1_000):
            times = (store.alarms.next_ms(), store.stages.soonest_ms, store.sessions.soonest_ms)
            if min(times) > store.now_ms():
                return
            store.tick()
        raise AssertionError("there is no end to what is due")


def compact_always(store: EmbeddedStore) -> None:
    """The oldest segment is compacted, whether it is worth it or not."""
    compactor = store._compactor
    if not compactor.is_working and len(store.journal.sizes) > 2:
        compactor._work = compactor._compact(min(store.journal.sizes))
