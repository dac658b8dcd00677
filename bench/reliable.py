"""The reliable family: compared to the jobs family, many elements compared to one, and a long list.

    compared to jobs   RQ.PUSH, RQ.POP and RQ.ACK of as many elements as ADDJOB, GETJOB and ACKJOB
                       of jobs, in turns, on the same broker: every write synced before its reply,
                       or on a Redis whose append-only file is synced once a second
    many               requests with 10 elements and with 100, in turns with requests with one:
                       elements per second, each client waiting for its reply
    delivered          every command while a million elements of the queue are delivered and not
                       acked, compared to none: requests per second of the broker's CPU time, with
                       `fsync = no`

The load generator of this folder sends the requests, over 50 connections.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from statistics import median

from bench.beside_jobs import DEPTHS, ROUNDS, Beside, Rates, best_over
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
    times,
)
from bench.load import drive, encode, same

MANY = (10, 100)
DELIVERED = 1_000_000
OF_EACH, PASSES = 12_000, 5


def run(quick: bool) -> Result:
    result = Result()
    Beside("Reliable queues", _PAIRS, _one_by_one, _jobs).run(result, quick)
    with scratch() as folder, start_quinque(folder / "ours", "--fsync", "always") as server:
        result.tables.append(_many(server, result.figures, quick))
    result.tables.append(_delivered(result.figures, quick))
    return result


def _count(depth: int, quick: bool) -> int:
    return 500 if quick else 10_000 * (1 if depth == 1 else 4)


def _one_by_one(server: Server, depth: int, quick: bool) -> Rates:
    return _elements(server, depth, _count(depth, quick))


def _many(server: Server, figures: dict[str, float], quick: bool) -> Table:
    table = Table(
        "Reliable queues: elements per second, each client waiting for its reply",
        ["", "one", *(f"{size} per request" for size in MANY), *(f"{size} / one" for size in MANY)],
    )
    count = 1_000 if quick else 20_000
    found: dict[int, dict[str, list[float]]] = {
        size: {verb: [] for verb, _ in _PAIRS} for size in (1, *MANY)
    }

    def live(size: int) -> float:
        for verb, rate in _elements(server, 1, count, size).items():
            found[size][verb].append(rate)
        return 0.0

    measures = {str(size): partial(live, size) for size in found}
    in_turns(measures, 1 if quick else ROUNDS, both_ways=True)
    for verb, _ in _PAIRS:
        ratios = [median_ratio(found[size][verb], found[1][verb]) for size in MANY]
        speeds = [per_second(median(rates[verb])) for rates in found.values()]
        table.rows.append([verb, *speeds, *map(times, ratios)])
        for size, ratio in zip(MANY, ratios, strict=True):
            figures[f"{verb.lower()} of {size}"] = ratio
    return table


def _elements(server: Server, depth: int, count: int, size: int = 1) -> Rates:
    """Push, pop and ack elements, `size` in each request; return elements per second."""
    pushes = same(encode("RQ.PUSH", "elements", *[BODY] * size), count // size)
    few = () if size == 1 else ("COUNT", str(size))
    pops = same(encode("RQ.POP", *few, "elements"), count // size)
    pushed = drive(server.port, pushes, depth)
    popped = drive(server.port, pops, depth, keep=True)
    acks = [encode("RQ.ACK", "elements", *(it[1] for it in some)) for some in popped.replies]
    acked = drive(server.port, acks, depth, keep=True)
    if sum(map(len, acked.replies)) != count // size * size:
        raise RuntimeError("some elements could not be acked")
    loads = (pushed, popped, acked)
    return {verb: size * load.rate for (verb, _), load in zip(_PAIRS, loads, strict=True)}


def _jobs(server: Server, depth: int, quick: bool) -> Rates:
    """Add, get and ack as many jobs; return the speed of each."""
    count = _count(depth, quick)
    added = drive(server.port, same(encode("ADDJOB", "jobs", BODY, "0"), count), depth)
    got = drive(server.port, same(encode("GETJOB", "FROM", "jobs"), count), depth, keep=True)
    acks = [encode("ACKJOB", jobs[0][1]) for jobs in got.replies]
    acked = drive(server.port, acks, depth, keep=True)
    if acked.replies != [1] * count:
        raise RuntimeError("some jobs could not be acked")
    loads = (added, got, acked)
    return {verb: load.rate for (_, verb), load in zip(_PAIRS, loads, strict=True)}


def _delivered(figures: dict[str, float], quick: bool) -> Table:
    table = Table(
        "Reliable queues: speed with a million delivered, compared to none", ["", "delivered"]
    )
    of_each, passes = (500, 1) if quick else (OF_EACH, PASSES)
    with (
        scratch() as folder,
        start_quinque(folder / "empty", "--fsync", "no") as empty,
        start_quinque(folder / "full", "--fsync", "no") as full,
    ):
        count = 5_000 if quick else DELIVERED
        drive(full.port, same(encode("RQ.PUSH", "q", *[BODY] * 100), count // 100), 1)
        drive(full.port, same(encode("RQ.POP", "COUNT", "100", "q"), count // 100), 1)
        having: list[Rates] = []
        without: list[Rates] = []
        for _ in range(passes):
            having.append(_pass(full, of_each))
            without.append(_pass(empty, of_each))
    ratios = best_over(having, without)
    table.rows += [[verb, times(ratio)] for verb, ratio in ratios.items()]
    figures["rq delivered"] = min(ratios.values())
    return table


def _pass(server: Server, of_each: int) -> Rates:
    """Send every command repeatedly, on elements that the pass pushes; return the speeds."""
    rates: Rates = {}

    def speed(verb: str, requests: Iterable[bytes]) -> list[list[list[bytes]]]:
        began_s = server.cpu_s()
        load = drive(server.port, requests, DEPTHS[-1], keep=True)
        rates[verb] = load.count / max(server.cpu_s() - began_s, 1e-3)
        return load.replies

    speed("RQ.PUSH", same(encode("RQ.PUSH", "q", BODY), of_each))
    given = speed("RQ.POP", same(encode("RQ.POP", "q"), of_each))
    speed("RQ.RECOVER", same(encode("RQ.RECOVER", "q", "1", "0"), of_each))
    speed("RQ.INSPECT", same(encode("RQ.INSPECT", "q", "PENDING", "-1", "1"), of_each))
    speed("RQ.INFO", same(encode("RQ.INFO", "q"), of_each))
    speed("RQ.ACK", [encode("RQ.ACK", "q", some[0][1]) for some in given])
    return rates


_PAIRS = (("RQ.PUSH", "ADDJOB"), ("RQ.POP", "GETJOB"), ("RQ.ACK", "ACKJOB"))
