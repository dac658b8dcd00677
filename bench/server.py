"""A broker compared to redis-server: requests per second over 50 connections, 64-byte bodies.

    compared to Redis   QADD and LPUSH under redis-benchmark, one at a time and 16 deep, both with
                        every write synced before its reply, and both synced once a second; and
                        PING, which is the cost of the protocol alone
    get and ack         QGET of the events that QADD stored, and QACK of those that QGET returned,
                        compared to QADD; all three under the load generator of this folder, because
                        acks need real ids

Servers take turns within a round; the ratios are medians over rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    start_redis,
    times,
)
from bench.load import ack, add, drive, get

DEPTHS = (1, 16)
ROUNDS = 5
# The speed of the disk changes from one second to the next: many short rounds find it alike.
SHORT_ROUNDS, SECONDS = 15, 0.6
POLICIES = {"always": "fsync always", "everysec": "fsync everysec"}


def run(quick: bool) -> Result:
    result = Result()
    with scratch() as folder:
        _beside_redis(result, folder, quick)
    with scratch() as folder:
        _get_and_ack(result, folder, quick)
    return result


def _beside_redis(result: Result, folder: Path, quick: bool) -> None:
    table = Table(
        "Compared to redis-server: requests per second over 50 connections",
        ["", "quinque", "redis", "ratio"],
    )
    result.tables.append(table)
    for policy, name in POLICIES.items():
        ours = start_quinque(folder / f"ours-{policy}", "--fsync", policy)
        theirs = start_redis(
            folder / f"redis-{policy}", "--appendonly", "yes", "--appendfsync", policy
        )
        with ours, theirs:
            for depth in DEPTHS:
                rates = _compare(
                    partial(redis_benchmark, ours),
                    partial(redis_benchmark, theirs),
                    ("QADD", "q", "36000", BODY),
                    ("LPUSH", "q", BODY),
                    depth,
                    quick,
                )
                ratio = median_ratio(rates["ours"], rates["theirs"])
                result.figures[f"qadd {policy} depth {depth}"] = ratio
                _row(table, f"QADD / LPUSH, {name}, {depth} deep", rates)
            if policy == "everysec":
                for depth in DEPTHS:
                    measures = partial(redis_benchmark, ours), partial(redis_benchmark, theirs)
                    rates = _compare(*measures, ("PING",), ("PING",), depth, quick)
                    _row(table, f"PING, {depth} deep", rates)


def _compare(
    ours: Callable[..., float],
    theirs: Callable[..., float],
    our_words: tuple[str | bytes, ...],
    their_words: tuple[str | bytes, ...],
    depth: int,
    quick: bool,
) -> dict[str, list[float]]:
    """Return the rates of both, measured in turns."""
    count = 1000 if quick else int(SECONDS * ours(5_000, depth, *our_words))
    measures = {
        "ours": lambda: ours(count, depth, *our_words),
        "theirs": lambda: theirs(count, depth, *their_words),
    }
    return in_turns(measures, 1 if quick else SHORT_ROUNDS, both_ways=True)


def _row(table: Table, name: str, rates: dict[str, list[float]]) -> None:
    ours, theirs = rates["ours"], rates["theirs"]
    ratio = times(median_ratio(ours, theirs))
    table.rows.append([name, per_second(median(ours)), per_second(median(theirs)), ratio])


def _get_and_ack(result: Result, folder: Path, quick: bool) -> None:
    table = Table(
        "Get and ack: requests per second, fsync always, compared to QADD",
        ["", "QADD", "QGET", "QACK", "QGET / QADD", "QACK / QADD"],
    )
    result.tables.append(table)
    with start_quinque(folder / "ours", "--fsync", "always") as server:
        for depth in DEPTHS:
            count = 1000 if quick else 20_000 * (1 if depth == 1 else 5)
            rates = in_turns(_Life(server, depth, count).measures, 1 if quick else ROUNDS)
            ratios = [median_ratio(rates[verb], rates["add"]) for verb in ("get", "ack")]
            numbers = [per_second(median(rates[verb])) for verb in ("add", "get", "ack")]
            table.rows.append([f"{depth} deep", *numbers, *map(times, ratios)])
            result.figures[f"qget depth {depth}"], result.figures[f"qack depth {depth}"] = ratios


class _Life:
    """The events of a round: added, then got, then acked."""

    def __init__(self, server: Server, depth: int, count: int) -> None:
        self._port = server.port
        self._depth = depth
        self._count = count
        self._queue = f"q{depth}"
        self._deliveries: list[list[bytes]] = []
        self.measures = {"add": self._add, "get": self._get, "ack": self._ack}

    def _add(self) -> float:
        return drive(self._port, add(self._queue, self._count), self._depth).rate

    def _get(self) -> float:
        load = drive(self._port, get(self._queue, self._count), self._depth, keep=True)
        self._deliveries = load.replies
        return load.rate

    def _ack(self) -> float:
        load = drive(self._port, ack(self._queue, self._deliveries), self._depth, keep=True)
        if load.replies != [1] * self._count:
            raise RuntimeError("some events could not be acked")
        return load.rate
