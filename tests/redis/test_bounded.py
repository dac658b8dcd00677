"""One script does a bounded amount of work, however many messages there are: Redis does nothing
else meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import add, bodies
from tests.servers.redis_server import RedisServer

MANY = 12_000
SOON_MS = 1_000
# Of the commands in a script, those that a message needs are far more than this for many of them.
IN_SCRIPT_MOST = 300


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(redis_server: RedisServer, clock: ManualClock) -> Iterator[RedisStore]:
    redis_server.client().flushall()
    with closing(RedisStore(redis_server.url, clock=clock)) as opened:
        yield opened


def test_a_take_behind_many_expired_jobs_lets_others_in_between_and_finds_the_living_one(
    store: RedisStore, clock: ManualClock, redis_server: RedisServer
) -> None:
    for _ in range(0, MANY, 1_000):
        add(store, *[b"x"] * 1_000, ttl_ms=SOON_MS)
    add(store, b"alive")
    clock.advance(2 * SOON_MS)
    client = redis_server.client()
    client.config_resetstat()

    given = bodies(store, 1)

    assert given == [b"alive"]
    calls = {name: row["calls"] for name, row in client.info("commandstats").items()}
    scripts = calls.get("cmdstat_evalsha", 0) + calls.get("cmdstat_fcall", 0)
    assert scripts > 1
    assert sum(calls.values()) / scripts < IN_SCRIPT_MOST
