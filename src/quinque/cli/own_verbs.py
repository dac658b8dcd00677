"""The verbs of the command line for reliable queues and items queues.

Called by   verbs_of.py.
Calls       client/sync/reliable.py, client/sync/items.py.

Not here: the meaning of the verbs (verbs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any, Final
from uuid import uuid4

from quinque.cli.verbs import Shown, Tell, Verbs, instant
from quinque.client.sync.broker import Broker
from quinque.client.sync.items import Items
from quinque.client.sync.reliable import Reliable
from quinque.errors import QuinqueError
from quinque.model.families import ITEMS, RELIABLE
from quinque.model.states import State
from quinque.model.work_ops import WorkView

_LEASE_S: Final = 30.0
_AT_ONCE: Final = 1_000  # items that are removed together


class ReliableVerbs(Verbs):
    family = RELIABLE

    def __init__(self, broker: Broker, queue: bytes) -> None:
        super().__init__(broker, queue)
        self._elements: Reliable[bytes] = Reliable(broker, queue)

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        return self._elements.push_many(bodies)

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        elements = self._elements.pop_many(count, wait_s)
        if is_acked:
            self._elements.ack(elements)
        return [Shown(element.id, element.body) for element in elements]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._elements.ack(ids)

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        self.refuse("message nack", "RQ.RECOVER returns all elements that are not acked")

    def flush(self, tell: Tell) -> int:
        view = self._elements.info()
        self._elements.delete()
        count = view.ready + view.leased if view else 0
        tell(count)
        return count


class ItemVerbs(Verbs):
    family = ITEMS
    adding = frozenset({"id"})
    taking = frozenset({"lease"})

    def __init__(self, broker: Broker, queue: bytes) -> None:
        super().__init__(broker, queue)
        self._items: Items[bytes] = Items(broker, queue)
        self._new: list[str] = []  # the ids of the last `add`, if they were not given

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        """Add items and return their ids, given or new. An existing item is left out."""
        if "id" not in how:
            items = {str(uuid4()): body for body in bodies}
            self._new = list(items)
            self._items.add_many(items)
            return self._new
        if len(bodies) != 1:
            self.refuse("--id with several messages", "add one message at a time")
        return [how["id"]] if self._items.add(how["id"], bodies[0]) else []

    def added_before(self, error: QuinqueError) -> list[str]:
        return [id for id, is_added in zip(self._new, error.replies, strict=False) if is_added]

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        items = self._items.lease_many(count, how.get("lease", _LEASE_S), wait_s)
        if is_acked:
            self._items.complete(items)
        return [Shown(item.id, item.body) for item in items]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._items.complete(ids)

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        self.refuse("message nack", "an item returns to the queue when its lease ends")

    def delete(self, ids: Sequence[str]) -> int:
        """In this family, completing an item removes it, even if another worker has leased it."""
        return self._items.complete(ids)

    def peek(self, state: State, count: int) -> list[Shown]:
        if state not in (State.READY, State.LEASED):
            return []
        return [_shown(item) for item in self._items.peek(count, state)]

    def show(self, id: str) -> Shown | None:
        item = self._items.show(id)
        return None if item is None else _shown(item)

    def flush(self, tell: Tell) -> int:
        """Complete as many items as there are now, some at a time, because no command removes all.
        Waiting items come first, so that no worker leases them meanwhile, and once more at the
        end, because a lease may have ended."""
        view = self._items.info()
        left = view.ready + view.leased if view is not None else 0
        count = 0
        for state in (State.READY, State.LEASED, State.READY):
            while left > 0 and (items := self._items.peek(min(left, _AT_ONCE), state)):
                left -= len(items)
                count += self._completed([_id(item) for item in items], tell)
        return count

    def _completed(self, ids: Sequence[str], tell: Tell) -> int:
        count = self._items.complete(ids)
        tell(count)
        return count


def _shown(item: WorkView) -> Shown:
    due = None if item.due_within_ms is None else instant(round(time() * 1000) + item.due_within_ms)
    return Shown(_id(item), item.body or b"", {"state": item.state.name.lower(), "due": due})


def _id(item: WorkView) -> str:
    return item.message_id.decode("utf-8", "surrogateescape")
