"""What is on record of tasks is the same in every store."""

from __future__ import annotations

from quinque.model.lifecycle import Kind, Reason
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.record_words import Seen, seen
from tests.conformance.tube_words import (
    BEN,
    TUBE,
    ack,
    begin,
    bury,
    delete,
    kick_these,
    leave,
    put,
    release,
    return_all,
    take,
    touch,
    truncate,
)
from tests.conformance.words import tick

NONE = Reason.NONE


def test_what_becomes_of_tasks_is_on_record(store: Store, clock: ManualClock) -> None:
    begin(store, b"fifottl")
    put(store, b"one", b"three", ttr_ms=500)
    put(store, b"", delay_ms=100, ttl_ms=1_000)
    take(store, 2)
    touch(store, b"0", by_ms=1)
    ack(store, b"0")
    release(store, b"1")
    take(store)
    release(store, b"1", delay_ms=50)
    clock.advance(100)
    tick(store)
    take(store, 1, BEN)
    leave(store, BEN)
    take(store)
    return_all(store)
    bury(store, b"1")
    kick_these(store, b"1", b"0")
    take(store)
    clock.advance(500)
    tick(store)
    delete(store, b"1")
    clock.advance(1_000)
    tick(store)
    put(store, b"x")
    truncate(store)

    first, second, third = b"0", b"1", b"2"
    assert seen(store, TUBE) == [
        Seen(Kind.ADDED, NONE, first, size=3),
        Seen(Kind.ADDED, NONE, second, size=5),
        Seen(Kind.ADDED, NONE, third, size=0),
        Seen(Kind.DELAYED, NONE, third),
        Seen(Kind.DELIVERED, NONE, first),
        Seen(Kind.DELIVERED, NONE, second),
        Seen(Kind.ACKED, NONE, first),
        Seen(Kind.RETURNED, Reason.NACKED, second),
        Seen(Kind.DELIVERED, NONE, second),
        Seen(Kind.DELAYED, Reason.NACKED, second),
        Seen(Kind.RETURNED, Reason.DELAY_OVER, second),
        Seen(Kind.RETURNED, Reason.DELAY_OVER, third),
        Seen(Kind.DELIVERED, NONE, second),
        Seen(Kind.RETURNED, Reason.SESSION_OVER, second),
        Seen(Kind.DELIVERED, NONE, second),
        Seen(Kind.RETURNED, Reason.SESSION_OVER, second),
        Seen(Kind.DEAD, Reason.ASKED, second),
        Seen(Kind.RETURNED, Reason.REDRIVEN, second),
        Seen(Kind.DELIVERED, NONE, second),
        Seen(Kind.RETURNED, Reason.LAPSED, second),
        Seen(Kind.REMOVED, Reason.DELETED, second),
        Seen(Kind.EXPIRED, NONE, third),
        Seen(Kind.ADDED, NONE, b"3", size=1),
        Seen(Kind.REMOVED, Reason.PURGED, b"3"),
    ]
