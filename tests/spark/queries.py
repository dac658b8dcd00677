"""Queries as the tests of the connector run them, on a real broker.

Called by   the tests beside this file.
Calls       the connector, through Spark.

`Kept` is a sink as a careful user writes one: a batch that comes again takes the place of the one
that came before under its number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from quinque.client.sync.broker import Broker
from quinque.model.claim_ops import ClaimState, LookAtClaims, SubscriptionView
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Put
from quinque.model.work_ops import Add, Terms
from tests.server.broker import RunningBroker
from tests.servers import stores

TIMEOUT_S = 300
SUBSCRIPTION = "tests"
Sink = Callable[[DataFrame, int], None]
Test = TypeVar("Test", bound=Callable[..., None])

_ON_REDIS_TOO: set[Callable[..., None]] = set()


def on_redis_too(test: Test) -> Test:
    """What this test says is a matter of the store as well: it runs on both kinds."""
    _ON_REDIS_TOO.add(test)
    return test


def on_its_stores(metafunc: pytest.Metafunc) -> None:
    """A test that uses `broker` runs on an embedded store, and on Redis if on_redis_too() says so.
    As `pytest_generate_tests` of a file, it is for the tests there."""
    if "broker" in metafunc.fixturenames:
        kinds = [stores.EMBEDDED]
        if metafunc.function in _ON_REDIS_TOO:
            kinds += [kind for kind in stores.SHARED if kind == "redis"]
        metafunc.parametrize("broker", kinds, indirect=True, scope="module")


class Queue:
    """A queue of the broker, and what can be asked about it."""

    def __init__(self, running: RunningBroker, name: str, family: str = "jobs") -> None:
        # Without what would mean something in a list of names or in a pattern.
        self.name = re.sub(r"[^\w.]", "-", name)
        self.family = family
        self.url = f"redis://127.0.0.1:{running.port}"
        self.broker = Broker(self.url)

    def add(self, bodies: Iterable[str | bytes]) -> None:
        name = self.name.encode()
        as_bytes = [body.encode() if isinstance(body, str) else body for body in bodies]
        if self.family == "jobs":
            self.broker.run(Add(JOBS, name, as_bytes, Terms(86_400_000, retry_ms=300_000)))
        else:
            self.broker.run(Put(EVENTS, name, as_bytes, ttl_ms=600_000))

    def ready(self) -> int:
        """How many jobs can be had."""
        return int(self.broker.call("QLEN", self.name))

    def bodies(self) -> list[bytes]:
        """Those of the jobs that can be had, in order."""
        return [job[2] for job in self.broker.call("QPEEK", self.name, 10_000)]

    def show(self, message_id: str) -> list[Any]:
        """A job with all that is known of it: names and values in turn."""
        shown: list[Any] = self.broker.call("SHOW", message_id)
        return shown

    def subscription(self, name: str = SUBSCRIPTION) -> SubscriptionView:
        view = self.broker.run(LookAtClaims(self.name.encode(), name.encode()))
        assert view is not None
        return view

    def in_flight(self) -> int:
        """How many messages are in claims that are open."""
        open_states = (ClaimState.FILLING, ClaimState.SEALED)
        return sum(c.messages for c in self.subscription().claims if c.state in open_states)

    def stream(self, spark: SparkSession, **options: Any) -> DataFrame:
        """What comes in the queue, as a stream."""
        given = {"url": self.url, "family": self.family, "subscription": SUBSCRIPTION, **options}
        if "queuePattern" not in given:
            given.setdefault("queue", self.name)
        if "group" in given:
            del given["family"]
        return spark.readStream.format("quinque").options(**given).load()

    def peek(self, spark: SparkSession, **options: Any) -> DataFrame:
        given = {"url": self.url, "family": self.family, "queue": self.name, **options}
        return spark.read.format("quinque").options(**given).load()


class Kept:
    """The rows of each batch, by its number."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = batch.collect()

    @property
    def bodies(self) -> list[bytes]:
        return [bytes(row.body) for rows in self.batches.values() for row in rows]

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for rows in self.batches.values() if rows]


class Broke(Exception):
    """What a batch of a test raises to make its query fail."""


def start(frame: DataFrame, checkpoint: Path, sink: Sink) -> StreamingQuery:
    """A query that runs until it is stopped."""
    return writer(frame, checkpoint, sink).start()


def run(
    frame: DataFrame, checkpoint: Path, sink: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """A query over what there is now has come to its end. Raises what made it fail."""
    query = writer(frame, checkpoint, sink).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return query


def copy(frame: DataFrame, checkpoint: Path, queue: Queue, **options: Any) -> StreamingQuery:
    """All there is now has been written into the queue."""
    given = {"url": queue.url, "queue": queue.name, "checkpointLocation": checkpoint, **options}
    stream = frame.writeStream.format("quinque").options(**given)
    query = stream.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return query


def wait_for(query: StreamingQuery, holds: Callable[[], bool], what: str) -> None:
    """While the query runs, it comes true. Raises what made the query fail."""
    end_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end_s, f"{what} did not come true"
        query.awaitTermination(0.05)  # type: ignore[arg-type]  # seconds, parts of them too


def writer(frame: DataFrame, checkpoint: Path, sink: Sink) -> DataStreamWriter:
    return frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
