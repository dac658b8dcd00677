"""Sync files and reserve room in them, which systems do differently.

Linux has a call for each. Other Unixes lack some of them, and some file systems refuse them.

Not here: when that is done (journal.py, record_files.py).
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

_NOT_SUPPORTED: Final = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.ENOTTY, errno.EOPNOTSUPP}
)
_ZEROS_BYTES: Final = 1 << 20  # written together where zeros reserve room


def sync_data(file: int) -> None:
    """The bytes of the file and its size are on the disk. Raises OSError."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        sync_file(file)


def sync_file(file: int) -> None:
    """The file is on the disk, or the names in the folder are. Raises OSError."""
    # The fsync of macOS leaves bytes in the memory of the disk, which a power cut empties.
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        except OSError as exc:
            if exc.errno not in _NOT_SUPPORTED:  # a file system of another machine
                raise
        else:
            return
    os.fsync(file)


def reserve(file: int, at: int, size_bytes: int) -> None:
    """The file has room for `size_bytes` more from `at` on, which is its end. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, at, size_bytes)
        except OSError as exc:
            if exc.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    end = at + size_bytes
    place = at
    try:
        while place < end:
            place += os.pwrite(file, bytes(min(_ZEROS_BYTES, end - place)), place)
    except OSError:
        os.ftruncate(file, at)  # zeros that do not suffice would take the room of acks
        raise
