"""Steps on a worklist, as a store takes them: decide, then apply.

Called by   the tests beside this file.
Calls       engine/work/decide.py, engine/work/apply.py, engine/work/due.py.

Places count up from 1,000, and a message's id is its place, so that both are easy to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.engine.work import decide
from quinque.engine.work.apply import APPLY, apply_added
from quinque.engine.work.directory import Directory
from quinque.engine.work.due import settle
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import READY, Worklist
from quinque.model.events import WorkEvent
from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import Add, Configure, Requeue, Terms

NOW_MS = 1_000
DAY_MS = 86_400_000
MINUTE_MS = 60_000
_NOWHERE = Worklist(b"nowhere", JOBS, Directory(), NOW_MS)


def message_at(place: int) -> WorkMessage:
    """A message that no queue knows of."""
    return WorkMessage(b"%d" % place, place, 0, b"", 0, _NOWHERE, Terms(DAY_MS), READY)


def add(
    queue: Worklist,
    count: int = 1,
    *,
    now_ms: int = NOW_MS,
    key: bytes | None = None,
    ttl_ms: int = DAY_MS,
    retry_ms: int = MINUTE_MS,
    **terms: int,
) -> list[bytes]:
    """So many messages at the next places; their ids."""
    place = max((message.place for message in queue.all()), default=999) + 1
    ids = [b"%d" % (place + number) for number in range(count)]
    op = Add(JOBS, queue.name, ids, Terms(ttl_ms, retry_ms=retry_ms, **terms), key)
    apply_added(queue, decide.add(queue, op, now_ms, place, ids), 0)
    return ids


def take(queue: Worklist, count: int = 1, now_ms: int = NOW_MS) -> list[bytes]:
    """What a store would hand out, with leases of exactly the retry time."""
    messages = queue.ready.first(decide.room_to_take(queue, count, now_ms))
    ids = [message.id for message in messages]
    run(queue, decide.take(queue, messages, now_ms, 0))
    return ids


def finish(queue: Worklist, *ids: bytes) -> None:
    run(queue, [decide.finish(queue, ids)])


def requeue(
    queue: Worklist, *ids: bytes, now_ms: int = NOW_MS, is_nack: bool = True, **options: Any
) -> set[bytes]:
    op = Requeue(JOBS, ids, is_nack, **options)
    events, done = decide.requeue(queue, op, found(queue, ids), now_ms)
    run(queue, events)
    return done


def hold(queue: Worklist, *ids: bytes, now_ms: int = NOW_MS) -> set[bytes]:
    events, done = decide.hold(queue, found(queue, ids), now_ms, 0)
    run(queue, events)
    return done


def redrive(queue: Worklist, *ids: bytes, now_ms: int = NOW_MS) -> None:
    event = decide.redrive(queue, found(queue, ids), now_ms)
    run(queue, [event] if event is not None else [])


def configure(queue: Worklist, now_ms: int = NOW_MS, **settings: Any) -> None:
    run(queue, [decide.configure(queue, Configure(JOBS, queue.name, **settings), now_ms)])


def pass_time(queue: Worklist, now_ms: int, most: int = 500) -> list[WorkEvent]:
    """One slice of what is due."""
    events = settle(queue, now_ms, most)
    run(queue, events)
    queue.set_soonest()
    return events


def run(queue: Worklist, events: Sequence[WorkEvent]) -> None:
    for event in events:
        APPLY[event.kind](queue, event)


def found(queue: Worklist, ids: Sequence[bytes]) -> list[WorkMessage]:
    messages = [queue.find(id) for id in ids]
    return [message for message in messages if message is not None]


def state(queue: Worklist, id: bytes) -> State:
    (message,) = found(queue, [id])
    return State(message.state)
