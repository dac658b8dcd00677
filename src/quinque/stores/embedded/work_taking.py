"""Handing out: Take, from one worklist or from many in turn.

Called by   store.py.
Calls       worklists.py, engine/work/decide.py (rules).

Not here: waiting for something to take (server/waiters.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from quinque.engine.work import decide
from quinque.engine.work.apply import apply_taken
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, Leaving, NotDone, WrongType
from quinque.model.glob import JOINED_MOST_BYTES, compile_glob, match_cost, matcher
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES
from quinque.model.work_ops import Take, WorkDelivery
from quinque.stores.embedded.books import ASIDE_MOST
from quinque.stores.embedded.names import Names
from quinque.stores.embedded.slices import Slices
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.pending import Pending

# Names that one slice looks at, at about 1 µs each. To match one with patterns may cost more, and
# to take from a worklist does.
_LOOKS_MOST: Final = 5_000
_TAKE_COST: Final = 10
# To read a byte of a pattern takes about 4 µs.
_READ_COST: Final = 4


class WorkTaking:
    def __init__(self, lists: Worklists, names: Names) -> None:
        self._books = lists.books
        self._lists = lists
        self._names = names
        self.runners: dict[type, Callable[[Any], Any]] = {Take: self._take}

    def _take(self, op: Take) -> list[WorkDelivery] | Pending:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        if len(op.queues) == 1:
            most = min(op.count, RESERVE_MOST)
            given = self._take_from(op, op.queues[0], most, now_ms, RESERVE_MOST_BYTES)
            return self._unless_leaving(op, given)
        if op.is_drained:
            return self._unless_leaving(op, self._drain(op, now_ms))
        books = self._books
        before, books.ready = books.ready, set()
        try:
            if op.patterns:
                self._lists.settle_alarms()
            else:  # a name of another family refuses them all, before anything is changed
                for name in op.queues:
                    self._lists.check_family(op.family, name)
                for name in op.queues:
                    self._lists.settled(op.family, name, now_ms)
        finally:
            due = books.ready - before
            books.ready |= before
        left = {name for name in due if books.has_takers(name, None)}
        some: list[WorkDelivery] | Pending = books.sliced.begin(self._take_in_turn(op, left))
        return some

    def _unless_leaving(self, op: Take, given: list[WorkDelivery]) -> list[WorkDelivery]:
        """Return the messages. Raises Leaving if there are none, and the client may not wait."""
        if not given and op.is_waiting and self._books.node.is_leaving:
            raise Leaving
        return given

    def _drain(self, op: Take, now_ms: int) -> list[WorkDelivery]:
        """All of the first worklist, then all of the second, until there are enough."""
        given: list[WorkDelivery] = []
        most = min(op.count, RESERVE_MOST)
        room_bytes = RESERVE_MOST_BYTES
        for name in op.queues:
            if len(given) == most or room_bytes <= 0:
                break
            try:
                some = self._take_from(op, name, most - len(given), now_ms, room_bytes)
            except (DiskFull, NotDone, WrongType):
                if given:  # they are leased, so they must be delivered
                    continue
                raise
            given += some
            room_bytes -= sum(len(delivery.body) for delivery in some)
        return given

    def _take_in_turn(self, op: Take, for_others: Collection[bytes]) -> Slices:
        """Take one message from each work queue in turn, until there are enough or no more. If the
        queues match patterns, the queue that was read last comes last. Queues `for_others` are left
        out."""
        busy = self._lists.busy
        if sum(map(len, op.patterns)) > JOINED_MOST_BYTES:
            yield from _read(op.patterns)
        matches = matcher(op.patterns) if op.patterns else None
        cost = match_cost(tuple(op.patterns))
        given: list[WorkDelivery] = []
        most = min(op.count, RESERVE_MOST)
        room_bytes = RESERVE_MOST_BYTES
        left: Sequence[bytes] = list(busy) if op.patterns else op.queues
        room = _LOOKS_MOST
        while left:
            still: list[bytes] = []
            for name in left:
                if len(given) == most or room_bytes <= 0:
                    return given
                if room <= 0:
                    yield bool(given)
                    room = _LOOKS_MOST
                room -= 1
                if name in for_others:
                    continue
                if op.patterns:
                    queue = busy.get(name)
                    if queue is None or queue.family is not op.family:
                        continue
                    if not queue.ready.size:
                        del busy[name]
                        continue
                if matches is not None:
                    room -= cost.of(name)
                    if not matches(name):
                        continue
                room -= _TAKE_COST
                try:
                    some = self._take_from(op, name, 1, self._books.at_ms, room_bytes)
                except (DiskFull, NotDone, WrongType):
                    if given:  # they are leased, so they must be delivered
                        return given
                    raise
                if some:
                    given += some
                    room_bytes -= len(some[0].body)
                    still.append(name)
                    if op.patterns and (queue := busy.pop(name, None)) is not None:
                        busy[name] = queue  # the next reader begins with another
            left, matches = still, None
        return self._unless_leaving(op, given)

    def _take_from(
        self, op: Take, name: bytes, most: int, now_ms: int, room_bytes: int
    ) -> list[WorkDelivery]:
        was_ready = name in self._books.ready
        queue = self._lists.settled(op.family, name, now_ms)
        if queue is None:
            # A reader that waits on a worklist makes it, so that other clients see that a reader
            # waits; but not a worklist of a family that is lasting.
            if op.is_waiting and not self._books.node.is_leaving and not op.family.is_lasting:
                queue = Worklist(name, op.family, self._lists.directory, now_ms)
                self._lists.keep(queue)
                queue.set_soonest()
                self._books.set_alarm(queue)
            return []
        given: list[WorkDelivery] = []
        for _ in range(ASIDE_MOST):
            messages = self._lists.to_take(queue, most, now_ms)
            if not messages or self._books.is_for_others(name, was_ready):
                break
            bodies = self._books.read_or_set_aside(queue, messages, room_bytes)
            if bodies:
                given = self._hand_out(queue, messages[: len(bodies)], bodies, now_ms, op.lease_ms)
                break
        self._books.set_alarm(queue)
        return given

    def _hand_out(
        self,
        queue: Worklist,
        messages: list[WorkMessage],
        bodies: list[bytes],
        now_ms: int,
        lease_ms: int,
    ) -> list[WorkDelivery]:
        taken = 0
        for event in decide.take(queue, messages, now_ms, self._names.jitter_ms(), lease_ms):
            try:
                self._lists.journal.append(event)
            except DiskFull:
                if taken:  # they are leased, so they must be delivered
                    break
                raise
            apply_taken(queue, event)
            taken += len(event.ids)
        name = queue.name
        return [
            WorkDelivery(name, job.id, body, job.nacks, job.requeues, decide.lease_of(job))
            for job, body in zip(messages[:taken], bodies, strict=False)
        ]


def _read(patterns: Sequence[bytes]) -> Slices:
    """Read patterns, so that they need not be read again while they are in use."""
    room = _LOOKS_MOST
    for pattern in patterns:
        if room <= 0:
            yield False
            room = _LOOKS_MOST
        read = compile_glob.cache_info().misses
        compile_glob(pattern)
        if compile_glob.cache_info().misses != read:
            room -= _READ_COST * len(pattern)
