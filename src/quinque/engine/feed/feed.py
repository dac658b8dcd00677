"""A queue that groups of consumers read: its messages in the order of their places, its groups.

Called by   apply.py (writes), decide.py and due.py (read), stores.
Calls       groups.py.

Messages are a doubly linked list and a dict by id, so that adding, finding, removing and stepping
on are O(1) whatever the backlog.

Not here: the rules (decide.py).
"""

from __future__ import annotations

from bisect import bisect_right

from quinque.engine.calendar import Calendar
from quinque.engine.feed.due import soonest
from quinque.engine.feed.groups import Group
from quinque.engine.queue import Queue
from quinque.model.families import Family
from quinque.model.message import FeedMessage


class Feed(Queue):
    __slots__ = (
        "dead_until",
        "groups",
        "has_chosen_ids",
        "has_front",
        "head",
        "messages",
        "tail",
    )

    def __init__(self, name: bytes, family: Family, in_order: bool = True) -> None:
        super().__init__(name, family, in_order)
        self.messages: dict[bytes, FeedMessage] = {}
        self.has_front = False  # or had: some places are earlier than their messages are old
        self.has_chosen_ids = False  # or had: some ids are not the places of their messages
        self.head: FeedMessage | None = None
        self.tail: FeedMessage | None = None
        # All messages up to this one are known to have expired: a hint that lets a reader step over
        # a million of them at once while they wait to be removed.
        self.dead_until: FeedMessage | None = None
        self.groups: dict[bytes, Group] = {}

    def group(self, name: bytes) -> Group:
        """The group of that name, made if it is not there."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    def next_for(self, group: Group | None, now_ms: int) -> FeedMessage | None:
        """The first live message the group has not passed; None for a group means a new one."""
        at = group.at if group is not None else None
        dead = self.dead_until
        if dead is not None and (at is None or at.place < dead.place):
            at = dead
        is_prefix = at is None or at is dead
        step = self.head if at is None else at.after
        while step is not None and 0 < step.expires_ms <= now_ms:
            at, step = step, step.after
        if is_prefix:
            self.dead_until = at
        return step

    def link_first(self, message: FeedMessage) -> None:
        head = self.head
        if head is None:
            self.head = self.tail = message
            return
        message.after = head
        head.before = message
        self.head = message
        self.dead_until = None

    def remove(self, message: FeedMessage) -> None:
        """The message is in no index of the queue any more, nor of its groups."""
        del self.messages[message.id]
        over: list[bytes] = []
        for group in self.groups.values():
            group.forget(message)
            if group.is_over and self.in_order:
                over.append(group.name)
        for name in over:
            del self.groups[name]
        before, after = message.before, message.after
        if self.dead_until is message:
            self.dead_until = before
        if before is not None:
            before.after = after
        elif self.head is message:
            self.head = after
        if after is not None:
            after.before = before
        elif self.tail is message:
            self.tail = before
        message.before = message.after = None
        # Reminders of messages that went early would pile up until they are due.
        if self.expiries.size > 2 * len(self.messages) + 4096:
            self.expiries = Calendar()
            for left in self.messages.values():
                if left.expires_ms:
                    self.expiries.add(left.expires_ms, left.id)

    def clear(self) -> None:
        """No message is left; what groups hold stays held, detached from the queue."""
        step = self.head
        while step is not None:
            after = step.after
            step.before = step.after = None
            step = after
        self.messages = {}
        self.head = self.tail = self.dead_until = None
        self.expiries = Calendar()
        for name in list(self.groups):
            group = self.groups[name]
            group.clear()
            if group.is_over and self.in_order:
                del self.groups[name]

    def relink(self) -> None:
        """Bring messages that came in any order into the order of their places."""
        ordered = sorted(self.messages.values(), key=lambda message: message.place)
        places = [message.place for message in ordered]
        self.head = self.tail = self.dead_until = None
        for message in ordered:
            message.before, message.after = self.tail, None
            if self.tail is None:
                self.head = message
            else:
                self.tail.after = message
            self.tail = message
        for name in list(self.groups):
            group = self.groups[name]
            group.passed = bisect_right(places, group.cursor)
            group.at = ordered[group.passed - 1] if group.passed else None
            if group.is_over:
                del self.groups[name]
        self.in_order = True
        self.soonest_ms = soonest(self)

    def count_leases(self) -> int:
        return sum(len(group.held) for group in self.groups.values())

    @property
    def is_empty(self) -> bool:
        return not self.messages and not self.groups
