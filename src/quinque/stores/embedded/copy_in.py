"""Write a copy into a folder: its items are the records that compaction would write.

Called by   cli/copy.py, as the target.
Calls       recover.py (what is there), journal.py (appends), copy_mark.py.

Nothing is applied: what was written is read back to see that it is the same.

    lease on a flushed message     Kept, with the lease and no body; then Flushed

Not here: what the items are (stores/portable.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.errors import CopyRefused, printable
from quinque.model.events import FLUSHED, KEPT, NAMED, Event, Flushed, Kept, Named, WorkKept
from quinque.model.own_events import NUMBERED, Numbered
from quinque.model.tube_events import TaskKept
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.copy_mark import CopyMark
from quinque.stores.embedded.copy_out import FolderReader
from quinque.stores.embedded.journal import SPARE_BYTES, Journal
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.recover import recover
from quinque.stores.embedded.replay import Recovered
from quinque.stores.portable import CHUNK_MOST, Chunk, Detached, Facts, Partitions, Progress


class FolderWriter:
    """As stores/portable.py says."""

    def __init__(self, folder: Path, segment_bytes: int = 64 << 20) -> None:
        """The folder is there, and locked. Raises FolderLocked, OSError."""
        self.identity = f"embedded:{folder.resolve()}"
        self._folder = folder
        self._lock = FolderLock(folder)
        self._mark = CopyMark(folder)
        self._journal = Journal(folder, "always", segment_bytes)
        self._is_open = True
        self._had = Recovered()  # what the folder held at the beginning
        self._source = ""
        self._facts = Facts(0, 0, b"", False)

    def begin(self, source: str, facts: Facts, queues: Sequence[bytes]) -> Progress | None:
        marked, progress = self._mark.read()
        if marked and marked != source:
            raise CopyRefused(
                f"{self.identity} contains an unfinished copy of {marked}: finish that copy, or "
                "empty the store"
            )
        self._source = source
        # The time of a copy is that of its source: what is due there is due here.
        clock = ManualClock(facts.at_ms * 1000)
        self._had = recover(self._journal, Bodies(self._journal, maxmemory=1), clock)
        if not marked:
            for name in queues:
                if name in self._had.queues or self._had.subscriptions.of(name):
                    raise CopyRefused(
                        f"{self.identity} already has a queue {printable(name)}: remove it there, "
                        "or use another target"
                    )
            self._mark.write(source, Progress(b"", 0), is_first=True)
        self._facts = facts._replace(
            at_ms=clock.now_us() // 1000, stamp_us=max(facts.stamp_us, self._had.stamp_us)
        )
        # Its first record has the newest stamp.
        self._journal.open_segment(
            self._journal.segment + 1, self._facts.stamp_us, self._facts.at_ms
        )
        if facts.node_id and not self._had.node.id:
            self._append(Named(NAMED, facts.node_id, facts.is_leaving))
        # No id that the source made is later than its last moment: all that are made here are.
        last_ms = max(facts.at_ms, facts.stamp_us // 1000)
        self._append(Numbered(NUMBERED, last_ms + 1, 0))
        self._journal.commit(self._facts.at_ms)
        return progress

    def write(self, chunk: Chunk) -> None:
        held: set[bytes] = set()
        for item in chunk.items:
            if isinstance(item, Partitions) or self._is_there(item):
                continue
            if isinstance(item, Detached):
                if item.id in held:  # by another group, and it may be another message
                    self._append(Flushed(FLUSHED, item.queue))
                    held.clear()
                held.add(item.id)
                self._append(_held_before_flush(item))
            else:
                self._append(item)
        if held:
            self._append(Flushed(FLUSHED, chunk.queue))
        self._journal.commit(self._facts.at_ms)
        self._journal.rotate(self._facts.stamp_us, self._facts.at_ms)
        self._set_mark(Progress(chunk.queue, chunk.after))

    def reader(self) -> FolderReader:
        self._close_journal()
        return FolderReader(self._folder, None, CHUNK_MOST)

    def finish(self) -> None:
        self._mark.remove()

    def close(self) -> None:
        self._close_journal()
        self._lock.release()

    def _set_mark(self, progress: Progress) -> None:
        self._mark.write(self._source, progress)

    def _close_journal(self) -> None:
        if self._is_open:
            self._is_open = False
            self._journal.close()

    def _append(self, event: Event) -> None:
        self._journal.append(event, SPARE_BYTES)

    def _is_there(self, item: object) -> bool:
        """Whether the item came before the copy was interrupted."""
        if not isinstance(item, Kept | Detached | WorkKept | TaskKept):
            return False
        queue = self._had.queues.get(item.queue)
        if isinstance(item, WorkKept | TaskKept):
            return isinstance(queue, Worklist) and queue.find(item.id) is not None
        if not isinstance(queue, Feed):
            return False
        if isinstance(item, Kept):
            return item.id in queue.messages
        # All of a chunk came or nothing did, so no message of the queue is flushed by a second one.
        group = queue.groups.get(item.group)
        return group is not None and item.id in group.held


def _held_before_flush(item: Detached) -> Kept:
    """The message of that lease, as it was before it was flushed. Its place does not matter any
    more; 0 says nothing of how far the group has come."""
    holds = [(item.group, item.deadline_ms, 1)]
    return Kept(KEPT, item.queue, item.family, item.id, 0, item.expires_ms, False, None, holds, b"")
