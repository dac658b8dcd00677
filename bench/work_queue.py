"""The work-queue library compared to the published package, on one Redis and in one run.

    a worker   one process leases an item and completes it, over and over; items are added
    cleaning   a deep cleaning of a million items, in three states:
               waiting   all of them wait
               held      all of them are leased
               mixed     of a hundred, 90 wait, 9 are leased, and 1 was abandoned

The deep cleaning is compared to that of generation 0.3, which is in no Python registry, as its
documentation describes it: KEYS, the whole queue as a list, a search in that list for each item,
and its lease if it is not found. For a million items this takes hours. So its beginning is measured
as a whole, the rest on some of the items, and the time for all of them is calculated. "with a set"
is the same with a set instead of that list.

The figure of a cleaning is the CPU time of the client and of Redis together, which take turns:
other programs change it least.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import redis
import redis_work_queue

from bench.harness import (
    BODY,
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    scratch,
    start_redis,
    times,
)
from quinque.workqueue import Item, KeyPrefix, WorkQueue

CYCLES, ROUNDS = 3_000, 7
ITEMS, CLEANED = 1_000_000, 2
SAMPLE, SAMPLE_S = 2_000, 2.0  # items that theirs looks at, and how long at most
FILLED_AT_ONCE = 10_000
LEASE_S = 3_600
STATES = {"waiting": (100, 0), "held": (0, 100), "mixed": (90, 9)}  # of a hundred: wait, are held


@dataclass
class Cleaned:
    """The time of a cleaning, and of each of its calls."""

    cpu_s: float
    calls_ms: list[float]


def run(quick: bool) -> Result:
    warnings.filterwarnings("ignore", message="Call to deprecated")  # the published package
    result = Result()
    with (
        scratch() as folder,
        start_redis(folder / "redis") as server,
        redis.Redis(port=server.port, socket_timeout=600) as db,
    ):
        _measure_worker(result, server, db, quick)
        size, rounds = (3_000, 1) if quick else (ITEMS, CLEANED)
        _measure_cleaning(result, server, db, size, rounds)
    return result


# -- a worker --------------------------------------------------------------------------------------


def _measure_worker(result: Result, server: Server, db: Any, quick: bool) -> None:
    cycles, rounds = (100, 1) if quick else (CYCLES, ROUNDS)
    cpu: dict[str, list[float]] = {"ours": [], "theirs": []}
    kinds = {
        "ours": (WorkQueue(KeyPrefix("ours")), Item),
        "theirs": (
            redis_work_queue.WorkQueue(redis_work_queue.KeyPrefix("theirs")),
            redis_work_queue.Item,
        ),
    }

    def adds(name: str) -> float:
        db.flushall()
        queue, make = kinds[name]
        add = queue.add_unique_item if name == "ours" else queue.add_item
        items = [make(BODY) for _ in range(cycles)]
        began_s = time.perf_counter()
        for item in items:
            add(db, item)
        return cycles / (time.perf_counter() - began_s)

    def works(name: str) -> float:
        adds(name)
        queue = kinds[name][0]
        began_s = time.perf_counter()
        began_cpu_s = time.process_time() + server.cpu_s()
        for _ in range(cycles):
            if not queue.complete(db, queue.lease(db, LEASE_S)):
                raise RuntimeError("an item could not be completed: it does not exist")
        took_s = time.perf_counter() - began_s
        cpu[name].append((time.process_time() + server.cpu_s() - began_cpu_s) / cycles)
        return cycles / took_s

    table = Table(
        "One worker, and one Redis",
        ["", "Quinque", "published", "ratio", "CPU Quinque", "CPU published"],
    )
    for what, measure in (("lease and complete", works), ("add", adds)):
        found = in_turns({name: _bound(measure, name) for name in kinds}, rounds, both_ways=True)
        ratio = median_ratio(found["ours"], found["theirs"])
        rates = [per_second(statistics.median(found[name])) + " /s" for name in kinds]
        spent = [f"{statistics.median(cpu[name]) * 1e6:.0f} µs" for name in kinds]
        table.rows.append([what, *rates, times(ratio), *(spent if measure is works else "––")])
        result.figures[f"items {what}"] = ratio
    result.tables.append(table)


def _bound(measure: Callable[[str], float], name: str) -> Callable[[], float]:
    return lambda: measure(name)


# -- cleaning --------------------------------------------------------------------------------------


class Timed(redis.Redis):
    """A client that stores the time of each of its calls, in ms."""

    def __init__(self, port: int) -> None:
        super().__init__(port=port, socket_timeout=600)
        self.calls_ms: list[float] = []

    def execute_command(self, *words: Any, **options: Any) -> Any:
        execute: Any = super().execute_command
        began_s = time.perf_counter()
        answer = execute(*words, **options)
        self.calls_ms.append((time.perf_counter() - began_s) * 1_000)
        return answer


def _measure_cleaning(result: Result, server: Server, db: Any, count: int, rounds: int) -> None:
    table = Table(
        f"Deep cleaning of {count:,} items: CPU time of client and Redis, and the longest call",
        ["", "Quinque", "0.3", "ratio", "0.3 with a set", "longest call", "longest call of 0.3"],
    )
    ratios, calls_ms = [], []
    for state, shares in STATES.items():
        found: dict[str, list[Cleaned]] = {"ours": [], "list": [], "set": []}
        for _ in range(rounds):
            _fill(db, count, *shares)
            found["list"].append(_clean_as_described(server, count, list))
            found["set"].append(_clean_as_described(server, count, set))
            found["ours"].append(_clean(server))
        took = {name: statistics.median(it.cpu_s for it in all) for name, all in found.items()}
        call_ms = {name: _longest_ms(all) for name, all in found.items()}
        ratios.append(took["list"] / took["ours"])
        calls_ms.append(call_ms["ours"])
        seconds = [f"{took[name]:,.1f} s" for name in ("ours", "list", "set")]
        spans = [f"{call_ms[name]:,.1f} ms" for name in ("ours", "list")]
        table.rows.append([state, *seconds[:2], times(ratios[-1]), seconds[2], *spans])
    result.tables.append(table)
    result.figures["items deep clean"] = min(ratios)
    result.figures["items deep clean, longest call ms"] = max(calls_ms)


def _longest_ms(rounds: list[Cleaned]) -> float:
    """Return the longest call. All rounds make the same calls, and other programs only ever slow
    one down, so the shortest time of each call is the truest."""
    same: Iterable[tuple[float, ...]] = zip(*(it.calls_ms for it in rounds), strict=False)
    return max(min(same_ms) for same_ms in same)


def _fill(db: Any, count: int, waiting: int, held: int) -> None:
    """Delete all keys and add `count` items."""
    db.flushall()
    chance = random.Random(7)
    ids = [uuid.UUID(int=chance.getrandbits(128)).hex for _ in range(count)]
    for at in range(0, count, FILLED_AT_ONCE):
        pipeline = db.pipeline(transaction=False)
        for number, id in enumerate(ids[at : at + FILLED_AT_ONCE], at):
            share = number % 100
            list_name = "queue" if share < waiting else "processing"
            pipeline.execute_command("SET", f"p:item:{id}", BODY)
            pipeline.execute_command("LPUSH", f"p:{list_name}", id)
            if waiting <= share < waiting + held:
                pipeline.execute_command("SET", f"p:lease:{id}", "somebody", "EX", LEASE_S)
        pipeline.execute()


def _clean(server: Server) -> Cleaned:
    with Timed(server.port) as db:
        gc.collect()
        gc.disable()  # else a call may seem as long as a collection among millions of objects
        try:
            began_s = _cpu_s(server)
            WorkQueue(KeyPrefix("p")).deep_clean(db)
            return Cleaned(_cpu_s(server) - began_s, db.calls_ms)
        finally:
            gc.enable()


def _clean_as_described(
    server: Server, count: int, as_kind: Callable[[list[bytes]], Collection[bytes]]
) -> Cleaned:
    """Clean a sample as generation 0.3 does, and calculate the time for all items."""
    with Timed(server.port) as db:
        began_s = _cpu_s(server)
        keys: list[bytes] = db.keys("p:item:*")
        waiting = as_kind(db.lrange("p:queue", 0, -1))
        begun_s = _cpu_s(server) - began_s
        sample = random.Random(5).sample(keys, min(SAMPLE, len(keys)))
        end_s, looked = time.perf_counter() + SAMPLE_S, 0
        began_s = _cpu_s(server)
        for key in sample:
            id = key[len("p:item:") :]
            if id not in waiting and not db.exists(b"p:lease:" + id):
                db.pipeline().lrem("p:processing", 0, id).lpush("p:queue", id).execute()
            looked += 1
            if time.perf_counter() > end_s:
                break
        each_s = (_cpu_s(server) - began_s) / looked
        return Cleaned(begun_s + each_s * count, db.calls_ms)


def _cpu_s(server: Server) -> float:
    """The CPU time that Redis and this process have used so far: they take turns."""
    return server.cpu_s() + time.process_time()
