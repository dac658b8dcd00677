"""A name goes from one family to the other: the folder can be read back, whoever had it last."""

from __future__ import annotations

from pathlib import Path

from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import QUEUE_IDLE_MOST_MS
from quinque.model.ops import Flush, Put
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.picture import check_indexes, messages_of


def test_a_worklist_that_was_only_asked_for_is_forgotten_where_a_feed_was(tmp_path: Path) -> None:
    clock = ManualClock()
    store = EmbeddedStore(tmp_path, clock=clock)
    store.run(Put(EVENTS, b"q", [b"event"]))
    store.run(Flush(EVENTS, b"q"))
    store.run(Take(JOBS, [b"q"]))

    clock.advance(QUEUE_IDLE_MOST_MS)
    store.tick()
    store.close()

    store = EmbeddedStore(tmp_path, clock=clock)
    assert store.queues == {}
    check_indexes(store)
    store.close()


def test_it_makes_way_for_the_next_feed(tmp_path: Path) -> None:
    clock = ManualClock()
    store = EmbeddedStore(tmp_path, clock=clock)
    store.run(Put(EVENTS, b"q", [b"event"], ttl_ms=1))
    clock.advance(1)
    store.tick()
    store.run(Take(JOBS, [b"q"]))
    store.run(Put(EVENTS, b"q", [b"another"]))
    store.run(Add(JOBS, b"r", [b"job"], Terms(60_000)))
    store.close()

    store = EmbeddedStore(tmp_path, clock=clock)
    assert messages_of(store) == {b"q": [b"another"], b"r": [b"job"]}
    check_indexes(store)
    store.close()
