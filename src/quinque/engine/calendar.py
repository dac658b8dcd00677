"""Reminders: ids by the millisecond they are due.

Called by   the engine, for expiries, leases and delays.
Calls       nothing.

A Calendar only reminds: an id in it may have been acked, extended or removed since, so every
reminder is checked against the queue when it is due. So cancelling is free. If there are too many
obsolete reminders, they are dropped early, some at each call of trim().

Not here: the effect of a reminder (feed/due.py, work/due.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from quinque.model.limits import NEVER_MS

# Obsolete reminders are searched for if there are more of them than this, and more than of the
# others. One call checks _TRIM_MOST, about 0.2 ms of work.
_VAIN_MOST: Final = 4096
_TRIM_MOST: Final = 1000


class Calendar:
    """Ids by the millisecond they are due: O(1) to add, O(log of distinct milliseconds) to take."""

    __slots__ = ("_cut_ms", "_days", "_order", "_untrimmed", "next_ms", "size")

    def __init__(self) -> None:
        self._days: dict[int, list[bytes]] = {}
        self._order: list[int] = []
        self.next_ms = NEVER_MS
        self.size = 0
        self._cut_ms = -1  # the day that is taken in slices; it lies there last first
        self._untrimmed: list[int] = []  # the days that trim() has yet to look at

    def add(self, due_ms: int, id: bytes) -> None:
        self.size += 1
        day = self._days.get(due_ms)
        if day is not None:
            day.append(id)
            return
        self._days[due_ms] = [id]
        heappush(self._order, due_ms)
        if due_ms < self.next_ms:
            self.next_ms = due_ms

    def add_all(self, due_ms: int, ids: Sequence[bytes]) -> None:
        day = self._days.get(due_ms)
        if day is None:
            self.add(due_ms, ids[0])
            day, ids = self._days[due_ms], ids[1:]
        day += ids
        self.size += len(ids)

    def take(self, now_ms: int, most: int) -> list[bytes]:
        """Remove and return the ids due by now, earliest first, at most `most`."""
        taken: list[bytes] = []
        while self.next_ms <= now_ms and len(taken) < most:
            day = self._days.get(self.next_ms, _NONE)  # trimmed, a day may be gone
            room = most - len(taken)
            if len(day) > room and self._cut_ms != self.next_ms:
                # Cut off its end, so that a day of a million is not shifted once per slice.
                day.reverse()
                self._cut_ms = self.next_ms
            if self._cut_ms == self.next_ms:
                some = day[-room:]
                some.reverse()
                taken += some
                del day[-room:]
                if day:
                    break
            else:
                taken += day
            self._days.pop(heappop(self._order), None)
            self.next_ms = self._order[0] if self._order else NEVER_MS
        self.size -= len(taken)
        return taken

    def trim(self, living: int, due_of: Callable[[bytes], int]) -> None:
        """Drop some obsolete reminders if there are far more than `living` ones. `due_of` returns
        when an id is due, or None if it does not exist."""
        if not self._untrimmed:
            if self.size <= 2 * living + _VAIN_MOST:
                return
            self._untrimmed = list(self._days)
        left = _TRIM_MOST
        while left > 0 and self._untrimmed:
            due_ms = self._untrimmed.pop()
            day = self._days.get(due_ms)
            if day is None:
                continue
            left -= 1 + len(day)
            kept = [id for id in dict.fromkeys(day) if due_of(id) == due_ms]
            self.size -= len(day) - len(kept)
            if kept:
                self._days[due_ms] = kept
            else:
                del self._days[due_ms]
        if not self._untrimmed:
            self._order = list(self._days)
            heapify(self._order)
            self.next_ms = self._order[0] if self._order else NEVER_MS

    def __iter__(self) -> Iterator[bytes]:
        """Every id, in no order, one that was reminded of more than once as often."""
        for day in self._days.values():
            yield from day


_NONE: Final[list[bytes]] = []
