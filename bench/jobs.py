"""The jobs family: compared to QADD, the delay of a blocked reader, the cost of blocked clients.

    compared to QADD   every write synced before its reply, in turns: ADDJOB, and GETJOB of the jobs
                       that it stored, under redis-benchmark; ACKJOB, which needs real ids, under
                       the load generator of this folder; QADD under both
    blocked            one client blocks in GETJOB, another adds: the time from the first byte of
                       the ADDJOB to the last byte of the job, including the sync of both
    waiting            jobs commands while 1,000 clients block on 1,000 other queues, compared to a
                       broker without blocked clients
    delayed            the same with a million delayed jobs in the queue, compared to no delayed
                       jobs

The last two are requests per second of the broker's own CPU time, with `fsync = no`, as in
backlog.py.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.harness import (
    BODY,
    Result,
    Server,
    Table,
    in_turns,
    median_ratio,
    per_second,
    redis_benchmark,
    scratch,
    start_quinque,
    times,
)
from bench.load import add, drive, encode, same

DEPTHS = (1, 16)
ROUNDS = 7
WAKES = 3000
WAITING = 1000
DELAYED = 1_000_000
OF_EACH, PASSES = 12_000, 5

Rates = dict[str, float]


def run(quick: bool) -> Result:
    result = Result()
    with scratch() as folder:
        _beside_qadd(result, folder, quick)
    with scratch() as folder:
        _blocked(result, folder, quick)
    table = Table("Jobs commands: speed compared to an idle, empty broker", ["", *_STATES])
    columns = []
    for state, fill in _STATES.items():
        with (
            scratch() as folder,
            start_quinque(folder / "empty", "--fsync", "no") as empty,
            start_quinque(folder / "full", "--fsync", "no") as full,
        ):
            held = fill(full, quick)
            columns.append(_in_turns(full, empty, quick))
            result.figures[f"jobs {state}"] = min(columns[-1].values())
            for sock in held:
                sock.close()
    for command in columns[0]:
        table.rows.append([command, *(times(column[command]) for column in columns)])
    result.tables.append(table)
    return result


def _beside_qadd(result: Result, folder: Path, quick: bool) -> None:
    table = Table(
        "Jobs: requests per second, fsync always, compared to QADD",
        ["", "QADD", "ADDJOB", "GETJOB", "ACKJOB", *(f"{verb} / QADD" for verb in _VERBS)],
    )
    result.tables.append(table)
    with start_quinque(folder / "ours", "--fsync", "always") as server:
        for depth in DEPTHS:
            count = 1000 if quick else 20_000 * (1 if depth == 1 else 5)
            rates = in_turns(_Life(server, depth, count).measures, 1 if quick else ROUNDS)
            ratios = [median_ratio(rates[verb], rates[_BESIDE[verb]]) for verb in _VERBS]
            numbers = [per_second(median(rates[verb])) for verb in ("QADD", *_VERBS)]
            table.rows.append([f"{depth} deep", *numbers, *map(times, ratios)])
            for verb, ratio in zip(_VERBS, ratios, strict=True):
                result.figures[f"{verb.lower()} depth {depth}"] = ratio


class _Life:
    """The jobs of a round: some added and got, others acked, and as many events added."""

    def __init__(self, server: Server, depth: int, count: int) -> None:
        self._server, self._depth, self._count = server, depth, count
        self.measures = {
            "ADDJOB": lambda: self._benchmark("ADDJOB", "jobs", BODY, "0"),
            "QADD": lambda: self._benchmark("QADD", "events", "36000", BODY),
            "GETJOB": lambda: self._benchmark("GETJOB", "FROM", "jobs"),
            "ACKJOB": self._ackjob,
            "QADD, driven": self._qadd,
        }

    def _benchmark(self, *words: str | bytes) -> float:
        return redis_benchmark(self._server, self._count, self._depth, *words)

    def _ackjob(self) -> float:
        added = same(encode("ADDJOB", "acked", BODY, "0"), self._count)
        ids = drive(self._server.port, added, self._depth, keep=True).replies
        drive(self._server.port, same(encode("GETJOB", "FROM", "acked"), self._count), 100)
        load = drive(
            self._server.port, [encode("ACKJOB", id) for id in ids], self._depth, keep=True
        )
        if load.replies != [1] * self._count:
            raise RuntimeError("some jobs could not be acked")
        return load.rate

    def _qadd(self) -> float:
        return drive(self._server.port, add("events", self._count), self._depth).rate


def _blocked(result: Result, folder: Path, quick: bool) -> None:
    """Measure the time from an ADDJOB to the reply of a client that blocks in GETJOB."""
    get, put = encode("GETJOB", "FROM", "q"), encode("ADDJOB", "q", BODY, "0")
    spans_ms: list[float] = []
    with (
        start_quinque(folder / "ours", "--fsync", "always") as server,
        socket.create_connection(("127.0.0.1", server.port)) as reader,
        socket.create_connection(("127.0.0.1", server.port)) as writer,
        socket.create_connection(("127.0.0.1", server.port)) as other,
    ):
        for sock in (reader, writer, other):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(200 if quick else WAKES):
            reader.sendall(get)
            while b"blocked_clients:1" not in _ask(other, encode("INFO", "clients")):
                pass
            began_s = time.perf_counter()
            writer.sendall(put)
            if not reader.recv(4096).endswith(BODY + b"\r\n"):
                raise RuntimeError("the job did not arrive in one piece")
            spans_ms.append((time.perf_counter() - began_s) * 1000)
            writer.recv(4096)
    spans_ms.sort()
    table = Table("A blocked GETJOB: from the ADDJOB to the job, fsync always", ["", "ms"])
    for name, share in (("median", 0.5), ("99 of 100", 0.99)):
        table.rows.append([name, f"{spans_ms[int(share * len(spans_ms))]:.3f}"])
    result.tables.append(table)
    result.figures["getjob wake ms"] = median(spans_ms)


def _ask(sock: socket.socket, request: bytes) -> bytes:
    sock.sendall(request)
    return sock.recv(65_536)


def _in_turns(full: Server, empty: Server, quick: bool) -> Rates:
    """Return for each command its speed on the first broker divided by that on the second."""
    having: list[Rates] = []
    without: list[Rates] = []
    of_each, passes = (500, 1) if quick else (OF_EACH, PASSES)
    for _ in range(passes):
        having.append(dict(_pass(full, of_each)))
        without.append(dict(_pass(empty, of_each)))
    # Other programs only ever slow one down, so the best pass is the truest.
    return {
        command: max(rates[command] for rates in having) / max(rates[command] for rates in without)
        for command in without[0]
    }


def _pass(server: Server, of_each: int) -> Iterator[tuple[str, float]]:
    """Send every command repeatedly, on jobs that the pass adds and acks; yield name and speed."""
    replies: list[list[list[bytes]]] = []

    def speed(requests: Iterator[bytes] | list[bytes], keep: bool = False) -> float:
        nonlocal replies
        began_s = server.cpu_s()
        load = drive(server.port, requests, DEPTHS[-1], keep=keep)
        spent_s = server.cpu_s() - began_s
        replies = load.replies if keep else replies
        return load.count / max(spent_s, 1e-3)

    yield "ADDJOB", speed(same(encode("ADDJOB", "q", BODY, "0"), of_each))
    yield "GETJOB", speed(same(encode("GETJOB", "FROM", "q"), of_each), keep=True)
    ids = [jobs[0][1] for jobs in replies]
    yield "WORKING", speed([encode("WORKING", id) for id in ids])
    yield "NACK", speed([encode("NACK", id) for id in ids])
    yield "DEQUEUE", speed([encode("DEQUEUE", id) for id in ids])
    yield "ENQUEUE", speed([encode("ENQUEUE", id) for id in ids])
    yield "SHOW", speed([encode("SHOW", id) for id in ids])
    yield "QLEN", speed(same(encode("QLEN", "q"), of_each))
    yield "QSTAT", speed(same(encode("QSTAT", "q"), of_each))
    yield "QPEEK", speed(same(encode("QPEEK", "q", "3"), of_each))
    yield "ACKJOB", speed([encode("ACKJOB", id) for id in ids])


def _fill_waiting(server: Server, quick: bool) -> list[socket.socket]:
    """Block one client on each of `count` queues."""
    held = []
    for number in range(WAITING // 10 if quick else WAITING):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(encode("GETJOB", "FROM", f"other-{number}"))
        held.append(sock)
    return held


def _fill_delayed(server: Server, quick: bool) -> list[socket.socket]:
    """Add `count` delayed jobs to the queue."""
    # Ten thousand different moments, hours from now.
    count = 5000 if quick else DELAYED
    requests = (
        encode("ADDJOB", "q", BODY, "0", "DELAY", str(20_000 + number // 100))
        for number in range(count)
    )
    drive(server.port, requests, 100)
    return []


_VERBS = ("ADDJOB", "GETJOB", "ACKJOB")
_BESIDE = {"ADDJOB": "QADD", "GETJOB": "QADD", "ACKJOB": "QADD, driven"}
_STATES = {"waiting": _fill_waiting, "delayed": _fill_delayed}
