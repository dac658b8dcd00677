"""What the tests of the library share: queues that wait alike, and the keys as they are.

Called by   conftest.py and the tests beside this file.
Calls       quinque.workqueue, redis-py.

Not here: the clients of others (other_clients.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis
import redis.asyncio

from quinque.workqueue import (
    CleanCounts,
    DeepClean,
    Item,
    KeyPrefix,
    WorkQueue,
    aio,
    cleaning,
    lists,
)

NO_GRACE_S = 0.0  # nobody else works a queue while one of these tests cleans it


class Worker:
    """A WorkQueue and its client. Its calls wait, whichever kind of WorkQueue it is."""

    def __init__(self, queue: Any, db: Any, wait: Callable[[Any], Any]) -> None:
        self.queue = queue
        self.db = db
        self._wait = wait

    def add_item(self, item: Item) -> bool:
        return bool(self._wait(self.queue.add_item(self.db, item)))

    def add_new_item(self, item: Item) -> bool:
        return bool(self._wait(self.queue.add_new_item(self.db, item)))

    def add_unique_item(self, item: Item) -> None:
        assert self._wait(self.queue.add_unique_item(self.db, item)) is None

    def add_in_pipeline(self, *items: Item) -> None:
        pipeline = self.db.pipeline()
        for number, item in enumerate(items):
            add = (self.queue.add_item_to_pipeline, self.queue.add_unique_item_to_pipeline)
            add[number % 2](pipeline, item)
        self._wait(pipeline.execute())

    def lease(self, lease_secs: float = 60, block: bool = False, timeout: float = 0) -> Item | None:
        item: Item | None = self._wait(self.queue.lease(self.db, lease_secs, block, timeout))
        return item

    def extend(self, item: Item, lease_secs: float = 60) -> bool:
        return bool(self._wait(self.queue.extend(self.db, item, lease_secs)))

    def complete(self, item: Item) -> bool:
        done = self._wait(self.queue.complete(self.db, item))
        assert isinstance(done, bool)
        return done

    def lengths(self) -> tuple[int, int]:
        """As counted one by one, and together."""
        counts: tuple[int, int] = self._wait(self.queue.counts(self.db))
        assert counts == (
            self._wait(self.queue.queue_len(self.db)),
            self._wait(self.queue.processing(self.db)),
        )
        return counts

    def light_clean(self, **options: Any) -> CleanCounts:
        done = self.queue.light_clean(self.db, **{"grace_s": NO_GRACE_S, **options})
        counts: CleanCounts = self._wait(done)
        return counts

    def deep_clean(self, *progress: Any, **options: Any) -> CleanCounts:
        done = self.queue.deep_clean(self.db, *progress, **{"grace_s": NO_GRACE_S, **options})
        counts: CleanCounts = self._wait(done)
        return counts

    def deep_clean_in_slices(self) -> CleanCounts:
        """The same, by steps."""
        kind = DeepClean if isinstance(self.queue, WorkQueue) else aio.DeepClean
        cleaning = kind(self.queue, self.db, grace_s=NO_GRACE_S)
        while self._wait(cleaning.step()):
            assert cleaning.progress is not None
        assert cleaning.is_done
        return cleaning.counts


@dataclass
class Place:
    """A Redis, or a cluster, and how to get a client of it."""

    raw: Any  # a client that looks, and does damage
    open: Callable[..., Any]
    open_async: Callable[..., Any]


def clean_in_tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes many slices for a million items takes many for a dozen."""
    monkeypatch.setattr(lists.read_list, "__kwdefaults__", {"until": None, "size": 6})
    monkeypatch.setattr(lists, "_OVERLAP", 2)
    for name, size in (
        *(("LOOKED_AT_ONCE", 3), ("SETTLED_AT_ONCE", 2), ("SCANNED_AT_ONCE", 10), ("PART", 4)),
        *(("_SLACK", 1), ("PASSED_MOST", 2)),
    ):
        monkeypatch.setattr(cleaning, name, size)


def sync_worker(db: Any, prefix: str, **settings: Any) -> Worker:
    return Worker(WorkQueue(KeyPrefix(prefix), **settings), db, lambda answer: answer)


class AsyncWorkers:
    """Workers of asyncio; they share an event loop, which runs while one of them waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._opened: list[Any] = []

    def make(self, db: Any, prefix: str, **settings: Any) -> Worker:
        self._opened.append(db)
        return Worker(aio.WorkQueue(KeyPrefix(prefix), **settings), db, self._wait)

    def close(self) -> None:
        for db in self._opened:
            self._wait(db.aclose())
        self._loop.close()

    def _wait(self, answer: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(_wrapped(answer))


async def _wrapped(answer: Awaitable[Any]) -> Any:
    return await answer


class Picture:
    """The keys of a queue, as they are at this moment."""

    def __init__(self, raw: Any, prefix: str) -> None:
        self.waiting = _texts(raw.lrange(f"{prefix}:queue", 0, -1))
        self.processing = _texts(raw.lrange(f"{prefix}:processing", 0, -1))
        self.cleaning = _texts(raw.lrange(f"{prefix}:cleaning", 0, -1))
        self.items = _ids(raw, prefix, "item")
        self.leases = _ids(raw, prefix, "lease")
        self.old_leases = _ids(raw, prefix, "leased_by_session")

    @property
    def is_empty(self) -> bool:
        return not any(vars(self).values())


def abandon(raw: Any, prefix: str) -> None:
    """Every lease has ended."""
    for kind in ("lease", "leased_by_session"):
        for id in _ids(raw, prefix, kind):
            raw.delete(f"{prefix}:{kind}:{id}")


def _ids(raw: Any, prefix: str, kind: str) -> set[str]:
    start = f"{prefix}:{kind}:".encode()
    everywhere = {"target_nodes": "primaries"} if isinstance(raw, redis.RedisCluster) else {}
    # Of all keys, those of other tests too, which need not be text.
    found = [key for key in raw.keys("*", **everywhere) if key.startswith(start)]
    return {key[len(start) :].decode() for key in found}


def _texts(words: list[bytes]) -> list[str]:
    return [word.decode() for word in words]
