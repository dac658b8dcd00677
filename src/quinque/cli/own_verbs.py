"""What the command line does to queues of the families reliable and items.

Called by   verbs_of.py.
Calls       client/sync/reliable.py, client/sync/items.py.

Not here: what a verb means (verbs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from uuid import uuid4

from quinque.cli.verbs import Shown, Tell, Verbs
from quinque.client.sync.broker import Broker
from quinque.client.sync.items import Items
from quinque.client.sync.reliable import Reliable
from quinque.errors import BadRequest, BadSetting, QuinqueError
from quinque.model.families import ITEMS, RELIABLE
from quinque.model.states import State

_LEASE_S: Final = 30.0
_AT_ONCE: Final = 1_000  # items that are removed together

Found = TypeVar("Found")


class ReliableVerbs(Verbs):
    family = RELIABLE

    def __init__(self, broker: Broker, queue: bytes) -> None:
        super().__init__(broker, queue)
        self._elements = Reliable(broker, queue)

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        return self._elements.push_many(bodies)

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        elements = self._elements.pop_many(count, wait_s)
        if is_acked:
            self._elements.ack(elements)
        return [Shown(element.id, element.body) for element in elements]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._elements.ack(ids)

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
        self._items = Items(broker, queue)

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        """An item has the id that is told, or one of its own. An id that is there is not told."""
        if "id" not in how:
            items = {str(uuid4()): body for body in bodies}
            self._items.add_many(items)
            return list(items)
        if len(bodies) != 1:
            self.refuse("--id for several messages", "add one at a time")
        return [how["id"]] if self._items.add(how["id"], bodies[0]) else []

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        items = self._items.lease_many(count, how.get("lease", _LEASE_S), wait_s)
        if is_acked:
            self._items.complete(items)
        return [Shown(item.id, item.body) for item in items]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._items.complete(ids)

    def delete(self, ids: Sequence[str]) -> int:
        """In this family, an item that is completed is gone, whoever has it."""
        return self._items.complete(ids)

    def peek(self, state: State, count: int) -> list[Shown]:
        return self._looked(lambda: super(ItemVerbs, self).peek(state, count), "message peek")

    def show(self, id: str) -> Shown | None:
        return self._looked(lambda: super(ItemVerbs, self).show(id), "message show")

    def flush(self, tell: Tell) -> int:
        """There is no word for it: items are completed, some at a time. On Redis, where nobody can
        look through them, those that somebody has leased are left."""
        try:
            found = self._looked(
                lambda: [row.id for row in self.rows([State.READY, State.LEASED])], "queue flush"
            )
        except BadSetting:
            return self._flush_waiting(tell)
        ids = [id.decode("utf-8", "surrogateescape") for id in found]
        parts = [ids[at : at + _AT_ONCE] for at in range(0, len(ids), _AT_ONCE)]
        return sum(self._completed(part, tell) for part in parts)

    def _flush_waiting(self, tell: Tell) -> int:
        count = 0
        while items := self._items.lease_many(_AT_ONCE, _LEASE_S):
            count += self._completed([item.id for item in items], tell)
        return count

    def _looked(self, look: Callable[[], Found], verb: str) -> Found:
        """What was found. Raises BadSetting where the broker cannot look: on Redis."""
        try:
            return look()
        except QuinqueError as error:
            if type(error) not in (QuinqueError, BadRequest):
                raise
            name = self.queue.decode("utf-8", "backslashreplace")
            self.refuse(
                f"{verb} on a Redis store",
                f"look into that Redis, LRANGE {name}:queue 0 -1 and GET {name}:item:ID",
            )

    def _completed(self, ids: Sequence[str], tell: Tell) -> int:
        count = self._items.complete(ids)
        tell(count)
        return count
