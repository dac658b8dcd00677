"""Read a folder for a copy, and change nothing in it.

Called by   cli/copy.py (as the source), copy_in.py (to see what has come).
Calls       recover.py (reads), kept.py (items).

The folder is locked meanwhile, so no broker changes it.

Not here: what the items are (stores/portable.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.errors import CopyRefused, printable
from quinque.model.message import FeedMessage
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.copy_mark import CopyMark
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.kept import (
    chunk_kept,
    group_kept,
    kept_in_feed,
    list_kept,
    message_kept,
    published_kept,
    subscription_kept,
)
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.manifest import find_manifest, segment_numbers
from quinque.stores.embedded.recover import read_segments
from quinque.stores.portable import (
    CHUNK_MOST,
    CHUNK_MOST_BYTES,
    Chunk,
    Detached,
    Facts,
    Head,
    Item,
)

_BODIES_BYTES: Final = 256 << 20  # kept in memory; more are read back from the disk

T = TypeVar("T")


def open_folder(folder: Path, chunk_most: int = CHUNK_MOST) -> FolderReader:
    """The folder as a source.

    Raises CopyRefused when there is nothing to copy, FolderLocked, CopyUnfinished, JournalDamaged,
    OSError.
    """
    if not segment_numbers(folder) and find_manifest(folder) is None:
        raise CopyRefused(f"{folder} contains no journal")
    lock = FolderLock(folder, reads_only=True)
    try:
        CopyMark(folder).refuse()
        return FolderReader(folder, lock, chunk_most)
    except BaseException:
        lock.release()
        raise


class FolderReader:
    """As stores/portable.py says. Closed, it lets go of the lock, if it was given one."""

    def __init__(self, folder: Path, lock: FolderLock | None, chunk_most: int) -> None:
        """Raises JournalDamaged, OSError."""
        self.identity = f"embedded:{folder.resolve()}"
        self._lock = lock
        self._chunk_most = chunk_most
        self._journal = Journal(folder, "no", 1 << 20)
        self._bodies = Bodies(self._journal, _BODIES_BYTES)
        try:
            done = read_segments(self._journal, self._bodies, os.O_RDONLY)
        except BaseException:
            self._journal.let_go()
            raise
        if any(batch.is_decided for batch in done.stages.batches.values()):
            self._journal.let_go()
            raise CopyRefused(
                f"{folder} has a batch that is only partly published: publish it first"
            )
        for found in done.subscriptions.all():
            if found.is_closing():
                self._journal.let_go()
                raise CopyRefused(
                    f"{folder} has claims of queue {printable(found.queue)} that are being closed:"
                    " let a broker finish that first"
                )
        self._queues = done.queues
        self._subscriptions = done.subscriptions
        self._published = done.stages.published
        self.facts = Facts(done.now_ms, done.stamp_us, done.node.id, done.node.is_leaving)

    def queues(self) -> dict[bytes, int]:
        counts: dict[bytes, int] = {}
        names = {found.queue for found in self._subscriptions.all()}
        names.update(run[0] for run in self._published)
        for name in sorted(names | self._queues.keys()):
            queue = self._queues.get(name)
            counts[name] = 0
            if isinstance(queue, Worklist):
                counts[name] = queue.size
            elif isinstance(queue, Feed):
                counts[name] = len(queue.messages)
        return counts

    def read(self, queue: bytes, after: int) -> Iterator[Chunk]:
        found = self._queues.get(queue)
        if isinstance(found, Worklist):
            yield Chunk(queue, [list_kept(found)], after)
        elif isinstance(found, Feed):
            for some in _in_lots(_feed_heads(found), self._chunk_most):
                yield Chunk(queue, some, after)
        for item in self._claims(queue):
            yield Chunk(queue, [item], after)
        if isinstance(found, Worklist):
            yield from self._worklist(found, after)
        elif isinstance(found, Feed):
            yield from self._feed(found, after)

    def close(self) -> None:
        self._journal.let_go()
        if self._lock is not None:
            self._lock.release()

    def _claims(self, queue: bytes) -> Iterator[Item]:
        """Its subscriptions with their claims, and what was published into it."""
        for found in self._subscriptions.of(queue):
            yield subscription_kept(found)
            for number, claim in found.claims.items():
                for chunk in claim.in_order():
                    yield chunk_kept(found, number, chunk, self._bodies.of(chunk))
        for run, mark in sorted(self._published.items(), key=lambda row: row[0]):
            if run[0] == queue and not 0 < mark.until_ms <= self.facts.at_ms:
                yield published_kept(run, mark)

    def _worklist(self, queue: Worklist, after: int) -> Iterator[Chunk]:
        """Messages in the order their lives end; `after` is how many have gone before."""
        messages = sorted(queue.all(), key=lambda it: (it.expires_ms, it.place))
        some: list[Item] = []
        size_bytes = 0
        for number, message in enumerate(messages[after:], after + 1):
            body = self._bodies.of(message)
            some.append(message_kept(queue, message, body))
            size_bytes += len(body)
            if len(some) == self._chunk_most or size_bytes >= CHUNK_MOST_BYTES:
                yield Chunk(queue.name, some, number)
                some, size_bytes = [], 0
        if some:
            yield Chunk(queue.name, some, len(messages))

    def _feed(self, queue: Feed, after: int) -> Iterator[Chunk]:
        """Messages in their order; `after` is the place of the last that has gone before."""
        some: list[Item] = []
        size_bytes = 0
        message: FeedMessage | None = queue.head
        while message is not None:
            if message.place > after:
                body = self._bodies.of(message)
                # The groups' own items say how far each has come, so nothing is `past`.
                kept = kept_in_feed(queue, message, body)
                some.append(kept._replace(past=None, holds=sorted(kept.holds)))
                size_bytes += len(body)
                if len(some) == self._chunk_most or size_bytes >= CHUNK_MOST_BYTES:
                    yield Chunk(queue.name, some, message.place)
                    some, size_bytes = [], 0
            message = message.after
        if some:
            assert queue.tail is not None
            yield Chunk(queue.name, some, queue.tail.place)


def _feed_heads(queue: Feed) -> Iterator[Head]:
    """The groups, and the leases on messages that were flushed."""
    groups = list(queue.groups.values())
    return chain(
        (group_kept(queue, group) for group in groups),
        (
            Detached(
                queue.name,
                queue.family.code,
                group.name,
                id,
                lease.deadline_ms,
                lease.message.expires_ms,
            )
            for group in groups
            for id, lease in group.held.items()
            if lease.message is not queue.messages.get(id)
        ),
    )


def _in_lots(items: Iterator[T], most: int) -> Iterator[Sequence[T]]:
    some: list[T] = []
    for item in items:
        some.append(item)
        if len(some) == most:
            yield some
            some = []
    if some:
        yield some
