"""One process per folder.

The kernel lets go of the lock when the process ends, however it ends. Nothing is written into the
lock file, so the lock works on a full disk, and a program that only reads needs no right to write.

Not here: what is in the folder (journal.py).
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from quinque.errors import FolderLocked

NAME: Final = "lock"


class FolderLock:
    def __init__(self, folder: Path, *, reads_only: bool = False) -> None:
        """Lock the folder: to write, or to read while no process writes.

        A folder to write is made if it is missing. A folder to read that no process ever wrote, or
        whose copy lacks the lock file, is not locked: nothing may be created there.
        Raises FolderLocked, OSError.
        """
        flags, kind = os.O_RDONLY, fcntl.LOCK_SH
        if not reads_only:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # NFS has such a lock only for a file that is open for writing.
            flags, kind = os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX
        self._file = -1
        try:
            self._file = os.open(folder / NAME, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if not reads_only:
                raise
            return
        except OSError as exc:
            if exc.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK on FreeBSD
                text = "the lock file must not be a symbolic link"
                raise OSError(errno.ELOOP, text, str(folder / NAME)) from None
            raise
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder_of(self._file)
            os.close(self._file)
            told = f"{folder} is in use by {holder}; stop it, or use another directory"
            raise FolderLocked(told) from None
        except OSError:
            os.close(self._file)
            raise
        _held.add(self)

    def release(self) -> None:
        """The folder is free, also when a child of this process still has the file open."""
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._leave()

    def _leave(self) -> None:
        """Close the file; the lock stays with the processes that have it open too."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        _held.discard(self)


_held: set[FolderLock] = set()


def _leave_to_parent() -> None:
    """A forked child does not keep the lock of a parent that ends."""
    for lock in list(_held):
        lock._leave()


os.register_at_fork(after_in_child=_leave_to_parent)


def _holder_of(file: int) -> str:
    """The process that holds the lock, if the system tells."""
    inode = os.fstat(file).st_ino
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            for line in locks:
                # 1: FLOCK  ADVISORY  WRITE 4242 08:01:1573 0 EOF
                words = line.split()
                if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                    return f"the process {words[4]}"
    except (OSError, LookupError):
        pass
    return "another process"
