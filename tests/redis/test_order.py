"""Operations of one turn after the other, of which Redis has answered none yet: their order."""

from __future__ import annotations

import asyncio

import pytest

from quinque.model.families import EVENTS
from quinque.model.ops import Delivery, Put, Reserve
from quinque.stores.pending import Pending
from quinque.stores.redis.served import ServedRedisStore
from tests.servers import stores


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


async def _answer(pending: Pending) -> list[Delivery]:
    future: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future
