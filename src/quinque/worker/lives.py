"""Find out which processes of a worker run, and whether the failures of dead ones are counted.

Called by   process.py (marks itself as running), supervisor.py (has counted the failures), desk.py.
Calls       memory.py.

    a byte of each seat    1 from when its process begins until what it died of is counted

A process has a lock on the byte of its seat. When it dies, the system removes its locks before it
closes its connections. So a process that receives a message of a dead process finds a byte that is
1 and has no lock, until the supervisor has counted. Forked processes inherit no locks.

Not here: counting (failures.py).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final

from quinque.worker.memory import shared_memory

_NOBODY: Final = -1


class Lives:
    def __init__(self, seats: int, fd: int | None = None) -> None:
        """Open the bytes of other processes by their descriptor, or make new ones."""
        self.fd = shared_memory(seats) if fd is None else fd
        self._seats = seats
        self._memory = mmap.mmap(self.fd, seats)
        self._own = _NOBODY

    def begin(self, seat: int) -> None:
        """Mark this process as running in that seat, for as long as it keeps this object: a process
        that closes a file, by any descriptor, loses its locks on it."""
        self._own = seat
        # A process that checks it now holds the lock for a moment.
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, seat)
        self._memory[seat] = 1

    def count(self, seat: int) -> None:
        """Mark the failures of the seat's process as counted."""
        self._memory[seat] = 0

    def are_counted(self) -> bool:
        """Return whether each of the other processes runs, or its failures are counted."""
        return all(
            not is_begun or seat == self._own or self._lives(seat)
            for seat, is_begun in enumerate(self._memory[:])
        )

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _lives(self, seat: int) -> bool:
        try:
            # A shared lock, so that processes that check at the same time do not take each other
            # for the owner.
            fcntl.lockf(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, seat)
        except OSError:
            return True
        fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, seat)
        return False
