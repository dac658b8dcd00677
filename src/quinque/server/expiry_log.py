"""Tells in the log that jobs expired unfinished: one line for each queue, once a minute at most.

Called by   turn.py, after each turn.
Calls       the store's counts.

Not here: what expires (engine/work/due.py), the counts of the metrics (stats/tally.py).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from quinque.errors import many, printable
from quinque.stores.base import Store

# From the first expired job to the line, so that those that expire together are in one.
_GATHER_S: Final = 1.0
_PAUSE_S: Final = 60.0  # between two lines about a queue

log = logging.getLogger("quinque.server")


class ExpiryLog:
    def __init__(self, loop: asyncio.AbstractEventLoop, store: Store) -> None:
        self._loop = loop
        self._store = store
        self._timer: asyncio.TimerHandle | None = None
        self._told_s = -_PAUSE_S  # when that was last done, on the loop's clock

    def look(self) -> None:
        """Write a log line about expired jobs soon."""
        if self._store.expired.by_queue and self._timer is None:
            wait_s = max(_GATHER_S, self._told_s + _PAUSE_S - self._loop.time())
            self._timer = self._loop.call_later(wait_s, self.tell)

    def stop(self) -> None:
        """Write the log line now, if one is due."""
        if self._timer is not None:
            self._timer.cancel()
        self.tell()

    def tell(self) -> None:
        """Log how many jobs of each queue expired."""
        self._timer = None
        counts, of_others = self._store.expired.take()
        if counts:
            self._told_s = self._loop.time()
        for queue, count in counts.items():
            name = printable(queue)
            log.warning(
                "queue %s: %s expired before a consumer acknowledged %s; start more consumers, add "
                "jobs with a longer TTL, or keep expired jobs with: QSET %s EXPIRED dead",
                name,
                many(count, "job"),
                "it" if count == 1 else "them",
                name,
            )
        if of_others:
            log.warning(
                "more queues: %s expired before a consumer acknowledged %s",
                many(of_others, "job"),
                "it" if of_others == 1 else "them",
            )
