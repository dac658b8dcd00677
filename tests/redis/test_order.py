"""Operations of one turn after the other, of which Redis has answered none yet: their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quinque.errors import NotDone, StoreUnavailable
from quinque.model.families import EVENTS
from quinque.model.ops import Peek, Put, Reserve
from quinque.stores.pending import Pending
from quinque.stores.redis.served import ServedRedisStore
from tests.servers import stores
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_server import RedisServer


@pytest.mark.parametrize("kind", stores.SHARED)
def test_what_redis_has_no_script_of_is_not_overtaken(
    request: pytest.FixtureRequest, kind: str
) -> None:
    url = stores.empty_store_url(request, kind)
    server = request.getfixturevalue(stores.SHARED[kind])
    bodies = [b"%d" % number for number in range(200)]

    async def work() -> list[bytes]:
        store = await ServedRedisStore.open(url, is_alone=True)
        for number, body in enumerate(bodies):
            if number % 100 == 0:  # at first none was sent, and then they are forgotten
                for node in getattr(server, "nodes", [server]):
                    node.ask("SCRIPT", "FLUSH", "SYNC")
            store.run(Put(EVENTS, b"q", [body]))
            await asyncio.sleep(0)  # it is sent, or waits to be sent with others
        taken = await _answer(store.run(Reserve(EVENTS, b"q", b"g", 60_000, len(bodies))))
        await store.aclose()
        return [it.body for it in taken]

    assert asyncio.run(work()) == bodies


def test_what_was_started_while_the_server_was_away_is_not_overtaken() -> None:
    async def work(server: RedisServer) -> list[bytes]:
        store = await ServedRedisStore.open(server.url, timeout_s=PATIENCE_S, is_alone=True)
        hasty = await ServedRedisStore.open(server.url, timeout_s=0.1, is_alone=True)
        server.kill()
        await _refused(hasty)
        added = []
        for number in range(8):
            added.append(asyncio.ensure_future(_answer(store.run(_put(number)))))
            await _refused(hasty)  # those before are tried again meanwhile, more and more rarely
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*added)
        taken = await _answer(store.run(Reserve(EVENTS, b"q", b"g", 60_000, len(added))))
        await hasty.aclose()
        await store.aclose()
        return [it.body for it in taken]

    with RedisServer() as server:
        assert asyncio.run(work(server)) == [b"%d" % number for number in range(8)]


async def _refused(store: ServedRedisStore) -> None:
    with pytest.raises((NotDone, StoreUnavailable)):
        await _answer(store.run(Peek(EVENTS, b"q", b"g")))


def _put(number: int) -> Put:
    return Put(EVENTS, b"q", [b"%d" % number])


async def _answer(pending: Pending) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future
