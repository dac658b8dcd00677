"""When each slot next has something due: what this broker's ticks go by.

Called by   store.py.
Calls       nothing.

Every answer of a script says when something is next due in the queues of its slot, so that brokers
need not ask. Some answers say when a timer of the slot is due.

Not here: when each queue of a slot has something due (the keys `alarms` and `timers`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from quinque.model.limits import NEVER_MS

_REST_LEAST_MS: Final = 50
_REST_MOST_MS: Final = 5_000
_REPLACED_MOST: Final = 1024  # alarms that pass when their time comes
_TIMER: Final = b"}"  # after a slot's key, which ends otherwise


class SlotAlarms:
    def __init__(self) -> None:
        self._next: dict[bytes, int] = {}  # by the slot's key
        self._heap: list[tuple[int, bytes]] = []  # some are of the past, and pass
        self._rests: dict[bytes, tuple[int, int]] = {}  # by slot: until when, and how long

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, slot_key: bytes, due_ms: int, *, is_timer: bool = False) -> None:
        """Something is next due in the slot then; a negative one is never."""
        if is_timer:
            slot_key += _TIMER
        if due_ms < 0:
            self._next.pop(slot_key, None)
            return
        if self._rests:
            due_ms = max(due_ms, self._rests.get(slot_key.removesuffix(_TIMER), (0, 0))[0])
        if self._next.get(slot_key) != due_ms:
            self._next[slot_key] = due_ms
            heappush(self._heap, (due_ms, slot_key))
            # Replaced entries would pile up until they are due, a day later for most jobs.
            if len(self._heap) > 2 * len(self._next) + _REPLACED_MOST:
                self._heap = [(it_ms, key) for key, it_ms in self._next.items()]
                heapify(self._heap)

    def rest(self, slot_key: bytes, now_ms: int) -> None:
        """Postpone the alarm of a slot whose due work failed, by a time that is longer after each
        failure."""
        _, last_ms = self._rests.get(slot_key, (0, 0))
        rest_ms = min(max(_REST_LEAST_MS, 2 * last_ms), _REST_MOST_MS)
        self._rests[slot_key] = now_ms + rest_ms, rest_ms
        self.set(slot_key, self._next.get(slot_key, 0))
        if slot_key + _TIMER in self._next:
            self.set(slot_key + _TIMER, self._next[slot_key + _TIMER])

    def work(self, slot_key: bytes) -> None:
        """Forget that the slot rested: all that was due in it was done."""
        if self._rests:
            self._rests.pop(slot_key, None)

    def is_due(self, slot_key: bytes, now_ms: int) -> bool:
        """Whether something is due in the slot by now, as far as is known."""
        due_ms = self._next.get(slot_key)
        return due_ms is not None and due_ms <= now_ms

    def next_ms(self) -> int:
        first = self._first()
        return first[0] if first is not None else NEVER_MS

    def take(self, now_ms: int) -> bytes | None:
        """A slot that has something due by now; it has no alarm until one is set."""
        first = self._first()
        if first is None or first[0] > now_ms:
            return None
        heappop(self._heap)
        del self._next[first[1]]
        return first[1].removesuffix(_TIMER)

    def _first(self) -> tuple[int, bytes] | None:
        while self._heap:
            due_ms, slot_key = self._heap[0]
            if self._next.get(slot_key) == due_ms:
                return due_ms, slot_key
            heappop(self._heap)
        return None
