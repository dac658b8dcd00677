"""Add jobs to one of the systems of this folder: python -m bench.peers.adding MODULE COUNT RATE

Called by   bench/workers.py, as a process: by the Python in which that system is installed.
Calls       that module's `add`, or `add_many` if it has one.

RATE is jobs a second; 0 = as fast as it goes. A job that is late is added at once, and its time is
that of its addition.

Not here: the systems (the other files of this folder).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module

MANY = 250  # at once at most


def main() -> None:
    module = import_module(sys.argv[1])
    count, rate = int(sys.argv[2]), float(sys.argv[3])

    def one_by_one(times_ns: list[int]) -> None:
        for _ in times_ns:
            module.add(time.monotonic_ns())

    add_many: Callable[[list[int]], None] = getattr(module, "add_many", one_by_one)
    added, began_s = 0, time.monotonic()
    while added < count:
        due = count
        if rate:
            due = min(count, int((time.monotonic() - began_s) * rate) + 1)
            if due == added:
                time.sleep(max(0.0, began_s + added / rate - time.monotonic()))
                continue
        some = min(due - added, MANY)
        add_many([time.monotonic_ns()] * some)
        added += some


if __name__ == "__main__":
    main()
