"""Random operations on claims, beside all others, on an embedded store and on brokers on a Redis:
both answer the same, and have the same on record."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.model.claim_walk import ClaimWalk
from tests.model.effort import EFFORT
from tests.model.pair import Pair
from tests.model.walk import check_walk
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.servers.stores import SHARED

WALKS = {"redis": 5, "cluster": 2}  # of each kind in a build
STEPS = 150


@pytest.mark.parametrize("families", ["feeds", "lists", "both"])
@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("kind", SHARED)
def test_claims_on_redis_are_those_of_the_embedded_store(
    request: pytest.FixtureRequest, kind: str, brokers: int, families: str
) -> None:
    server: RedisServer | RedisCluster = request.getfixturevalue(SHARED[kind])
    first = SystemRandom().getrandbits(32) if EFFORT else 1
    for seed in range(first, first + WALKS[kind] * max(1, EFFORT)):
        check_walk(lambda: Pair([server.url] * brokers, server), seed, families, STEPS, ClaimWalk)
