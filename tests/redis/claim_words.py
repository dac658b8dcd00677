"""Short words for claims on Redis: the subscription s on the worklist w, and operations that nobody
finishes.

Called by   the tests beside this file whose names begin with test_claims or test_stages.
Calls       the store they are handed.
"""

from __future__ import annotations

from typing import Any

import msgpack

from quinque.model.claim_ops import (
    ClaimView,
    FillClaim,
    LookAtClaims,
    OpenClaims,
    ReadClaim,
    SubscriptionView,
)
from quinque.model.families import JOBS
from quinque.model.ops import Op
from quinque.model.rows import Row
from quinque.stores.redis.calls import Steps
from quinque.stores.redis.runners import RUNNERS
from quinque.stores.redis.store import RedisStore

S = b"s"
MANY = 2_500  # three chunks


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def subscribe(
    store: RedisStore,
    family: Any = JOBS,
    queue: bytes = b"w",
    *,
    group: bytes = b"",
    release_ms: int = 0,
    shard: int = 0,
) -> SubscriptionView:
    view: SubscriptionView = store.run(
        OpenClaims(family, queue, S, group, 10_000, release_ms, shard)
    )
    return view


def fill(
    store: RedisStore, view: SubscriptionView, number: int, count: int = 1, queue: bytes = b"w"
) -> ClaimView:
    """The claim, sealed, with something in it."""
    claim = store.run(FillClaim(queue, S, view.epoch, number, count, seals=True))
    assert claim is not None
    return claim  # type: ignore[no-any-return]


def fill_up(
    store: RedisStore,
    view: SubscriptionView,
    number: int,
    count: int = MANY,
    queue: bytes = b"w",
) -> ClaimView:
    return fill(store, view, number, count, queue)


def read(store: RedisStore, number: int, queue: bytes = b"w", shard: int = 0) -> list[Row]:
    """All rows of the claim."""
    rows: list[Row] = []
    chunk = 0
    while packed := store.run(ReadClaim(queue, S, number, chunk, 2, shard)):
        rows += [Row(*fields) for some in packed for fields in msgpack.unpackb(some, raw=True)]
        chunk += len(packed)
    return rows


def look_at(store: RedisStore, shard: int = 0) -> SubscriptionView:
    view = store.run(LookAtClaims(b"w", S, shard))
    assert view is not None
    return view  # type: ignore[no-any-return]


def begin(store: RedisStore, op: Op) -> None:
    """The first script of the operation runs, and then whoever asked for it is gone."""
    store.finish(_first_calls(RUNNERS[type(op)](op, store._store.edge)))


def _first_calls(steps: Steps) -> Steps:
    yield next(steps)
