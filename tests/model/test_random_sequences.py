"""Random sequences of operations, restarts and crashes: the store answers what the model answers.

The machine keeps an EmbeddedStore and a Reference side by side. Segments are tiny, so that they
fill, are compacted and go all the time, and compaction pauses every few records, so that
everything else happens in the middle of it. After every step the counts of all queues, the bodies
the store says it keeps, and the indexes themselves are compared.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from quinque.errors import Duplicate
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Count, FindReady, Flush, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.stores.embedded.store import EmbeddedStore
from tests.model.effort import effort
from tests.model.machine import START_MS, StoreMachine
from tests.model.reference import Counts, Reference
from tests.store.picture import feed_of

QUEUES = (b"q", b"r")
GROUPS = (b"g", b"h")
CHOSEN_IDS = (b"x", b"y", b"z")

# Mostly one queue and one group, so that things meet; the first is the one that is tried first.
queues = st.sampled_from((b"q", b"q", b"q", b"r"))
groups = st.sampled_from((b"g", b"g", b"h"))
bodies = st.sampled_from((b"", b"a", b"\r\n\0", b"b" * 300))
spans_ms = st.sampled_from((0, 1, 50, 1_000, 60_000))
extensions_ms = st.sampled_from((1, 50, 1_000, 60_000))


class StoreAndReference(StoreMachine):
    def begin_model(self) -> None:
        self.openings = 0
        self.model = Reference(START_MS)
        self.made_ids: list[bytes] = []
        self.waited: set[tuple[bytes, bytes]] = set()

    # -- operations ---------------------------------------------------------------------------

    @rule(
        queue=queues,
        some=st.lists(bodies, min_size=1, max_size=3),
        ttl_ms=spans_ms,
        is_single=st.booleans(),
    )
    def put(self, queue: bytes, some: list[bytes], ttl_ms: int, is_single: bool) -> None:
        ids = self.store.run(Put(EVENTS, queue, some, ttl_ms, is_single=is_single))

        numbers = [self.model.last_id, *map(int, ids)]
        assert numbers == sorted(set(numbers)), "ids grow"
        self.model.last_id = numbers[-1]
        self.made_ids += ids
        self.model.put(queue, list(zip(ids, some, strict=True)), ttl_ms, is_single)
        self.end_operation()

    @rule(
        queue=queues,
        id=st.sampled_from(CHOSEN_IDS),
        body=bodies,
        ttl_ms=spans_ms,
        is_single=st.booleans(),
        to_front=st.booleans(),
    )
    def put_with_id(
        self, queue: bytes, id: bytes, body: bytes, ttl_ms: int, is_single: bool, to_front: bool
    ) -> None:
        op = Put(EVENTS, queue, [body], ttl_ms, id, to_front, is_single)
        if self.model.find(queue, id) is None:
            assert self.store.run(op) == [id]
            self.model.put(queue, [(id, body)], ttl_ms, is_single, to_front)
        else:
            with pytest.raises(Duplicate):
                self.store.run(op)
        self.end_operation()

    @rule(queue=queues, group=groups, lease_ms=spans_ms, count=st.integers(1, 4))
    def reserve(self, queue: bytes, group: bytes, lease_ms: int, count: int) -> None:
        given = self.store.run(Reserve(EVENTS, queue, group, lease_ms, count))

        assert [(it.message_id, it.body, it.deliveries) for it in given] == self.model.reserve(
            queue, group, lease_ms, count
        )
        self.end_operation()

    @rule(queue=queues, group=groups, data=st.data(), held_only=st.booleans())
    def ack(self, queue: bytes, group: bytes, data: st.DataObject, held_only: bool) -> None:
        ids = self.draw_ids(data, queue, group)
        self.reconcile(queue, group, ids)

        results = self.store.run(Ack(EVENTS, queue, group, ids, held_only))

        assert results == self.model.ack(queue, group, ids, held_only)
        self.end_operation()

    @rule(queue=queues, group=groups, data=st.data())
    def release(self, queue: bytes, group: bytes, data: st.DataObject) -> None:
        ids = self.draw_ids(data, queue, group)
        self.reconcile(queue, group, ids)

        results = self.store.run(Release(EVENTS, queue, group, ids))

        assert results == self.model.release(queue, group, ids)
        self.end_operation()

    @rule(queue=queues, group=groups, data=st.data(), lease_ms=extensions_ms)
    def extend(self, queue: bytes, group: bytes, data: st.DataObject, lease_ms: int) -> None:
        ids = self.draw_ids(data, queue, group)
        self.reconcile(queue, group, ids)

        results = self.store.run(ExtendLeases(EVENTS, queue, ids, lease_ms, group))

        assert results == self.model.extend(queue, group, ids, lease_ms)
        self.end_operation()

    @rule(queue=queues, is_meant=st.sampled_from((False, False, True)))
    def flush(self, queue: bytes, is_meant: bool) -> None:
        if not is_meant:
            return
        self.store.run(Flush(EVENTS, queue))

        self.model.flush(queue)
        self.end_operation()

    # -- time, turns, restarts ----------------------------------------------------------------

    @rule(ms=st.sampled_from((0.001, 0.4, 1, 49, 50, 1_000, 70_000)))
    def advance(self, ms: float) -> None:
        self.clock.advance(ms)
        self.model.now_ms = self.store.now_ms()

    @rule()
    def tick(self) -> None:
        for _ in range(10):
            if self.store.next_due_ms() <= self.store.now_ms():
                self.store.tick()
                self.commit()

    @rule(set_back_ms=st.sampled_from((0, 0, 3_600_000)))
    def close_and_open(self, set_back_ms: int) -> None:
        self.store.close()
        self.committed = deepcopy(self.model)
        known_ms = self.model.now_ms
        self.open(known_ms - set_back_ms)
        assert known_ms - set_back_ms <= self.store.now_ms() <= known_ms

    # -- after every step ---------------------------------------------------------------------

    @invariant()
    def answers_agree(self) -> None:
        assert counts_of(self.store) == counts_of_model(self.model)
        for group in (*GROUPS, b"new"):
            ready = [name for name in QUEUES if self.model.waiting(name, group)]
            found_queue = self.store.run(FindReady(EVENTS, group, QUEUES))
            assert found_queue == (ready[0] if ready else None)
            for queue in QUEUES:
                for last in (False, True):
                    found = self.store.run(Peek(EVENTS, queue, group, last))
                    seen = None if found is None else (found.message_id, found.body)
                    assert seen == self.model.peek(queue, group, last)

    @invariant()
    def indexes_agree(self) -> None:
        self.check_books()

    @invariant()
    def readers_are_woken(self) -> None:
        """A queue that has something for a group and had nothing before is in `ready`."""
        waiting = {
            (queue, group)
            for queue in QUEUES
            for group in GROUPS
            if self.model.waiting(queue, group)
        }
        assert {queue for queue, _ in waiting - self.waited} <= self.store.ready
        self.waited = waiting
        self.store.ready.clear()

    # -- shared steps -------------------------------------------------------------------------

    def opened(self) -> None:
        self.model.now_ms = self.store.now_ms()
        self.openings += 1
        self.waited = {(queue, group) for queue in QUEUES for group in GROUPS}

    def draw_ids(self, data: st.DataObject, queue: bytes, group: bytes) -> list[bytes]:
        """Ids of what the group holds, mostly."""
        held = [it.id for it in self.model.live(queue) if self.model.is_held(it, group)]
        known = [*held, *held, *CHOSEN_IDS, *self.made_ids[-3:], b"never"]
        return data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3), label="ids")

    def reconcile(self, queue: bytes, group: bytes, ids: list[bytes]) -> None:
        """A lease on a message that was flushed may be forgotten when its segment was compacted
        and the store opened anew: then the ack is answered 0, and nothing else depends on it."""
        groups = feed_of(self.store, queue).groups if queue in self.store.queues else {}
        held = groups[group].held if group in groups else {}
        for id in ids:
            if (queue, group, id) in self.model.flushed and id not in held and self.openings > 1:
                del self.model.flushed[queue, group, id]


def counts_of(store: EmbeddedStore) -> Counts:
    """Of the groups those that did something: one that is past the front of the queue, where a
    message was put since, is there and is no different from one that never was."""
    return {
        row.queue: (
            row.total,
            {
                group.group: (group.leased, group.redo, group.done, group.available)
                for group in row.groups
                if group.leased or group.redo or group.done
            },
        )
        for row in store.run(Count(EVENTS))
    }


def counts_of_model(model: Reference) -> Counts:
    return {
        queue: (total, {group: row for group, row in rows.items() if any(row[:3])})
        for queue, (total, rows) in model.count().items()
    }


StoreAndReference.TestCase.settings = effort(examples=60, steps=60)
TestStoreAndReference = StoreAndReference.TestCase
