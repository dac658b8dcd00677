"""The tubes family: compared to the jobs family, and a lane that blocks a hundred thousand tasks.

    compared to jobs   TUBE.PUT, TUBE.TAKE and TUBE.ACK of as many tasks as ADDJOB, GETJOB and
                       ACKJOB of jobs, in turns, on the same broker: every write synced before its
                       reply, or on a Redis whose append-only file is synced once a second. Each
                       client acks the tasks that it took, because no other client may, and does the
                       same with jobs
    lanes              TUBE.TAKE on a utube with one taken task and 100,000 ready tasks in the same
                       lane, compared to an empty utube; and put, take and ack in a free lane, on
                       both: requests per second of the broker's CPU time, with `fsync = no`

The load generator of this folder sends the requests, over 50 connections.
"""

from __future__ import annotations

from bench.beside_jobs import Beside, Rates, best_over
from bench.harness import (
    BODY,
    CONNECTIONS,
    Result,
    Server,
    Table,
    scratch,
    start_quinque,
    times,
)
from bench.load import Clients, Load, encode, same

BLOCKED = 100_000
OF_EACH, PASSES = 12_000, 5


def run(quick: bool) -> Result:
    result = Result()
    Beside("Tubes", _PAIRS, _tasks, _jobs).run(result, quick)
    result.tables.append(_lanes(result.figures, quick))
    return result


def _count(depth: int, quick: bool) -> int:
    """Return the number for each client."""
    return 10 if quick else 200 * (1 if depth == 1 else 4)


def _tasks(server: Server, depth: int, quick: bool) -> Rates:
    """Let every client put, take and ack its tasks; return the speed of each verb."""
    of_each = _count(depth, quick)
    with Clients(server.port) as clients:
        clients.drive([encode("TUBE.CREATE", "tasks", "fifo", "IFNOTEXISTS")], 1)
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


def _jobs(server: Server, depth: int, quick: bool) -> Rates:
    """Let every client add, get and ack its jobs; return the speed of each verb."""
    of_each = _count(depth, quick)
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
        "Tubes: speed with a busy lane of 100,000 tasks, compared to an empty tube",
        ["", "busy lane"],
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
    ratios = best_over(having, without)
    table.rows += [[what, times(ratio)] for what, ratio in ratios.items()]
    figures["lane held up, take"] = ratios.pop(_NOTHING)
    figures["lane held up, others"] = min(ratios.values())
    return table


def _pass(server: Server, one: Clients, tube: str, of_each: int) -> Rates:
    """Measure a take that finds nothing, then tasks of a free lane; return the speeds."""
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
