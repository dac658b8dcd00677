"""How much Redis does for one task does not depend on how many others there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.tube_words import ALL, ANN, BEN, ack, begin, put, put_one, release, take
from tests.servers.redis_server import RedisServer

FEW, MANY = 10, 5_000
TOGETHER = 500


@pytest.mark.parametrize("kind", [b"utube", b"utubettl"])
def test_a_long_busy_lane_costs_nothing(redis_server: RedisServer, kind: bytes) -> None:
    redis_server.flush()
    store = RedisStore(redis_server.url, clock=ManualClock())
    for queue, count in ((b"first", FEW), (b"few", FEW), (b"many", MANY)):
        begin(store, kind, queue)
        for _ in range(0, count, TOGETHER):
            put(store, *[b""] * min(TOGETHER, count), queue=queue, lane=b"busy")
        take(store, queue=queue)
        put_one(store, queue=queue, lane=b"free")

    commands(redis_server, store, b"first")  # Redis has heard all scripts
    few, many = commands(redis_server, store, b"few"), commands(redis_server, store, b"many")
    store.close()

    assert few == many


def commands(server: RedisServer, store: RedisStore, queue: bytes) -> list[int]:
    """How many commands it takes to take the one that is free and to give it back, to look in vain,
    to free the lane and to take its next task, and to put one more into it."""
    given: list[bytes] = []
    acts: list[Callable[[], object]] = [
        lambda: given.extend(take(store, 1, BEN, queue=queue)),
        lambda: take(store, ALL, BEN, queue=queue),
        lambda: release(store, *given, session=BEN, queue=queue),
        lambda: take(store, ALL, BEN, queue=queue, lane=b"busy"),
        lambda: ack(store, b"0", session=ANN, queue=queue),
        lambda: take(store, 1, queue=queue, lane=b"busy"),
        lambda: put(store, b"x", queue=queue, lane=b"busy"),
    ]
    return [calls_of(server, act) for act in acts]


def calls_of(server: RedisServer, act: Callable[[], object]) -> int:
    """How many commands Redis carries out for it, those of scripts too."""
    with server.client() as client:
        client.config_resetstat()
        act()
        stats = client.info("commandstats")
    rows = {name: row["calls"] for name, row in stats.items()}
    return sum(calls for name, calls in rows.items() if name not in OUR_OWN)


OUR_OWN = ("cmdstat_config|resetstat", "cmdstat_config", "cmdstat_info", "cmdstat_client|setinfo")
