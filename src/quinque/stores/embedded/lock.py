"""One process per folder.

Called by   store.py, cli/check.py.
Calls       fcntl.

The kernel lets go of the lock when the process ends, however it ends, so a stale lock cannot be.

Not here: what is in the folder (journal.py).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from quinque.errors import FolderLocked


class FolderLock:
    def __init__(self, folder: Path) -> None:
        """The folder is there and is ours. Raises FolderLocked, OSError."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise FolderLocked(f"{folder} is in use by the process {holder}") from None
        os.ftruncate(self._file, 0)
        os.write(self._file, b"%d\n" % os.getpid())

    def release(self) -> None:
        os.close(self._file)
