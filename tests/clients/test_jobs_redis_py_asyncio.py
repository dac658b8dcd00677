"""redis-py's asyncio client and the jobs family: workers wait, and a producer waits for them."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from tests.server.broker import RunningBroker


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_job_goes_round(broker: RunningBroker, queue: str, protocol: int) -> None:
    async def go_round() -> None:
        async with Redis(port=broker.port, protocol=protocol) as client:
            id = await client.execute_command("ADDJOB", queue, b"\x00\xff", 0)

            jobs = await client.execute_command("GETJOB", "WITHCOUNTERS", "FROM", queue)
            shown = await client.execute_command("SHOW", id)

            counters = [b"nacks", 0, b"additional-deliveries", 0]
            assert jobs == [[queue.encode(), id, b"\x00\xff", *counters]]
            assert shown[4:6] == [b"state", b"active"]
            assert await client.execute_command("ACKJOB", id) == 1
            assert await client.execute_command("SHOW", id) is None
            assert await client.execute_command("GETJOB", "NOHANG", "FROM", queue) is None

    asyncio.run(go_round())


@pytest.mark.parametrize("protocol", [2, 3])
def test_workers_wait_and_the_producer_waits_for_them(
    broker: RunningBroker, queue: str, protocol: int
) -> None:
    async def work(client: Redis, done: list[bytes]) -> None:
        body = b""
        while body != b"stop":
            ((_, id, body),) = await client.execute_command("GETJOB", "FROM", queue)
            done.append(body)
            await client.execute_command("ACKJOB", id)

    async def produce() -> None:
        done: list[bytes] = []
        async with Redis(port=broker.port, protocol=protocol) as client:
            workers = [asyncio.create_task(work(client, done)) for _ in range(8)]
            ids = await asyncio.gather(
                *(client.execute_command("ADDJOB", queue, number, 0) for number in range(50))
            )

            assert await client.execute_command("WAITJOB", 60_000, *ids) == 50

            for _ in workers:
                await client.execute_command("ADDJOB", queue, "stop", 0)
            await asyncio.gather(*workers)
        assert sorted(done[:50], key=int) == [b"%d" % number for number in range(50)]

    asyncio.run(produce())


def test_a_pipeline_gives_every_reply_in_order(broker: RunningBroker, queue: str) -> None:
    async def send_many() -> None:
        async with (
            Redis(port=broker.port, decode_responses=True) as client,
            client.pipeline(transaction=False) as pipeline,
        ):
            for number in range(200):
                pipeline.execute_command("ADDJOB", queue, number, 0)
                pipeline.execute_command("GETJOB", "FROM", queue)

            replies = await pipeline.execute()

            assert replies[1::2] == [[[queue, id, str(n)]] for n, id in enumerate(replies[::2])]

    asyncio.run(send_many())
