"""The end of an event loop iteration: run requests, wake readers, make it durable, send replies.

Called by   connection.py (requests arrived, a reply is ready), ticker.py, dispatch.py (background
            additions).
Calls       inbox.py, waiters.py, store.commit, client.flush, ticker.py.

For the requests of all clients in an iteration there is one write to the disk and one sync. Replies
are sent after it.

Not here: the writes of the journal (stores/embedded/journal.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from quinque.errors import QuinqueError, StoreUnavailable
from quinque.model.ops import Op
from quinque.server.expiry_log import ExpiryLog
from quinque.server.inbox import Inbox
from quinque.server.latency import LatencyMonitor
from quinque.server.ticker import Crash, Ticker
from quinque.server.waiters import Waiters
from quinque.stores.base import Store
from quinque.stores.pending import Pending

if TYPE_CHECKING:
    from quinque.server.client import Client
    from quinque.server.connection import Connection

log = logging.getLogger("quinque.server")


class Turn:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        inbox: Inbox,
        waiters: Waiters,
        latency: LatencyMonitor,
        crash: Crash,
    ) -> None:
        self._loop = loop
        self._store = store
        self._inbox = inbox
        self._waiters = waiters
        self._latency = latency
        self._crash = crash
        self._ticker = Ticker(loop, store, self.touch, latency, crash)
        self._expiry_log = ExpiryLog(loop, store)
        self._replying: list[Client] = []
        self._is_set = False
        self._is_stopped = False
        self.ended = 0  # turns
        self.later: deque[Op] = deque()  # additions whose reply has gone out already
        self._later_asked = 0  # those of them that the store has not answered
        self.failed_later = 0
        self._failure = ""  # the last error of a commit that was logged

    def arrived(self, connection: Connection, requests: list[list[bytes]]) -> None:
        """The requests are run when the turn ends."""
        self._inbox.add(connection, requests)
        if not self._is_set:
            self._is_set = True
            self._loop.call_soon(self.end)

    def add(self, client: Client) -> None:
        """The client has replies to be sent when the turn ends."""
        self._replying.append(client)
        if not self._is_set:
            self._is_set = True
            self._loop.call_soon(self.end)

    def touch(self) -> None:
        """Something changed that no reply waits for: the turn must end all the same."""
        if not self._is_set:
            self._is_set = True
            self._loop.call_soon(self.end)

    def end(self) -> None:
        """Make all requests of this iteration durable and send their replies."""
        if self._is_stopped:
            return
        try:
            self._end()
        except Exception as exc:
            # Some clients would wait without end, and it is unknown which changes are durable.
            self._crash("the end of an event loop iteration", exc)

    def _end(self) -> None:
        store = self._store
        self._waiters.begin_turn()
        self._inbox.run()
        # Readers first: messages that they get belong to this turn, and to its one sync.
        self._wake_readers()
        replying = self._replying
        self._replying = []
        self._is_set = False
        began_ns = perf_counter_ns() if self._latency.is_on else 0
        try:
            store.commit()
        except StoreUnavailable as failure:
            if str(failure) != self._failure:
                self._failure = str(failure)
                log.error("%s", failure)
            for client in replying:
                client.fail_writes(failure)
        else:
            self._failure = ""
        if began_ns:
            self._latency.note("journal-commit", perf_counter_ns() - began_ns)
        for client in replying:
            try:
                client.flush()
            except Exception:
                log.exception("disconnecting client %d: cannot send its replies", client.id)
                client.drop()
        # A request of this turn let others go on (CLIENT UNPAUSE), or readers wait for the next.
        if self._inbox.has_some or store.ready or self._waiters.is_comparing:
            self.touch()
        if self.later:
            self._loop.call_soon(self.run_later)
        self._ticker.set()
        self._expiry_log.look()
        self.ended += 1

    def _wake_readers(self) -> None:
        """Deliver new messages to blocked clients. Queues that this iteration does not reach are
        served in the next one."""
        store, waiters = self._store, self._waiters
        while store.ready:
            ready, lanes = store.ready, store.ready_lanes
            store.ready, store.ready_lanes = set(), {}
            left = waiters.wake(ready, lanes) if waiters.count else ()
            for queue in left:
                self._leave_ready(queue, lanes.get(queue))
            if left:
                return

    def _leave_ready(self, queue: bytes, news: set[bytes] | None) -> None:
        """The queue is ready in the next turn: these lanes of it, or all, and those that got
        something since."""
        ready, lanes = self._store.ready, self._store.ready_lanes
        if news is None:
            lanes.pop(queue, None)
        elif queue not in ready:
            lanes[queue] = news
        elif queue in lanes:  # else all lanes did
            lanes[queue] |= news
        ready.add(queue)

    def run_later(self) -> None:
        """Carry out the additions that were answered before they were made."""
        while self.later:
            try:
                result: Any = self._store.run(self.later.popleft())
            except QuinqueError as error:
                self._lost(error)
                continue
            except Exception:
                log.exception("lost an addition with NOBLOCK")
                self.failed_later += 1
                continue
            if isinstance(result, Pending):
                self._later_asked += 1
                result.then(self._added_later, self._lost_later)
        self.touch()

    @property
    def later_count(self) -> int:
        """Return how many additions were answered and are not stored yet."""
        return len(self.later) + self._later_asked

    def _added_later(self, result: Any) -> None:
        self._later_asked -= 1

    def _lost_later(self, error: QuinqueError) -> None:
        self._later_asked -= 1
        self._lost(error)

    def _lost(self, error: QuinqueError) -> None:
        self.failed_later += 1
        log.warning("lost an addition with NOBLOCK: %s", error)

    def stop(self) -> None:
        """Stop: no iteration ends any more. The store is closed next, which makes pending changes
        durable."""
        self.run_later()
        self.end()
        self._ticker.stop()
        self._expiry_log.stop()
        self._is_stopped = True
