"""Random sequences of operations, restarts and crashes: the store answers what the model answers.

The machine keeps an EmbeddedStore and a Reference side by side. Segments are tiny, so that they
fill, are compacted and go all the time, and compaction pauses every few records, so that
everything else happens in the middle of it. After every step the counts of all queues, the bodies
the store says it keeps, and the indexes themselves are compared.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quinque.errors import Duplicate
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Count, FindReady, Flush, Peek, Put, Release, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import compact
from quinque.stores.embedded.store import EmbeddedStore
from tests.engine.invariants import check_invariants
from tests.model.effort import effort
from tests.model.reference import Counts, Reference

QUEUES = (b"q", b"r")
GROUPS = (b"g", b"h")
CHOSEN_IDS = (b"x", b"y", b"z")
START_MS = 1_700_000_000_000
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # no disk to wait for

# Mostly one queue and one group, so that things meet; the first is the one that is tried first.
queues = st.sampled_from((b"q", b"q", b"q", b"r"))
groups = st.sampled_from((b"g", b"g", b"h"))
bodies = st.sampled_from((b"", b"a", b"\r\n\0", b"b" * 300))
spans_ms = st.sampled_from((0, 1, 50, 1_000, 60_000))


class StoreAndReference(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from((1, 250, 2_000)),
        maxmemory=st.sampled_from((0, 1, 600)),
        operations_a_turn=st.sampled_from((1, 1, 3, 1_000)),
        compacts_always=st.booleans(),
    )
    def begin(
        self, segment_bytes: int, maxmemory: int, operations_a_turn: int, compacts_always: bool
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quinque-model-", dir=FAST))
        self.settings: dict[str, Any] = {
            "segment_bytes": segment_bytes,
            "maxmemory": maxmemory,
            "fsync": "no",  # what a crash of the process leaves does not depend on it
        }
        self.operations_a_turn = operations_a_turn
        self.compacts_always = compacts_always
        self.operations = 0
        self.openings = 0
        self.model = Reference(START_MS)
        self.committed = deepcopy(self.model)
        self.made_ids: list[bytes] = []
        self.waited: set[tuple[bytes, bytes]] = set()
        self.open(START_MS)

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

    @rule()
    def commit(self) -> None:
        self.store.commit()

        self.committed = deepcopy(self.model)

    @rule(set_back_ms=st.sampled_from((0, 0, 3_600_000)))
    def close_and_open(self, set_back_ms: int) -> None:
        self.store.close()
        self.committed = deepcopy(self.model)
        self.open(self.model.now_ms - set_back_ms)

    @rule(cut=st.sampled_from((None, 0.0, 0.3, 0.9, 1.0)))
    def crash(self, cut: float | None) -> None:
        """Between two turns, or in a commit: then a part of what it writes is in the file."""
        before = self.copied()
        ends = dict(self.store._journal.sizes)
        if cut is not None:
            committed = deepcopy(self.committed)
            self.commit()
            after = self.copied()
            last = max(ends)
            written_bytes = self.store._journal.sizes.get(last, ends[last]) - ends[last]
            if self.store._journal.segment == last and cut < 1:
                self.committed = committed
                shutil.copy(after / segment_name(last), before)
                end = ends[last] + int(written_bytes * cut)
                os.truncate(before / segment_name(last), end)
                shutil.rmtree(after)
            else:
                shutil.rmtree(before)
                before = after
        self.drop()
        self.folder = before
        now_ms = self.model.now_ms
        self.model = deepcopy(self.committed)
        self.open(now_ms)

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
        now_ms = self.store.now_ms()
        for name, queue in self.store.queues.items():
            assert queue.name == name
            assert not queue.is_empty, "an empty queue is dropped"
            check_invariants(queue, now_ms)
        every = [m for queue in self.store.queues.values() for m in queue.messages.values()]
        kept = self.store.bodies
        assert kept.count == len(every)
        assert kept.in_memory == sum(len(m.body) for m in every if m.body is not None)
        assert kept.on_disk == sum(m.body is None for m in every)
        assert kept.total_bytes == sum(len(kept.of(m)) for m in every)

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

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.drop()

    def end_operation(self) -> None:
        self.operations += 1
        if self.operations % self.operations_a_turn == 0:
            self.commit()

    # -- shared steps -------------------------------------------------------------------------

    def open(self, now_ms: int) -> None:
        """The store is open on the folder; the clock of the machine shows `now_ms`."""
        known_ms = self.model.now_ms
        self.clock = ManualClock(now_ms * 1000)
        self.store = EmbeddedStore(self.folder, clock=self.clock, **self.settings)
        if self.compacts_always:
            sizes = self.store._journal.sizes
            compactor: Any = self.store._compactor
            compactor._is_worth_it = lambda: len(sizes) > 1
        self.model.now_ms = self.store.now_ms()
        assert min(now_ms, known_ms) <= self.model.now_ms <= max(now_ms, known_ms)
        self.openings += 1
        self.waited = {(queue, group) for queue in QUEUES for group in GROUPS}

    def copied(self) -> Path:
        """A copy of the folder as it is: what the process has not written is not in it."""
        copy = Path(tempfile.mkdtemp(prefix="quinque-model-", dir=FAST))
        return shutil.copytree(self.folder, copy, dirs_exist_ok=True)

    def drop(self) -> None:
        """The store and its folder are gone."""
        self.store.close()
        shutil.rmtree(self.folder)

    def draw_ids(self, data: st.DataObject, queue: bytes, group: bytes) -> list[bytes]:
        """Ids of what the group holds, mostly."""
        held = [it.id for it in self.model.live(queue) if self.model.is_held(it, group)]
        known = [*held, *held, *CHOSEN_IDS, *self.made_ids[-3:], b"never"]
        return data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3), label="ids")

    def reconcile(self, queue: bytes, group: bytes, ids: list[bytes]) -> None:
        """A lease on a message that was flushed may be forgotten when its segment was compacted
        and the store opened anew: then the ack is answered 0, and nothing else depends on it."""
        held = self.store.queues[queue].groups[group].held if self.has_group(queue, group) else {}
        for id in ids:
            if (queue, group, id) in self.model.flushed and id not in held and self.openings > 1:
                del self.model.flushed[queue, group, id]

    def has_group(self, queue: bytes, group: bytes) -> bool:
        return queue in self.store.queues and group in self.store.queues[queue].groups


def segment_name(number: int) -> str:
    return f"{number:010d}.journal"


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


@pytest.fixture(autouse=True, scope="module")
def _compaction_pauses_often() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "STEP_BYTES", 100)
        yield


StoreAndReference.TestCase.settings = effort(examples=400, steps=60)
TestStoreAndReference = StoreAndReference.TestCase
