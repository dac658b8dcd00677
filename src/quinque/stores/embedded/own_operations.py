"""Operations on worklists whose ids are their own: completing, recovering, inspecting.

Called by   store.py.
Calls       worklists.py (finds, settles, changes), engine/work/ (rules).

Not here: adding and handing out, which are as in all worklists (work_operations.py,
work_taking.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from quinque.engine.work import decide
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.views import delivered_ms, inspect
from quinque.engine.work.worklist import LEASED, Worklist
from quinque.model.events import WorkEvent
from quinque.model.families import Family
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST_COUNTING
from quinque.model.own_ops import Complete, Inspect, Inspected, Recover, Undeliver
from quinque.model.work_ops import WorkDelivery
from quinque.stores.embedded.books import ASIDE_MOST
from quinque.stores.embedded.worklists import Worklists


class OwnOperations:
    def __init__(self, lists: Worklists) -> None:
        self._books = lists.books
        self._lists = lists
        self.runners: dict[type, Callable[[Any], Any]] = {
            Complete: self._complete,
            Recover: self._recover,
            Undeliver: self._undeliver,
            Inspect: self._inspect,
        }

    def _complete(self, op: Complete) -> list[bool] | None:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        if queue is None:
            return None
        by_id, is_leased = queue.directory.by_id, op.is_leased
        ids: list[bytes] = []
        for id in op.message_ids if len(op.message_ids) == 1 else dict.fromkeys(op.message_ids):
            message = by_id.get(id)
            if message is not None and (message.state == LEASED or not is_leased):
                ids.append(id)
        if ids:
            self._lists.remove(queue, decide.finish(queue, ids))
        if len(ids) == len(op.message_ids):  # as nearly always
            return [True] * len(ids)
        done = set(ids)
        results: list[bool] = []
        for id in op.message_ids:
            results.append(id in done)
            done.discard(id)
        return results

    def _recover(self, op: Recover) -> list[WorkDelivery] | None:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        queue = self._lists.settled(op.family, op.queue, now_ms)
        if queue is None:
            return None
        for _ in range(ASIDE_MOST):
            messages = _recoverable(queue, min(op.count, RESERVE_MOST), op.elapsed_ms, now_ms)
            if not messages:
                return []
            bodies = self._books.read_or_set_aside(queue, messages, RESERVE_MOST_BYTES)
            if bodies:
                break
        messages = messages[: len(bodies)]
        if not messages:
            return []
        self._lists.run_all([(queue, [decide.recover(queue, messages, now_ms)])])
        return [
            WorkDelivery(queue.name, message.id, body, message.nacks, message.requeues)
            for message, body in zip(messages, bodies, strict=True)
        ]

    def _undeliver(self, op: Undeliver) -> int:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        events: list[tuple[Worklist, Sequence[WorkEvent]]] = []
        count = 0
        for name in dict.fromkeys(delivery.queue for delivery in op.deliveries):
            queue = self._lists.settled(op.family, name, now_ms)
            if queue is None:
                continue
            some = [delivery for delivery in op.deliveries if delivery.queue == name]
            event = decide.undeliver(queue, some, now_ms)
            if event is not None:
                events.append((queue, [event]))
                count += len(event.ids)
        self._lists.run_all(events)
        return count

    def _inspect(self, op: Inspect) -> list[Inspected] | None:
        queue = self._looked_at(op.family, op.queue)
        if queue is None:
            return None
        now_ms = self._books.at_ms
        found = inspect(queue, op.start, min(op.count, RESERVE_MOST), is_leased=op.is_leased)
        bodies = self._books.read(found, RESERVE_MOST_BYTES)
        return [
            Inspected(message.id, body, delivered_ms(queue, message, now_ms), message.deliveries)
            for message, body in zip(found, bodies, strict=False)
        ]

    def _looked_at(self, family: Family, name: bytes) -> Worklist | None:
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        return self._lists.settled(family, name, now_ms, SETTLE_MOST_COUNTING)


def _recoverable(queue: Worklist, most: int, elapsed_ms: int, now_ms: int) -> Sequence[WorkMessage]:
    """The leased messages whose last delivery was `elapsed_ms` ago or more, the oldest first."""
    found: list[WorkMessage] = []
    for id in islice(queue.turns or (), max(0, most)):
        message = queue.directory.by_id[id]
        if now_ms - delivered_ms(queue, message, now_ms) < elapsed_ms:
            break
        found.append(message)
    return found
