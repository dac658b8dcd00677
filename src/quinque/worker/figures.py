"""The counts of each handler of a process, in memory that its supervisor reads.

Called by   desk.py and counting.py (count), runtime.py (makes room), totals.py (reads).
Calls       memory.py.

    header    how many handlers, the length of their names        16 bytes
    numbers   WIDTH of each handler, in the order below           8 bytes each, a float
    names     who the handlers are, as JSON

The numbers of a handler are one for each Count, then two histograms. A histogram has a number for
each of BOUNDS_S, one for longer times, and the sum of all times.

Each process has its own memory, which is empty before the process starts, and can be read after it
died. A number is written as a whole, so that a reader needs no lock.

Not here: the held messages (board.py), the names of the metrics (metrics.py).
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from quinque.worker.handlers import Handler
from quinque.worker.memory import shared_memory

# Below the first, a handler costs less than to take and ack the message. Above the last, no caller
# waits for it. In between, each is two or three times the one before.
BOUNDS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
_HEADER: Final = struct.Struct("<QQ")
_NUMBER_BYTES: Final = 8


class Count(IntEnum):
    """The index of each count among the numbers of a handler."""

    FINISHED = 0  # handlers that succeeded
    FAILED = 1  # handlers that raised, exceeded their timeout, or whose process died
    RETRIED = 2  # messages that are delivered again after that
    DEAD = 3  # messages that are dead after that


RAN: Final = len(Count)  # the index of the histogram of run times
_SPREAD: Final = len(BOUNDS_S) + 2
WAITED: Final = RAN + _SPREAD  # the index of the histogram of ages
WIDTH: Final = WAITED + _SPREAD


class Who(NamedTuple):
    """The name of a handler in the metrics. The keys of its messages are made with `salt`."""

    family: str
    queue: str
    group: str
    handler: str
    salt: str


Numbers = list[float]


class Tally:
    """The numbers of one handler."""

    def __init__(self, numbers: memoryview[float]) -> None:
        self._numbers = numbers

    def add(self, count: Count, some: int = 1) -> None:
        self._numbers[count] += some

    def ran(self, spans_s: Sequence[float]) -> None:
        """Count the run times of handlers."""
        self._spread(RAN, spans_s)

    def waited(self, spans_s: Sequence[float]) -> None:
        """Count the ages of messages when their handlers started."""
        self._spread(WAITED, spans_s)

    def _spread(self, first: int, spans_s: Sequence[float]) -> None:
        numbers = self._numbers
        # Most batches belong to very fast handlers: count those without a search.
        if max(spans_s) <= BOUNDS_S[0]:
            numbers[first] += len(spans_s)
        else:
            for span_s in spans_s:
                numbers[first + _class_of(span_s)] += 1
        numbers[first + _SPREAD - 1] += sum(spans_s)


class Figures:
    """The counts of one process. `fd` is the descriptor that supervisor and process share."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = shared_memory(0) if fd is None else fd

    def begin(self, handlers: Sequence[Handler]) -> list[Tally]:
        """Return a tally for each handler, with nothing counted. The process calls this once."""
        names = json.dumps([_who(handler) for handler in handlers]).encode()
        size_bytes = _HEADER.size + len(handlers) * WIDTH * _NUMBER_BYTES
        os.ftruncate(self.fd, size_bytes)
        os.pwrite(self.fd, names, size_bytes)
        memory = memoryview(mmap.mmap(self.fd, size_bytes))
        numbers = memory[_HEADER.size :].cast("d")
        # Last: a reader that comes earlier finds no handlers.
        os.pwrite(self.fd, _HEADER.pack(len(handlers), len(names)), 0)
        return [Tally(numbers[at * WIDTH : (at + 1) * WIDTH]) for at in range(len(handlers))]

    def read(self) -> list[tuple[Who, Numbers]]:
        """Return the numbers of each handler, in order. Empty before the process started."""
        header = os.pread(self.fd, _HEADER.size, 0)
        if len(header) < _HEADER.size:
            return []
        handlers, names_bytes = _HEADER.unpack(header)
        if not handlers:
            return []
        numbers_bytes = handlers * WIDTH * _NUMBER_BYTES
        held = os.pread(self.fd, numbers_bytes + names_bytes, _HEADER.size)
        numbers: Numbers = [*memoryview(held)[:numbers_bytes].cast("d")]
        return [
            (Who(*who), numbers[at * WIDTH : (at + 1) * WIDTH])
            for at, who in enumerate(json.loads(held[numbers_bytes:]))
        ]

    def close(self) -> None:
        os.close(self.fd)


def _who(handler: Handler) -> Who:
    return Who(
        handler.family.name,
        _text(handler.queue),
        _text(handler.group),
        handler.called,
        handler.salt.hex(),
    )


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _class_of(span_s: float) -> int:
    """Return the index of the smallest bound that is not exceeded."""
    return bisect_left(BOUNDS_S, span_s)
