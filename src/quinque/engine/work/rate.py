"""A limit on the delivery rate of a work queue: a bucket of `count` messages that fills up evenly.

Called by   worklist.py, decide.py (asks), apply.py (counts).
Calls       nothing.

It is stored as one timestamp: when the bucket will be full again. Every message that is taken moves
it forward by `span / count`.

      now                full_us
       │────── taken ──────│
       │<----------- span: the whole bucket ------------>│

Not here: the settings of queues (worklist.py).
"""

from __future__ import annotations

from quinque.model.limits import NEVER_MS


class Rate:
    __slots__ = ("count", "full_us", "refused_until_ms", "span_ms")

    def __init__(self, count: int, span_ms: int) -> None:
        self.count = count
        self.span_ms = span_ms
        self.full_us = 0
        self.refused_until_ms = NEVER_MS  # when to try again, if someone was refused

    def room(self, now_ms: int) -> int:
        """Return how many messages may be taken now."""
        now_us = now_ms * 1000
        used_us = max(0, self.full_us - now_us)
        return max(0, (self.span_ms * 1000 - used_us) * self.count // (self.span_ms * 1000))

    def take(self, count: int, now_ms: int) -> None:
        """Count the messages that were taken."""
        # Rounded up: the limit is never exceeded.
        spent_us = -(-count * self.span_ms * 1000 // self.count)
        self.full_us = max(self.full_us, now_ms * 1000) + spent_us

    def next_ms(self) -> int:
        """Return when there is room for a message, if there is none now."""
        one_us = -(-self.span_ms * 1000 // self.count)
        return -(-(self.full_us + one_us - self.span_ms * 1000) // 1000)
