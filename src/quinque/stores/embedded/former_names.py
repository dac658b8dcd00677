"""Worklists that were renamed: older records of the journal call them by other names.

Compaction finds the messages of such a record by where it is, not by its name. For that, all
messages of renamed worklists that are in the segment are looked up once, when it is begun.

A worklist is remembered as long as there may be records of it under another name: until every
segment up to the one with the renaming is gone, or the worklist is.

Not here: renaming itself (queue_operations.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quinque.engine.queue import Queue
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist
from quinque.stores.embedded.journal import segment_of, where

_LOOKS: Final = 10_000  # messages that are looked at in one step, about a millisecond


class FormerNames:
    def __init__(self) -> None:
        # The renamed queues with messages from before: the segment that has the rename, and the
        # number in the directory from which on messages came later.
        self._worklists: dict[Worklist, tuple[int, int]] = {}
        self._segment = -1  # the one that is compacted
        self._by_home: dict[int, WorkMessage] = {}  # messages of these worklists that are in it

    def __len__(self) -> int:
        return len(self._worklists)

    def add(self, queue: Worklist, segment: int) -> None:
        """The worklist had another name until then."""
        if queue.size:
            self._worklists[queue] = segment, queue.directory.next
            if self._segment >= 0:
                self._note(queue.all())

    def forget(self, queue: Worklist) -> None:
        """The worklist is gone."""
        self._worklists.pop(queue, None)

    def begin(self, segment: int) -> Iterator[None]:
        """From here on messages are found that are in the segment; pauses."""
        self._segment = segment
        self._by_home = {}
        looks = 0
        for queue, (_, until) in list(self._worklists.items()):
            cursor = 1
            while 0 < cursor < until:
                cursor, found = queue.directory.scan(cursor, min(_LOOKS, until - cursor))
                self._note([message for message in found if message.number < until])
                looks += 1 + len(found)
                if looks >= _LOOKS:
                    looks = 0
                    yield

    def find(self, home: int) -> WorkMessage | None:
        """The message of a renamed worklist whose record is there, if it lives."""
        message = self._by_home.get(home)
        if message is None or message.queue.find(message.id) is not message:
            return None
        return message if where(message.home) == home else None

    def drop(self, first_segment: int, queues: Mapping[bytes, Queue]) -> None:
        """Forget worklists that were renamed before that segment, or do not exist any more."""
        self._segment = -1
        self._by_home = {}
        self._worklists = {
            queue: known
            for queue, known in self._worklists.items()
            if known[0] >= first_segment and queues.get(queue.name) is queue
        }

    def _note(self, messages: Sequence[WorkMessage]) -> None:
        """Those of the messages that are in the segment can be found."""
        for message in messages:
            if segment_of(message.home) == self._segment:
                self._by_home[where(message.home)] = message
