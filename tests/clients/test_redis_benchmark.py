"""redis-benchmark runs its own PING and our commands to the end, without an error."""

from __future__ import annotations

import csv
import io

import pytest

from tests.clients.programs import redis_benchmark
from tests.server.broker import RunningBroker
from tests.server.resp import Client


def rows(printed: str) -> dict[str, float]:
    return {row["test"]: float(row["rps"]) for row in csv.DictReader(io.StringIO(printed))}


def test_ping(broker: RunningBroker) -> None:
    found = rows(redis_benchmark(broker, "-t", "ping", "-n", "2000", "--csv"))

    assert set(found) == {"PING_INLINE", "PING_MBULK"}
    assert min(found.values()) > 0


@pytest.mark.parametrize("depth", ["1", "16"])
def test_qadd(broker: RunningBroker, client: Client, queue: str, depth: str) -> None:
    words = ("-n", "2000", "-c", "20", "-P", depth, "--csv")

    (rate,) = rows(redis_benchmark(broker, *words, "QADD", queue, "60", "hello")).values()

    (row,) = client.call("QSTATUS", queue, "GROUPS", "g")
    assert rate > 0
    assert row[1][1][:2] == [b"total", 2000]


def test_resp3(broker: RunningBroker, queue: str) -> None:
    words = ("-3", "-n", "500", "--csv", "QGET", queue, "g")

    (rate,) = rows(redis_benchmark(broker, *words)).values()

    assert rate > 0
