"""Turn events of the journal into entries of the lifecycle log.

Called by   record.py: for each event that was committed, and at the start for those that the
            record does not have yet.
Calls       nothing.

Most events name the ids they are about. The others (a flush, a settled claim) are followed by a
Change that does.

Not here: events of tubes (tube_changes.py), where entries are kept (record_files.py), what they
mean (model/lifecycle.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgpack

from quinque.engine.queue import Queue
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.model import events, own_events
from quinque.model.families import EVENTS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.message import Message
from quinque.model.packing import Packing
from quinque.model.stage_events import STAGE_MOVED
from quinque.model.states import State
from quinque.model.tube_events import TaskKept, TasksPut
from quinque.stats.tally import Tally
from quinque.stores.embedded import tube_changes

ROWS_MOST: Final = 1_000  # of one entry

# As plain integers: a member of an enum is looked up more slowly.
_ADDED: Final = int(Kind.ADDED)
_DELIVERED: Final = int(Kind.DELIVERED)
_ACKED: Final = int(Kind.ACKED)
_RETURNED: Final = int(Kind.RETURNED)
_DELAYED: Final = int(Kind.DELAYED)
_EXPIRED: Final = int(Kind.EXPIRED)
_DEAD: Final = int(Kind.DEAD)
_REMOVED: Final = int(Kind.REMOVED)
_HELD: Final = int(Kind.HELD)
_LAPSED: Final = int(Reason.LAPSED)
_NACKED: Final = int(Reason.NACKED)
_ASKED: Final = int(Reason.ASKED)
_REDRIVEN: Final = int(Reason.REDRIVEN)
_PURGED: Final = int(Reason.PURGED)
_NO_ACK: Final = int(Reason.NO_ACK)
_STAGED: Final = int(Reason.STAGED)
_RECOVERED: Final = int(Reason.RECOVERED)
_RENAMED: Final = int(Reason.RENAMED)
_TTL_OVER: Final = int(Reason.TTL_OVER)
_EVENTS: Final = EVENTS.code  # only they have groups: events about leases of a group name no family

_WHY_REQUEUED: Final = {
    events.LAPSE: _LAPSED,
    events.NACK: _NACKED,
    events.ENQUEUE: _ASKED,
    events.UNCOUNTED: _ASKED,
    events.DELAY_OVER: int(Reason.DELAY_OVER),
}
_WHY_REMOVED: Final = {
    events.FINISHED: (_ACKED, 0),
    events.DELETED: (_REMOVED, int(Reason.DELETED)),
    events.PURGED: (_REMOVED, _PURGED),
    events.NO_ACK: (_ACKED, _NO_ACK),
}

CHANGE: Final = -1  # among the kinds of events
_SILENT: Final = (-2,)  # of a kind that tells nothing


class Change(NamedTuple):
    """The change of messages that the event before it does not name. `mark` is CHANGE. `ids` is a
    list, or a packed list with at most ROWS_MOST."""

    mark: int
    kind: int
    reason: int
    family: int
    queue: bytes
    group: bytes
    claim: int
    ids: Sequence[bytes] | bytes
    sizes: Sequence[int] | None


class Purging:
    """A note after an event that emptied a queue: its messages, which are removed a little at a
    time. All notes after it wait until it is complete."""

    def __init__(self, queue: Queue) -> None:
        self._family = queue.family.code
        self._queue = queue.name
        self._gone: list[bytes] = []  # removed, and not yet passed to the record
        self.is_over = False  # all are removed

    def add(self, gone: Sequence[Message], *, is_over: bool) -> None:
        """These were removed, in the order of their places."""
        self._gone += [message.id for message in gone]
        self.is_over = is_over

    def take(self) -> Change:
        """Return the removed messages that the record does not have yet."""
        gone, self._gone = self._gone, []
        return _purged(self._family, self._queue, gone)


def purged(queue: Queue, gone: Sequence[Message]) -> Change:
    """All that was in the queue is gone."""
    # In an order that is the same when the journal is read back, whatever was compacted meanwhile.
    ids = [message.id for message in sorted(gone, key=lambda it: it.place)]
    return _purged(queue.family.code, queue.name, ids)


def purged_unnamed(queue: Queue, count: int) -> Change:
    """`count` messages of the queue are gone. Without ids, this is for counting only."""
    return _purged(queue.family.code, queue.name, [b""] * count)


def _purged(family: int, queue: bytes, ids: Sequence[bytes]) -> Change:
    return Change(CHANGE, _REMOVED, _PURGED, family, queue, b"", 0, ids, None)


def task_replaced(event: TaskKept, old_state: int | None) -> list[Change]:
    """Return the changes that the event made to a task in that state; None: the task did not
    exist."""
    told = tube_changes.replaced(old_state, event.state)
    return [
        Change(
            *(CHANGE, kind, reason, event.family, event.queue, b"", 0, [event.id]),
            [len(event.body)] if kind == _ADDED else None,
        )
        for kind, reason in told
    ]


def renamed(queue: Worklist, old_name: bytes, size_of: Callable[[Message], int]) -> list[Change]:
    """All that is in the queue left one of the old name, and came to this one as it is."""
    turns: Mapping[bytes, int] = queue.turns or {}
    by_state: dict[int, list[WorkMessage]] = {READY: [], DELAYED: [], LEASED: [], DEAD: []}
    for message in sorted(queue.all(), key=lambda it: (turns.get(it.id, 0), it.place)):
        by_state[message.state].append(message)
    messages = [message for some in by_state.values() for message in some]
    ids = [message.id for message in messages]
    code, name = queue.family.code, queue.name
    changes = [
        Change(CHANGE, _REMOVED, _RENAMED, code, old_name, b"", 0, ids, None),
        Change(CHANGE, _ADDED, _RENAMED, code, name, b"", 0, ids, list(map(size_of, messages))),
    ]
    for state, kind in ((DELAYED, _DELAYED), (LEASED, _DELIVERED), (DEAD, _DEAD)):
        some = [message.id for message in by_state[state]]
        if some:
            changes.append(Change(CHANGE, kind, _RENAMED, code, name, b"", 0, some, None))
    return changes if ids else []


class Changes:
    """Turns events into packed entries; rows are numbered on from `number`."""

    def __init__(self, number: int) -> None:
        self.number = number  # of the next row
        self.at_ms = 0  # when the events that come now were committed
        self.skipped = 0  # how many of the next rows are on record already
        self.entries: list[bytes] = []
        self.size_bytes = 0  # of the entries
        self.families: dict[bytes, int] = {}
        self.tally: Tally | None = None  # counts the changes, if a caller wants that
        self._staged = 0  # how many of the next events add messages of a staged batch
        self._pack: Callable[[Any], bytes] = Packing().pack
        self._tellers: dict[int, Callable[[Any], None]] = {
            CHANGE: self._change,
            events.STORED: self._stored,
            events.LEASED: self._leased,
            events.ACKED: self._acked,
            events.RELEASED: self._released,
            events.EXTENDED: self._extended,
            events.LAPSED: self._lapsed,
            events.EXPIRED: self._expired,
            events.REMOVED: self._removed,
            events.ADDED: self._added,
            events.TAKEN: self._taken,
            own_events.RECOVERED: self._recovered,
            own_events.RENAMED: self._renamed,
            events.REQUEUED: self._requeued,
            own_events.MOVED_BACK: self._moved_back,
            events.HELD: self._held,
            events.DIED: self._died,
            events.REDRIVEN: self._redriven,
            STAGE_MOVED: self._stage_moved,
        }
        for kind, teller in tube_changes.TELLERS.items():
            self._tellers[kind] = partial(teller, self)

    def know(self, queues: Mapping[bytes, Queue]) -> None:
        """Note the family of each queue: most events do not have it."""
        self.families = {name: queue.family.code for name, queue in queues.items()}

    def tell(self, event: Any) -> None:
        """Add the changes of an event to the entries."""
        self._tellers.get(event[0], _tell_nothing)(event)

    def without_bodies(self, note: Any) -> Any:
        """Return the note with the sizes of bodies in place of the bodies."""
        if not isinstance(note, tuple) or note[0] == CHANGE:
            return note
        if isinstance(note, events.Stored | events.Added | TasksPut):
            sizes: Any = tube_changes.sizes_of(note.bodies)
            return note._replace(bodies=sizes)
        return note if note[0] in self._tellers else _SILENT

    def put(
        self,
        kind: int,
        reason: int,
        family: int,
        queue: bytes,
        group: bytes,
        claim: int,
        ids: Sequence[bytes],
        sizes: Sequence[int] | None,
    ) -> None:
        """Add one change of these messages."""
        count = len(ids)
        if count > ROWS_MOST or self.skipped:
            self._put_some(kind, reason, family, queue, group, claim, ids, sizes)
        elif count:
            pack, number, at_ms = self._pack, self.number, self.at_ms
            packed = None if sizes is None else pack(sizes)
            entry = pack(
                (number, at_ms, kind, reason, family, queue, group, claim, pack(ids), packed)
            )
            self.entries.append(entry)
            self.size_bytes += len(entry)
            self.number = number + count
            if self.tally is not None:
                self.tally.add(kind, reason, family, queue, group, count)

    def take(self) -> list[bytes]:
        """The entries, which are then the caller's."""
        entries = self.entries
        self.entries = []
        self.size_bytes = 0
        return entries

    def _put_some(
        self,
        kind: int,
        reason: int,
        family: int,
        queue: bytes,
        group: bytes,
        claim: int,
        ids: Sequence[bytes],
        sizes: Sequence[int] | None,
    ) -> None:
        """The rows that are not on record yet, in several entries if they are many."""
        at = min(self.skipped, len(ids))
        self.skipped -= at
        while at < len(ids):
            end = at + ROWS_MOST
            some = None if sizes is None else sizes[at:end]
            self.put(kind, reason, family, queue, group, claim, ids[at:end], some)
            at = end

    # -- one method per kind of event ------------------------------------------------------------

    def _change(self, event: Change) -> None:
        _, kind, reason, family, queue, group, claim, ids, sizes = event
        self.families[queue] = family  # it may be the queue's first event
        if isinstance(ids, bytes):
            if not self.skipped:
                packed = None if sizes is None else self._pack(sizes)
                entry = self._pack((self.number, self.at_ms, *event[1:7], ids, packed))
                self.entries.append(entry)
                self.size_bytes += len(entry)
                self.number += _length(ids)
                if self.tally is not None:
                    self.tally.add(kind, reason, family, queue, group, _length(ids))
                return
            ids = msgpack.unpackb(ids, raw=True)
        self.put(kind, reason, family, queue, group, claim, ids, sizes)

    def _stage_moved(self, event: Any) -> None:
        self._staged = event[6]

    def _reason(self) -> int:
        """Why messages come that were staged."""
        self._staged -= 1
        return _STAGED

    def _stored(self, event: Any) -> None:
        _, queue, family, place, _, _, _, ids, bodies = event
        self.families[queue] = family
        if ids is None:
            ids = [b"%d" % number for number in range(place, place + len(bodies))]
        reason = self._reason() if self._staged else 0
        self.put(_ADDED, reason, family, queue, b"", 0, ids, tube_changes.sizes_of(bodies))

    def _leased(self, event: Any) -> None:
        _, queue, group, deadline_ms, _, ids = event
        self.put(_DELIVERED, 0, _EVENTS, queue, group, 0, ids, None)
        if not deadline_ms:
            self.put(_ACKED, _NO_ACK, _EVENTS, queue, group, 0, ids, None)

    def _acked(self, event: Any) -> None:
        _, queue, group, ids = event
        self.put(_ACKED, 0, _EVENTS, queue, group, 0, ids, None)

    def _released(self, event: Any) -> None:
        _, queue, group, ids, is_uncounted = events.Released(*event)
        reason = _ASKED if is_uncounted else _NACKED
        self.put(_RETURNED, reason, _EVENTS, queue, group, 0, ids, None)

    def _extended(self, event: Any) -> None:
        _, queue, group, _, ids = event
        self.put(_HELD, 0, _EVENTS, queue, group, 0, ids, None)

    def _lapsed(self, event: Any) -> None:
        _, queue, group, ids = event
        self.put(_RETURNED, _LAPSED, _EVENTS, queue, group, 0, ids, None)

    def _expired(self, event: Any) -> None:
        _, queue, ids = event
        self.put(_EXPIRED, 0, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _removed(self, event: Any) -> None:
        queue, ids = event[1], event[2]
        why, group = events.FINISHED, b""  # as in a journal of before, where neither is there
        if len(event) > 3:
            why, group = event[3], event[4]
        kind, reason = _WHY_REMOVED[why]
        family = self.families.get(queue, 0)
        if group:  # which finished it, and with that it is over for everyone
            self.put(kind, reason, family, queue, group, 0, ids, None)
        self.put(kind, reason, family, queue, b"", 0, ids, None)

    def _added(self, event: Any) -> None:
        _, queue, family, _, _, terms, _, ids, bodies = event
        self.families[queue] = family
        reason = self._reason() if self._staged else 0
        self.put(_ADDED, reason, family, queue, b"", 0, ids, tube_changes.sizes_of(bodies))
        if terms[1]:
            self.put(_DELAYED, 0, family, queue, b"", 0, ids, None)

    def _taken(self, event: Any) -> None:
        queue, due_ms, ids = event[1], event[3], event[4]
        # In a family that keeps the order of deliveries the broker always waits for an ack.
        reason = 0 if due_ms or (len(event) > 5 and event[5] is not None) else _NO_ACK
        self.put(_DELIVERED, reason, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _recovered(self, event: Any) -> None:
        _, queue, _, _, ids = event
        self.put(_DELIVERED, _RECOVERED, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _requeued(self, event: Any) -> None:
        _, queue, _, why, due_ms, _, ids = event
        kind = _DELAYED if due_ms else _RETURNED
        self.put(kind, _WHY_REQUEUED[why], self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _renamed(self, event: Any) -> None:
        _, queue, new_name, _ = event
        if queue in self.families:
            self.families[new_name] = self.families[queue]

    def _moved_back(self, event: Any) -> None:
        _, queue, _, _, ids = event
        self.put(_RETURNED, _LAPSED, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _held(self, event: Any) -> None:
        _, queue, state, _, ids = event
        kind = _DELAYED if state == int(State.DELAYED) else _HELD
        self.put(kind, 0, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _died(self, event: Any) -> None:
        _, queue, _, is_nack, why, ids = event
        reason = _NACKED if is_nack else _LAPSED
        if not is_nack and why == events.EXPIRED_REASON:
            reason = _TTL_OVER
        self.put(_DEAD, reason, self.families.get(queue, 0), queue, b"", 0, ids, None)

    def _redriven(self, event: Any) -> None:
        _, queue, _, _, ids = event
        self.put(_RETURNED, _REDRIVEN, self.families.get(queue, 0), queue, b"", 0, ids, None)


class Counted(Changes):
    """Counts changes, and makes no entries."""

    def put(
        self,
        kind: int,
        reason: int,
        family: int,
        queue: bytes,
        group: bytes,
        claim: int,
        ids: Sequence[bytes],
        sizes: Sequence[int] | None,
    ) -> None:
        if self.tally is not None:
            self.tally.add(kind, reason, family, queue, group, len(ids))


def _tell_nothing(event: Any) -> None:
    """It is not about a change of a message's state."""


def _length(packed: bytes) -> int:
    """The length of a packed list of up to 65,535 items: in its first byte, or the two after it."""
    return packed[0] & 0x0F if packed[0] < 0xA0 else packed[1] << 8 | packed[2]
