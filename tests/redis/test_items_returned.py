"""The broker cleans queues of items by itself: what workers abandoned comes back."""

from __future__ import annotations

from quinque.model.families import ITEMS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.limits import ITEMS_CLEAN_MS
from quinque.model.work_ops import Purge
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.item_words import ITEMS_QUEUE, MINUTE_MS, add, lease, lengths
from tests.conformance.record_words import seen
from tests.redis.worker_words import NEW, Foreign, finish, hold, pull, push, ticks

PATIENCE_MS = 1_000  # as items_clean.lua has it


def test_a_worker_s_lease_that_ended_is_found(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    push(foreign, b"1", b"2")
    pull(foreign)
    lengths(store)
    store.ready.clear()

    clock.advance(ITEMS_CLEAN_MS)
    ticks(store)
    assert lengths(store) == (1, 1)
    foreign.delete(ITEMS_QUEUE + NEW + b"1")  # as Redis does by its clock
    clock.advance(MINUTE_MS)
    ticks(store)

    assert lengths(store) == (2, 0)
    assert store.ready == {ITEMS_QUEUE}
    assert lease(store, 9) == [b"2", b"1"]


def test_a_worker_that_is_about_to_lease_an_item_has_a_moment_for_it(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    push(foreign, b"well", b"dead")
    lengths(store)
    pull(foreign, None)
    pull(foreign, None)

    clock.advance(ITEMS_CLEAN_MS)
    ticks(store)
    assert lengths(store) == (0, 2)
    hold(foreign, b"well")
    clock.advance(PATIENCE_MS)
    ticks(store)

    assert lengths(store) == (1, 1)
    assert lease(store) == [b"dead"]


def test_only_one_broker_has_the_turn_to_clean(
    store: RedisStore, other: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    push(foreign, *(b"%d" % number for number in range(1_200)))
    while pull(foreign, None):
        pass
    assert lengths(store) == lengths(other) == (0, 1_200)

    clock.advance(ITEMS_CLEAN_MS)
    ticks(store)
    ticks(other)
    clock.advance(PATIENCE_MS)
    ticks(other)
    ticks(store)

    assert lengths(store) == (1_200, 0)
    assert sorted(lease(store, 2_000)) == sorted(b"%d" % number for number in range(1_200))


def test_what_brokers_did_is_on_record_and_what_workers_did_is_not(
    store: RedisStore, foreign: Foreign, clock: ManualClock
) -> None:
    push(foreign, b"foreign")
    add(store, b"1")
    pull(foreign)
    lease(store, lease_ms=1_000)
    finish(foreign, b"foreign")
    clock.advance(1_000)
    ticks(store)
    lease(store)
    store.run(Purge(ITEMS, ITEMS_QUEUE))

    assert [(row.kind, row.reason, row.id) for row in seen(store, ITEMS_QUEUE)] == [
        (Kind.ADDED, Reason.NONE, b"1"),
        (Kind.DELIVERED, Reason.NONE, b"1"),
        (Kind.RETURNED, Reason.LAPSED, b"1"),
        (Kind.DELIVERED, Reason.NONE, b"1"),
        (Kind.REMOVED, Reason.PURGED, b"1"),
    ]
