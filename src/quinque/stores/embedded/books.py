"""The common state of operations on events queues and work queues: queues, journal, time, random
values.

Called by   feed_operations.py and work_operations.py, store.py (which is one of these).
Calls       journal.py, bodies.py, alarms.py.

Not here: what an operation does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from quinque.engine.claims.apply import count_claimed
from quinque.engine.claims.subscription import Subscriptions
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.remains import Remains
from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.directory import Directory
from quinque.engine.work.shelves import Shelves
from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, JournalDamaged, NotDone, StoreUnavailable, WrongType
from quinque.model.events import FORGOTTEN, HELD, Event, Forgotten
from quinque.model.limits import SETTLE_MOST, SETTLE_MOST_COUNTING, SETTLE_MOST_FLOODED
from quinque.model.message import Message
from quinque.stats.expirations import Expirations
from quinque.stores.base import HasTakers, no_takers
from quinque.stores.chance import Chance
from quinque.stores.clock import Clock
from quinque.stores.consumers import Consumers
from quinque.stores.embedded.alarms import Alarms
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.changes import Purging, purged
from quinque.stores.embedded.former_names import FormerNames
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.kept import worklist_kept
from quinque.stores.embedded.node import Node
from quinque.stores.embedded.numbers import Numbers
from quinque.stores.embedded.slices import SlicedWork
from quinque.stores.embedded.staged import Stages

# This number of messages is removed at once when queues are emptied, in one iteration. Other
# iterations and ticks remove a few, at least as many as the iteration added. Not Final: compiled, a
# test could not make it small
EMPTIED_AT_ONCE_MOST = SETTLE_MOST
_QUEUE_WORTH: Final = 5  # to begin with another queue is the work of so many messages
ASIDE_MOST: Final = 100  # damaged messages that one operation sets aside
SetAside = Callable[[Queue, Message, JournalDamaged], None]


class Leaving:
    """Messages that are in no queue any more, and wait for their removal."""

    def __init__(self, remains: Remains, purging: Purging | None, *, is_kept: bool) -> None:
        self.remains = remains
        self.purging = purging  # tells the record of them, if that is to know
        self.is_kept = is_kept  # in the journal, and so among the bodies that are counted


class Books:
    def __init__(
        self,
        queues: dict[bytes, Queue],
        sessions: Sessions,
        directory: Directory,
        subscriptions: Subscriptions,
        stages: Stages,
        node: Node,
        numbers: Numbers,
        former_names: FormerNames,
        journal: Journal,
        bodies: Bodies,
        clock: Clock,
        stamp_us: int,
        chance: Callable[[int], bytes],
    ) -> None:
        self.queues = queues
        self.sessions = sessions
        self.directory = directory
        self.subscriptions = subscriptions
        self.stages = stages
        self.worklists: Shelves[Worklist] = Shelves()
        self.feeds: Shelves[Feed] = Shelves()
        self.tubes: dict[bytes, Tube] = {}
        self.leaving: deque[Leaving] = deque()
        self.sliced = SlicedWork()
        self._emptied = 0  # messages removed at once in this turn, because queues were emptied
        # Worklists that had something ready, for readers of patterns; some may have nothing by now.
        self.busy: dict[bytes, Worklist] = {}
        for queue in queues.values():
            if isinstance(queue, Worklist):
                self.worklists.add(queue.name, queue)
                if isinstance(queue, Tube):
                    self.tubes[queue.name] = queue
                if queue.ready.size:
                    self.busy[queue.name] = queue
            elif isinstance(queue, Feed):
                self.feeds.add(queue.name, queue)
        self.node = node
        self.numbers = numbers
        self.former_names = former_names
        self.journal = journal
        self.bodies = bodies
        bodies.came_now = 0  # not those that were read back
        self.clock = clock
        self.ready: set[bytes] = set()
        self.ready_lanes: dict[bytes, set[bytes]] = {}
        self.expired = Expirations()
        self.watched: Collection[bytes] = ()
        self.has_takers: HasTakers = no_takers
        # All changes come from operations of the caller, so neither is called.
        self.on_ready: Callable[[], None] = _nothing
        self.on_doubt: Callable[[], None] = _nothing
        self.consumers = Consumers()
        self.stamp_us = stamp_us  # the newest place and id given out
        self.at_ms = clock.now_us() // 1000  # of the operation under way
        self.alarms = Alarms(queues)
        self.chance = Chance(chance)

    def next_place(self) -> int:
        """The place of a message that comes now: larger than all before."""
        return max(self.at_ms * 1000, self.stamp_us + 1)

    def settle_most(self, queue: Queue, now_ms: int, most: int, must: bool) -> int:
        """Return how many due messages an operation settles, 0: none.

        Where more is due than fits in one operation, a few are settled in each millisecond, and
        when it must be; the ticker does the rest.
        """
        self.at_ms = now_ms
        if not queue.flooded_ms:
            return most
        if queue.flooded_ms == now_ms and not must:
            return 0
        return SETTLE_MOST_FLOODED

    def settled(self, queue: Queue, now_ms: int) -> None:
        """The queue is looked at again when something is next due."""
        queue.flooded_ms = now_ms if queue.soonest_ms <= now_ms else 0
        self.set_alarm(queue)

    def set_alarm(self, queue: Queue) -> None:
        """The ticker comes when something is due in the queue."""
        if queue.soonest_ms < queue.alarm_ms:
            self.alarms.set(queue)

    def make_way(self, queue: Queue) -> None:
        """The name is free for another family. Raises WrongType when it is not."""
        if not isinstance(queue, Worklist):
            raise wrong_type(queue)
        if queue.ends_ms <= self.at_ms:
            self.end(queue)
        elif queue.is_vacant:
            self.forget(queue)
        if queue.name in self.queues:
            raise wrong_type(queue)

    def wake_all(self, name: bytes) -> None:
        """All readers of the queue may find something, also those of single lanes."""
        self.ready.add(name)
        self.ready_lanes.pop(name, None)

    def is_for_others(self, name: bytes, was_ready: bool, lane: bytes | None = None) -> bool:
        """Return whether what this operation found due in the queue is for the clients that block,
        which `ready` wakes. Before it came there was nothing to take, or they would not block."""
        return not was_ready and name in self.ready and self.has_takers(name, lane)

    def forget(self, queue: Worklist) -> None:
        """Remove an empty worklist. If that is not journaled, recovery finds a queue that has been
        idle for long, and forgets it too."""
        self.try_append(Forgotten(FORGOTTEN, queue.name))
        self.drop(queue)

    def end(self, queue: Worklist) -> None:
        """Remove an expired worklist, with all that was in it. If that is not journaled, recovery
        does the same by looking at the clock."""
        is_journaled = self.try_append(Forgotten(FORGOTTEN, queue.name))
        if self.watched:
            self.notice_end([queue])
        self.empty(queue, is_noted=is_journaled)
        self.drop(queue)
        self.keep_claimed(queue)

    def notice_end(self, queues: Sequence[Worklist]) -> None:
        """Wake the clients that wait for the ends of messages of these worklists, which are about
        to be emptied."""
        queues = [queue for queue in queues if queue.size and not queue.family.owns_ids]
        if sum(queue.size for queue in queues) < len(self.watched):
            ids = (message.id for queue in queues for message in queue.all())
            self.ready.update(id for id in ids if id in self.watched)
        else:
            emptied = set(queues)
            for id in self.watched:
                message = self.directory.get(id)
                if message is not None and message.queue in emptied:
                    self.ready.add(id)

    def empty(self, queue: Worklist, *, is_noted: bool = True, is_kept: bool = True) -> int:
        """Empty the worklist; return how many messages had not expired. If very many had expired,
        some of them count too. Many messages are removed a little with each tick."""
        living = queue.count_living(self.at_ms, SETTLE_MOST_COUNTING)
        if self._emptied + queue.size <= EMPTIED_AT_ONCE_MOST:
            self._emptied += queue.size
            gone = queue.clear()
            if is_noted:
                self.note_purged(queue, gone)
            if is_kept:
                self.bodies.went(gone)
        else:
            self.leave(queue, queue.retire(), is_noted=is_noted, is_kept=is_kept)
        return living

    def empty_feed(self, queue: Feed) -> None:
        """Nothing is in the feed."""
        remains = queue.clear()
        if self._emptied + remains.size <= EMPTIED_AT_ONCE_MOST:
            self._emptied += remains.size
            gone = remains.drop_some(remains.size)
            self.note_purged(queue, gone)
            self.bodies.went(gone)
        else:
            self.leave(queue, remains)

    def leave(
        self, queue: Queue, remains: Remains, *, is_noted: bool = True, is_kept: bool = True
    ) -> None:
        """Remove the remains of the queue a little with each tick. The event appended last emptied
        the queue, and does not name its messages."""
        purging = None
        if is_noted and self.journal.notes is not None:
            purging = Purging(queue)
            self.journal.note(purging)
        self.leaving.append(Leaving(remains, purging, is_kept=is_kept))

    def empty_some(self, most: int = 0) -> int:
        """Remove up to `most` messages of the queue that was emptied first. The record gets the
        next queue after this one. Return how many messages' worth of work this was."""
        most = most or EMPTIED_AT_ONCE_MOST
        leaving = self.leaving[0]
        size = leaving.remains.size
        gone = leaving.remains.drop_some(most)
        if leaving.is_kept:
            self.bodies.went(gone)
        is_over = not leaving.remains.size
        if leaving.purging is not None:
            leaving.purging.add(gone, is_over=is_over)
        if is_over:
            self.leaving.popleft()
        return _QUEUE_WORTH + (len(gone) or min(most, size))

    def empty_as_many(self, least: int = 0) -> None:
        """Remove about as many messages of emptied queues as came in this turn, or `least` if that
        is more. A client that adds and empties without a pause leaves few ticks, and would leave
        more each time."""
        # Twice as many: to find the leased ones among few messages takes as long as to remove them.
        room, self.bodies.came_now = max(least, 2 * self.bodies.came_now), 0
        if room:
            self.empty_several(room)

    def empty_several(self, most: int = 0) -> None:
        """Remove about `most` messages of the queues that were emptied first."""
        room = most or EMPTIED_AT_ONCE_MOST
        while self.leaving and room > 0:
            room -= self.empty_some(room)

    def count_leaving(self, *, is_shared: bool = False) -> int:
        """Return how many messages are counted that are yet to be removed: those of the shared
        directory, or all stored ones."""
        return sum(
            it.remains.size
            for it in self.leaving
            if (it.remains.is_shared if is_shared else it.is_kept)
        )

    def drop(self, queue: Worklist) -> None:
        """Remove the worklist from all indexes."""
        self.queues.pop(queue.name, None)
        self.former_names.forget(queue)
        self.worklists.remove(queue.name)
        self.tubes.pop(queue.name, None)
        self.busy.pop(queue.name, None)

    def keep(self, queue: Worklist) -> None:
        """Add a new worklist to the indexes."""
        for found in self.subscriptions.of(queue.name):
            if found.family is queue.family:
                count_claimed(found, queue)
        self.queues[queue.name] = queue
        self.worklists.add(queue.name, queue)
        if isinstance(queue, Tube):
            self.tubes[queue.name] = queue

    def keep_feed(self, queue: Feed) -> None:
        """The feed, which is new, can be found."""
        self.queues[queue.name] = queue
        self.feeds.add(queue.name, queue)

    def drop_feed(self, queue: Feed) -> None:
        """The feed is in no index any more."""
        if self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
            self.feeds.remove(queue.name)

    def keep_claimed(self, gone: Worklist) -> None:
        """Make a new worklist of the same name for the messages of this one that are in claims."""
        if not gone.claimed:
            return
        queue = Worklist(gone.name, gone.family, self.directory, self.at_ms)
        self.keep(queue)
        if queue.family.is_lasting:
            self.try_append(worklist_kept(queue))

    def note_purged(self, queue: Queue, gone: Sequence[Message]) -> None:
        """The event appended last took all of these away, and does not name them."""
        if gone and self.journal.notes is not None:
            self.journal.note(purged(queue, gone))

    def try_append(self, event: Event) -> bool:
        """Journal a change that was due, now or as soon as there is room; False if that cannot be.
        Without the event, recovery does the same by looking at the clock, as long as no later
        event depends on it: so it comes before any other event in the journal."""
        try:
            self.journal.append(event)
        except DiskFull:
            # A message that is held once more for each of its periods would always be owed.
            if event.kind != HELD:
                self.journal.owe(event)
        except StoreUnavailable:
            return False
        return True

    def set_aside(self, queue: Queue, message: Message, why: JournalDamaged) -> None:
        """The message, whose body is damaged, is in no other message's way. store.py does it."""
        raise why

    def heal(self, segment: int) -> None:
        """The segment, in which damage was found, is compacted. store.py does it."""
        raise NotImplementedError

    def read_or_set_aside(
        self, queue: Queue, messages: Sequence[Message], room_bytes: int
    ) -> list[bytes]:
        """The bodies of the first messages. None if the first is damaged: it is set aside, and the
        caller chooses again."""
        try:
            return self.read(messages, room_bytes)
        except JournalDamaged as exc:
            self.set_aside(queue, messages[0], exc)
            return []

    def read(self, messages: Iterable[Message], room_bytes: int) -> list[bytes]:
        """The bodies: all, or those of the first messages when they are large, or when one after
        them cannot be read. Raises JournalDamaged or NotDone when that is the first."""
        bodies: list[bytes] = []
        for message in messages:
            try:
                body = self.bodies.of(message)
            except (JournalDamaged, NotDone):
                if bodies:
                    break
                raise
            bodies.append(body)
            room_bytes -= len(body)
            if room_bytes <= 0:
                break
        return bodies


def wrong_type(queue: Queue) -> WrongType:
    """The name belongs to that queue, and is not free."""
    is_claimed = isinstance(queue, Worklist) and queue.claimed > 0
    return WrongType.of_queue(queue.name, queue.family.name, is_claimed=is_claimed)


def _nothing() -> None:
    """The caller is not notified."""
