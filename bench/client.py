"""Quinque's Python client compared to redis-py: the cost of adding for the program that adds.

    add        a job is added, the reply is awaited, the next one is added
    … asyncio  the same, with the clients for programs on an event loop
    … tasks    by TASKS tasks of the loop at a time
    add_many   the same number of jobs, several in each call

redis-py, with its parser in C, pushes the same bodies on a list of a Redis that keeps nothing on
disk. The figure for adding one by one is the CPU time of this process, which waits as little as
possible: that broker syncs once a second. The figure for batches is jobs per second, with every
reply waiting for the disk, and with none.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

import redis
import redis.asyncio

import quinque
import quinque.aio
from bench.harness import (
    BODY,
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    scratch,
    start_quinque,
    start_redis,
    times,
)

JOBS, ROUNDS = 5_000, 9
MANY = (10, 100)
TASKS = 100
QUEUE = "bench"


class _Spent:
    """The time that `count` additions took."""

    def __init__(self, count: int) -> None:
        gc.collect()
        self._count = count
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()

    def end(self) -> None:
        self.cpu_us = (time.process_time() - self._began_cpu_s) / self._count * 1e6
        self.rate = self._count / (time.perf_counter() - self._began_s)


def run(quick: bool) -> Result:
    result = Result()
    jobs, rounds = (300, 1) if quick else (JOBS, ROUNDS)
    with (
        scratch() as folder,
        start_quinque(folder / "always") as always,
        start_quinque(folder / "everysec", "--fsync", "everysec") as everysec,
        start_redis(folder / "redis") as store,
    ):
        _one_by_one(result, everysec, store, jobs, rounds)
        table = Table(
            "Adding jobs in batches",
            ["", "jobs /s", "compared to one by one", "client CPU µs per job"],
        )
        # One by one, each of them takes as long as the disk does.
        _batches(table, "always", always, jobs, 10, rounds)
        gains = _batches(table, "everysec", everysec, jobs, 1, rounds)
        result.figures[f"client add, {MANY[-1]} a call"] = gains[f"{MANY[-1]} a call"]
        result.tables.append(table)
    return result


def _one_by_one(result: Result, broker: Server, store: Server, jobs: int, rounds: int) -> None:
    """Add a table and its ratios to the result."""
    table = Table(
        f"Adding {jobs:,} jobs one by one: CPU time of the client",
        ["", "Quinque µs", "redis-py LPUSH µs", "ratio", "Quinque /s", "LPUSH /s"],
    )
    for name, figure, ours, theirs in (
        ("add", "client add", _add, _push),
        ("… asyncio", "client add, asyncio", partial(_add_aio, 1), partial(_push_aio, 1)),
        (
            f"… {TASKS} tasks",
            "client add, tasks",
            partial(_add_aio, TASKS),
            partial(_push_aio, TASKS),
        ),
    ):
        found: dict[str, list[_Spent]] = {"ours": [], "theirs": []}
        measures = {
            "ours": partial(_note, found["ours"], partial(ours, broker, jobs)),
            "theirs": partial(_note, found["theirs"], partial(theirs, store, jobs)),
        }
        spent = in_turns(measures, rounds, both_ways=True)
        ratio = median_ratio(spent["ours"], spent["theirs"])
        cpu = [f"{median(cpu_us):.1f}" for cpu_us in spent.values()]
        rates = [per_second(median(it.rate for it in some)) for some in found.values()]
        table.rows.append([name, *cpu, times(ratio), *rates])
        result.figures[figure] = ratio
    result.tables.append(table)


def _batches(
    table: Table, fsync: str, broker: Server, jobs: int, share: int, rounds: int
) -> dict[str, float]:
    """Add rows: one by one, with `share` times fewer jobs, and each batch size.

    Return the gain of each compared to one by one.
    """
    adds = {"one by one": partial(_add, broker, jobs // share)}
    adds |= {f"{many} a call": partial(_add_many, broker, jobs, many) for many in MANY}
    found: dict[str, list[_Spent]] = {name: [] for name in adds}
    measures = {name: partial(_note, found[name], add) for name, add in adds.items()}
    in_turns(measures, rounds, both_ways=True)
    one_by_one = [it.rate for it in found["one by one"]]
    gains = {}
    for name, some in found.items():
        rates = [it.rate for it in some]
        gains[name] = median_ratio(rates, one_by_one)
        cpu_us = f"{median(it.cpu_us for it in some):.1f}"
        shown = f"fsync = {fsync}, {name}"
        table.rows.append([shown, per_second(median(rates)), times(gains[name]), cpu_us])
    return gains


def _note(found: list[_Spent], add: Callable[[], _Spent]) -> float:
    """Run the addition, store its result, and return its CPU time."""
    found.append(add())
    return found[-1].cpu_us


def _add(broker: Server, jobs: int) -> _Spent:
    with quinque.connect(f"redis://127.0.0.1:{broker.port}") as queues:
        queue = queues.jobs(QUEUE)
        queue.add(BODY)  # connected
        spent = _Spent(jobs)
        for _ in range(jobs):
            queue.add(BODY)
        spent.end()
        queue.purge()
    return spent


def _add_many(broker: Server, jobs: int, many: int) -> _Spent:
    with quinque.connect(f"redis://127.0.0.1:{broker.port}") as queues:
        queue = queues.jobs(QUEUE)
        queue.add(BODY)
        spent = _Spent(jobs)
        for _ in range(jobs // many):
            queue.add_many([BODY] * many)
        spent.end()
        queue.purge()
    return spent


def _push(store: Server, jobs: int) -> _Spent:
    with redis.Redis(port=store.port) as db:
        db.flushall()
        spent = _Spent(jobs)
        for _ in range(jobs):
            db.lpush(QUEUE, BODY)
        spent.end()
    return spent


def _add_aio(tasks: int, broker: Server, jobs: int) -> _Spent:
    async def add() -> _Spent:
        async with quinque.aio.connect(f"redis://127.0.0.1:{broker.port}") as queues:
            queue = queues.jobs(QUEUE)
            await queue.add(BODY)
            spent = await _shared(tasks, jobs, lambda: queue.add(BODY))
            await queue.purge()
        return spent

    return asyncio.run(add())


def _push_aio(tasks: int, store: Server, jobs: int) -> _Spent:
    async def push() -> _Spent:
        async with redis.asyncio.Redis(port=store.port) as db:
            await db.flushall()
            return await _shared(tasks, jobs, lambda: db.lpush(QUEUE, BODY))

    return asyncio.run(push())


async def _shared(tasks: int, jobs: int, add: Callable[[], Awaitable[object]]) -> _Spent:
    """Add `jobs` jobs with `tasks` tasks at a time."""

    async def share() -> None:
        for _ in range(jobs // tasks):
            await add()

    spent = _Spent(jobs // tasks * tasks)
    if tasks == 1:
        await share()
    else:
        await asyncio.gather(*(share() for _ in range(tasks)))
    spent.end()
    return spent
