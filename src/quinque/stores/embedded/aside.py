"""Set a message aside whose body on the disk is not what it was.

Otherwise the message would stay the next of its queue, and nothing behind it would be delivered.
A job is dead and a task is buried, with an empty body and, for a job, the reason. The
other families have no place for such messages, so they are removed. The bytes that are damaged are
copied into `damaged-<segment>-<offset>.bin`, next to the journal, and the log names the message.

Not here: damage that a start finds (repair.py).
"""

from __future__ import annotations

import logging

from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.tubes.decide import bury
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, Worklist
from quinque.errors import JournalDamaged, printable
from quinque.model.events import DELETED, DIED, REMOVED, Died, Removed
from quinque.model.families import JOBS
from quinque.model.message import Message
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.kept import message_kept
from quinque.stores.embedded.tubes import Tubes
from quinque.stores.embedded.worklists import Worklists

_RECORDS_BYTES = 1_024  # room for the reason and for numbers that the first record makes longer

log = logging.getLogger("quinque.journal")


class Aside:
    def __init__(self, lists: Worklists, feeds: FeedOperations, tubes: Tubes) -> None:
        self._lists = lists
        self._feeds = feeds
        self._tubes = tubes

    def put(self, queue: Queue, message: Message, why: JournalDamaged) -> None:
        """Set the message aside. Raises DiskFull when the journal has no room for it."""
        home = message.home
        if isinstance(queue, Tube):
            self._bury(queue, message)
        elif isinstance(queue, Worklist) and queue.family is JOBS:
            self._let_die(queue, message, str(why).encode())
        elif isinstance(queue, Worklist):
            removed = Removed(REMOVED, queue.name, [message.id], DELETED)
            self._lists.remove(queue, removed)
        else:
            assert isinstance(queue, Feed)
            self._feeds.remove(queue, Removed(REMOVED, queue.name, [message.id], DELETED))
        log.error(
            "moved message %s of queue %s out of the queue: %s. %s",
            printable(message.id),
            printable(queue.name),
            why,
            self._lists.journal.copy_aside(home),
        )

    def _let_die(self, queue: Worklist, message: Message, reason: bytes) -> None:
        at_ms = self._lists.books.at_ms
        assert isinstance(message, WorkMessage)
        if message.state != DEAD:
            died = Died(DIED, queue.name, at_ms, False, reason, [message.id])
            self._lists.journal.append(died, self._room_bytes(queue, message))
            self._lists.apply(queue, died)
        self._empty(queue, message)

    def _bury(self, tube: Tube, message: Message) -> None:
        event = bury(tube, [message.id], self._lists.books.at_ms)
        if event is not None:
            self._lists.journal.append(event, self._room_bytes(tube, message))
            self._tubes.apply(tube, event)
        self._empty(tube, message)

    def _empty(self, queue: Worklist, message: Message) -> None:
        """The message has an empty body."""
        assert isinstance(message, WorkMessage)
        self._lists.journal.append(message_kept(queue, message, b""))
        self._lists.bodies.emptied(message, self._lists.journal.body_home())
        self._lists.books.set_alarm(queue)

    def _room_bytes(self, queue: Worklist, message: Message) -> int:
        assert isinstance(message, WorkMessage)
        kept = message_kept(queue, message, b"")
        return _RECORDS_BYTES + self._lists.journal.bytes_of([kept])
