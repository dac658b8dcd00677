"""The cost of logging every state change of every message.

    events    QADD, QGET and QACK of the same number of events, with `lifecycle` and without, in
              turns
    jobs      ADDJOB, GETJOB and ACKJOB of the same number of jobs

The figures are messages per second of the broker's own CPU time, with `fsync = no`: the sync of the
journal would hide the cost of the log. The next column is by the wall clock, with `fsync = always`,
as brokers run. On Redis it is the CPU time of the broker and its redis-server together, and of that
server alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

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
from bench.load import ack, add, drive, encode, get, same

DEPTHS = (1, 16)
ROUNDS = 5
OF_EACH = 10_000


def run(quick: bool) -> Result:
    result = Result()
    table = Table(
        "Put, take and ack, with and without the lifecycle log: messages per second",
        ["", "without", "with", "with / without", "fsync always"],
    )
    result.tables.append(table)
    for family, work in _WORK.items():
        for depth in DEPTHS:
            of_each, rounds = (300, 1) if quick else (OF_EACH * (1 if depth == 1 else 2), ROUNDS)
            doing = partial(work, depth=depth, of_each=of_each)
            by_cpu = _measure("no", doing, rounds, by_cpu=True)
            by_wall = _measure("always", doing, rounds, by_cpu=False)
            ratio = median_ratio(by_cpu["with"], by_cpu["without"])
            table.rows.append(
                [
                    f"{family}, {depth} deep",
                    per_second(median(by_cpu["without"])),
                    per_second(median(by_cpu["with"])),
                    times(ratio),
                    times(median_ratio(by_wall["with"], by_wall["without"])),
                ]
            )
            result.figures[f"lifecycle {family} depth {depth}"] = ratio
    result.tables.append(_on_redis(quick))
    return result


def _on_redis(quick: bool) -> Table:
    table = Table(
        "The same on Redis: messages per second of CPU time",
        ["", "without", "with", "with / without", "of Redis alone"],
    )
    for family, work in _WORK.items():
        for depth in DEPTHS[:1] if quick else DEPTHS:
            of_each, rounds = (300, 1) if quick else (OF_EACH, ROUNDS)
            both, alone = _measure_on_redis(partial(work, depth=depth, of_each=of_each), rounds)
            table.rows.append(
                [
                    f"{family}, {depth} deep",
                    per_second(median(both["without"])),
                    per_second(median(both["with"])),
                    times(median_ratio(both["with"], both["without"])),
                    times(median_ratio(alone["with"], alone["without"])),
                ]
            )
    return table


def _measure_on_redis(
    doing: Callable[[Server], int], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Messages a second of each broker with its Redis, round by round; and of that Redis alone."""
    alone: dict[str, list[float]] = {"without": [], "with": []}

    def speed(name: str, broker: Server, store: Server) -> float:
        began = broker.cpu_s(), store.cpu_s()
        count = doing(broker)
        spent_s, spent_there_s = broker.cpu_s() - began[0], store.cpu_s() - began[1]
        alone[name].append(count / max(spent_there_s, 1e-3))
        return count / max(spent_s + spent_there_s, 1e-3)

    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        measures = {}
        for name, kept in (("without", "--no-lifecycle"), ("with", "--lifecycle")):
            flags = ("--appendonly", "yes", "--appendfsync", "everysec")
            store = stack.enter_context(start_redis(folder / f"redis-{name}", *flags))
            url = f"redis://127.0.0.1:{store.port}"
            broker = stack.enter_context(start_quinque(folder / name, "--store", url, kept))
            measures[name] = partial(speed, name, broker, store)
        both = in_turns(measures, rounds, both_ways=True)
    return both, alone


def _measure(
    fsync: str, doing: Callable[[Server], int], rounds: int, *, by_cpu: bool
) -> dict[str, list[float]]:
    """Return messages per second of each broker, round by round."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        brokers = {
            name: stack.enter_context(_start(folder / name, fsync, kept))
            for name, kept in (("without", "--no-lifecycle"), ("with", "--lifecycle"))
        }
        measures = {
            name: partial(_speed, server, doing, by_cpu=by_cpu) for name, server in brokers.items()
        }
        return in_turns(measures, rounds, both_ways=True)


def _start(folder: Path, fsync: str, kept: str) -> Server:
    return start_quinque(folder, "--fsync", fsync, kept)


def _speed(server: Server, doing: Callable[[Server], int], *, by_cpu: bool) -> float:
    began_s = server.cpu_s() if by_cpu else perf_counter()
    count = doing(server)
    spent_s = (server.cpu_s() if by_cpu else perf_counter()) - began_s
    return count / max(spent_s, 1e-3)


def _events(server: Server, depth: int, of_each: int) -> int:
    drive(server.port, add("q", of_each), depth)
    given = drive(server.port, get("q", of_each), depth, keep=True).replies
    drive(server.port, ack("q", given), depth)
    drive(server.port, same(encode("QFLUSH", "q"), 1), 1, 1)
    return of_each


def _jobs(server: Server, depth: int, of_each: int) -> int:
    drive(server.port, same(encode("ADDJOB", "j", BODY, "0"), of_each), depth)
    taken = drive(server.port, same(encode("GETJOB", "FROM", "j"), of_each), depth, keep=True)
    drive(server.port, _acks(taken.replies), depth)
    return of_each


def _acks(replies: list[list[list[bytes]]]) -> Iterator[bytes]:
    return (encode("ACKJOB", jobs[0][1]) for jobs in replies)


_WORK = {"events": _events, "jobs": _jobs}
