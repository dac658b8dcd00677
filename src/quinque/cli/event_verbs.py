"""The verbs of the command line for events queues.

Called by   verbs_of.py.
Calls       client/sync/events.py.

Not here: the meaning of the verbs (verbs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.cli.verbs import Shown, Tell, Verbs
from quinque.client.sync.broker import Broker
from quinque.client.sync.events import Events, Group
from quinque.model.families import EVENTS
from quinque.model.states import State

_LEASE_S: Final = 30.0


class EventVerbs(Verbs):
    family = EVENTS
    adding = frozenset({"ttl"})
    taking = frozenset({"group", "lease"})

    def __init__(self, broker: Broker, queue: bytes) -> None:
        super().__init__(broker, queue)
        self._events: Events[bytes] = Events(broker, queue)

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        return self._events.add_many(bodies, **how)

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        group = self._group(how)
        events = group.take_many(count, wait_s)
        if is_acked:
            group.ack(events)
        return [Shown(event.id, event.body, {"deliveries": event.deliveries}) for event in events]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._group(how).ack(ids)

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._group(how).release(ids)

    def peek(self, state: State, count: int) -> list[Shown]:
        if state is not State.READY:
            self.refuse(
                f"message peek --state {state.name.lower()}",
                "each group has its own leases; queue info shows their number",
            )
        return super().peek(state, count)

    def flush(self, tell: Tell) -> int:
        found = self._events.info()
        self._events.flush()
        count = found.total if found else 0
        tell(count)
        return count

    def _group(self, how: dict[str, Any]) -> Group[bytes]:
        if "group" not in how:
            self.refuse(
                "message take and ack without --group",
                "each group has its own leases; pass --group",
            )
        return self._events.group(how["group"], lease=how.get("lease", _LEASE_S))
