"""Several brokers on a Redis Cluster of three primaries: does another broker, or server, help?

    1 broker, 1 server     a broker on a redis-server
    1 broker               a broker on the cluster
    2 brokers              two on the same cluster, each with half of the clients

50 connections, 16 requests deep, 64-byte bodies, six queues, two on each primary: jobs are added,
then got, then acked. The ways take turns within a round.

With fewer cores than processes, more processes are not faster, although they would be with their
own cores. The cost of a message shows it: if the CPU time of a message at all brokers together does
not grow with their number, and that at all servers does not either, then twice as many handle twice
as many messages.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.harness import (
    Result,
    Table,
    per_second,
    scratch,
    start_quinque,
    start_redis,
)
from bench.redis_store import COUNT, DEPTH, FAMILIES, ROUNDS, STEPS, Family, Way, carry_in_turns
from quinque.stores.id_slots import SLOTS, slot_of
from tests.servers.redis_cluster import RedisCluster

PRIMARIES = 3
QUEUES_EACH = 2
JOBS = FAMILIES[1]
AOF = ("--appendonly", "yes", "--appendfsync", "everysec")


def run(quick: bool) -> Result:
    count, rounds = (960, 1) if quick else (COUNT, ROUNDS)
    with scratch() as folder, ExitStack() as stack:
        ways = _ways(folder, stack)
        carry_in_turns(list(ways.values()), JOBS, count, rounds)
    table = Table(
        "Jobs on a Redis Cluster: messages per second over 50 connections, 16 deep; CPU time (µs)",
        ["", *("add", "get and ack"), *(f"{step}: {who}" for step in STEPS for who in _WHO)],
    )
    for name, way in ways.items():
        speeds = [per_second(median(rates)) for rates in way.rates.values()]
        spent = [f"{median(way.spent_us[step][who]):.1f}" for step in STEPS for who in _WHO]
        table.rows.append([name, *speeds, *spent])
    one, two = ways["1 broker"], ways["2 brokers"]
    costs = {f"cluster cost, {who}": _cost(two, who) / _cost(one, who) for who in _WHO}
    return Result([table], costs)


class Spread(Way):
    """The same on several queues: each chunk of a connection is for one of them."""

    def request(self, family: Family, step: str, number: int, id: bytes) -> bytes:
        return family.request(step, _QUEUES[number // DEPTH % len(_QUEUES)], id)


def _ways(folder: Path, stack: ExitStack) -> dict[str, Way]:
    server = stack.enter_context(start_redis(folder / "server", *AOF))
    cluster = stack.enter_context(
        RedisCluster(folder / "cluster", *AOF, primaries=PRIMARIES, replicas=0)
    )
    nodes = [node.pid for node in cluster.nodes]
    alone, first, second, third = (
        stack.enter_context(start_quinque(folder / name, "--store", store))
        for name, store in (
            ("alone", f"redis://127.0.0.1:{server.port}"),
            *((name, cluster.url) for name in ("first", "second", "third")),
        )
    )
    return {
        "1 broker, 1 server": Spread([alone.port], {"broker": [alone.pid], "Redis": [server.pid]}),
        "1 broker": Spread([first.port], {"broker": [first.pid], "Redis": nodes}),
        "2 brokers": Spread(
            [second.port, third.port], {"broker": [second.pid, third.pid], "Redis": nodes}
        ),
    }


def _cost(way: Way, who: str) -> float:
    """Return the CPU time of a message from add to ack."""
    return sum(median(way.spent_us[step][who]) for step in STEPS)


def _queues() -> list[str]:
    """Return the same number of queues on each primary; the slots are three equal ranges."""
    found: dict[int, list[str]] = {primary: [] for primary in range(PRIMARIES)}
    number = 0
    while any(len(names) < QUEUES_EACH for names in found.values()):
        name = f"jobs-{number}"
        names = found[slot_of(name.encode()) * PRIMARIES // SLOTS]
        if len(names) < QUEUES_EACH:
            names.append(name)
        number += 1
    return [names[at] for at in range(QUEUES_EACH) for names in found.values()]


_WHO = ("broker", "Redis")
_QUEUES = _queues()
