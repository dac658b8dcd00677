"""What tubes and their sessions answer, in the plainest words: dicts, and a look through all tasks.

Called by   test_tubes_random.py.
Calls       nothing.

Each task has one next moment, `next_ms`, and what it brings follows from its state:

    delayed         it is ready
    ready, buried   it is gone, for its time to live is over
    taken           it is ready; and gone at once, if its time to live is over

In some kinds a task may stay taken longer than it lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.tube_ops import FOREVER_MS, KINDS, Kind, TaskTerms, TubeSettings

Shown = tuple[bytes, State | None, bytes]


@dataclass
class ModelTask:
    number: int
    body: bytes
    pri: int
    lane: bytes
    created_ms: int
    ttl_ms: int
    ttr_ms: int
    state: State = State.READY
    next_ms: int = NEVER_MS
    session: bytes = b""

    @property
    def id(self) -> bytes:
        return b"%d" % self.number

    @property
    def end_ms(self) -> int:
        return NEVER_MS if self.ttl_ms >= FOREVER_MS else self.created_ms + self.ttl_ms

    def shown(self, *, is_gone: bool = False) -> Shown:
        return self.id, None if is_gone else self.state, self.body


@dataclass
class ModelTube:
    kind: Kind
    settings: TubeSettings
    tasks: dict[bytes, ModelTask] = field(default_factory=dict)
    next_number: int = 0
    done: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    def in_order(self, state: State) -> list[ModelTask]:
        found = [task for task in self.tasks.values() if task.state == state]
        return sorted(found, key=attrgetter("pri", "number"))

    def chances(self) -> set[bytes | None]:
        """The lanes of which something can be taken; None if there is room."""
        found: set[bytes | None] = {
            task.lane for task in self.in_order(State.READY) if self._has_room(task)
        }
        if self.kind.is_bounded and len(self.tasks) < self.settings.capacity:
            found.add(None)
        return found

    # -- time ------------------------------------------------------------------------------------

    def pass_time(self, now_ms: int) -> None:
        """All that is due by then has happened."""
        for task in list(self.tasks.values()):
            while task.next_ms <= now_ms and task.id in self.tasks:
                if task.state == State.DELAYED:
                    self.calls["delay"] += 1
                    self.lie(task, State.READY)
                elif task.state == State.LEASED:
                    self.calls["ttr"] += 1
                    self.lie(task, State.READY)
                else:
                    self.calls["delete"] += 1
                    self.calls["ttl"] += 1
                    self.remove(task)

    def lie(self, task: ModelTask, state: State) -> None:
        """Nobody has taken the task, which is ready or buried."""
        task.state, task.session, task.next_ms = state, b"", task.end_ms

    def put_off(self, task: ModelTask, now_ms: int, delay_ms: int) -> None:
        """The task is delayed, and lives longer by that; or ready, if there is no delay."""
        if delay_ms and self.kind.has_times:
            task.ttl_ms = longer(task.ttl_ms, delay_ms)
            task.state, task.session, task.next_ms = State.DELAYED, b"", now_ms + delay_ms
        else:
            self.lie(task, State.READY)

    def remove(self, task: ModelTask) -> None:
        del self.tasks[task.id]
        self.done += 1

    # -- operations ------------------------------------------------------------------------------

    def put(self, bodies: Sequence[bytes], terms: TaskTerms, now_ms: int) -> list[Shown]:
        added: list[Shown] = []
        for body in bodies:
            if self.kind.is_bounded and 0 < self.settings.capacity <= len(self.tasks):
                break
            task = self._new_task(body, terms, now_ms)
            self.tasks[task.id] = task
            self.put_off(task, now_ms, terms.delay_ms)
            self.calls["put"] += 1
            added.append(task.shown())
        return added

    def _new_task(self, body: bytes, terms: TaskTerms, now_ms: int) -> ModelTask:
        number, self.next_number = self.next_number, self.next_number + 1
        lane = terms.lane if self.kind.has_lanes else b""
        if not self.kind.has_times:
            return ModelTask(number, body, 0, lane, now_ms, FOREVER_MS, FOREVER_MS)
        ttl_ms = self.settings.ttl_ms if terms.ttl_ms is None else terms.ttl_ms
        ttr_ms = self.settings.ttr_ms if terms.ttr_ms is None else terms.ttr_ms
        pri = self.settings.pri if terms.pri is None else terms.pri
        return ModelTask(number, body, pri, lane, now_ms, ttl_ms, ttr_ms)

    def take(self, sessions: Sequence[bytes], lane: bytes | None, now_ms: int) -> list[Shown]:
        """Each of the sessions takes a task, as long as there is one."""
        given: list[Shown] = []
        for task in self.in_order(State.READY):
            if len(given) == len(sessions):
                break
            if lane not in (None, task.lane) or not self._has_room(task):
                continue
            task.state, task.session = State.LEASED, sessions[len(given)]
            task.next_ms = now_ms + task.ttr_ms if task.ttr_ms < FOREVER_MS else NEVER_MS
            if self.kind.ends_taken:
                task.next_ms = min(task.next_ms, task.end_ms)
            self.calls["take"] += 1
            given.append(task.shown())
        return given

    def _has_room(self, task: ModelTask) -> bool:
        """May one more task of the same lane be taken?"""
        taken = [it for it in self.in_order(State.LEASED) if it.lane == task.lane]
        return len(taken) < self.settings.width or not self.kind.has_lanes

    def taken_by(self, session: bytes, id: bytes) -> ModelTask | None:
        task = self.tasks.get(id)
        is_theirs = task is not None and task.state == State.LEASED and task.session == session
        return task if is_theirs else None

    def ack(self, session: bytes, id: bytes) -> Shown | None:
        task = self.taken_by(session, id)
        if task is None:
            return None
        self.calls["ack"] += 1
        self.remove(task)
        return task.shown(is_gone=True)

    def release(
        self,
        session: bytes,
        id: bytes,
        now_ms: int,
        delay_ms: int,
        pri: int | None,
        ttl_ms: int | None,
        body: bytes | None,
    ) -> ModelTask | None:
        task = self.taken_by(session, id)
        if task is None:
            return None
        self.calls["release"] += 1
        if body is not None:
            task.body = body
        if self.kind.has_times and pri is not None:
            task.pri = pri
        if self.kind.has_times and ttl_ms is not None:
            task.ttl_ms = longer(ttl_ms, now_ms - task.created_ms)
        self.put_off(task, now_ms, delay_ms)
        return task

    def touch(self, session: bytes, id: bytes, by_ms: int) -> Shown | None:
        task = self.taken_by(session, id)
        if task is None or by_ms == 0:
            return None
        self.calls["touch"] += 1
        task.ttl_ms, task.ttr_ms = longer(task.ttl_ms, by_ms), longer(task.ttr_ms, by_ms)
        task.next_ms = min(NEVER_MS, task.next_ms + by_ms)
        return task.shown()

    def bury(self, id: bytes) -> ModelTask | None:
        task = self.tasks.get(id)
        if task is not None and task.state != State.DEAD:
            self.calls["bury"] += 1
            self.lie(task, State.DEAD)
        return task

    def delete(self, id: bytes) -> Shown | None:
        task = self.tasks.get(id)
        if task is None:
            return None
        self.calls["delete"] += 1
        self.remove(task)
        return task.shown(is_gone=True)

    def kick(self, count: int) -> int:
        return sum(self.kick_this(task.id) for task in self.in_order(State.DEAD)[:count])

    def kick_this(self, id: bytes) -> bool:
        task = self.tasks.get(id)
        if task is None or task.state != State.DEAD:
            return False
        self.calls["kick"] += 1
        self.lie(task, State.READY)
        return True

    def give_back(self, tasks: Iterable[ModelTask]) -> int:
        """Tasks that are taken are ready; how many."""
        back = [task for task in tasks if task.state == State.LEASED]
        for task in back:
            self.calls["release"] += 1
            self.lie(task, State.READY)
        return len(back)

    def truncate(self) -> int:
        count = len(self.tasks)
        self.tasks.clear()
        self.next_number = 0
        return count


@dataclass
class ModelSession:
    connections: int = 0
    end_ms: int = NEVER_MS  # if nobody joins


@dataclass
class TubesModel:
    """All tubes, and the sessions that are known."""

    now_ms: int
    tubes: dict[bytes, ModelTube] = field(default_factory=dict)
    sessions: dict[bytes, ModelSession] = field(default_factory=dict)

    def make(self, queue: bytes, kind: bytes, settings: TubeSettings) -> None:
        self.tubes[queue] = ModelTube(KINDS[kind], settings)

    def pass_time(self, now_ms: int) -> None:
        """Each session ends at its moment, and tasks go on from there."""
        ends = {session.end_ms for session in self.sessions.values() if session.end_ms <= now_ms}
        for moment_ms in [*sorted(ends), now_ms]:
            self.settle(moment_ms)
            over = [id for id, session in self.sessions.items() if session.end_ms <= moment_ms]
            for id in over:
                self.end(id)
            self.settle(moment_ms)
        self.now_ms = now_ms

    def settle(self, now_ms: int) -> None:
        for tube in self.tubes.values():
            tube.pass_time(now_ms)

    def join(self, session: bytes) -> None:
        known = self.sessions.setdefault(session, ModelSession())
        known.connections += 1
        known.end_ms = NEVER_MS

    def leave(self, session: bytes, keep_ms: int) -> None:
        known = self.sessions[session]
        known.connections -= 1
        if known.connections == 0:
            known.end_ms = self.now_ms + keep_ms
            self.pass_time(self.now_ms)

    def restart(self, keep_ms: int, *, is_embedded: bool) -> int:
        """All connections are gone; of how many sessions. An embedded store knows those that hold
        tasks, and forgets what was counted."""
        if is_embedded:
            every = [task for tube in self.tubes.values() for task in tube.tasks.values()]
            holding = {task.session for task in every if task.state == State.LEASED}
            self.sessions = {id: ModelSession(connections=1) for id in holding}
            for tube in self.tubes.values():
                tube.done = 0
                tube.calls.clear()
        left = [session for session in self.sessions.values() if session.connections]
        for session in left:
            session.connections, session.end_ms = 0, self.now_ms + keep_ms
        self.pass_time(self.now_ms)
        return len(left)

    def end(self, session: bytes) -> None:
        del self.sessions[session]
        for tube in self.tubes.values():
            tube.give_back(task for task in tube.tasks.values() if task.session == session)


def longer(span_ms: int, by_ms: int) -> int:
    return min(FOREVER_MS, span_ms + by_ms)
