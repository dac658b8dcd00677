"""Short words for the operations on tubes and sessions: the tube t, the sessions of Ann and Ben.

Called by   the tests beside this file whose names begin with test_tubes, tests/faults.
Calls       the store they are handed.
"""

from __future__ import annotations

from typing import Any, Final

from quinque.model.states import State
from quinque.model.tube_ops import (
    CALLS,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    JoinSession,
    KickTasks,
    LeaveSession,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
    TruncateTube,
    TubeSettings,
    TubeView,
)
from quinque.stores.base import Store

TUBE: Final = b"t"
OTHER: Final = b"other"
ANN: Final = b"ann's session..."  # 16 bytes, as a UUID has
BEN: Final = b"ben"
ALL: Final = 1_000

READY, DELAYED, TAKEN, BURIED = State.READY, State.DELAYED, State.LEASED, State.DEAD
GONE: Final = None

# What LookAtTube says of a tube in which nothing ever was, in the order of `counts`.
NOTHING: Final = (0, 0, 0, 0, 0)

Outcome = tuple[bytes, State | None] | None


def begin(store: Store, kind: bytes = b"fifo", queue: bytes = TUBE, **settings: Any) -> None:
    """There is a new tube, and two sessions that may take from it."""
    assert make(store, kind, queue, **settings)
    for session in (ANN, BEN):
        join(store, session, is_new=True)


def make(
    store: Store,
    kind: bytes = b"fifo",
    queue: bytes = TUBE,
    *,
    is_idempotent: bool = False,
    **settings: Any,
) -> bool:
    return store.run(MakeTube(queue, kind, TubeSettings(**settings), is_idempotent))


def drop(store: Store, queue: bytes = TUBE) -> bool:
    return store.run(DropTube(queue))


def look(store: Store, queue: bytes = TUBE) -> TubeView:
    """The view of a tube that is there."""
    view = store.run(LookAtTube(queue))
    assert view is not None
    return view


def counts(store: Store, queue: bytes = TUBE) -> tuple[int, int, int, int, int]:
    """Ready, taken, delayed, buried, done."""
    view = look(store, queue)
    return view.ready, view.taken, view.delayed, view.buried, view.done


def calls(store: Store, queue: bytes = TUBE) -> dict[str, int]:
    """What was counted at all."""
    counted = look(store, queue).calls
    return {name: count for name, count in zip(CALLS, counted, strict=True) if count}


def tubes(store: Store) -> list[bytes]:
    return [view.queue for view in store.run(FindTubes())]


def put_views(store: Store, *bodies: bytes, queue: bytes = TUBE, **terms: Any) -> list[TaskView]:
    return store.run(PutTasks(queue, bodies, TaskTerms(**terms)))


def put(store: Store, *bodies: bytes, queue: bytes = TUBE, **terms: Any) -> list[bytes]:
    """Put tasks; their ids."""
    return [view.message_id for view in put_views(store, *bodies, queue=queue, **terms)]


def put_one(store: Store, body: bytes = b"x", queue: bytes = TUBE, **terms: Any) -> bytes:
    (id,) = put(store, body, queue=queue, **terms)
    return id


def take_views(
    store: Store,
    count: int = 1,
    session: bytes = ANN,
    *,
    queue: bytes = TUBE,
    lane: bytes | None = None,
) -> list[TaskView]:
    views = store.run(TakeTasks(queue, session, count, lane))
    assert {view.state for view in views} <= {TAKEN}
    return views


def take(
    store: Store,
    count: int = 1,
    session: bytes = ANN,
    *,
    queue: bytes = TUBE,
    lane: bytes | None = None,
) -> list[bytes]:
    """Take tasks; their ids."""
    views = take_views(store, count, session, queue=queue, lane=lane)
    return [view.message_id for view in views]


def ack(store: Store, *ids: bytes, session: bytes = ANN, queue: bytes = TUBE) -> list[Outcome]:
    return shown(store.run(AckTasks(queue, session, ids)))


def release(
    store: Store, *ids: bytes, session: bytes = ANN, queue: bytes = TUBE, **changes: Any
) -> list[Outcome]:
    return shown(store.run(ReleaseTasks(queue, session, ids, **changes)))


def touch(
    store: Store, *ids: bytes, by_ms: int, session: bytes = ANN, queue: bytes = TUBE
) -> list[Outcome]:
    return shown(store.run(TouchTasks(queue, session, ids, by_ms)))


def bury(store: Store, *ids: bytes, queue: bytes = TUBE) -> list[Outcome]:
    return shown(store.run(BuryTasks(queue, ids)))


def delete(store: Store, *ids: bytes, queue: bytes = TUBE) -> list[Outcome]:
    return shown(store.run(DeleteTasks(queue, ids)))


def kick(store: Store, count: int = 1, queue: bytes = TUBE) -> int:
    return store.run(KickTasks(queue, count))


def kick_these(store: Store, *ids: bytes) -> int:
    return store.run(KickTasks(TUBE, message_ids=ids))


def return_all(store: Store, queue: bytes = TUBE) -> int:
    return store.run(ReturnTasks(queue))


def truncate(store: Store, queue: bytes = TUBE) -> int:
    return store.run(TruncateTube(queue))


def peek(store: Store, id: bytes, queue: bytes = TUBE) -> TaskView | None:
    (view,) = store.run(PeekTasks(queue, [id]))
    return view


def state(store: Store, id: bytes, queue: bytes = TUBE) -> State | None:
    """The state of a task; None when there is none."""
    view = peek(store, id, queue)
    return None if view is None else view.state


def states(store: Store, *ids: bytes, queue: bytes = TUBE) -> list[State | None]:
    return [state(store, id, queue) for id in ids]


def join(store: Store, session: bytes, *, is_new: bool = False) -> None:
    store.run(JoinSession(session, is_new))


def leave(store: Store, session: bytes = ANN, keep_ms: int = 0) -> None:
    store.run(LeaveSession(session, keep_ms))


def shown(views: list[TaskView | None]) -> list[Outcome]:
    """The id of each task and what became of it."""
    return [None if view is None else (view.message_id, view.state) for view in views]


def everything(store: Store) -> object:
    """All that can be seen of tubes from outside but what is counted, to compare before and
    after."""
    found = []
    for view in store.run(FindTubes()):
        ids = [b"%d" % number for number in range(200)]
        tasks = [it for it in store.run(PeekTasks(view.queue, ids)) if it is not None]
        numbers = (view.ready, view.taken, view.delayed, view.buried)
        found.append((view.queue, view.kind, view.settings, numbers, tasks))
    return found
