"""Handing out: Take, from one worklist or from many in turn.

Called by   store.py.
Calls       worklists.py, engine/work/decide.py (rules).

Not here: waiting for something to take (server/waiters.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quinque.engine.work import decide
from quinque.engine.work.apply import apply_taken
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, Leaving, NotDone, WrongType
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES
from quinque.model.work_ops import Take, WorkDelivery
from quinque.stores.embedded.books import ASIDE_MOST
from quinque.stores.embedded.names import Names
from quinque.stores.embedded.slices import Slices
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.pending import Pending


class WorkTaking:
    def __init__(self, lists: Worklists, names: Names) -> None:
        self._books = lists.books
        self._lists = lists
        self._names = names
        self.runners: dict[type, Callable[[Any], Any]] = {Take: self._take}

    def _take(self, op: Take) -> list[WorkDelivery] | Pending:
        self._books.at_ms = self._books.clock.now_us() // 1000
        if not op.patterns:
            return self._take_from_all(op, op.queues)
        given: list[WorkDelivery] | Pending = self._books.sliced.begin(self._take_matching(op))
        return given

    def _take_matching(self, op: Take) -> Slices:
        names: list[bytes] = yield from self._lists.matching(op.family, op.patterns)
        return self._take_from_all(op, names)

    def _take_from_all(self, op: Take, names: Sequence[bytes]) -> list[WorkDelivery]:
        now_ms = self._books.at_ms
        given: list[WorkDelivery] = []
        if len(names) == 1:
            most = min(op.count, RESERVE_MOST)
            given = self._take_from(op, names[0], most, now_ms, RESERVE_MOST_BYTES)
        elif op.is_drained:
            self._drain(op, names, now_ms, given)
        else:
            # Before anything is taken. Names that match patterns are of the family.
            for name in () if op.patterns else names:
                self._lists.check_family(op.family, name)
            self._take_in_turn(op, names, now_ms, given)
        if not given and op.is_waiting and self._books.node.is_leaving:
            raise Leaving
        return given

    def _drain(
        self, op: Take, names: Sequence[bytes], now_ms: int, given: list[WorkDelivery]
    ) -> None:
        """All of the first worklist, then all of the second, until there are enough."""
        most = min(op.count, RESERVE_MOST)
        room_bytes = RESERVE_MOST_BYTES
        for name in names:
            if len(given) == most or room_bytes <= 0:
                return
            try:
                some = self._take_from(op, name, most - len(given), now_ms, room_bytes)
            except (DiskFull, NotDone, WrongType):
                if given:  # they are leased, so they must be delivered
                    continue
                raise
            given += some
            room_bytes -= sum(len(delivery.body) for delivery in some)

    def _take_in_turn(
        self, op: Take, names: Sequence[bytes], now_ms: int, given: list[WorkDelivery]
    ) -> None:
        """One from each worklist, again and again, until there are enough or no more."""
        # Before the first is leased: a name of another family refuses them all.
        for name in () if op.patterns else names:
            self._lists.settled(op.family, name, now_ms)
        left = list(names)
        most = min(op.count, RESERVE_MOST)
        room_bytes = RESERVE_MOST_BYTES
        while left and len(given) < most and room_bytes > 0:
            still: list[bytes] = []
            for name in left:
                if len(given) == most or room_bytes <= 0:
                    break
                try:
                    some = self._take_from(op, name, 1, now_ms, room_bytes)
                except (DiskFull, NotDone):
                    if given:  # they are leased, so they must be delivered
                        return
                    raise
                if some:
                    given += some
                    room_bytes -= len(some[0].body)
                    still.append(name)
                    if op.patterns and (queue := self._lists.busy.pop(name, None)) is not None:
                        self._lists.busy[name] = queue  # the next reader begins with another
            left = still

    def _take_from(
        self, op: Take, name: bytes, most: int, now_ms: int, room_bytes: int
    ) -> list[WorkDelivery]:
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
            if not messages:
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
