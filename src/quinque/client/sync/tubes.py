"""Tubes: tasks with priority, lane, ttl, ttr and delay. One session takes a task until acked.

Called by   programs, through Queues.tube.
Calls       a Runner.

    letters = queues.tube("letters", codec="json")
    letters.make("fifottl", ttr=60)
    letters.put({"to": "a"}, pri=1, delay=5)
    for task in letters:
        with task:             # acked at the end, released if it raises
            send(task.body)

A program is one session. Its tasks become ready again when all its connections are closed.

Not here: what the commands are called on the wire (client/tube_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import msgpack

from quinque.client.checks import as_bodies, as_many, as_name, as_state, as_whole, only
from quinque.client.codecs import Codec, Name, body_of, codec_of
from quinque.client.kept_body import UNHEARD, KeptBody
from quinque.client.spans import Seconds, as_delay_ms, as_delay_s, as_ms, as_seconds, as_wait_ms
from quinque.client.sync.one_by_one import one_by_one
from quinque.client.sync.runner import Runner
from quinque.errors import NoTerm, TubeFull, printable
from quinque.model.states import State
from quinque.model.task_bodies import from_plain, plain
from quinque.model.tube_ops import (
    FOREVER_MS,
    KINDS,
    NO_LANE,
    PRIORITY_MOST,
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    KickTasks,
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
from quinque.model.tube_terms import settings_unused

_OWN: Final = b""  # the session of the caller
_AS_TUBE: Final = TaskTerms()

T = TypeVar("T")

# A task, or the id of a task.
OneTask: TypeAlias = "Task[Any] | int"


class Task(KeptBody[T]):
    """A task. State LEASED: this program has taken it. No state: it was removed. As a context
    manager, it is acked at the end and released if an exception is raised."""

    __slots__ = ("_tube", "id", "state")

    def __init__(self, tube: Tube[T], view: TaskView, codec: Codec[T]) -> None:
        super().__init__(plain(view.body), codec)
        self._tube = tube
        self.id = int(view.message_id)
        self.state: State | None = view.state

    def ack(self) -> bool:
        """Ack the task. Return False if this program no longer holds it."""
        return self._tube.ack([self]) == 1

    def release(
        self,
        *,
        delay: Seconds = 0,
        eta: datetime | None = None,
        pri: int | None = None,
        ttl: Seconds | None = None,
        body: T | str | None = None,
    ) -> bool:
        """Make the task ready again at its old position, at once, after `delay` or at the time
        `eta`. The other arguments change its priority, its time to live from now, and its body."""
        tube = self._tube
        return tube.release(self, delay=delay, eta=eta, pri=pri, ttl=ttl, body=body) == 1

    def touch(self, by: Seconds) -> bool:
        """Extend the ttr and the ttl of the task by `by` seconds."""
        return self._tube.touch([self], by) == 1

    def bury(self) -> bool:
        """Bury the task until it is kicked."""
        return self._tube.bury([self]) == 1

    def __enter__(self) -> Task[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.ack()
        else:
            with suppress(UNHEARD):
                self.release()

    def __repr__(self) -> str:
        return f"Task({self.id})"


class Tube(Generic[T]):
    """A tube. Times are numbers of seconds or timedeltas, ids are numbers."""

    def __init__(self, runner: Runner, name: str | bytes, codec: Name | Codec[T] = "bytes") -> None:
        self._run = runner.run
        self.name = as_name("tube", name)
        self._codec: Codec[T] = codec_of(codec)

    # -- the tube itself --------------------------------------------------------------------------

    def make(
        self,
        kind: str = "fifo",
        *,
        ttl: Seconds | None = None,
        ttr: Seconds | None = None,
        pri: int = 0,
        capacity: int = 0,
        width: int = 1,
        temporary: bool = False,
        exist_ok: bool = True,
        options: Mapping[str, float | str | bytes] | None = None,
    ) -> bool:
        """Create the tube. Return whether it is new. An existing tube is not changed.

        `ttl` (time to live), `ttr` (time to run) and `pri` are the defaults of its tasks. `options`
        are for a driver. Raises NoKind for an unknown tube type, NoTerm if tubes of this type do
        not support an argument, and TubeExists unless `exist_ok`.
        """
        ttl_ms = FOREVER_MS if ttl is None else as_ms("ttl", ttl)
        ttr_ms = ttl_ms if ttr is None else as_ms("ttr", ttr)
        said = {
            "ttl": _seconds("ttl", ttl),
            "ttr": _seconds("ttr", ttr),
            "pri": pri or None,
            "capacity": capacity or None,
        }
        said["width"] = None if width == 1 else width
        named = as_name("kind", kind)
        for term in (*settings_unused(named), *(options or {} if named in KINDS else ())):
            if said.get(term, term) is not None:
                raise NoTerm(named, term)
        packed = _packed(said, options)
        pri = as_whole("pri", pri, most=PRIORITY_MOST)
        capacity = as_whole("capacity", capacity)
        width = as_whole("width", width, least=1)
        settings = TubeSettings(ttl_ms, ttr_ms, pri, capacity, width, temporary, packed)
        op = MakeTube(self.name, named, settings, exist_ok)
        is_new: bool = self._run(op)
        return is_new

    def drop(self) -> None:
        """Delete the tube and its tasks. Raises NoTube, TubeBusy."""
        self._run(DropTube(self.name))

    def truncate(self) -> int:
        """Remove all tasks and restart the ids at 0. Return how many tasks there were."""
        gone: int = self._run(TruncateTube(self.name))
        return gone

    def info(self) -> TubeView | None:
        """Return the number of tasks in each state and of calls of each command. None if the tube
        does not exist."""
        view: TubeView | None = self._run(LookAtTube(self.name))
        return view

    # -- producing --------------------------------------------------------------------------------

    def put(
        self,
        body: T | str,
        *,
        ttl: Seconds | None = None,
        ttr: Seconds | None = None,
        pri: int | None = None,
        delay: Seconds = 0,
        eta: datetime | None = None,
        lane: str | bytes | None = None,
        timeout: Seconds | None = 0,
        options: Mapping[str, float | str | bytes] | None = None,
    ) -> int:
        """Put a task and return its id. Tasks with the lowest `pri` are taken first. In tubes with
        lanes, one task of each `lane` is taken at a time.

        Raises TubeFull if there is no room within `timeout` seconds. None blocks forever.
        """
        terms = _terms(ttl, ttr, pri, as_delay_s(delay, eta), lane, options)
        op = PutTasks(self.name, [self._kept(body)], terms, is_strict=terms is not _AS_TUBE)
        put: list[TaskView] = self._run(op, as_wait_ms(timeout))
        if not put:
            raise TubeFull(self.name)
        return int(put[0].message_id)

    def put_many(
        self,
        bodies: Iterable[T | str],
        *,
        ttl: Seconds | None = None,
        ttr: Seconds | None = None,
        pri: int | None = None,
        delay: Seconds = 0,
        eta: datetime | None = None,
        lane: str | bytes | None = None,
    ) -> list[int]:
        """Put tasks in one round trip and return their ids in order. If the tube becomes full, only
        the first tasks are put."""
        kept = [self._kept(body) for body in as_bodies(bodies)]
        if not kept:
            return []
        terms = _terms(ttl, ttr, pri, as_delay_s(delay, eta), lane, None)
        op = PutTasks(self.name, kept, terms, is_strict=terms is not _AS_TUBE)
        return [int(task.message_id) for task in self._run(op)]

    # -- consuming --------------------------------------------------------------------------------

    @overload
    def take(self, timeout: None, *, lane: str | bytes | None = None) -> Task[T]: ...
    @overload
    def take(
        self, timeout: Seconds | None = 0, *, lane: str | bytes | None = None
    ) -> Task[T] | None: ...
    def take(
        self, timeout: Seconds | None = 0, *, lane: str | bytes | None = None
    ) -> Task[T] | None:
        """Take a task. Return None if no task arrives within `timeout` seconds. A `timeout` of None
        blocks forever."""
        found = self.take_many(1, timeout, lane=lane)
        return found[0] if found else None

    def take_many(
        self, count: int, timeout: Seconds | None = 0, *, lane: str | bytes | None = None
    ) -> list[Task[T]]:
        """Take up to `count` tasks in one round trip. Return an empty list if no task arrives
        within `timeout` seconds."""
        only = None if lane is None else as_name("lane", lane, may_be_empty=True)
        count = as_whole("count", count, least=1)
        op = TakeTasks(self.name, _OWN, count, only, is_strict=only is not None)
        return [Task(self, view, self._codec) for view in self._run(op, as_wait_ms(timeout))]

    def __iter__(self) -> Iterator[Task[T]]:
        """Take tasks one by one, forever. Ack each of them."""
        return one_by_one(self)

    def ack(self, tasks: OneTask | Iterable[OneTask]) -> int:
        """Ack the tasks in one round trip. Return how many of them this program had taken."""
        ids = _ids(tasks)
        return _count(self._run(AckTasks(self.name, _OWN, ids))) if ids else 0

    def release(
        self,
        tasks: OneTask | Iterable[OneTask],
        *,
        delay: Seconds = 0,
        eta: datetime | None = None,
        pri: int | None = None,
        ttl: Seconds | None = None,
        body: T | str | None = None,
    ) -> int:
        """Release the tasks like Task.release. Return how many of them this program had taken."""
        ids, delay_s = _ids(tasks), as_delay_ms(delay, eta) / 1000
        if not ids:
            return 0
        op = ReleaseTasks(self.name, _OWN, ids, round(delay_s * 1000), _priority(pri))
        op.ttl_ms = None if ttl is None else as_ms("ttl", ttl)
        op.body = None if body is None else self._kept(body)
        op.options = _packed(
            {"delay": delay_s or None, "pri": pri, "ttl": _seconds("ttl", ttl)}, None
        )
        op.is_strict = bool(op.options)
        return _count(self._run(op))

    def touch(self, tasks: OneTask | Iterable[OneTask], by: Seconds) -> int:
        """Extend the tasks by `by` seconds. Return how many of them this program had taken.

        Raises TouchRefused if tasks of this tube have no ttl and ttr.
        """
        ids, by_ms = _ids(tasks), as_ms("by", by)
        return _count(self._run(TouchTasks(self.name, _OWN, ids, by_ms))) if ids else 0

    # -- tasks of any session ---------------------------------------------------------------------

    def peek(self, id: OneTask) -> Task[T] | None:
        """Return the current state of a task. Nothing changes."""
        [view] = self._run(PeekTasks(self.name, [only(_ids(id))]))
        return None if view is None else Task(self, view, self._codec)

    def browse(self, count: int = 10, state: State = State.READY) -> list[Task[T]]:
        """Return the first tasks in that state, in the order in which they would be taken. Nothing
        changes."""
        op = BrowseTasks(self.name, as_state(state), as_whole("count", count, least=1))
        return [Task(self, view, self._codec) for view in self._run(op)]

    def bury(self, tasks: OneTask | Iterable[OneTask]) -> int:
        """Bury the tasks of any session until they are kicked. Return how many existed."""
        ids = _ids(tasks)
        return _count(self._run(BuryTasks(self.name, ids))) if ids else 0

    def kick(self, count: int = 1, *, tasks: OneTask | Iterable[OneTask] | None = None) -> int:
        """Make the first buried tasks ready again, or the buried tasks of `tasks`. Return how
        many."""
        ids = None if tasks is None else _ids(tasks)
        kicked: int = self._run(KickTasks(self.name, as_whole("count", count), ids))
        return kicked

    def delete(self, tasks: OneTask | Iterable[OneTask]) -> int:
        """Remove the tasks of any session. Return how many existed."""
        ids = _ids(tasks)
        return _count(self._run(DeleteTasks(self.name, ids))) if ids else 0

    def release_all(self) -> int:
        """Make all taken tasks of any session ready again. Return how many there were."""
        released: int = self._run(ReturnTasks(self.name))
        return released

    def __repr__(self) -> str:
        return f"Tube({printable(self.name)!r})"

    def _kept(self, body: Any) -> bytes:
        return from_plain(body_of(self._codec, body))


def _terms(
    ttl: Seconds | None,
    ttr: Seconds | None,
    pri: int | None,
    delay: float,
    lane: str | bytes | None,
    options: Mapping[str, float | str | bytes] | None,
) -> TaskTerms:
    ttl_s, ttr_s = _seconds("ttl", ttl), _seconds("ttr", ttr)
    said = {"ttl": ttl_s, "ttr": ttr_s, "pri": pri, "delay": delay or None, "utube": lane}
    packed = _packed(said, options)
    if not packed:
        return _AS_TUBE
    return TaskTerms(
        None if ttl is None else as_ms("ttl", ttl),
        None if ttr is None else as_ms("ttr", ttr),
        _priority(pri),
        as_ms("delay", delay),
        NO_LANE if lane is None else as_name("lane", lane, may_be_empty=True),
        packed,
    )


def _packed(said: Mapping[str, Any], options: Mapping[str, float | str | bytes] | None) -> bytes:
    """All options that are set, packed as a driver reads them."""
    told = {name: value for name, value in said.items() if value is not None}
    told.update(options or {})
    return bytes(msgpack.packb(told)) if told else b""


def _seconds(what: str, span: Seconds | None) -> float | None:
    return None if span is None else as_seconds(what, span)


def _priority(pri: int | None) -> int | None:
    return None if pri is None else as_whole("pri", pri, most=PRIORITY_MOST)


def _ids(tasks: OneTask | Iterable[OneTask]) -> list[bytes]:
    ids = (task.id if isinstance(task, Task) else as_whole("id", task) for task in as_many(tasks))
    return [b"%d" % id for id in ids]


def _count(found: Sequence[TaskView | None]) -> int:
    return sum(view is not None for view in found)
