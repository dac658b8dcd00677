"""Short words for staging and publishing: the sink k, the run r, into the worklist w or the feed q.

Called by   test_stages.py.
Calls       the store it is handed.
"""

from __future__ import annotations

from typing import Any

import msgpack

from quinque.model.families import JOBS, Family
from quinque.model.stage_ops import DropStage, Part, Publish, Published, Stage, Staged
from quinque.stores.base import Store

MINUTE_MS = 60_000


def run_of(
    *bodies: bytes,
    ttl_ms: int = 0,
    delay_ms: int = 0,
    retry_ms: int = 0,
    max_deliveries: int = 0,
    name: bytes | None = None,
) -> list[Any]:
    """Messages that are alike, as a chunk has them."""
    return [ttl_ms, delay_ms, retry_ms, max_deliveries, name, list(bodies)]


def stage(
    store: Store,
    *runs: list[Any],
    number: int = 0,
    part: int = 0,
    attempt: int = 0,
    chunk: int = 0,
    family: Family = JOBS,
    queue: bytes = b"w",
    run: bytes = b"r",
    sink: bytes = b"k",
    writer: bytes = b"",
) -> Staged:
    rows = msgpack.packb(list(runs))
    return store.run(Stage(family, queue, sink, run, number, part, attempt, chunk, rows, writer))


def publish(
    store: Store,
    *parts: tuple[int, int, int],
    number: int = 0,
    count: int = 5_000,
    keep_ms: int = 0,
    content: bytes = b"",
    family: Family = JOBS,
    queue: bytes = b"w",
    run: bytes = b"r",
    sink: bytes = b"k",
) -> Published:
    """One call."""
    listed = [Part(*part) for part in parts]
    return store.run(Publish(family, queue, sink, run, number, listed, count, keep_ms, content))


def publish_all(store: Store, *parts: tuple[int, int, int], **options: Any) -> int:
    """Calls until nothing is left; how many messages that put."""
    total = 0
    for _ in range(10_000):
        done = publish(store, *parts, **options)
        total += done.messages
        if not done.left:
            return total
    raise AssertionError("there is no end to it")


def drop(
    store: Store,
    number: int = 0,
    *,
    queue: bytes = b"w",
    run: bytes = b"r",
    sink: bytes = b"k",
) -> int:
    return store.run(DropStage(queue, sink, run, number))
