"""Stores to copy from and into, and what a client could see of each.

Called by   the tests beside this file.
Calls       the stores, their readers and writers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, cast

from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Count, Peek
from quinque.model.work_ops import LookAt, ScanMessages, ScanQueues
from quinque.stores.base import Store
from quinque.stores.clock import Clock
from quinque.stores.copying import Tally, carry, compare
from quinque.stores.embedded.copy_in import FolderWriter
from quinque.stores.embedded.copy_out import open_folder
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.portable import Reader, Writer
from quinque.stores.redis.copy_in import RedisWriter
from quinque.stores.redis.copy_out import open_redis
from quinque.stores.redis.store import RedisStore
from tests.store.random_work import GROUPS

CHUNK_MOST = 3  # so few that small stores are copied in many chunks


class Place(Protocol):
    """A store that is there whether it is open or not."""

    def open(self, clock: Clock) -> Store: ...

    def reader(self) -> Reader: ...

    def writer(self) -> Writer: ...


class FolderPlace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, clock: Clock) -> EmbeddedStore:
        return EmbeddedStore(self.folder, clock=clock, fsync="no", segment_bytes=4096)

    def reader(self) -> Reader:
        return open_folder(self.folder, CHUNK_MOST)

    def writer(self) -> FolderWriter:
        return FolderWriter(self.folder, segment_bytes=4096)


class RedisPlace:
    def __init__(self, url: str) -> None:
        self.url = url

    def open(self, clock: Clock) -> Store:
        store: Any = RedisStore(self.url, clock=clock)
        return cast(Store, store)

    def reader(self) -> Reader:
        return open_redis(self.url, is_live=False, chunk_most=CHUNK_MOST)

    def writer(self) -> RedisWriter:
        return RedisWriter(self.url)


def copy(source: Place, target: Place) -> dict[bytes, Tally]:
    """All of the source is in the target; what each queue holds, in both."""
    with closing(source.reader()) as reader, closing(target.writer()) as writer:
        carry(reader, writer, ignore)
        with closing(writer.reader()) as written:
            tallies = compare(reader, written, ignore)
        writer.finish()
        return tallies


def ignore(messages: int) -> None:
    """Nobody wants to know how far it is."""


def sights(store: Store) -> dict[str, Any]:
    """All that can be seen of the store without changing it."""
    names = _scanned(store, lambda cursor: ScanQueues(JOBS, cursor, 100))
    messages = _scanned(store, lambda cursor: ScanMessages(JOBS, cursor, 100, with_bodies=True))
    feeds = store.run(Count(EVENTS))
    return {
        "feeds": sorted(feeds, key=lambda feed: feed.queue),
        "ends": [
            store.run(Peek(EVENTS, feed.queue, group, last))
            for feed in feeds
            for group in (*GROUPS, b"nobody")
            for last in (False, True)
        ],
        "worklists": {name: store.run(LookAt(JOBS, name)) for name in sorted(names)},
        "messages": {view.message_id: view for view in messages},
    }


def settle(store: Store) -> None:
    """All that time made due is carried out."""
    while store.next_due_ms() <= store.now_ms():
        store.tick()
        store.commit()


def _scanned(store: Store, ask: Callable[[int], Any]) -> list[Any]:
    found: list[Any] = []
    cursor = -1
    while cursor:
        cursor, some = store.run(ask(max(0, cursor)))
        found += some
    return found
