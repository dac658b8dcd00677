"""Run the work that is due: leases that end, messages that expire, maintenance of the journal.

Called by   turn.py, after each turn.
Calls       store.tick.

Not here: the work that is due (engine/feed/due.py), readers whose time is over (waiters.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from quinque.errors import QuinqueError
from quinque.model.limits import NEVER_MS
from quinque.server.latency import LatencyMonitor
from quinque.stores.base import Store

# An alarm further off than this is set again when it comes; event loops dislike timers of years.
_FAR_MS = 60_000
# After a tick the clients have nine times as long: when a million messages expire in one moment,
# removing them takes a tenth of the time, for some seconds.
_REST = 9
# A client that waits for what ticks do has half of the time, in slices that delay others by a few
# milliseconds each.
_REST_AWAITED = 1
# After a tick that failed, the next one comes this much later.
_RETRY_S = 1.0

# Ends the process: what failed, and its exception.
Crash = Callable[[str, BaseException], None]

log = logging.getLogger("quinque.server")


class Ticker:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        after: Callable[[], None],
        latency: LatencyMonitor,
        crash: Crash,
    ) -> None:
        self._loop = loop
        self._store = store
        self._after = after  # ends the turn that a tick begins
        self._latency = latency
        self._crash = crash
        self._failure = ""  # the error of the last tick
        self._due_ms = NEVER_MS
        self._timer: asyncio.Handle | None = None
        self._rest_until_s = 0.0

    def set(self) -> None:
        """The next tick comes when the store has something to do."""
        due_ms = self._store.next_due_ms()
        if due_ms >= self._due_ms:
            return
        self._due_ms = due_ms
        if self._timer is not None:
            self._timer.cancel()
        wait_s = min(due_ms - self._store.now_ms(), _FAR_MS) / 1000
        wait_s = max(wait_s, self._rest_until_s - self._loop.time())
        # A timer of less than a millisecond takes one.
        if wait_s < 0.001:
            self._timer = self._loop.call_soon(self._tick)
        else:
            self._timer = self._loop.call_later(wait_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = None
        self._due_ms = NEVER_MS
        began_s = self._loop.time()
        self._rest_until_s = 0.0
        try:
            self._store.tick()
        except QuinqueError as error:
            # Due work stays due, and the next tick tries again.
            if str(error) != self._failure:
                log.error("leases, delays and expiries are late: %s; retrying", error)
            self._failure = str(error)
            self._rest_until_s = began_s + _RETRY_S
        except Exception as exc:
            self._crash("a tick", exc)
        else:
            self._failure = ""
        ended_s = self._loop.time()
        rest = _REST_AWAITED if self._store.is_awaited() else _REST
        self._rest_until_s = max(self._rest_until_s, ended_s + rest * (ended_s - began_s))
        self._latency.note("tick", int((ended_s - began_s) * 1e9))
        self._after()
