"""A queue that groups of consumers read: its messages in the order of their places, its groups.

Called by   apply.py (writes), decide.py and due.py (read), stores.
Calls       groups.py.

Messages are a doubly linked list and a dict by id, so that adding, finding, removing and stepping
on are O(1) whatever the backlog. Neighbours in the list share a run, so that a million which have
expired together, and wait to be removed, are stepped over in a thousand steps.

Not here: the rules (decide.py).
"""

from __future__ import annotations

from bisect import bisect_right

from quinque.engine.calendar import Calendar
from quinque.engine.feed.due import soonest
from quinque.engine.feed.groups import Group
from quinque.engine.feed.remains import FeedRemains
from quinque.engine.queue import Queue
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage, Run

RUN_MOST = 1_000  # messages that share a run; not Final: compiled, a test could not make it few


class Feed(Queue):
    __slots__ = (
        "dead_until",
        "front_until",
        "groups",
        "has_chosen_ids",
        "has_front",
        "head",
        "holding",
        "messages",
        "run_most",
        "tail",
    )

    def __init__(self, name: bytes, family: Family, in_order: bool = True) -> None:
        super().__init__(name, family, in_order)
        self.messages: dict[bytes, FeedMessage] = {}
        self.run_most = RUN_MOST
        self.has_front = False  # or had: some places are earlier than their messages are old
        # The highest place of such a message. Messages that were put last stand behind it.
        self.front_until = -(1 << 62)
        self.has_chosen_ids = False  # or had: some ids are not the places of their messages
        self.head: FeedMessage | None = None
        self.tail: FeedMessage | None = None
        # All messages up to this one are known to have expired: a hint, so that no reader looks at
        # them again while they wait to be removed.
        self.dead_until: FeedMessage | None = None
        self.groups: dict[bytes, Group] = {}
        # While a journal is read, the groups that have leases, and some that had: only these have
        # to forget a message that goes. Ended groups stay until all is read, and may be many.
        self.holding: dict[bytes, Group] = {}

    def group(self, name: bytes) -> Group:
        """Return the group of that name, created if needed."""
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
            run = step.run
            if run is not None and step is run.first and run.until_ms <= now_ms:
                step = run.last
            at, step = step, step.after
        if is_prefix:
            self.dead_until = at
        return step

    def last_living(self, now_ms: int) -> FeedMessage | None:
        """The last message that has not expired."""
        step = self.tail
        while step is not None and 0 < step.expires_ms <= now_ms:
            run = step.run
            if run is not None and step is run.last and run.until_ms <= now_ms:
                step = run.first
            step = step.before
        return step

    def link_last(self, message: FeedMessage) -> None:
        """The message is the last in the order of places."""
        tail = self.tail
        if tail is None:
            self.head = message
        else:
            message.before = tail
            tail.after = message
        self.tail = message
        self._join(message, tail).last = message

    def link_first(self, message: FeedMessage) -> None:
        """The message is the first in the order of places."""
        head = self.head
        if head is None:
            self.tail = message
        else:
            message.after = head
            head.before = message
        self.head = message
        self.dead_until = None
        self._join(message, head).first = message

    def _join(self, message: FeedMessage, neighbour: FeedMessage | None) -> Run:
        """The message is in its neighbour's run, if there is room, else in one of its own."""
        run = neighbour.run if neighbour is not None else None
        if run is None or run.count >= self.run_most:
            run = Run(message)
        message.run = run
        run.count += 1
        until_ms = message.expires_ms or NEVER_MS
        if until_ms > run.until_ms:
            run.until_ms = until_ms
        return run

    def remove(self, message: FeedMessage) -> None:
        """Remove the message from all indexes of the queue and of its groups."""
        del self.messages[message.id]
        before, after = message.before, message.after
        if self.in_order:
            self._pass_on(message)
        else:
            self._let_go(message)
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
        run = message.run
        if run is not None:
            run.count -= 1
            if run.first is message and after is not None:
                run.first = after
            if run.last is message and before is not None:
                run.last = before
        message.before = message.after = message.run = None
        self.expiries.trim(len(self.messages), self._end_of)

    def _pass_on(self, message: FeedMessage) -> None:
        """No group counts or holds the message. Groups that are over are dropped."""
        place = message.place
        over: list[bytes] = []
        # Of 10,000 groups most have nothing to do with the message: no call for each of them.
        for group in self.groups.values():
            if place > group.cursor:
                continue
            group.passed -= 1
            if group.at is message:
                group.at = message.before
            if group.held or group.again:
                group.forget(message)
            if not group.passed and not group.held:
                over.append(group.name)
        for name in over:
            del self.groups[name]

    def _let_go(self, message: FeedMessage) -> None:
        """No group holds the message, while a journal is read. relink() counts."""
        idle: list[bytes] = []
        for name, group in self.holding.items():
            group.forget(message)
            if not group.held and not group.again:
                idle.append(name)
        for name in idle:
            del self.holding[name]

    def _end_of(self, id: bytes) -> int:
        message = self.messages.get(id)
        return message.expires_ms if message is not None else NEVER_MS

    def clear(self) -> FeedRemains:
        """Remove all messages. Leases of groups stay, detached from the queue. The remains have
        the old messages, however many there are."""
        over: list[Group] = []
        if self.in_order:
            left: dict[bytes, Group] = {}
            for group in self.groups.values():
                if group.held:
                    over.append(group.clear())
                    left[group.name] = group
                else:
                    over.append(group)
            self.groups = left
        else:
            # Groups stay: a copied folder says first how far they came, then that all was flushed.
            over += [group.clear() for group in self.holding.values()]
        remains = FeedRemains(self, over)
        self.messages = {}
        self.head = self.tail = self.dead_until = None
        self.expiries = Calendar()
        return remains

    def relink(self) -> None:
        """Sort messages that came in any order by their positions."""
        ordered = sorted(self.messages.values(), key=lambda message: message.place)
        places = [message.place for message in ordered]
        self.head = self.tail = self.dead_until = None
        for message in ordered:
            message.before = message.after = message.run = None
            self.link_last(message)
        for name in list(self.groups):
            group = self.groups[name]
            group.passed = bisect_right(places, group.cursor)
            group.at = ordered[group.passed - 1] if group.passed else None
            if group.is_over:
                del self.groups[name]
        self.holding = {}
        self.in_order = True
        self.soonest_ms = soonest(self)

    def count_leases(self) -> int:
        return sum(len(group.held) for group in self.groups.values())

    @property
    def is_empty(self) -> bool:
        return not self.messages and not self.groups
