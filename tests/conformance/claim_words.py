"""Short words for the operations on claims: the subscription s, on the worklist w or the feed q.

Called by   the tests beside this file whose names begin with test_claims.
Calls       the store they are handed.

A Driver is whoever opened a subscription, with the epoch it got.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgpack

from quinque.model.claim_ops import (
    ClaimView,
    DropClaims,
    FillClaim,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.rows import Row
from quinque.stores.base import Store
from quinque.stores.pending import Pending

T = TypeVar("T")

LEASE_MS = 60_000
GROUP = b"g"


class Driver:
    def __init__(self, store: Store, view: SubscriptionView) -> None:
        self.store = store
        self.view = view
        self.epoch = view.epoch
        self.queue = view.queue
        self.name = view.subscription

    def fill(self, number: int, count: int = 1_000, **options: Any) -> ClaimView | None:
        """As FillClaim says, once."""
        op = FillClaim(self.queue, self.name, self.epoch, number, count, **options)
        return self.store.run(op)

    def claim(self, number: int, count: int = 1_000, **options: Any) -> list[bytes]:
        """Fill and seal the claim; the bodies in it."""
        view = self.fill(number, count, seals=True, **options)
        return bodies(self.rows(number)) if view is not None else []

    def rows(self, number: int) -> list[Row]:
        return read_rows(self.store, number, queue=self.queue, name=self.name)

    def play(self, number: int, keep: int = 0) -> ClaimView:
        op = PlayClaim(self.queue, self.name, self.epoch, number, keep)
        return whole(self.store, self.store.run(op))

    def mark(self, number: int, outcome: Outcome, *ids: bytes, **options: Any) -> int:
        """As MarkClaim says; with `epoch`, for that one alone."""
        return self.store.run(MarkClaim(self.queue, self.name, number, outcome, ids, **options))

    def settle(self, number: int) -> int:
        op = SettleClaims(self.queue, self.name, self.epoch, number)
        return whole(self.store, self.store.run(op))

    def purge(self, number: int) -> int:
        return self.store.run(PurgeClaims(self.queue, self.name, number))

    def release(self, number: int) -> int:
        op = ReleaseClaims(self.queue, self.name, self.epoch, number)
        return whole(self.store, self.store.run(op))

    def renew(self) -> int:
        return self.store.run(RenewClaims(self.queue, self.name, self.epoch))

    def drop(self) -> int | None:
        return whole(self.store, self.store.run(DropClaims(self.queue, self.name)))

    def look(self) -> SubscriptionView:
        """The subscription, which is there."""
        view = self.store.run(LookAtClaims(self.queue, self.name))
        assert view is not None
        return view


def subscribe(
    store: Store,
    queue: bytes = b"w",
    name: bytes = b"s",
    lease_ms: int = LEASE_MS,
    release_ms: int = 0,
    family: Family = JOBS,
) -> Driver:
    """Open a subscription on a worklist."""
    op = OpenClaims(family, queue, name, b"", lease_ms, release_ms)
    return Driver(store, store.run(op))


def subscribe_group(
    store: Store,
    queue: bytes = b"q",
    name: bytes = b"s",
    group: bytes = GROUP,
    lease_ms: int = LEASE_MS,
    release_ms: int = 0,
) -> Driver:
    """Open a subscription of a group on a feed."""
    op = OpenClaims(EVENTS, queue, name, group, lease_ms, release_ms)
    return Driver(store, store.run(op))


def whole(store: Store, result: T) -> T:
    """The result, when the ticks have done all that it is about."""
    while isinstance(result, Pending):
        if result.is_settled:
            value: T = result.value()
            return value
        assert store.next_due_ms() <= store.now_ms(), "somebody waits for it"
        store.tick()
        store.commit()
    return result


def read_rows(store: Store, number: int, *, queue: bytes = b"w", name: bytes = b"s") -> list[Row]:
    """All rows of the claim, chunk by chunk."""
    rows: list[Row] = []
    chunk = 0
    while packed := store.run(ReadClaim(queue, name, number, chunk, 2)):
        for each in packed:
            rows += [Row._make(row) for row in msgpack.unpackb(each, raw=True)]
        chunk += len(packed)
    return rows


def bodies(rows: list[Row]) -> list[bytes]:
    return [row.body for row in rows]


def ids(rows: list[Row]) -> list[bytes]:
    return [row.id for row in rows]
