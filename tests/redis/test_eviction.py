"""A Redis that deletes keys to make room is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import NotDone, StoreUnavailable
from quinque.model.families import EVENTS
from quinque.model.ops import Put
from quinque.stores.redis.keys import ALL_SLOTS, slot_of, slot_of_key
from quinque.stores.redis.store import RedisStore
from tests.server.broker import BrokerDidNotStart, start_broker
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(None, "--maxmemory-policy", "allkeys-lru") as running:
        yield running


def test_a_broker_does_not_start_and_says_what_to_do(server: RedisServer, tmp_path: Path) -> None:
    with pytest.raises(BrokerDidNotStart, match="CONFIG SET maxmemory-policy noeviction"):
        start_broker(tmp_path, "--store", server.url, "--store-timeout", "2")


def test_a_setting_accepts_it(server: RedisServer, tmp_path: Path) -> None:
    flags = ("--store", server.url, "--store-may-evict")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        assert client.call("PING") == b"PONG"


def test_a_broker_that_reconnects_looks_again(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    store = RedisStore(server.url, timeout_s=2.0)
    server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    with pytest.raises(StoreUnavailable):  # the connection is lost
        store.run(Put(EVENTS, b"q", [b"1"]))
    with pytest.raises(NotDone, match="volatile-ttl"):
        store.run(Put(EVENTS, b"q", [b"1"]))
    store.close()


def test_a_cluster_is_refused_if_one_of_its_servers_may_evict(
    redis_cluster: RedisCluster, tmp_path: Path
) -> None:
    # Not the one that knows which slots are in use.
    home = redis_cluster.primary_of(slot_of_key(ALL_SLOTS))
    queues = (b"q%d" % number for number in range(1_000))
    queue = next(it for it in queues if redis_cluster.primary_of(slot_of(it)) is not home)
    with closing(RedisStore(redis_cluster.url)) as store:
        store.run(Put(EVENTS, queue, [b"1"]))
    node = redis_cluster.primary_of(slot_of(queue))
    node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    try:
        with pytest.raises(BrokerDidNotStart, match="allkeys-lfu"):
            start_broker(tmp_path, "--store", redis_cluster.url, "--store-timeout", "2")
    finally:
        node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
