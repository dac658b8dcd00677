"""A store with drivers, whose clock and restarts a test holds in its hands, and one tube in it.

Called by   the tests beside this file.
Calls       the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack

from quinque.drivers import Drivers
from quinque.engine.tubes.tube import Tube
from quinque.model.states import State
from quinque.model.tube_ops import (
    CALLS,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    JoinSession,
    KickTasks,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
    TubeSettings,
    TubeView,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore

TUBE = b"tube"
ME = b"me"
YOU = b"you"

LETTERS = {
    State.READY: "r",
    State.LEASED: "t",
    State.DELAYED: "~",
    State.DEAD: "!",
    None: "-",
}

Task = tuple[int, str, bytes]


class Workshop:
    """`drivers` are registered whenever the store is opened; `tube` is of the first of them."""

    def __init__(self, folder: Path, drivers: Mapping[str, Any], **options: Any) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.drivers = dict(drivers)
        self.store = self.open()
        self.make(next(iter(drivers)), **options)

    def open(self, **settings: Any) -> EmbeddedStore:
        drivers = Drivers()
        for name, driver in self.drivers.items():
            drivers.register(name, driver)
        settings = {"fsync": "no", **settings}
        self.store = EmbeddedStore(self.folder, clock=self.clock, drivers=drivers, **settings)
        for session in (ME, YOU):
            self.store.run(JoinSession(session, is_new=True))
        return self.store

    def reopen(self, **settings: Any) -> None:
        """What was committed is all there is."""
        self.store.commit()
        self.store.close()
        self.open(**settings)

    def make(self, kind: str, *, is_temporary: bool = False, **options: Any) -> None:
        packed = msgpack.packb(options) if options else b""
        settings = TubeSettings(is_temporary=is_temporary, options=packed)
        self.store.run(MakeTube(TUBE, kind.encode(), settings))

    # -- words -----------------------------------------------------------------------------------

    def put(self, data: bytes, **options: Any) -> Task | None:
        packed = msgpack.packb(options) if options else b""
        done = self.store.run(PutTasks(TUBE, [data], TaskTerms(options=packed)))
        return _task(done[0]) if done else None

    def put_all(self, *bodies: bytes) -> list[Task]:
        return _tasks(self.store.run(PutTasks(TUBE, bodies, TaskTerms())))

    def take(self, session: bytes = ME) -> Task | None:
        done = self.store.run(TakeTasks(TUBE, session))
        return _task(done[0]) if done else None

    def take_all(self, count: int, session: bytes = ME) -> list[Task]:
        return _tasks(self.store.run(TakeTasks(TUBE, session, count)))

    def ack(self, id: int, session: bytes = ME) -> Task | None:
        return _only(self.store.run(AckTasks(TUBE, session, [b"%d" % id])))

    def release(self, id: int, session: bytes = ME, **options: Any) -> Task | None:
        packed = msgpack.packb(options) if options else b""
        return _only(self.store.run(ReleaseTasks(TUBE, session, [b"%d" % id], options=packed)))

    def touch(self, id: int, by_ms: int, session: bytes = ME) -> Task | None:
        return _only(self.store.run(TouchTasks(TUBE, session, [b"%d" % id], by_ms)))

    def peek(self, id: int) -> Task | None:
        return _only(self.store.run(PeekTasks(TUBE, [b"%d" % id])))

    def bury(self, id: int) -> Task | None:
        return _only(self.store.run(BuryTasks(TUBE, [b"%d" % id])))

    def delete(self, id: int) -> Task | None:
        return _only(self.store.run(DeleteTasks(TUBE, [b"%d" % id])))

    def kick(self, count: int) -> int:
        kicked: int = self.store.run(KickTasks(TUBE, count))
        return kicked

    def kick_these(self, *ids: int) -> int:
        kicked: int = self.store.run(KickTasks(TUBE, message_ids=[b"%d" % id for id in ids]))
        return kicked

    def look(self) -> TubeView:
        view: TubeView = self.store.run(LookAtTube(TUBE))
        return view

    def calls(self) -> dict[str, int]:
        """What was counted, but for what was not."""
        return {word: n for word, n in zip(CALLS, self.look().calls, strict=True) if n}

    def all(self) -> list[Task]:
        """Every task, by its id."""
        tube = self.store.queues[TUBE]
        assert isinstance(tube, Tube)
        found = [self.peek(int(task.id)) for task in tube.all()]
        return sorted(task for task in found if task is not None)

    def pass_time(self, ms: int) -> None:
        """Time passes, and the store does what is due as a broker would have it do."""
        self.clock.advance(ms)
        self.store.tick()


def _task(view: TaskView) -> Task:
    return int(view.message_id), LETTERS[view.state], view.body


def _tasks(views: list[TaskView]) -> list[Task]:
    return [_task(view) for view in views]


def _only(views: list[TaskView | None]) -> Task | None:
    (view,) = views
    return None if view is None else _task(view)
