"""Count the failures of messages, in memory that all processes of a worker share, or in a file.

Called by   desk.py, which counts what handlers raise; supervisor.py, which counts messages whose
            handlers ran when a process died.
Calls       memory.py.

    header what this is, and the turn: how often anything was counted    16 bytes
    buckets   of 8 entries: key, failures, turn                             16 bytes each

A key is a digest of the id, the queue, the family and the group of a message. It determines the
bucket of the entry. If a bucket is full, the entry with the oldest turn is replaced. So about
16,000 failed messages are remembered. A forgotten message is tried more often than it should be. A
file keeps the counts for the next worker, and for other workers that use the file at the same time.

Not here: families whose brokers count (sources.py says which).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final, NamedTuple

from quinque.errors import BadSetting
from quinque.worker.memory import shared_memory

_IS_FAILURES: Final = b"QFAILS\x00\x01"
_TURN: Final = struct.Struct("<Q")
_TURN_AT: Final = len(_IS_FAILURES)
_FIRST_AT: Final = _TURN_AT + _TURN.size
_ENTRY: Final = struct.Struct("<8sII")
_IN_BUCKET: Final = 8
_BUCKETS: Final = 2048
_SIZE: Final = _FIRST_AT + _BUCKETS * _IN_BUCKET * _ENTRY.size
_MOST: Final = 2**32 - 1
_NOBODY: Final = bytes(8)


class _Entry(NamedTuple):
    key: bytes
    failures: int
    turn: int
    at: int


def key_of(salt: bytes, id: bytes) -> bytes:
    """Return the key for the failures of a message. The salt belongs to its handler."""
    return blake2b(id, digest_size=8, salt=salt).digest()


def failures_file(path: str) -> int:
    """Return the descriptor of the file, which is created if it does not exist.

    Raises OSError, and BadSetting for a file that is something else.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)  # another worker may create it at the same time
        size_bytes = os.fstat(fd).st_size
        if not size_bytes:
            # Allocate the whole file: a full disk raises here, and not when a message fails.
            os.pwrite(fd, bytes(_SIZE), 0)
            os.pwrite(fd, _IS_FAILURES, 0)
        elif size_bytes != _SIZE or os.pread(fd, _TURN_AT, 0) != _IS_FAILURES:
            raise BadSetting(f"{path} is not a failures file of a worker")
        fcntl.lockf(fd, fcntl.LOCK_UN)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Failures:
    def __init__(self, fd: int | None = None) -> None:
        """Open the counts of another process by their descriptor, or make new ones."""
        self.fd = shared_memory(_SIZE) if fd is None else fd
        self._memory = mmap.mmap(self.fd, _SIZE)
        # A lock of the file excludes processes, but not the threads of one process.
        self._turn = threading.Lock()

    @property
    def are_any(self) -> bool:
        """Return whether any message ever failed. If not, no lookup is needed."""
        return bool(_TURN.unpack_from(self._memory, _TURN_AT)[0])

    def of(self, key: bytes) -> int:
        """Return how often the message failed."""
        return next((it.failures for it in self._bucket(key) if it.key == key), 0)

    def add(self, key: bytes, least: int = 0) -> int:
        """Count one more failure, and at least `least` in all. Return the new count."""
        with self._locked():
            [turn] = _TURN.unpack_from(self._memory, _TURN_AT)
            bucket = list(self._bucket(key))
            # An unused entry has the turn 0, which is before all others.
            found = next(
                (it for it in bucket if it.key == key), min(bucket, key=lambda it: it.turn)
            )
            failures = max((found.failures if found.key == key else 0) + 1, least)
            _TURN.pack_into(self._memory, _TURN_AT, turn + 1)
            _ENTRY.pack_into(self._memory, found.at, key, failures, (turn + 1) & _MOST)
        return failures

    def forget(self, key: bytes) -> None:
        """Remove the count of a message that succeeded: another message may have its id later."""
        with self._locked():
            for entry in self._bucket(key):
                if entry.key == key:
                    _ENTRY.pack_into(self._memory, entry.at, _NOBODY, 0, 0)

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _bucket(self, key: bytes) -> Iterator[_Entry]:
        number = int.from_bytes(key, "little") % _BUCKETS
        first = _FIRST_AT + number * _IN_BUCKET * _ENTRY.size
        for at in range(first, first + _IN_BUCKET * _ENTRY.size, _ENTRY.size):
            entry_key, failures, turn = _ENTRY.unpack_from(self._memory, at)
            yield _Entry(entry_key, failures, turn, at)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other threads and processes from counting. A process that dies leaves no lock."""
        with self._turn:
            fcntl.lockf(self.fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.fd, fcntl.LOCK_UN)
