"""Random operations on tubes, sessions and time: a store answers what the model answers.

A walk is a list of steps that hypothesis makes, and makes shorter when it finds a difference. Two
brokers on one Redis take turns as if they were one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.tube_ops import (
    CALLS,
    FOREVER_MS,
    KINDS,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    JoinSession,
    KickTasks,
    LeaveSession,
    LeaveSessions,
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
)
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.redis.sessions import beat
from quinque.stores.redis.store import RedisStore
from tests.conformance.conftest import MEMORY, OPENERS, Opener
from tests.conformance.tubes_model import ModelTube, Shown, TubesModel
from tests.conformance.words import tick
from tests.model.effort import effort

TUBES: Final = (b"t", b"u")
SESSIONS: Final = (b"ann", b"ben's session...")
EXAMPLES: Final = {"embedded": 20, "redis": 8, "cluster": 4}  # in a build
START_MS: Final = 1_700_000_000_000
SETTINGS: Final = (
    TubeSettings(capacity=3),
    TubeSettings(ttl_ms=1_000, ttr_ms=400, pri=2, capacity=4, width=2),
)

spans_ms = st.sampled_from((0, 1, 100, 400, 1_000, FOREVER_MS))
maybe_ms = st.none() | spans_ms
delays_ms = st.sampled_from((0, 0, 0, 1, 100, 1_000))
priorities = st.sampled_from((None, None, 0, 1, 2, 7))
lanes = st.sampled_from((b"a", b"b", b"nil"))
id_ = st.integers(0, 11).map(lambda number: b"%d" % number)
ids = st.lists(id_, min_size=1, max_size=3, unique=True)
counts = st.integers(0, 3)
tubes = st.sampled_from((*TUBES, TUBES[0]))
sessions = st.sampled_from((*SESSIONS, SESSIONS[0]))
bodies = st.sampled_from((b"", b"x", b"y" * 300))


class Step(NamedTuple):
    """Time passes, by a span or up to the next moment at which something is due; then, maybe, the
    clock is heard, and the operation is carried out."""

    wait_ms: int | None
    is_ticked: bool
    by: int  # which broker
    op: Any


class Restart(NamedTuple):
    """The store is closed and opened again, and its sessions are kept for so long."""

    keep_ms: int


class Nothing(NamedTuple):
    """Only time passes."""


def acks(queue: bytes, pairs: list[tuple[bytes, bytes]]) -> AckTasks:
    """Of several sessions."""
    return AckTasks(queue, b"", [id for id, _ in pairs], [session for _, session in pairs])


operations: Final = st.one_of(
    st.builds(Nothing),
    st.builds(
        PutTasks,
        tubes,
        st.lists(bodies, min_size=1, max_size=3),
        st.builds(TaskTerms, maybe_ms, maybe_ms, priorities, delays_ms, lanes),
    ),
    st.builds(TakeTasks, tubes, sessions, counts, st.none() | lanes),
    st.builds(TakeTasks, tubes, sessions, counts),
    st.builds(TakeTasks, tubes, sessions, sessions=st.lists(sessions, max_size=4)),
    st.builds(AckTasks, tubes, sessions, ids),
    st.builds(acks, tubes, st.lists(st.tuples(id_, sessions), max_size=4)),
    st.builds(
        ReleaseTasks,
        tubes,
        sessions,
        ids,
        delays_ms,
        priorities,
        maybe_ms,
        st.none() | bodies,
    ),
    st.builds(ReleaseTasks, tubes, sessions, ids, delays_ms),
    st.builds(TouchTasks, tubes, sessions, ids, spans_ms),
    st.builds(BuryTasks, tubes, ids),
    st.builds(DeleteTasks, tubes, ids),
    st.builds(KickTasks, tubes, counts, st.none() | ids),
    st.builds(ReturnTasks, tubes),
    st.builds(TruncateTube, tubes),
    st.builds(JoinSession, sessions, st.just(value=True)),
    st.builds(LeaveSession, sessions, delays_ms),
    st.builds(Restart, delays_ms),
)
steps: Final = st.builds(
    Step,
    st.sampled_from((0, 0, 0, 1, 99, 100, 400, None, None)),
    st.booleans(),
    st.integers(0, 1),
    operations,
)


class Walk:
    """A store and the model, side by side. A shared store has so many brokers."""

    def __init__(
        self,
        opener: Opener,
        kinds: Sequence[bytes],
        settings: Sequence[TubeSettings],
        brokers: int = 1,
    ) -> None:
        self._opener = opener
        self.clock = ManualClock(START_MS * 1_000)
        self.stores: list[Store] = [opener(self.clock) for _ in range(brokers)]
        self.store = self.stores[0]
        self.joined = [dict.fromkeys(SESSIONS, 0) for _ in self.stores]
        self.model = TubesModel(START_MS)
        for name, kind, setting in zip(TUBES, kinds, settings, strict=True):
            self.store.run(MakeTube(name, kind, setting))
            self.model.make(name, kind, setting)
        for session in SESSIONS:
            self.join(JoinSession(session, is_new=True))

    def close(self) -> None:
        for store in self.stores:
            store.close()

    def step(self, step: Step) -> None:
        wait_ms = step.wait_ms
        if wait_ms is None:
            wait_ms = self._next_ms() - self.model.now_ms
        self.store = self.stores[step.by % len(self.stores)]
        if isinstance(self.store, RedisStore):
            # As it does once a second: so it knows when sessions end that another broker left.
            self.store.finish(beat(self.store._store.edge))
        self.store.ready.clear()
        before = self._chances()
        self.clock.advance(wait_ms)
        self.model.pass_time(self.model.now_ms + wait_ms)
        if step.is_ticked:
            tick(self.store)
        op = step.op
        WORDS[type(op)](self, op)
        self.model.settle(self.model.now_ms)
        self.compare()
        self.store.commit()
        if not isinstance(op, Restart):
            assert {name for name, _ in self._chances() - before} <= self.store.ready

    def _chances(self) -> set[tuple[bytes, bytes | None]]:
        """Of which lanes of which tubes something can be taken; None if there is room."""
        return {
            (name, chance) for name, tube in self.model.tubes.items() for chance in tube.chances()
        }

    def compare(self) -> None:
        """All that can be seen is as the model has it."""
        for name, tube in self.model.tubes.items():
            view = self.store.run(LookAtTube(name))
            assert view is not None
            found = (view.ready, view.taken, view.delayed, view.buried, view.done)
            lengths = [len(tube.in_order(state)) for state in SHOWN_ORDER]
            assert found == (*lengths, tube.done)
            assert counted(dict(zip(CALLS, view.calls, strict=True))) == counted(tube.calls)
            every = [b"%d" % number for number in range(tube.next_number)]
            tasks = self.store.run(PeekTasks(name, every))
            expected = [tube.tasks.get(id) for id in every]
            assert shown(tasks) == [None if it is None else it.shown() for it in expected]

    def end(self) -> None:
        """Whatever is left can be taken, in order, lane by lane, and deleted."""
        for name in TUBES:
            self.return_all(ReturnTasks(name))
            self.kick(KickTasks(name, 1_000))
            while given := self.take(TakeTasks(name, self._anybody(), 1_000)):
                self.model.settle(self.model.now_ms)
                self.delete(DeleteTasks(name, [id for id, _, _ in given]))
        self.compare()

    # -- operations ------------------------------------------------------------------------------

    def put(self, op: PutTasks) -> None:
        expected = self._tube(op).put(op.bodies, op.terms, self.model.now_ms)

        assert ids_of(self.store.run(op)) == [id for id, _, _ in expected]

    def take(self, op: TakeTasks) -> list[Shown]:
        takers = op.sessions or [op.session] * op.count
        if not all(self._joined[session] for session in op.sessions or [op.session]):
            return []
        tube = self._tube(op)
        lane = op.lane if tube.kind.has_lanes else None
        expected = tube.take(takers, lane, self.model.now_ms)

        assert shown(self.store.run(replace(op, lane=lane))) == expected
        return expected

    def ack(self, op: AckTasks) -> None:
        tube = self._tube(op)
        sessions = op.sessions or [op.session] * len(op.message_ids)
        pairs = zip(sessions, op.message_ids, strict=True)
        expected = [tube.ack(session, id) for session, id in pairs]

        assert shown(self.store.run(op)) == expected

    def release(self, op: ReleaseTasks) -> None:
        tube, now_ms = self._tube(op), self.model.now_ms
        changes = (op.delay_ms, op.pri, op.ttl_ms, op.body)
        released = [tube.release(op.session, id, now_ms, *changes) for id in op.message_ids]
        tube.pass_time(now_ms)

        found = self.store.run(op)
        for task, view in zip(released, found, strict=True):
            if task is None or view is None:
                assert (task, view) == (None, None)
            else:
                assert view.message_id == task.id
                assert view.body == task.body
                assert view.state in (task.state, None), "None if it is gone already"

    def touch(self, op: TouchTasks) -> None:
        tube = self._tube(op)
        if op.by_ms and not tube.kind.has_times:
            return
        expected = [tube.touch(op.session, id, op.by_ms) for id in op.message_ids]

        assert shown(self.store.run(op)) == expected

    def bury(self, op: BuryTasks) -> None:
        tube = self._tube(op)
        buried = [tube.bury(id) for id in op.message_ids]

        found = self.store.run(op)
        assert ids_of(found) == [None if task is None else task.id for task in buried]

    def delete(self, op: DeleteTasks) -> None:
        tube = self._tube(op)
        expected = [tube.delete(id) for id in op.message_ids]

        assert shown(self.store.run(op)) == expected

    def kick(self, op: KickTasks) -> None:
        tube = self._tube(op)
        if op.message_ids is None:
            expected = tube.kick(op.count)
        else:
            expected = sum(map(tube.kick_this, op.message_ids))

        assert self.store.run(op) == expected

    def return_all(self, op: ReturnTasks) -> None:
        tube = self._tube(op)
        expected = tube.give_back(tube.tasks.values())

        assert self.store.run(op) == expected
        tube.pass_time(self.model.now_ms)

    def truncate(self, op: TruncateTube) -> None:
        expected = self._tube(op).truncate()

        assert self.store.run(op) == expected

    def join(self, op: JoinSession) -> None:
        self.store.run(op)
        self.model.join(op.session)
        self._joined[op.session] += 1

    def leave(self, op: LeaveSession) -> None:
        if self._joined[op.session]:
            self.store.run(op)
            self.model.leave(op.session, op.keep_ms)
            self._joined[op.session] -= 1

    def restart(self, op: Restart) -> None:
        """An embedded store finds the sessions that hold tasks, and begins to count anew; in Redis
        all is as it was. Of the sessions nobody is."""
        is_embedded = isinstance(self.store, EmbeddedStore)
        self.compare()  # what was due is done, and was counted before
        self.store.commit()
        self.close()
        self.stores = [self._opener(self.clock) for _ in self.stores]
        self.store = self.stores[0]
        self.joined = [dict.fromkeys(SESSIONS, 0) for _ in self.stores]
        left = self.model.restart(op.keep_ms, is_embedded=is_embedded)
        assert self.store.run(LeaveSessions(op.keep_ms)) == left

    @property
    def _joined(self) -> dict[bytes, int]:
        """How many connections of the broker are of each session."""
        return self.joined[self.stores.index(self.store)]

    def _anybody(self) -> bytes:
        """A session that may take."""
        if not self._joined[SESSIONS[0]]:
            self.join(JoinSession(SESSIONS[0], is_new=True))
        return SESSIONS[0]

    def _tube(self, op: Any) -> ModelTube:
        return self.model.tubes[op.queue]

    def _next_ms(self) -> int:
        """When something is due next, if that is soon."""
        moments = [
            *(task.next_ms for tube in self.model.tubes.values() for task in tube.tasks.values()),
            *(session.end_ms for session in self.model.sessions.values()),
        ]
        soonest_ms = min(moments, default=NEVER_MS)
        return soonest_ms if soonest_ms < self.model.now_ms + 10_000 else self.model.now_ms


SHOWN_ORDER: Final = (State.READY, State.LEASED, State.DELAYED, State.DEAD)


def shown(views: Sequence[TaskView | None]) -> list[Shown | None]:
    return [None if it is None else (it.message_id, it.state, it.body) for it in views]


def ids_of(views: Sequence[TaskView | None]) -> list[bytes | None]:
    return [None if it is None else it.message_id for it in views]


def counted(calls: dict[str, int]) -> dict[str, int]:
    """Which of two moments came first, that of the session or of the task's ttr, cannot be told
    when both have passed."""
    numbers = {name: count for name, count in calls.items() if count}
    return_count = numbers.pop("release", 0) + numbers.pop("ttr", 0)
    return {**numbers, "release or ttr": return_count}


WORDS: Final[dict[type, Callable[[Walk, Any], object]]] = {
    Nothing: lambda walk, op: None,
    PutTasks: Walk.put,
    TakeTasks: Walk.take,
    AckTasks: Walk.ack,
    ReleaseTasks: Walk.release,
    TouchTasks: Walk.touch,
    BuryTasks: Walk.bury,
    DeleteTasks: Walk.delete,
    KickTasks: Walk.kick,
    ReturnTasks: Walk.return_all,
    TruncateTube: Walk.truncate,
    JoinSession: Walk.join,
    LeaveSession: Walk.leave,
    Restart: Walk.restart,
}


# Where there is a Redis, two brokers share it as well.
RUNS = [*((kind, 1) for kind in OPENERS), *(("redis", 2) for kind in OPENERS if kind == "redis")]


@pytest.mark.parametrize(("kind", "brokers"), RUNS)
def test_a_store_answers_what_the_model_answers(
    request: pytest.FixtureRequest, kind: str, brokers: int
) -> None:
    @effort(EXAMPLES[kind])
    @given(
        st.tuples(*[st.sampled_from(list(KINDS))] * 2),
        st.tuples(*[st.sampled_from(SETTINGS)] * 2),
        st.lists(steps, min_size=30, max_size=60),
    )
    def agrees(
        kinds: Sequence[bytes], settings: Sequence[TubeSettings], walked: list[Step]
    ) -> None:
        folder = tempfile.mkdtemp(prefix="quinque-walk-", dir=MEMORY if MEMORY.is_dir() else None)
        walk = Walk(OPENERS[kind](request, Path(folder)), kinds, settings, brokers)
        try:
            for step in walked:
                walk.step(step)
            walk.end()
        finally:
            walk.close()
            shutil.rmtree(folder)

    agrees()
