"""Many tasks on one client, of which many are cancelled: each answer belongs to its question, and
no message is left without an owner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import quinque.aio
from tests.model.effort import EFFORT
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S

LEASE_S = 3600  # a message that is lost comes back long after the test
LARGE_BYTES = 800_000  # more than a socket takes at once
MESSAGES = 400
PRODUCERS, CONSUMERS, LOOKERS = 10, 80, 10
ROUNDS = 16 + EFFORT

Take = Callable[[float | None], Awaitable[Any]]
Add = Callable[[int], Awaitable[Any]]
Finish = Callable[[Any], Awaitable[bool]]


async def use_jobs(queues: Any, name: str) -> tuple[Add, Take, Finish]:
    jobs = queues.jobs(name, retry=LEASE_S)
    return lambda number: jobs.add(b"%d" % number), jobs.take, lambda job: job.ack()


async def use_events(queues: Any, name: str) -> tuple[Add, Take, Finish]:
    events = queues.events(name)
    group = events.group("g", lease=LEASE_S)
    return lambda number: events.add(b"%d" % number), group.take, lambda event: event.ack()


async def use_tube(queues: Any, name: str) -> tuple[Add, Take, Finish]:
    tube = queues.tube(name)
    await tube.make()
    return lambda number: tube.put(b"%d" % number), tube.take, lambda task: task.ack()


async def use_items(queues: Any, name: str) -> tuple[Add, Take, Finish]:
    items = queues.items(name)
    return (
        lambda number: items.add(f"{number}", b"%d" % number),
        lambda timeout: items.lease(LEASE_S, timeout),
        lambda item: item.complete(),
    )


async def use_reliable(queues: Any, name: str) -> tuple[Add, Take, Finish]:
    elements = queues.reliable(name)
    return (
        lambda number: elements.push(b"%d" % number),
        elements.pop,
        lambda element: element.ack(),
    )


@pytest.mark.parametrize("store", ["embedded_broker", "redis_broker"])
@pytest.mark.parametrize("use", [use_jobs, use_events, use_tube, use_items, use_reliable])
def test_cancelled_tasks_of_a_busy_client_lose_nothing_and_swap_nothing(
    request: pytest.FixtureRequest,
    queue: str,
    store: str,
    use: Callable[[Any, str], Awaitable[tuple[Add, Take, Finish]]],
) -> None:
    running: RunningBroker = request.getfixturevalue(store)

    finished = asyncio.run(play(f"redis://127.0.0.1:{running.port}", queue, use))

    assert sorted(finished) == list(range(MESSAGES))


async def play(
    url: str, name: str, use: Callable[[Any, str], Awaitable[tuple[Add, Take, Finish]]]
) -> list[int]:
    """The numbers of all messages that were finished, each as often as it was."""
    chance, finished = random.Random(name), list[int]()
    numbers = iter(range(MESSAGES))
    async with quinque.aio.connect(url) as queues:
        add, take, finish = await use(queues, name)

        async def produce() -> None:
            for number in numbers:
                await add(number)

        async def consume() -> None:
            for _ in range(ROUNDS):
                message = await interrupted(take(chance.choice([0, 1, None])), chance)
                if message is not None and await finish(message):
                    finished.append(int(message.body))

        lookers = [look(queues, name, number, chance) for number in range(LOOKERS)]
        async with asyncio.TaskGroup() as group:
            for work in (
                *(produce() for _ in range(PRODUCERS)),
                *(consume() for _ in range(CONSUMERS)),
                *lookers,
            ):
                group.create_task(work)
        async with asyncio.timeout(TIMEOUT_S):
            while len(finished) < MESSAGES:
                message = await take(None)
                assert await finish(message)
                finished.append(int(message.body))
        assert await take(0) is None
    return finished


async def look(queues: Any, name: str, number: int, chance: random.Random) -> None:
    """Large and small answers in turn, each of which has to be the one that was asked for."""
    jobs, body = queues.jobs(f"{name} large {number}"), b"%d" % number * LARGE_BYTES
    id = await jobs.add(body, key="k")
    for _ in range(ROUNDS):
        peeking = asyncio.create_task(jobs.peek(1))
        finding = asyncio.create_task(jobs.find("k"))
        await interrupted(jobs.peek(1), chance)
        [found] = await peeking
        assert (found.message_id.decode(), found.body) == (id, body)
        assert await finding == id
    await jobs.purge()


async def interrupted(asking: Awaitable[Any], chance: random.Random) -> Any:
    """The answer, or None when the task was cancelled before it came."""
    task = asyncio.ensure_future(asking)
    for _ in range(chance.randrange(60)):
        await asyncio.sleep(0)
        if task.done():
            break
    task.cancel()
    await asyncio.wait([task])
    return None if task.cancelled() else task.result()
