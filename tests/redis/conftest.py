"""Fixtures for what brokers on one Redis do together: `store` and `other` are two of them, on one
clock, which stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import redis

from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.servers import stores
from tests.servers.patience import PATIENCE_S

Open = Callable[[], RedisStore]


@pytest.fixture(params=stores.SHARED)
def url(request: pytest.FixtureRequest) -> str:
    return stores.empty_store_url(request, request.param)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_one(url: str, clock: ManualClock) -> Iterator[Open]:
    """Opens a store as one more broker does; all have the same time."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(
            closing(RedisStore(url, clock=clock, timeout_s=PATIENCE_S))
        )


@pytest.fixture
def store(open_one: Open) -> RedisStore:
    return open_one()


@pytest.fixture
def other(store: RedisStore, open_one: Open) -> RedisStore:
    return open_one()


@pytest.fixture
def foreign(url: str, request: pytest.FixtureRequest) -> redis.Redis:
    """A connection of somebody who is no broker."""
    kind = next(kind for kind in stores.SHARED if f"[{kind}" in request.node.name)
    client: redis.Redis = request.getfixturevalue(stores.SHARED[kind]).client()
    return client
