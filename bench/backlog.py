"""The cost of a backlog: each command on a queue of a million events, compared to an empty queue.

    waiting   a million events that no consumer has taken yet
    leased    a million events that consumers hold
    lapsed    a million leases end at the same moment, just before the measurement
    expired   a million events expire at the same moment, just before the measurement

Speed is requests per second of the broker's own CPU time, with `fsync = no`: a backlog can change
that, and other programs on the machine change it least. Two brokers, one with the backlog and one
without, take turns. A pass sends each command a few thousand times, on events that it adds itself.
In the broker without a backlog, each pass has a new queue. Requests are sent one at a time, and 16
deep, where a broker does so little for each that a miss of the processor's caches shows.

The last two states are measured from that moment on, 16 deep, while the broker is still clearing
up, and by the wall clock: the broker then uses all the CPU time that its clients leave it. Each
command is measured over several times the interval between two steps of that work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from statistics import median

from bench.harness import BODY, Result, Server, Table, scratch, start_quinque, times
from bench.load import ack, add, drive, encode, get, same

BACKLOG = 1_000_000
OF_EACH = 12_000
DEPTHS, FILL_DEPTH = (1, 16), 100
PASSES = 5
STATES = ("waiting", "leased", "lapsed", "expired")

Rates = dict[str, float]


def run(quick: bool) -> Result:
    backlog, of_each, passes = (5000, 500, 1) if quick else (BACKLOG, OF_EACH, PASSES)
    columns: dict[str, Rates] = {}
    flush = Table("A flush, during which no other client is served", ["", "milliseconds"])
    for state in STATES:
        with (
            scratch() as folder,
            start_quinque(folder / "empty", "--fsync", "no") as empty,
            start_quinque(folder / "full", "--fsync", "no") as full,
        ):
            moment_s = _fill(full.port, state, backlog)
            if moment_s:
                columns[state] = _while_clearing_up(moment_s, full, empty, of_each, passes)
            else:
                for depth in DEPTHS:
                    count = of_each // 4 if depth == 1 else of_each
                    columns[f"{state}, {depth} deep"] = _in_turns(full, empty, depth, count, passes)
            flush_s = drive(full.port, [encode("QFLUSH", "q")], 1, 1).seconds
            flush.rows.append([f"{backlog:,} {state}", f"{flush_s * 1000:.0f}"])
    return Result(
        [_table(backlog, columns), flush],
        {f"backlog {name}": min(ratios.values()) for name, ratios in columns.items()},
    )


def _table(backlog: int, columns: dict[str, Rates]) -> Table:
    title = f"With {backlog:,} events: speed compared to an empty queue"
    table = Table(title, ["", *columns])
    ratios = list(columns.values())
    for command in ratios[0]:
        table.rows.append([command, *(times(column[command]) for column in ratios)])
    table.rows.append(["the slowest", *(times(min(column.values())) for column in ratios)])
    return table


def _in_turns(full: Server, empty: Server, depth: int, of_each: int, passes: int) -> Rates:
    """Return for each command its speed with the backlog divided by its speed without."""
    having: list[Rates] = []
    without: list[Rates] = []
    for number in range(passes):
        having.append(dict(_pass(full, "q", depth, of_each)))
        without.append(dict(_pass(empty, f"q{depth}-{number}", depth, of_each)))
    # Other programs only ever slow one down, so the best pass is the truest.
    return _ratios(having, without, max)


def _while_clearing_up(
    moment_s: float, full: Server, empty: Server, of_each: int, passes: int
) -> Rates:
    """Return the same ratios from that moment on, while the broker is clearing up."""
    depth = DEPTHS[-1]
    without = [
        dict(_pass(empty, f"q{number}", depth, of_each, by_cpu=False)) for number in range(passes)
    ]
    time.sleep(max(0.0, moment_s - time.time()))
    having: list[Rates] = []
    while not having or (_is_clearing_up(full) and len(having) < passes):
        having.append(dict(_pass(full, "q", depth, of_each, by_cpu=False)))
    return _ratios(having, without, median)


def _ratios(
    having: list[Rates], without: list[Rates], typical: Callable[[Sequence[float]], float]
) -> Rates:
    return {
        command: typical([rates[command] for rates in having])
        / typical([rates[command] for rates in without])
        for command in without[0]
    }


def _is_clearing_up(server: Server) -> bool:
    """Return whether the broker is busy although no client sends requests."""
    began_s = server.cpu_s()
    time.sleep(0.02)
    return server.cpu_s() - began_s > 0.01


def _pass(
    server: Server, queue: str, depth: int, of_each: int, *, by_cpu: bool = True
) -> Iterator[tuple[str, float]]:
    """Send every command `of_each` times, on events that the pass adds; yield name and speed."""
    stamp = time.time_ns()
    replies: list[list[bytes]] = []

    def speed(requests: Iterator[bytes] | list[bytes], keep: bool = False) -> float:
        nonlocal replies
        began_s = server.cpu_s()
        load = drive(server.port, requests, depth, keep=keep)
        spent_s = server.cpu_s() - began_s
        replies = load.replies
        return load.count / max(spent_s, 1e-3) if by_cpu else load.rate

    def push(verb: str) -> list[bytes]:
        names = (f"{verb}-{stamp + number}" for number in range(of_each))
        return [encode(verb, queue, name, BODY) for name in names]

    def ask(*words: str) -> Iterator[bytes]:
        return same(encode(*words), of_each)

    # One more than is taken, so that QNOTIFY finds something.
    yield "QADD", speed(add(queue, of_each + 1))
    yield "QGET", speed(get(queue, of_each), keep=True)
    yield "QACK", speed(ack(queue, replies))
    yield "QNOTIFY", speed(ask("QNOTIFY", "g", "0", queue))
    yield "QSTATUS", speed(ask("QSTATUS", queue))
    yield "QINFO", speed(ask("QINFO", queue))
    yield "QLPUSH", speed(push("QLPUSH"))
    yield "QRPUSH", speed(push("QRPUSH"))
    yield "QLPEEK", speed(ask("QLPEEK", queue))
    yield "QRPEEK", speed(ask("QRPEEK", queue))
    yield "QRPOP", speed(ask("QRPOP", queue, "EX", "36000"), keep=True)
    yield "QACK, okq's", speed([encode("QACK", queue, id) for id, _ in replies])
    yield "QFLUSH of another", speed(ask("QFLUSH", "other"))


def _fill(port: int, state: str, backlog: int) -> float:
    """Make the backlog and return the moment when it lapses or expires (0: never)."""
    if state in ("waiting", "leased"):
        drive(port, add("q", backlog), FILL_DEPTH)
        if state == "leased":
            drive(port, get("q", backlog), FILL_DEPTH)
        return 0.0
    began_s = time.time()
    drive(port, add("q", backlog // 10), FILL_DEPTH)
    drive(port, get("q", backlog // 10, 0.0), FILL_DEPTH)
    # Twice what the rest should take.
    moment_s = time.time() + 0.5 + 20 * (time.time() - began_s)

    def until_then(request: Callable[[str], bytes]) -> Iterator[bytes]:
        return chain.from_iterable(
            same(request(f"{moment_s - time.time():.3f}"), FILL_DEPTH)
            for _ in range(backlog // FILL_DEPTH)
        )

    if state == "lapsed":
        drive(port, add("q", backlog), FILL_DEPTH)
        drive(port, until_then(lambda span: encode("QGET", "q", "g", "EX", span)), FILL_DEPTH)
    else:
        drive(port, until_then(lambda span: encode("QADD", "q", span, BODY)), FILL_DEPTH)
    return moment_s
