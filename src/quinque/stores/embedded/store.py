"""The embedded store: one process, one folder.

Called by   server/ for every operation, cli/serve.py to open and close it.
Calls       operations.py (what an operation does), journal.py (durability), recover.py (opening),
            compact.py (upkeep).

Not here: the promises (stores/base.py), the bytes (records.py).
"""

from __future__ import annotations

from pathlib import Path

from quinque.model.limits import SETTLE_MOST
from quinque.stores.clock import Clock, SteadyClock
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.compact import Compactor
from quinque.stores.embedded.journal import Fsync, Journal
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.operations import Operations
from quinque.stores.embedded.recover import Recovered, recover

_TICK_QUEUES = 100  # looked at in one tick, most of them with little to do
_RETRY_MS = 200  # how often a full disk is tried again


class EmbeddedStore(Operations):
    def __init__(
        self,
        folder: Path | str,
        *,
        fsync: Fsync = "always",
        segment_bytes: int = 64 << 20,
        maxmemory: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Open the folder, reading back all it holds.

        Raises FolderLocked, JournalDamaged, and OSError when the folder cannot be used.
        """
        clock = clock or SteadyClock()
        self._lock = FolderLock(Path(folder))
        try:
            journal = Journal(Path(folder), fsync, segment_bytes)
            bodies = Bodies(journal, maxmemory)
            try:
                self.recovered: Recovered = recover(journal, bodies, clock)
            except BaseException:
                journal.let_go()
                raise
        except BaseException:
            self._lock.release()
            raise
        queues = self.recovered.queues
        super().__init__(queues, journal, bodies, clock, self.recovered.stamp_us)
        self._compactor = Compactor(journal, bodies, queues)
        if fsync == "everysec":
            journal.start_syncer()

    def commit(self) -> None:
        self._journal.commit(self._now_ms)
        self.bodies.committed()
        self._journal.rotate(self._stamp_us, self._now_ms)
        self._compactor.step()

    def tick(self) -> None:
        now_ms = self.now_ms()
        for _ in range(_TICK_QUEUES):
            queue = self._alarms.take(now_ms)
            if queue is None:
                return
            queue.flooded_ms = 0
            self._settle(queue, now_ms, SETTLE_MOST)
            if queue.flooded_ms:
                return

    def next_due_ms(self) -> int:
        due_ms = self._alarms.next_ms()
        if self._journal.failed:
            return due_ms
        if self._journal.is_stuck or self._compactor.is_stuck:
            return min(due_ms, self.now_ms() + _RETRY_MS)
        if self._journal.has_pending or self._compactor.is_working:
            return 0
        return due_ms

    def now_ms(self) -> int:
        return self._clock.now_us() // 1000

    def info(self) -> dict[str, int | str]:
        journal = self._journal
        return {
            "queues": len(self.queues),
            "messages": self.bodies.count,
            "body_bytes_in_memory": self.bodies.in_memory,
            "bodies_on_disk": self.bodies.on_disk,
            "fsync": journal.fsync,
            "journal_bytes": journal.total_bytes,
            "journal_segments": len(journal.sizes),
            "journal_commits": journal.commits,
            "journal_syncs": journal.syncs,
            "journal_status": "failed" if journal.failed else "ok",
            "compacted_segments": self._compactor.dropped,
            "recovered_messages": self.recovered.messages,
            "recovered_cut_bytes": self.recovered.cut_bytes,
        }

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        self.bodies.maxmemory = maxmemory
        if fsync != self._journal.fsync:
            self._journal.fsync = fsync
            if fsync == "everysec":
                self._journal.start_syncer()
            self._journal.sync()

    def close(self) -> None:
        try:
            self._journal.commit(self._now_ms)
        finally:
            self._journal.close()
            self._lock.release()
