"""Note when a handler of this folder was called.

Called by   the handlers of this folder, in worker processes of their own.
Calls       nothing; it is imported where only a peer is installed.

    started  ns of the machine's monotonic clock
    cpu      ns of CPU time that the process has used
    added    ns of the same clock when the job was added

Not here: what is made of the notes (bench/workers.py).
"""

from __future__ import annotations

import os
import struct
import time

NOTES = "BENCH_NOTES"  # names the file
URL = "BENCH_URL"  # names the Redis, or the broker
TASKS = "BENCH_TASKS"  # how many at a time, where that is not said on the command line
QUEUE = "bench"
NOTE = struct.Struct("<qqq")

_file = -1


def note(added_ns: int) -> None:
    """One more note is at the end of the file, in one piece, even when other processes write."""
    global _file
    if _file < 0:
        _file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND)
    os.write(_file, NOTE.pack(time.monotonic_ns(), time.process_time_ns(), added_ns))
