"""Random operations on worklists, restarts and crashes: the store answers what the model answers.

The machine keeps an EmbeddedStore and a WorkReference side by side, as the one for feeds does
(test_random_sequences.py). Time moves in steps of any size, often exactly to where something is
due, and sometimes nobody looks before the next operation, which then finds all of it undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from quinque.errors import Leaving, QuinqueError
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Op, Put
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    Browse,
    Configure,
    Extend,
    FindKey,
    FindQueues,
    Finish,
    Hold,
    LookAt,
    Purge,
    PurgeAll,
    QueueView,
    Redrive,
    Requeue,
    ScanMessages,
    ScanQueues,
    SetNode,
    Show,
    Take,
    Terms,
    WorkView,
)
from tests.model.effort import effort
from tests.model.machine import START_MS, StoreMachine
from tests.model.work_reference import NEVER_MS, Item, Queue, WorkReference

QUEUES = (b"q", b"r", b"waited-on")
KEYS = (b"x", b"y")
NOBODY = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"

# Mostly one queue, so that things meet; the first is the one that is tried first.
queues = st.sampled_from((b"q", b"q", b"q", b"r", b"waited-on"))
bodies = st.sampled_from((b"", b"a", b"\r\n\0", b"b" * 300))
delays_ms = st.sampled_from((0, 0, 0, 1, 1_000, 30_000))
limits = st.sampled_from((0, 1, 1, 2))
terms = st.builds(
    Terms,
    ttl_ms=st.sampled_from((86_400_000, 86_400_000, 60_000, 3_000, 1)),
    delay_ms=delays_ms,
    retry_ms=st.sampled_from((1_000, 1_000, 5_000, 300_000, 0)),
    max_deliveries=limits,
    replicas=st.sampled_from((1,) * 19 + (2,)),
)
settings = st.sampled_from(
    (
        {"is_paused_in": False, "is_paused_out": False},
        {"is_paused_in": False, "is_paused_out": False, "max_deliveries": 0, "rate": (0, 0)},
        {},
        {"is_paused_in": True},
        {"is_paused_out": True},
        {"max_deliveries": 1},
        {"max_deliveries": 2, "is_paused_in": False},
        {"rate": (1, 1_000)},
        {"rate": (3, 1_500)},
        {"rate": (2, 60_000)},
        {"rate": (0, 0)},
        {"keeps_expired": True},
        {"keeps_expired": True, "is_paused_in": False},
        {"keeps_expired": False},
    )
)
some_states = st.lists(st.sampled_from(State), max_size=2, unique=True)
reasons = st.sampled_from((b"", b"no luck"))


class StoreAndWorkReference(StoreMachine):
    def begin_model(self) -> None:
        self.is_unseen = False
        self.watched: set[bytes] = {b"waited-on"}
        self.model = WorkReference(START_MS, watched=self.watched)
        self.places: dict[bytes, int] = {}
        self.had: set[bytes] = set()
        self.refused_by_rate: set[bytes] = set()

    # -- operations ---------------------------------------------------------------------------

    @rule(
        queue=queues,
        some=st.lists(bodies, min_size=1, max_size=3),
        terms=terms,
        max_length=st.sampled_from((0, 0, 0, 2)),
    )
    def add(self, queue: bytes, some: list[bytes], terms: Terms, max_length: int) -> None:
        self.add_both(Add(JOBS, queue, some, terms, max_length=max_length))

    @rule(
        queue=queues,
        body=bodies,
        terms=terms,
        key=st.sampled_from(KEYS),
        max_length=st.sampled_from((0, 0, 0, 2)),
    )
    def add_with_key(
        self, queue: bytes, body: bytes, terms: Terms, key: bytes, max_length: int
    ) -> None:
        self.add_both(Add(JOBS, queue, [body], terms, key, max_length))

    @precondition(lambda self: self.has(State.READY) or self.operations % 5 == 0)
    @rule(
        names=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True),
        count=st.integers(1, 5),
    )
    def take(self, names: list[bytes], count: int) -> None:
        given = self.store.run(Take(JOBS, names, count))

        assert deliveries_of(given) == deliveries_of(self.model.take(names, count))
        if len(given) < count:
            self.refused_by_rate |= {name for name in names if self.model.is_spent(name)}
        self.end_operation()

    @precondition(lambda self: self.has(State.READY))
    @rule(
        patterns=st.sampled_from(((b"*",), (b"[qr]",), (b"r", b"wait*"))), count=st.integers(1, 5)
    )
    def take_by_patterns(self, patterns: tuple[bytes, ...], count: int) -> None:
        given = self.store.run(Take(JOBS, (), count, patterns))

        # In which order queues are visited is up to the store; that all get their turn is not.
        order = list(dict.fromkeys(delivery.queue for delivery in given))
        others = [name for name in self.model.queues if name not in order]
        fitting = [name for name in order + others if matches(name, patterns)]
        assert deliveries_of(given) == deliveries_of(self.model.take(fitting, count))
        self.end_operation()

    @precondition(lambda self: self.has(*State))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        ids = self.draw_ids(data, State.LEASED)

        assert self.store.run(Finish(JOBS, ids)) == self.model.finish(ids)
        self.end_operation()

    @precondition(lambda self: self.has(State.LEASED, State.DELAYED))
    @rule(data=st.data(), is_nack=st.booleans(), delay_ms=delays_ms, reason=reasons)
    def requeue(self, data: st.DataObject, is_nack: bool, delay_ms: int, reason: bytes) -> None:
        ids = self.draw_ids(data, State.LEASED, State.DELAYED)

        results = self.store.run(Requeue(JOBS, ids, is_nack, delay_ms, reason))

        assert results == self.model.requeue(ids, is_nack, delay_ms, reason)
        self.end_operation()

    @precondition(lambda self: self.has(State.READY))
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        ids = self.draw_ids(data, State.READY)

        assert self.store.run(Hold(JOBS, ids)) == self.model.hold(ids)
        self.end_operation()

    @precondition(lambda self: self.has(*State))
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        id = self.draw_ids(data, *State)[0]
        op = Extend(JOBS, id)
        try:
            expected = self.model.extend(id)
        except QuinqueError as error:
            self.refused(op, error)
        else:
            assert self.store.run(op) == expected
        self.end_operation()

    @rule(queue=queues, setting=settings)
    def configure(self, queue: bytes, setting: dict[str, Any]) -> None:
        view = self.store.run(Configure(JOBS, queue, **setting))

        configured = self.model.configure(queue, **setting)
        self.model.learn_queue(queue, view)
        assert view == self.queue_view(queue, configured)
        self.end_operation()

    @precondition(lambda self: self.has(State.DEAD))
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        ids = self.draw_ids(data, State.DEAD)

        assert self.store.run(Redrive(JOBS, ids)) == self.model.redrive(ids)
        self.end_operation()

    @precondition(lambda self: self.has(State.DEAD))
    @rule(queue=queues, most=st.integers(0, 2))
    def redrive_queue(self, queue: bytes, most: int) -> None:
        redriven = self.store.run(Redrive(JOBS, queue=queue, count=most))

        assert redriven == self.model.redrive_queue(queue, most)
        self.end_operation()

    @precondition(lambda self: self.has(*State))
    @rule(queue=queues, states=some_states, chance=st.integers(0, 9))
    def purge(self, queue: bytes, states: list[State], chance: int) -> None:
        if states or chance == 9:
            assert self.store.run(Purge(JOBS, queue, states)) == self.model.purge(queue, states)
        elif chance == 8:
            assert self.store.run(PurgeAll(JOBS)) == self.model.purge_all()
        self.end_operation()

    @precondition(lambda self: self.model.is_leaving or self.operations % 10 == 0)
    @rule(queue=queues)
    def leave_or_come_back(self, queue: bytes) -> None:
        is_leaving = self.model.is_leaving = not self.model.is_leaving
        assert self.store.run(SetNode(is_leaving)).is_leaving is is_leaving
        if is_leaving and not self.model.can_take(queue):
            self.refused(Take(JOBS, [queue], is_waiting=True), Leaving())
        self.end_operation()

    # -- time, turns, restarts ----------------------------------------------------------------

    @rule(
        ms=st.sampled_from((0.001, 0.4, 1, 749, 1_000, 1_249, 5_250, 70_000, 310_000)),
        is_seen=st.booleans(),
    )
    def advance(self, ms: float, is_seen: bool) -> None:
        self.clock.advance(ms)
        self.pass_time(self.store.now_ms(), is_seen)

    @rule(data=st.data(), off_ms=st.sampled_from((-1, 0, 0, 0, 1)), is_seen=st.booleans())
    def advance_to_what_is_due(self, data: st.DataObject, off_ms: int, is_seen: bool) -> None:
        ahead = [at_ms for at_ms in self.model.instants() if at_ms + off_ms > self.model.now_ms]
        if ahead:
            at_ms = data.draw(st.sampled_from(ahead[:5]), label="at") + off_ms
            self.clock.advance(at_ms - self.clock.now_us() / 1000)
            assert self.store.now_ms() == at_ms
            self.pass_time(at_ms, is_seen)

    @rule()
    def tick(self) -> None:
        for _ in range(20):
            if self.store.next_due_ms() <= self.store.now_ms():
                self.store.tick()
                self.commit()
        told = self.store.ready | {name for name in QUEUES if not self.model.can_take(name)}
        assert self.refused_by_rate <= told
        self.refused_by_rate -= self.store.ready

    @rule(set_back_ms=st.sampled_from((0, 0, 3_600_000)))
    def close_and_open(self, set_back_ms: int) -> None:
        if set_back_ms:
            # The store goes on from the last time in its journal: let that be this one.
            self.store.run(Put(EVENTS, b"clock", [b""], ttl_ms=1))
        self.store.close()
        self.committed = deepcopy(self.model)
        self.open(self.model.now_ms - set_back_ms)

    # -- after every step ---------------------------------------------------------------------

    @invariant()
    def all_agree(self) -> None:
        if self.is_unseen:
            self.is_unseen = False
            return
        self.messages_agree()
        self.queues_agree()
        self.scans_agree()
        self.check_books()
        self.waiting_ones_are_told()

    def messages_agree(self) -> None:
        ids = [*self.places, NOBODY]
        found = [self.model.find(id) for id in ids]
        assert self.store.run(FindQueues(JOBS, ids)) == [it.queue if it else None for it in found]
        for id, item in zip(ids, found, strict=True):
            assert self.store.run(Show(JOBS, id)) == (item and self.view(item))
            assert self.store.run(AwaitEnd(JOBS, [id])) == self.model.ended([id])
        assert self.store.run(AwaitEnd(JOBS, ids)) == self.model.ended(ids)

    def queues_agree(self) -> None:
        for name in QUEUES:
            view = self.store.run(LookAt(JOBS, name))
            self.model.learn_queue(name, view)
            queue = self.model.queues.get(name)
            assert view == (queue and self.queue_view(name, queue))
            for state in (State.READY, State.DELAYED, State.DEAD):
                views = [self.view(item) for item in self.model.listed(name, state)]
                assert self.store.run(Browse(JOBS, name, state, 100)) == views
                assert self.store.run(Browse(JOBS, name, state, 2)) == views[:2]
                assert self.store.run(Browse(JOBS, name, state, -2)) == views[::-1][:2]
                assert self.store.run(Browse(JOBS, name, state, 0)) == []
            for key in KEYS:
                item = self.model.with_key(name, key)
                assert self.store.run(FindKey(JOBS, name, key)) == (item and item.id)

    def scans_agree(self) -> None:
        lengths = {name: len(self.model.listed(name, State.READY)) for name in self.model.queues}
        for count, least, most in ((1, 0, NEVER_MS), (100, 1, 2), (1, 0, 0)):
            names = self.scan(ScanQueues(JOBS, 0, count, least, most))
            fitting = [name for name, length in lengths.items() if least <= length <= most]
            assert sorted(names) == sorted(fitting)
        for queue, states, with_bodies in (
            (None, (), True),
            (b"q", (), False),
            (None, (State.READY, State.DEAD), False),
            (b"q", (State.LEASED,), True),
        ):
            views = self.scan(ScanMessages(JOBS, 0, 1, queue, states, with_bodies))
            assert by_id(views) == by_id(
                self.view(item, with_bodies)
                for item in self.model.items
                if queue in (None, item.queue) and (not states or item.state in states)
            )

    def waiting_ones_are_told(self) -> None:
        """A queue from which something can be taken, and from which nothing could be, is in
        `ready`. So are ids that ended. (That a rate allows more, ticks tell: see there.)"""
        can = {name for name in QUEUES if self.model.can_take(name)}
        assert {
            name for name in can - self.had if not self.model.has_rate(name)
        } <= self.store.ready
        self.had = can
        self.refused_by_rate -= self.store.ready
        ended = {
            id for id in self.watched & self.places.keys() if self.model.ended([id]) is not None
        }
        assert ended <= self.store.ready
        self.watched -= ended
        self.store.ready.clear()

    # -- shared steps -------------------------------------------------------------------------

    def add_both(self, op: Add) -> None:
        try:
            known = self.model.known(op.queue, op.terms, op.key, op.max_length)
        except QuinqueError as error:
            self.refused(op, error)
            self.end_operation()
            return
        ids = self.store.run(op)
        if known is not None:
            assert ids == [known.id]
        else:
            assert not set(ids) & self.places.keys()
            for id, body in zip(ids, op.bodies, strict=True):
                self.model.add(op.queue, id, body, op.terms, op.key)
                self.note_place(id)
                self.watched.add(id)
        self.end_operation()

    def note_place(self, id: bytes) -> None:
        view = self.store.run(Show(JOBS, id))
        assert view is not None
        assert view.place > max(self.places.values(), default=0), "places grow"
        self.places[id] = view.place

    def refused(self, op: Op, error: QuinqueError) -> None:
        with pytest.raises(type(error)):
            self.store.run(op)

    def end_operation(self) -> None:
        for item in self.model.items:
            if item.is_due_by_chance:
                view = self.store.run(Show(JOBS, item.id))
                assert view is not None
                assert view.due_within_ms is not None
                self.model.learn_due(item.id, self.model.now_ms + view.due_within_ms)
        super().end_operation()

    def learn_requeues(self) -> None:
        for item in self.model.items:
            if item.requeues_unseen:
                view = self.store.run(Show(JOBS, item.id))
                assert view is not None
                assert view.requeues is not None
                self.model.learn_requeues(item.id, view.requeues)

    def pass_time(self, now_ms: int, is_seen: bool) -> None:
        self.model.pass_time(now_ms)
        self.learn_requeues()
        is_sure = not any(map(self.model.is_unsure_of, self.model.queues))
        self.is_unseen = not is_seen and is_sure

    def opened(self) -> None:
        self.store.watched = self.model.watched = self.watched
        assert self.store.now_ms() >= self.model.now_ms
        self.model.restart()
        self.model.pass_time(self.store.now_ms())
        self.learn_requeues()
        for name in [name for name in self.model.queues if self.model.is_unsure_of(name)]:
            self.model.learn_queue(name, self.store.run(LookAt(JOBS, name)))
        self.places = {id: place for id, place in self.places.items() if self.model.find(id)}
        self.watched &= {b"waited-on", *self.places}
        self.had = set(QUEUES)
        self.refused_by_rate = set()

    def has(self, *states: State) -> bool:
        return any(item.state in states for item in self.model.items)

    def draw_ids(self, data: st.DataObject, *states: State) -> list[bytes]:
        """Ids of messages in these states, mostly."""
        fitting = [item.id for item in self.model.items if item.state in states]
        known = [*fitting, *fitting, *fitting, *list(self.places)[-3:], NOBODY]
        return data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3), label="ids")

    def scan(self, op: ScanQueues | ScanMessages) -> list[Any]:
        """All that a scan finds until its cursor is 0."""
        found: list[Any] = []
        for _ in range(10_000):
            cursor, some = self.store.run(op)
            found += some
            if cursor == 0:
                return found
            op = replace(op, cursor=cursor)
        raise AssertionError("there is no end to it")

    def view(self, item: Item, with_body: bool = True) -> WorkView:
        now_ms = self.model.now_ms
        return WorkView(
            queue=item.queue,
            message_id=item.id,
            body=item.body if with_body else None,
            state=item.state,
            place=self.places[item.id],
            terms=item.terms,
            ttl_left_ms=0 if item.state is State.DEAD else item.expires_ms - now_ms,
            due_within_ms=item.due_ms - now_ms if item.due_ms < NEVER_MS else None,
            nacks=item.nacks,
            requeues=item.requeues,
            deliveries=item.deliveries,
            max_deliveries=self.model.limit_of(item),
            reason=item.reason,
            key=item.key,
        )

    def queue_view(self, name: bytes, queue: Queue) -> QueueView:
        return QueueView(
            queue=name,
            ready=len(self.model.listed(name, State.READY)),
            delayed=len(self.model.listed(name, State.DELAYED)),
            leased=len(self.model.listed(name, State.LEASED)),
            dead=len(self.model.listed(name, State.DEAD)),
            age_ms=self.model.now_ms - queue.made_ms,
            idle_ms=self.model.now_ms - queue.active_ms,
            came=queue.came,
            went=queue.went,
            is_paused_in=queue.is_paused_in,
            is_paused_out=queue.is_paused_out,
            max_deliveries=queue.max_deliveries,
            rate_count=queue.rate[0],
            rate_ms=queue.rate[1],
            keeps_expired=queue.keeps_expired,
        )


def deliveries_of(given: Sequence[Any]) -> list[tuple[bytes, bytes, bytes, int, int]]:
    return [
        (it.queue, it.id if isinstance(it, Item) else it.message_id, it.body, it.nacks, it.requeues)
        for it in given
    ]


def by_id(views: Any) -> list[WorkView]:
    return sorted(views, key=lambda view: view.message_id)


def matches(name: bytes, patterns: Sequence[bytes]) -> bool:
    return any(fnmatchcase(name.decode(), pattern.decode()) for pattern in patterns)


StoreAndWorkReference.TestCase.settings = effort(examples=50, steps=60)
TestStoreAndWorkReference = StoreAndWorkReference.TestCase
