"""Random operations on an embedded store and on brokers on a Redis: both answer the same.

Every answer, every error with its text, and again and again all that can be seen of all queues is
compared, and who is told that there is something. Brokers are replaced by new ones; two of them
take turns as if they were one. Names of queues go from one family to the other, and two lie in the
same slot of a cluster.
"""

from __future__ import annotations

from random import SystemRandom

import pytest

from quinque.stores.redis.keys import slot_of
from tests.model.effort import EFFORT
from tests.model.pair import Pair
from tests.model.walk import SAME_SLOT, check_walk
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.servers.stores import SHARED

WALKS = {"redis": 5, "cluster": 2}  # of each kind in a build
STEPS = 150


def test_the_slot_of_one_queue_is_that_of_another() -> None:
    assert slot_of(SAME_SLOT) == slot_of(b"v")


@pytest.mark.parametrize("families", ["feeds", "lists", "both"])
@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("kind", SHARED)
def test_the_redis_store_answers_what_the_embedded_store_answers(
    request: pytest.FixtureRequest, kind: str, brokers: int, families: str
) -> None:
    server: RedisServer | RedisCluster = request.getfixturevalue(SHARED[kind])
    first = SystemRandom().getrandbits(32) if EFFORT else 1
    for seed in range(first, first + WALKS[kind] * max(1, EFFORT)):
        check_walk(lambda: Pair([server.url] * brokers, server), seed, families, STEPS)
