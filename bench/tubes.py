"""The tubes family: beside the jobs family, and a lane that holds up a hundred thousand tasks.

    beside jobs    TUBE.PUT, TUBE.TAKE and TUBE.ACK of as many tasks as ADDJOB, GETJOB and ACKJOB of
                   jobs, in turns, on the same broker: every write synced before its reply, or on a
                   Redis whose append-only file is synced once a second. Each client acks what it
                   took, since nobody else may, and does the same with jobs
    lanes          TUBE.TAKE on a utube, one of whose tasks is taken while 100,000 others of its
                   lane are ready, beside a utube that is empty; and put, take and ack in a lane
                   that is free, on both: requests a second of the broker's CPU time, with
                   `fsync = no`

The load is that of this folder's generator, over 50 connections.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench.harness import (
    BODY,
    CONNECTIONS,
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
from bench.load import Clients, Load, drive, encode, same

DEPTHS = (1, 16)
ROUNDS = 7
BLOCKED = 100_000
OF_EACH, PASSES = 12_000, 5

Rates = dict[str, float]


def run(quick: bool) -> Result:
    result = Result()
    beside = Table(
        "Tubes: requests a second, beside jobs",
        ["", *(f"{verb}" for pair in _PAIRS for verb in pair), *(f"{a} / {b}" for a, b in _PAIRS)],
    )
    with scratch() as folder:
        with start_quinque(folder / "ours", "--fsync", "always") as server:
            for depth in DEPTHS:
                ratios = _beside_jobs(beside, server, f"{depth} deep", depth, quick)
                for (verb, _), ratio in zip(_PAIRS, ratios, strict=True):
                    result.figures[f"{verb.lower()} depth {depth}"] = ratio
        for (verb, _), ratio in zip(_PAIRS, _on_redis(beside, folder, quick), strict=True):
            result.figures[f"redis {verb.lower()}"] = ratio
    result.tables += [beside, _lanes(result.figures, quick)]
    return result


def _on_redis(table: Table, folder: Path, quick: bool) -> list[float]:
    flags = ("--appendonly", "yes", "--appendfsync", "everysec")
    with start_redis(folder / "redis", *flags) as store:
        url = f"redis://127.0.0.1:{store.port}"
        with start_quinque(folder / "served", "--store", url) as server:
            return _beside_jobs(table, server, "on Redis, 16 deep", DEPTHS[-1], quick)


def _beside_jobs(table: Table, server: Server, name: str, depth: int, quick: bool) -> list[float]:
    """The speeds of the tubes' commands over those of the jobs', of which a row is noted."""
    of_each = 10 if quick else 200 * (1 if depth == 1 else 4)
    found: dict[str, list[float]] = {verb: [] for pair in _PAIRS for verb in pair}
    drive(server.port, [encode("TUBE.CREATE", "tasks", "fifo", "IFNOTEXISTS")], 1)

    def live(work: Callable[[Server, int, int], Rates]) -> float:
        for verb, rate in work(server, depth, of_each).items():
            found[verb].append(rate)
        return 0.0

    in_turns(
        {"tubes": partial(live, _tasks), "jobs": partial(live, _jobs)},
        1 if quick else ROUNDS,
        both_ways=True,
    )
    ratios = [median_ratio(found[ours], found[theirs]) for ours, theirs in _PAIRS]
    speeds = [per_second(median(rates)) for rates in found.values()]
    table.rows.append([name, *speeds, *map(times, ratios)])
    return ratios


def _tasks(server: Server, depth: int, of_each: int) -> Rates:
    """Every client puts, takes and acks so many tasks; each a second."""
    with Clients(server.port) as clients:
        put = _each(clients, encode("TUBE.PUT", "tasks", BODY), depth, of_each)
        taken = _each(clients, encode("TUBE.TAKE", "tasks"), depth, of_each)
        ids = [[task[0] for task in own] for own in taken.replies]
        acks = [[encode("TUBE.ACK", "tasks", str(id)) for id in own] for own in ids]
        acked = clients.drive_each(acks, depth)
    if [[task[:2] for task in own] for own in acked.replies] != [
        [[i, b"-"] for i in o] for o in ids
    ]:
        raise RuntimeError("some tasks could not be acked")
    loads = (put, taken, acked)
    return {verb: load.rate for (verb, _), load in zip(_PAIRS, loads, strict=True)}


def _jobs(server: Server, depth: int, of_each: int) -> Rates:
    """Every client adds, gets and acks so many jobs; each a second."""
    with Clients(server.port) as clients:
        added = _each(clients, encode("ADDJOB", "jobs", BODY, "0"), depth, of_each)
        got = _each(clients, encode("GETJOB", "FROM", "jobs"), depth, of_each)
        acks = [[encode("ACKJOB", jobs[0][1]) for jobs in own] for own in got.replies]
        acked = clients.drive_each(acks, depth)
    if acked.replies != [[1] * of_each] * CONNECTIONS:
        raise RuntimeError("some jobs could not be acked")
    loads = (added, got, acked)
    return {verb: load.rate for (_, verb), load in zip(_PAIRS, loads, strict=True)}


def _each(clients: Clients, request: bytes, depth: int, of_each: int) -> Load:
    return clients.drive_each([same(request, of_each) for _ in range(CONNECTIONS)], depth)


def _lanes(figures: dict[str, float], quick: bool) -> Table:
    table = Table(
        "Tubes: speed with a lane of 100,000 tasks held up, beside an empty tube", ["", "held up"]
    )
    of_each, passes = (500, 1) if quick else (OF_EACH, PASSES)
    with (
        scratch() as folder,
        start_quinque(folder / "ours", "--fsync", "no") as server,
        Clients(server.port, 1) as one,
    ):
        create = [encode("TUBE.CREATE", tube, "utube") for tube in ("full", "empty")]
        held_up = encode("TUBE.PUT", "full", BODY, "UTUBE", "busy")
        one.drive([*create, held_up, encode("TUBE.TAKE", "full")], 1)
        one.drive(same(held_up, 2_000 if quick else BLOCKED), 100)
        having: list[Rates] = []
        without: list[Rates] = []
        for _ in range(passes):
            having.append(_pass(server, one, "full", of_each))
            without.append(_pass(server, one, "empty", of_each))
    # Other programs only ever slow one down, so the best pass is the truest.
    ratios = {
        what: max(rates[what] for rates in having) / max(rates[what] for rates in without)
        for what in without[0]
    }
    table.rows += [[what, times(ratio)] for what, ratio in ratios.items()]
    figures["lane held up, take"] = ratios.pop(_NOTHING)
    figures["lane held up, others"] = min(ratios.values())
    return table


def _pass(server: Server, one: Clients, tube: str, of_each: int) -> Rates:
    """A take that finds nothing, then tasks of a free lane; each so many times. Their speeds."""
    rates: Rates = {}

    def speed(what: str, requests: list[bytes]) -> list[list[int]]:
        began_s = server.cpu_s()
        load = one.drive(requests, 1, keep=True)
        rates[what] = load.count / max(server.cpu_s() - began_s, 1e-3)
        return load.replies

    take = encode("TUBE.TAKE", tube, "0")
    if any(speed(_NOTHING, [take] * of_each)):
        raise RuntimeError("a task of a busy lane was taken")
    # A lane for each, so that all of them can be taken.
    lanes = [f"lane-{number}" for number in range(of_each)]
    speed("TUBE.PUT", [encode("TUBE.PUT", tube, BODY, "UTUBE", lane) for lane in lanes])
    taken = speed("TUBE.TAKE", [take] * of_each)
    speed("TUBE.ACK", [encode("TUBE.ACK", tube, str(task[0])) for task in taken])
    return rates


_PAIRS = (("TUBE.PUT", "ADDJOB"), ("TUBE.TAKE", "GETJOB"), ("TUBE.ACK", "ACKJOB"))
_NOTHING = "TUBE.TAKE, nothing"
