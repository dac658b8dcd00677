"""Work on tubes: a long row of operations that touches everything about them and their sessions.

Called by   the tests beside this file.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quinque.errors import NoTube, TouchRefused, TubeBusy
from quinque.model.tube_ops import (
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    JoinSession,
    KickTasks,
    LeaveSession,
    MakeTube,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
    TruncateTube,
    TubeSettings,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.random_work import Worker

KINDS: Final = {
    b"f": (b"fifo", TubeSettings()),
    b"ft": (b"fifottl", TubeSettings(ttl_ms=400, ttr_ms=30)),
    b"lim": (b"limfifottl", TubeSettings(capacity=5)),
    b"u": (b"utube", TubeSettings(width=2)),
    b"ut": (b"utubettl", TubeSettings(ttl_ms=300, pri=3)),
    b"tmp": (b"fifottl", TubeSettings(is_temporary=True)),
}
SESSIONS: Final = (b"one", b"0123456789abcdef")


class TubeWorker(Worker):
    queues = tuple(KINDS)

    def __init__(self, store: EmbeddedStore, clock: ManualClock, seed: int) -> None:
        super().__init__(store, clock, seed)
        self.ids = [b"%d" % number for number in range(12)]
        for session in SESSIONS:
            store.run(JoinSession(session, is_new=True))

    def steps(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            (self._put, 30),
            (self._take, 30),
            (self._ack, 20),
            (self._release, 20),
            (self._touch, 6),
            (self._bury, 8),
            (self._kick, 5),
            (self._delete, 5),
            (self._leave, 4),
            (self._empty, 2),
        )

    def work(self, operations: int = 1) -> None:
        for _ in range(operations):
            try:
                super().work()
            except NoTube as missing:
                kind, settings = KINDS[missing.name]
                self.store.run(MakeTube(missing.name, kind, settings))
            except (TouchRefused, TubeBusy):
                self.clock.advance(1)

    def _put(self) -> None:
        terms = TaskTerms(
            self.random.choice((None, None, 30, 60_000)),
            self.random.choice((None, 0, 25)),
            self.random.choice((None, 0, 9)),
            self.random.choice((0, 0, 5, 25)),
            self.random.choice((b"a", b"b")),
        )
        put = self.store.run(PutTasks(self.queue(), self.bodies(), terms))
        self.note([view.message_id for view in put])

    def _take(self) -> None:
        lane = self.random.choice((None, None, b"a"))
        self.store.run(TakeTasks(self.queue(), self._session(), self.random.randint(1, 3), lane))

    def _ack(self) -> None:
        for session in SESSIONS:
            self.store.run(AckTasks(self.queue(), session, self.some_ids()))

    def _release(self) -> None:
        choose = self.random.choice
        self.store.run(
            ReleaseTasks(
                self.queue(),
                self._session(),
                self.some_ids(),
                choose((0, 0, 15)),
                choose((None, None, 1)),
                choose((None, None, 0, 200)),
                choose((None, None, self.body())),
            )
        )

    def _touch(self) -> None:
        self.store.run(TouchTasks(self.queue(), self._session(), self.some_ids(), 40))

    def _bury(self) -> None:
        self.store.run(BuryTasks(self.queue(), self.some_ids()))

    def _kick(self) -> None:
        self.store.run(KickTasks(self.queue(), self.random.randint(1, 3)))

    def _delete(self) -> None:
        self.store.run(DeleteTasks(self.queue(), self.some_ids()))

    def _leave(self) -> None:
        session = self._session()
        self.store.run(LeaveSession(session, self.random.choice((0, 20))))
        self.store.run(JoinSession(session, is_new=True))

    def _empty(self) -> None:
        self.store.run(self.random.choice((ReturnTasks, TruncateTube, DropTube))(self.queue()))

    def _session(self) -> bytes:
        return self.random.choice(SESSIONS)
