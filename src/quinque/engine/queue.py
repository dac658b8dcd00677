"""The part that all queues share.

Called by   stores, which keep queues by name and look at them when something is due.
Calls       nothing.

There are two kinds. In a feed every group of consumers sees every message (feed/feed.py). In a
worklist each message is worked by one consumer, and is ready, delayed, leased or dead
(work/worklist.py).

Not here: the messages and their order.
"""

from __future__ import annotations

from quinque.engine.calendar import Calendar
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS


class Queue:
    __slots__ = (
        "alarm_ms",
        "expiries",
        "family",
        "flooded_ms",
        "in_order",
        "name",
        "soonest_ms",
    )

    def __init__(self, name: bytes, family: Family, in_order: bool) -> None:
        self.name = name
        self.family = family
        self.expiries = Calendar()
        self.flooded_ms = 0  # when more was last due than one operation settles; 0 = it is not so
        self.soonest_ms = NEVER_MS  # nothing in this queue is due before
        self.alarm_ms = NEVER_MS  # what the store has set its alarm to, for this queue
        # False only while a journal is read: after compaction its messages come in any order, so
        # they are brought into order at the end.
        self.in_order = in_order

    def count_leases(self) -> int:
        """Return how many of its messages consumers hold."""
        raise NotImplementedError
