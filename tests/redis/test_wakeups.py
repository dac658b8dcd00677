"""Where a broker listens for what others did, when the servers of a cluster change."""

from __future__ import annotations

import asyncio

from quinque.stores.redis.keys import SLOTS
from quinque.stores.redis.routes import Routes
from quinque.stores.redis.urls import parse_store_url
from quinque.stores.redis.wakeups import BEGUN, ENDED, READY, SPREAD, Wakeups
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer


def test_a_broker_does_not_go_on_listening_at_a_server_that_left_the_cluster() -> None:
    async def work(cluster: RedisCluster) -> bytes:
        loop = asyncio.get_running_loop()
        routes = Routes(parse_store_url(cluster.url), loop, timeout_s=1)
        await routes.open()
        subscribed = asyncio.Queue[None]()
        heard = asyncio.Queue[bytes]()
        wakeups = Wakeups(
            routes,
            loop,
            timeout_s=1,
            got=lambda name, slot: None,
            ended=heard.put_nowait,
            begun=lambda slot: None,
            spread=lambda: None,
            missed=lambda: subscribed.put_nowait(None),
        )
        await _channels(subscribed)
        leaving, staying = cluster.nodes
        if leaving.port != routes.addresses[0].port:
            leaving, staying = staying, leaving
        await asyncio.to_thread(_leave, leaving, staying)
        routes.look_again()
        await _channels(subscribed)
        staying.ask("PUBLISH", ENDED, "id")
        try:
            return await heard.get()
        finally:
            await wakeups.close()
            await routes.close()

    with RedisCluster(primaries=2, replicas=0) as cluster:
        assert asyncio.run(asyncio.wait_for(work(cluster), PATIENCE_S)) == b"id"


async def _channels(subscribed: asyncio.Queue[None]) -> None:
    """All channels are subscribed to."""
    for _ in (READY, ENDED, BEGUN, SPREAD):
        await subscribed.get()


def _leave(leaving: RedisServer, staying: RedisServer) -> None:
    """As after redis-cli --cluster del-node: the server runs on, alone."""
    with staying.client() as client, client.pipeline(transaction=False) as asked:
        for slot in range(SLOTS):
            asked.execute_command("CLUSTER SETSLOT", slot, "NODE", _id_of(staying))
        asked.execute()
    staying.ask("CLUSTER", "FORGET", _id_of(leaving))
    leaving.ask("CLUSTER", "RESET", "SOFT")


def _id_of(node: RedisServer) -> str:
    id: bytes = node.ask("CLUSTER", "MYID")
    return id.decode()
