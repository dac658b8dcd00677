"""An embedded store in a program of its own, with no server: shared by its threads.

Called by   quinque.open, through client/.
Calls       stores/embedded/.

One thread runs at a time. When an operation returns, its changes are durable. The threads that add
a message, and the clock, wake the threads that wait for one.

If an operation is interrupted (KeyboardInterrupt) or fails half-way (MemoryError), the program has
to open the folder again, and sees then whether the operation is done. An interrupted wait for a
message does not count.

The program is one session: it takes the tasks of operations that name none. Tasks that it took and
did not ack are ready when it closes the store, or, after a kill, when the folder is opened again.

Not here: brokers (server/), which share a store between processes.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from quinque.drivers.registry import Drivers
from quinque.errors import DiskFull, NotDone, QuinqueError, StoreClosed, StoreUnavailable
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Op
from quinque.model.tube_ops import (
    AckTasks,
    JoinSession,
    LeaveSession,
    LeaveSessions,
    ReleaseTasks,
    TakeTasks,
    TouchTasks,
)
from quinque.model.work_ops import AwaitEnd
from quinque.stores.base import Fsync
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending

_OF_SESSION: Final = (TakeTasks, AckTasks, ReleaseTasks, TouchTasks)


class OpenedStore:
    def __init__(
        self,
        folder: Path | str,
        *,
        fsync: Fsync = "always",
        maxmemory: int = 0,
        drivers: Mapping[str, Any] | None = None,
    ) -> None:
        """Tubes may be of the kinds that `drivers` are named for.

        Raises FolderLocked, JournalDamaged, BadDriver; DiskFull when the disk has no room, and
        NotDone when the folder cannot be used for another reason.
        """
        known = Drivers()
        for name, driver in (drivers or {}).items():
            known.register(name, driver)
        try:
            self._store = EmbeddedStore(folder, fsync=fsync, maxmemory=maxmemory, drivers=known)
        except OSError as error:
            kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else NotDone
            raise kind(f"cannot open the data directory {folder}: {error}") from error
        try:
            self._store.run(LeaveSessions())
            self._store.commit()
        except BaseException:
            with suppress(QuinqueError, OSError):
                self._store.close()  # or the folder would stay locked
            raise
        self._turn = threading.Condition()
        self._store.watched = self._watched = Counter[bytes]()
        self._on_ready: list[Callable[[], None]] = []
        self._session = b""
        self._process_id = os.getpid()
        self._is_closed = False
        self._is_running = False
        self._due_ms = 0  # until when blocked callers wait at most; 0 = nobody has waited yet
        self._unfit = ""  # why nothing can be asked any more

    def run(self, op: Op, wait_ms: int = 0) -> Any:
        """The result of the operation, or its error is raised. `wait_ms` is how long to wait for
        messages where there are none; NEVER_MS = as long as it takes.

        Raises StoreClosed, also to those who wait when it is closed.
        """
        self._refuse_children()
        if not wait_ms:
            return self.run_all([op])[0]
        until_s = monotonic() + wait_ms / 1000 if wait_ms < NEVER_MS else None
        with self._turn, self.watching(op):
            while True:
                [found] = self._run_all([op])
                left_s = None if until_s is None else until_s - monotonic()
                if (found is not None and found != []) or (left_s is not None and left_s <= 0):
                    return found
                self._turn.wait(self._soonest_s(left_s))

    @contextmanager
    def watching(self, op: Op) -> Iterator[None]:
        """Watch the messages whose end the operation waits for. New messages in queues need no
        watch: the store always reports them."""
        ids = op.message_ids if isinstance(op, AwaitEnd) else ()
        if not ids:
            yield
            return
        with self._turn:
            self._watched.update(ids)
        try:
            yield
        finally:
            with self._turn:
                self._watched.subtract(ids)
                for id in set(ids):
                    if not self._watched[id]:
                        del self._watched[id]

    def attempt(self, op: Op) -> tuple[Any, float | None]:
        """Return the result of the operation; and, for a caller that waits for another result, in
        how many seconds time alone may bring it (None = never)."""
        self._refuse_children()
        with self._turn:
            [found] = self._run_all([op])
            return found, self._soonest_s(None)

    def on_ready(self, call: Callable[[], None]) -> None:
        """Call this function, in any thread, when there may be something for blocked callers, and
        when the store is closed."""
        with self._turn:
            self._on_ready.append(call)

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """The result of each operation, with one sync of the disk. The first error is raised when
        all are carried out."""
        self._refuse_children()
        with self._turn:
            return self._run_all(ops)

    def close(self) -> None:
        """Close the store. All changes stay, another process may open the folder at once, and
        waiting threads wake up. In a child of the process that opened it, nothing happens."""
        if self._process_id != os.getpid():
            return
        with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            is_torn, self._unfit = bool(self._unfit), self._unfit or "the store is closed"
            try:
                if is_torn:
                    self._store.journal.failed = self._unfit  # so that it is left as it is
                elif self._session:
                    self._store.run(LeaveSession(self._session))
                    self._store.commit()
            finally:
                with suppress(StoreUnavailable) if is_torn else nullcontext():
                    self._store.close()
                self._wake()

    def _refuse_children(self) -> None:
        """Raises StoreClosed in a child, which has a copy of what its parent knew: one that is
        stale by now, and whose lock a thread of the parent may have held."""
        if self._process_id != os.getpid():
            raise StoreClosed(
                "the store was opened by another process: use it only in that process"
            )

    def _run_all(self, ops: Sequence[Op]) -> list[Any]:
        if self._unfit:
            raise StoreClosed(self._unfit)
        if self._is_running:
            # This thread has the lock: a signal handler, or a driver, asks in the middle of it.
            raise NotDone(
                "another operation of this thread is in progress: the store was not changed"
            )
        store = self._store
        results: list[Any] = []
        failure: Exception | None = None
        run: Callable[[Op], Any] = store.run
        self._is_running = True
        try:
            for op in ops:
                try:
                    if isinstance(op, _OF_SESSION) and not op.session:
                        op.session = self._session or self._join()
                    result = run(op)
                    if isinstance(result, Pending):
                        store.finish_slices()
                        result = result.value() if result.is_settled else result
                    results.append(result)
                except Exception as error:
                    if store.torn is not None:
                        raise
                    failure = failure or error
                    results.append(None)
            store.tick()
            store.commit()
            # Also if work is due earlier than blocked callers know, such as a delayed message.
            if store.ready or store.next_due_ms() < self._due_ms:
                store.ready = set()
                self._wake()
        except QuinqueError:
            raise
        except BaseException as exc:
            # Memory and disk may differ. The directory is as if the program had been killed. A
            # signal handler may raise any exception at any place.
            how = (
                f"failed ({type(exc).__name__})"
                if isinstance(exc, Exception)
                else "was interrupted"
            )
            self._unfit = f"an operation {how}: open the data directory again"
            self._wake()
            raise
        finally:
            self._is_running = False
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # or its traceback would hold this frame, and this frame the error
        return results

    def _wake(self) -> None:
        self._due_ms = 0  # each of them finds out again until when to wait
        self._turn.notify_all()
        for call in self._on_ready:
            call()

    def _join(self) -> bytes:
        session = secrets.token_bytes(16)
        self._store.run(JoinSession(session, is_new=True))
        self._session = session
        return session

    def _soonest_s(self, left_s: float | None) -> float | None:
        """Return the longest time to wait: until any work is due, which may end the wait."""
        due_ms = self._due_ms = self._store.next_due_ms()
        if due_ms >= NEVER_MS:
            return left_s
        due_s = max(0.001, (due_ms - self._store.now_ms()) / 1000)
        return due_s if left_s is None else min(due_s, left_s)
