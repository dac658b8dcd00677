"""The Redis store compared to the embedded one, and to one script call for each message.

    embedded     a broker on the embedded store, synced once a second
    on Redis     a broker on a redis-server, whose append-only file is synced once a second
    one by one   no broker: the clients call the same scripts on such a redis-server themselves, one
                 message in each call, as libraries on Redis do. Their calls are encoded beforehand,
                 so that the measurement shows Redis and not the clients.

50 connections, 16 requests deep, 64-byte bodies: messages are added, then got, then acked. The ways
take turns within a round; the ratios are medians over rounds. The cost of a message is the CPU time
of the processes meanwhile: the clients use a share of the machine, which the wall clock includes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import redis

from bench.harness import (
    BODY,
    CONNECTIONS,
    Result,
    Server,
    Table,
    cpu_s,
    median_ratio,
    per_second,
    scratch,
    start_quinque,
    start_redis,
    times,
)
from bench.load import drive, encode
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Op, Put, Reserve
from quinque.model.work_ops import Add, Finish, NodeView, Take, Terms
from quinque.stores.clock import SteadyClock
from quinque.stores.redis.courier import Errand
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.runners import RUNNERS
from quinque.stores.redis.script_texts import FOLDER
from quinque.stores.redis.scripts import SCRIPTS

COUNT, ROUNDS, DEPTH = 40_000, 7, 16
STEPS = ("add", "get", "ack")
LIFE_MS, LEASE_MS = 36_000_000, 300_000


@dataclass
class Family:
    """The requests for one message of a family, to a broker and to a store, and the place of the id
    in the reply of a get."""

    name: str
    queue: str
    request: Callable[[str, str, bytes], bytes]
    op: Callable[[str, bytes, bytes], Op]
    id_in_reply: Callable[[Any], bytes]
    id_in_answer: Callable[[Any], bytes]


def run(quick: bool) -> Result:
    result = Result()
    count, rounds = (500, 1) if quick else (COUNT, ROUNDS)
    speed = Table(
        "The Redis store: messages per second over 50 connections, 16 deep",
        ["", "embedded", "on Redis", "one by one", "Redis / embedded", "Redis / one by one"],
    )
    cost = Table(
        "The Redis store: CPU time per message, in microseconds",
        ["", "embedded: broker", "broker", "Redis", "one by one: Redis"],
    )
    for family in FAMILIES:
        with scratch() as folder, ExitStack() as stack:
            ways = _ways(folder, stack)
            carry_in_turns(ways, family, count, rounds)
        _show(family, ways, speed, cost, result.figures)
    result.tables += [speed, cost]
    return result


class Way:
    """One way to handle messages: the ports of the clients' servers, and the ids of the processes
    whose CPU time it takes, by name. A slow way handles only a `share` of the messages."""

    share = 1.0

    def __init__(self, ports: Sequence[int], pids: Mapping[str, Sequence[int]]) -> None:
        self._ports = ports
        self._pids = pids
        self.forget()

    def forget(self) -> None:
        """Clear the results."""
        self.rates: dict[str, list[float]] = {"add": [], "get and ack": []}
        self.spent_us: dict[str, dict[str, list[float]]] = {
            step: {who: [] for who in self._pids} for step in STEPS
        }

    def carry(self, family: Family, count: int) -> None:
        """Add, get and ack the messages, and store the time that it took."""
        seconds: dict[str, float] = {}
        ids = [b""] * count
        for step in STEPS:
            requests = [self.request(family, step, number, id) for number, id in enumerate(ids)]
            began_s = {who: cpu_s(pids) for who, pids in self._pids.items()}
            load = drive(self._ports, requests, DEPTH, keep=True)
            for who, pids in self._pids.items():
                spent_s = cpu_s(pids) - began_s[who]
                self.spent_us[step][who].append(1e6 * spent_s / count)
            seconds[step] = load.seconds
            if step == "get":
                ids = [self.id_in(family, reply) for reply in load.replies]
            elif step == "ack" and not all(map(self.is_acked, load.replies)):
                raise RuntimeError(f"some {family.name} could not be acked")
        self.rates["add"].append(count / seconds["add"])
        self.rates["get and ack"].append(count / (seconds["get"] + seconds["ack"]))

    def request(self, family: Family, step: str, number: int, id: bytes) -> bytes:
        return family.request(step, family.queue, id)

    def id_in(self, family: Family, reply: Any) -> bytes:
        return family.id_in_reply(reply)

    def is_acked(self, reply: Any) -> bool:
        return bool(reply == 1)


class OneByOne(Way):
    """The clients call Redis themselves."""

    share = 0.2

    def __init__(self, server: Server) -> None:
        super().__init__([server.port], {"Redis": [server.pid]})
        self._edge = Edge(SteadyClock(), os.urandom, "bench")
        self._edge.node = NodeView(b"0" * 40, is_leaving=False)
        self._edge.event_lanes.divide(0)
        self._edge.event_lanes.kept_ms = self._edge.now_ms()
        with redis.Redis(port=server.port) as client:
            for path in FOLDER.glob("*.lua"):
                client.script_load(SCRIPTS[path.stem].text)

    def request(self, family: Family, step: str, number: int, id: bytes) -> bytes:
        op = family.op(step, family.queue.encode(), id)
        (call,) = next(RUNNERS[type(op)](op, self._edge))
        return Errand(call, 0, 0.0, lambda outcome: None).packed()

    def id_in(self, family: Family, reply: Any) -> bytes:
        return family.id_in_answer(reply[3])

    def is_acked(self, reply: Any) -> bool:
        return bool(reply[3] == [1])


def carry_in_turns(ways: Sequence[Way], family: Family, count: int, rounds: int) -> None:
    """Let each way handle the messages in turn, in every round."""
    for way in ways:
        way.carry(family, DEPTH * CONNECTIONS)  # whatever is done once has been done
        way.forget()
    for _ in range(rounds):
        for way in ways:
            way.carry(family, max(DEPTH * CONNECTIONS, round(way.share * count)))


def _ways(folder: Path, stack: ExitStack) -> tuple[Way, Way, Way]:
    embedded = stack.enter_context(start_quinque(folder / "embedded", "--fsync", "everysec"))
    behind, alone = (
        stack.enter_context(
            start_redis(folder / name, "--appendonly", "yes", "--appendfsync", "everysec")
        )
        for name in ("behind", "alone")
    )
    store = f"redis://127.0.0.1:{behind.port}"
    served = stack.enter_context(start_quinque(folder / "served", "--store", store))
    return (
        Way([embedded.port], {"broker": [embedded.pid]}),
        Way([served.port], {"broker": [served.pid], "Redis": [behind.pid]}),
        OneByOne(alone),
    )


def _show(
    family: Family, ways: Sequence[Way], speed: Table, cost: Table, figures: dict[str, float]
) -> None:
    embedded, served, alone = ways
    for step, rates in served.rates.items():
        ratios = [median_ratio(rates, other.rates[step]) for other in (embedded, alone)]
        shown = [per_second(median(way.rates[step])) for way in ways]
        speed.rows.append([f"{family.name}, {step}", *shown, *map(times, ratios)])
        figures[f"redis {family.name} {step}, beside embedded"] = ratios[0]
        figures[f"redis {family.name} {step}, beside one by one"] = ratios[1]
    for step in STEPS:
        spent = [each for way in ways for each in way.spent_us[step].values()]
        cost.rows.append([f"{family.name}, {step}", *(f"{median(each):.1f}" for each in spent)])


def _event_request(step: str, queue: str, id: bytes) -> bytes:
    match step:
        case "add":
            return encode("QADD", queue, str(LIFE_MS // 1000), BODY)
        case "get":
            return encode("QGET", queue, "g", "EX", str(LEASE_MS // 1000))
        case _:
            return encode("QACK", queue, "g", id)


def _event_op(step: str, queue: bytes, id: bytes) -> Op:
    match step:
        case "add":
            return Put(EVENTS, queue, [BODY], LIFE_MS)
        case "get":
            return Reserve(EVENTS, queue, b"g", LEASE_MS)
        case _:
            return Ack(EVENTS, queue, b"g", [id])


def _job_request(step: str, queue: str, id: bytes) -> bytes:
    match step:
        case "add":
            return encode("ADDJOB", queue, BODY, "0")
        case "get":
            return encode("GETJOB", "FROM", queue)
        case _:
            return encode("ACKJOB", id)


def _job_op(step: str, queue: bytes, id: bytes) -> Op:
    match step:
        case "add":
            return Add(JOBS, queue, [BODY], Terms(LIFE_MS, retry_ms=LEASE_MS))
        case "get":
            return Take(JOBS, [queue])
        case _:
            return Finish(JOBS, [id])


FAMILIES = (
    Family(
        *("events", "q", _event_request, _event_op),
        id_in_reply=lambda reply: reply[0],
        id_in_answer=lambda result: result[0],
    ),
    Family(
        *("jobs", "jobs", _job_request, _job_op),
        id_in_reply=lambda reply: reply[0][1],
        id_in_answer=lambda result: result[0][1],
    ),
)
