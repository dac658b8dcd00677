"""The content of a flushed feed (engine/remains.py): its messages, and the leases of its groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quinque.engine.feed.groups import Group
from quinque.engine.remains import Remains
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage

if TYPE_CHECKING:
    from quinque.engine.feed.feed import Feed


class FeedRemains(Remains):
    def __init__(self, queue: Feed, groups: list[Group]) -> None:
        """All messages of the feed, and these groups, which have come to their end."""
        super().__init__(len(queue.messages))
        self.head = queue.head
        self._messages = queue.messages
        self._expiries = queue.expiries
        self._groups = groups

    def drop_some(self, most: int) -> list[FeedMessage]:
        self._drop_groups(most)
        gone: list[FeedMessage] = []
        message = self.head
        while message is not None and len(gone) < most:
            after = message.after
            message.before = message.after = message.run = None
            del self._messages[message.id]
            gone.append(message)
            message = after
        if message is not None:
            message.before = None
        self.head = message
        self.size -= len(gone)
        self._expiries.take(NEVER_MS - 1, 4 * most)
        return gone

    def _drop_groups(self, most: int) -> None:
        """Drop the messages to redeliver and the reminders of the groups, `most` of them or some
        more."""
        while self._groups and most > 0:
            dropped = self._groups[-1].drop_some(most)
            if dropped < most:
                self._groups.pop()
            most -= dropped + 1
