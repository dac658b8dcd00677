"""The embedded store: one process, one folder.

Called by   server/ for every operation, cli/serve.py to open and close it.
Calls       feed_operations.py, work_operations.py, work_taking.py, own_operations.py,
            item_operations.py, tube_operations.py, tube_looks.py, session_operations.py,
            driver_operations.py, queue_operations.py, work_looks.py, claims.py, claim_filling.py,
            stages.py and pages.py (what an operation does), journal.py (durability), recover.py
            (opening), compact.py (upkeep), record.py (what happened to every message),
            measures.py (what metrics show).

Not here: the promises (stores/base.py), the bytes (records.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quinque.drivers.registry import Drivers
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.worklist import Worklist
from quinque.errors import JournalDamaged, NotDone, QuinqueError
from quinque.model.limits import SETTLE_MOST
from quinque.model.message import Message
from quinque.model.ops import Op
from quinque.stores.clock import Clock, SteadyClock
from quinque.stores.embedded.aside import Aside
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.books import Books
from quinque.stores.embedded.claim_filling import ClaimFilling
from quinque.stores.embedded.claims import Claims
from quinque.stores.embedded.compact import Compactor
from quinque.stores.embedded.copy_mark import CopyMark
from quinque.stores.embedded.driver_operations import DriverOperations
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.item_operations import ItemOperations
from quinque.stores.embedded.journal import Fsync, Journal, segment_of
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.measures import Measures
from quinque.stores.embedded.names import Names
from quinque.stores.embedded.own_operations import OwnOperations
from quinque.stores.embedded.pages import Pages
from quinque.stores.embedded.queue_operations import QueueOperations
from quinque.stores.embedded.record import Keeping, Recorder
from quinque.stores.embedded.recover import recover, segments
from quinque.stores.embedded.session_operations import SessionOperations
from quinque.stores.embedded.stages import StageOperations
from quinque.stores.embedded.tube_looks import TubeLooks
from quinque.stores.embedded.tube_operations import TubeOperations
from quinque.stores.embedded.tubes import Tubes
from quinque.stores.embedded.work_looks import WorkLooks
from quinque.stores.embedded.work_operations import WorkOperations
from quinque.stores.embedded.work_taking import WorkTaking
from quinque.stores.embedded.worklists import Worklists

_TICK_QUEUES = 100  # looked at in one tick, most of them with little to do
_RETRY_MS = 200  # how often a full disk is tried again


class EmbeddedStore(Books):
    answers_at_once: bool = True
    torn: Exception | None = None  # what left memory and journal apart

    def __init__(
        self,
        folder: Path | str,
        *,
        fsync: Fsync = "always",
        segment_bytes: int = 64 << 20,
        maxmemory: int = 0,
        clock: Clock | None = None,
        chance: Callable[[int], bytes] = os.urandom,
        keeping: Keeping | None = None,
        drivers: Drivers | None = None,
    ) -> None:
        """Open the folder, reading back all it holds. Tubes of `drivers` are at work.

        Raises FolderLocked, JournalDamaged, CopyUnfinished; OSError if the folder cannot be used.
        """
        clock, folder = clock or SteadyClock(), Path(folder)
        self._lock = FolderLock(folder)
        try:
            CopyMark(folder).refuse()
            self._record = Recorder(folder, keeping or Keeping(), segments(folder), clock)
            journal = Journal(folder, fsync, segment_bytes)
            bodies = Bodies(journal, maxmemory)
            try:
                done = self.recovered = recover(journal, bodies, clock, self._record)
            except BaseException:
                journal.let_go()
                self._record.let_go()
                raise
        except BaseException:
            self._lock.release()
            raise
        super().__init__(
            done.queues,
            done.sessions,
            done.directory,
            done.subscriptions,
            done.stages,
            done.node,
            done.numbers,
            done.former_names,
            journal,
            bodies,
            clock,
            done.stamp_us,
            chance,
        )
        self._feeds = FeedOperations(self)
        self._lists = Worklists(self)
        self._tubes = Tubes(self._lists, self._record.count_unkept)
        self._drivers = self._tubes.drivers = DriverOperations(self._tubes, drivers or Drivers())
        claims = self._claims = Claims(self._lists, self._feeds)
        names = Names(self)
        stages = self._staging = StageOperations(self._lists, self._feeds, names)
        self._runners = self._make_runners(names)
        aside, may_drop = self.set_aside, self._may_drop
        self._compactor = Compactor(journal, bodies, done, aside, claims, stages, may_drop)
        self._drivers.wake_all()
        if fsync == "everysec":
            journal.start_syncer()

    def _make_runners(self, names: Names) -> dict[type, Callable[[Any], Any]]:
        return {
            **self._feeds.runners,
            **WorkOperations(self._lists, names).runners,
            **WorkTaking(self._lists, names).runners,
            **OwnOperations(self._lists).runners,
            **ItemOperations(self._lists, self._feeds).runners,
            **TubeOperations(self._tubes).runners,
            **TubeLooks(self._tubes).runners,
            **SessionOperations(self._tubes).runners,
            **QueueOperations(self._lists, self._feeds).runners,
            **WorkLooks(self._lists, self._feeds).runners,
            **self._claims.runners,
            **ClaimFilling(self._claims).runners,
            **self._staging.runners,
            **Pages(self._lists, self._feeds).runners,
            **self._record.runners,
            **Measures(self, self._record).runners,
        }

    def set_aside(self, queue: Queue, message: Message, why: JournalDamaged) -> None:
        segment = segment_of(message.home)
        Aside(self._lists, self._feeds, self._tubes).put(queue, message, why)
        self.heal(segment)

    def heal(self, segment: int) -> None:
        self._compactor.heal(segment)

    def _may_drop(self) -> bool:
        """Whether the oldest segment may go: the record has no need of it."""
        return not self.leaving and not self._record.is_behind

    def run(self, op: Op) -> Any:
        """As stores/base.py says.

        An unexpected error in an operation that has changed nothing is raised. A later error
        makes the store unfit: what is in memory is not what the journal says. Then every call
        raises it, and nothing more is written.
        """
        if self.torn is not None:
            raise self.torn
        steps = self.journal.steps
        try:
            return self._runners[type(op)](op)
        except QuinqueError:
            raise
        except Exception as exc:
            if self.journal.steps != steps:
                self.torn = exc
                self.journal.failed = (
                    f"an operation failed half-way ({type(exc).__name__}): the broker accepts no"
                    " more changes until it is restarted"
                )
            elif isinstance(exc, MemoryError):
                raise NotDone("out of memory: nothing was changed") from exc
            raise

    def commit(self) -> None:
        if self.torn is not None:
            raise self.torn
        self._emptied = 0
        self.empty_as_many(SETTLE_MOST if self._record.is_far_behind else 0)
        self.journal.commit(self.at_ms)
        if self.journal.notes or self._record.is_behind:
            self._record.committed(self.journal, self.at_ms)
        self.bodies.committed()
        self.journal.rotate(self.stamp_us, self.at_ms, is_full=self._compactor.needs_segment)
        self._compactor.step()

    def tick(self) -> None:
        if self.torn is not None:
            raise self.torn
        now_ms = self.now_ms()
        if self.leaving:
            self.empty_several()
        if self.sliced.is_working:
            self.at_ms = now_ms
            self.sliced.go_on()
        if self.subscriptions.soonest_ms <= now_ms:
            self._claims.settle_due(now_ms)
        if self.stages.soonest_ms <= now_ms:
            self._staging.settle_due(now_ms)
        if self.sessions.soonest_ms <= now_ms:
            self.at_ms = now_ms
            self._tubes.end_sessions(now_ms, SETTLE_MOST)
        for _ in range(_TICK_QUEUES):
            queue = self.alarms.take(now_ms)
            if queue is None:
                return
            self.at_ms = now_ms
            if isinstance(queue, Feed):
                self._feeds.settle(queue, now_ms, SETTLE_MOST)
            elif isinstance(queue, Worklist):
                self._lists.settle(queue, now_ms, SETTLE_MOST)
            if queue.flooded_ms:
                return

    def next_due_ms(self) -> int:
        if self.sliced.is_working:
            return 0
        due_ms = min(
            self.alarms.next_ms(),
            self.subscriptions.soonest_ms,
            self.stages.soonest_ms,
            self.sessions.soonest_ms,
        )
        if self.journal.failed:
            return due_ms
        if self.journal.is_stuck or self._compactor.is_stuck:
            return min(due_ms, self.now_ms() + _RETRY_MS)
        if self.journal.has_pending or self._compactor.is_working or self.leaving:
            return 0
        return due_ms

    def is_awaited(self) -> bool:
        return self._claims.is_awaited or self.sliced.is_working

    def finish_slices(self) -> None:
        self.sliced.finish()

    def now_ms(self) -> int:
        return self.clock.now_us() // 1000

    def info(self) -> dict[str, int | str]:
        journal = self.journal
        return {
            "queues": len(self.queues),
            "messages": self.bodies.count
            + self._tubes.unkept
            - self._claims.count_chunks()
            - self.stages.count_chunks()
            - self.count_leaving(),
            "jobs": len(self.directory.by_id) - self.count_leaving(is_shared=True),
            "job_queues": self.worklists.size,
            "body_bytes_in_memory": self.bodies.in_memory,
            "bodies_on_disk": self.bodies.on_disk,
            "fsync": journal.fsync,
            "journal_bytes": journal.total_bytes,
            "journal_segments": len(journal.sizes),
            "journal_commits": journal.batches.count,
            "journal_syncs": journal.syncs.count,
            "journal_status": "failed" if journal.failed else "ok",
            "compacted_segments": self._compactor.dropped,
            "compacting": int(self._compactor.is_working),
            "recovered_messages": self.recovered.messages,
            "recovered_cut_bytes": self.recovered.cut_bytes,
            **self._claims.info(),
            "stages": len(self.stages.batches),
            **self._record.info(),
        }

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        self.bodies.maxmemory = maxmemory
        if fsync != self.journal.fsync:
            self.journal.fsync = fsync
            if fsync == "everysec":
                self.journal.start_syncer()
            self.journal.sync()

    def compact(self) -> bool:
        return self._compactor.ask()

    def register_driver(self, name: str, driver: Any) -> None:
        """Register a kind of tubes, and wake tubes of that kind that were asleep. quinque.drivers
        describes a driver. Raises BadDriver."""
        self._drivers.register(name, driver)

    def close(self) -> None:
        self._drivers.close()
        while self.leaving and self.journal.notes is not None and self.torn is None:
            self.empty_some()
        try:
            if self.torn is None:
                self.journal.commit(self.at_ms)
                if self.journal.notes:
                    self._record.committed(self.journal, self.at_ms)
        finally:
            self._record.close()
            self.journal.close()
            self._lock.release()
