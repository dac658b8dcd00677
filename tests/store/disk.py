"""A disk that fails, made in the process, and what is asked of a store on it.

Called by   the tests beside this file.
Calls       nothing; the functions of `os` that a journal calls fail on demand.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from quinque.errors import DiskFull, QuinqueError
from quinque.model.ops import Op
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.picture import check_indexes, picture_of


class Disk:
    """Calls of `os` that fail while they are told to."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def fail(self, name: str, number: int, after: int = 0) -> None:
        """From the call after next `after` on, os.<name> fails with this error."""
        real, calls = getattr(os, name), iter(range(after))

        def failing(*args: Any) -> Any:
            if next(calls, None) is not None:
                return real(*args)
            raise OSError(number, os.strerror(number))

        self._patch.setattr(os, name, failing)

    def write_at_most(self, size_bytes: int, then: int | None = None) -> None:
        """Each os.pwrite writes so many bytes at most; with `then`, the second one fails so."""
        real, calls = os.pwrite, iter([None])

        def short(file: int, data: memoryview, at: int) -> int:
            if then is not None and next(calls, 0) is not None:
                raise OSError(then, os.strerror(then))
            return real(file, data[:size_bytes], at)

        self._patch.setattr(os, "pwrite", short)

    def heal(self) -> None:
        self._patch.undo()


def reopened(store: EmbeddedStore) -> EmbeddedStore:
    """The store as its folder has it, after a crash: closed, with its bodies in memory."""
    folder = store.journal.folder
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("lock"))
    opened = EmbeddedStore(copy, clock=ManualClock())
    check_indexes(opened)
    opened.close()
    return opened


def check_refused(store: EmbeddedStore, op: Op, error: type[QuinqueError]) -> None:
    """The operation is refused, and nothing changed."""
    before = picture_of(store)
    with pytest.raises(error):
        store.run(op)
    assert picture_of(store) == before


def until_refused(do: Callable[[int], object]) -> int:
    """Do it until there is no room; how often it was done."""
    for number in range(100_000):
        try:
            do(number)
        except DiskFull:
            return number
    raise AssertionError("there was always room")


def leave_room(store: EmbeddedStore, disk: Disk, room_bytes: int) -> None:
    """There is room for so many bytes of records in the segment, and no more to be had."""
    disk.heal()
    store.commit()
    store.journal._reserved = store.journal._at + room_bytes
    disk.fail("posix_fallocate", errno.ENOSPC)
