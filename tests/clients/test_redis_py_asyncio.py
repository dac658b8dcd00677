"""redis-py's asyncio client: the same broker, many readers that wait."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from tests.server.broker import RunningBroker


@pytest.mark.parametrize("protocol", [2, 3])
def test_an_event_goes_round(broker: RunningBroker, queue: str, protocol: int) -> None:
    async def go_round() -> None:
        async with Redis(port=broker.port, protocol=protocol) as client:
            event_id = await client.execute_command("QADD", queue, 60, b"\x00\xff")

            assert await client.execute_command("QGET", queue, "g") == [event_id, b"\x00\xff"]
            assert await client.execute_command("QACK", queue, "g", event_id) == 1

    asyncio.run(go_round())


def test_a_pipeline_gives_every_reply_in_order(broker: RunningBroker, queue: str) -> None:
    async def send_many() -> None:
        async with (
            Redis(port=broker.port) as client,
            client.pipeline(transaction=False) as pipeline,
        ):
            for number in range(500):
                pipeline.execute_command("ECHO", number)

            assert await pipeline.execute() == [b"%d" % number for number in range(500)]

    asyncio.run(send_many())


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_transaction_gives_every_reply_in_order(
    broker: RunningBroker, queue: str, protocol: int
) -> None:
    async def send_many() -> None:
        async with (
            Redis(port=broker.port, protocol=protocol) as client,
            client.pipeline(transaction=True) as pipeline,
        ):
            for number in range(500):
                pipeline.execute_command("RQ.PUSH", queue, number)
            pipeline.execute_command("RQ.POP", "COUNT", 500, "BLOCK", -1, queue)

            *pushed, popped = await pipeline.execute()

            ids = [id for [id] in pushed]
            assert popped == [[queue.encode(), id, b"%d" % n] for n, id in enumerate(ids)]

    asyncio.run(send_many())


def test_many_readers_wait_and_are_woken(broker: RunningBroker, queue: str) -> None:
    names = [f"{queue}{number}" for number in range(20)]

    async def wait_and_wake() -> None:
        async with Redis(port=broker.port) as client:
            readers = [
                asyncio.ensure_future(client.execute_command("QNOTIFY", "g", 60, name))
                for name in names
            ]
            while (await client.info("clients"))["blocked_clients"] < len(names):
                pass

            for name in reversed(names):
                await client.execute_command("QADD", name, 60, "x")

            assert await asyncio.gather(*readers) == [name.encode() for name in names]

    asyncio.run(wait_and_wake())


def test_a_reader_that_is_cancelled_is_gone(broker: RunningBroker, queue: str) -> None:
    async def wait_and_cancel() -> None:
        async with Redis(port=broker.port) as client:
            reader = asyncio.ensure_future(client.execute_command("QNOTIFY", "g", 60, queue))
            while not (await client.info("clients"))["blocked_clients"]:
                pass

            reader.cancel()

            while (await client.info("clients"))["blocked_clients"]:
                pass

    asyncio.run(wait_and_cancel())
