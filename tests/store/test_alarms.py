"""Alarms: when a store wants its next tick, whatever queues came and went."""

from __future__ import annotations

from pathlib import Path

from quinque.model.families import EVENTS
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Ack, Put, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore

HOUR_MS = 3_600_000


def test_alarms_of_queues_that_came_and_went_do_not_pile_up(folder: Path) -> None:
    """A queue is dropped when its last message goes, and made anew with the next one."""
    clock = ManualClock()
    store = EmbeddedStore(folder, clock=clock, fsync="no")
    store.run(Put(EVENTS, b"stays", [b"1"], ttl_ms=2 * HOUR_MS))

    for number in range(5_000):
        clock.advance(1)
        store.run(Put(EVENTS, b"q", [b"x"], message_id=b"%d" % number, is_single=True))
        store.run(Reserve(EVENTS, b"q", b"g", HOUR_MS))
        store.run(Ack(EVENTS, b"q", b"g", [b"%d" % number]))
    store.commit()

    assert len(store.alarms) < 2_000
    clock.advance(2 * HOUR_MS)
    store.tick()
    assert store.info()["messages"] == 0, "those that came to nothing took no turn"
    store.commit()
    assert store.next_due_ms() == NEVER_MS
    store.close()


def test_a_queue_that_came_back_has_its_own_alarm(folder: Path) -> None:
    clock = ManualClock()
    store = EmbeddedStore(folder, clock=clock)
    store.run(Put(EVENTS, b"q", [b"1"], ttl_ms=10))
    clock.advance(10)
    store.tick()
    assert store.queues == {}

    store.run(Put(EVENTS, b"q", [b"2"], ttl_ms=20))
    store.commit()

    assert store.next_due_ms() == store.now_ms() + 20
    store.close()


def test_an_earlier_lease_brings_the_alarm_forward(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"1", b"2"], ttl_ms=HOUR_MS))
    store.run(Reserve(EVENTS, b"q", b"g", 1_000))
    store.run(Reserve(EVENTS, b"q", b"h", 10))
    store.commit()

    assert store.next_due_ms() == store.now_ms() + 10
    store.close()


def test_alarms_are_set_again_when_the_store_is_opened(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"1"]))
    store.run(Reserve(EVENTS, b"q", b"g", 1_000))
    store.close()

    store = EmbeddedStore(folder, clock=ManualClock())

    assert store.next_due_ms() == store.now_ms() + 1_000
    store.close()
