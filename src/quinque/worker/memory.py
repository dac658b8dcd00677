"""Memory that processes share, by a descriptor that they inherit.

Called by   board.py, failures.py, figures.py, lives.py.
Calls       nothing.

Not here: the contents.
"""

from __future__ import annotations

import os
import tempfile


def shared_memory(size_bytes: int) -> int:
    """Return the descriptor of `size_bytes` zeros, which are freed when the last process that has
    it ends."""
    if hasattr(os, "memfd_create"):
        fd: int = os.memfd_create("quinque-worker")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size_bytes)
    return fd
