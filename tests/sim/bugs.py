"""Deliberate bugs: each breaks a promise, and the checks must find it within some seeds.

A bug is a change of the package in this process. It says which families and faults bring it to
light, so that few seeds are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quinque.model.events import ACKED, REMOVED
from quinque.server.connection import Connection
from quinque.server.sessions import Sessions
from quinque.server.waiters import Waiters
from quinque.stores import chance
from quinque.stores.embedded import journal, replay
from quinque.stores.embedded.compact import Compactor


@dataclass(frozen=True)
class Bug:
    make: Callable[[], None]
    families: tuple[str, ...]
    faults: tuple[str, ...]
    found_by: str  # a part of what the checks say


def _nothing(*_: Any) -> None:
    pass


def _sync_nothing() -> None:
    """A sync returns before the data is on the disk."""
    set_up: Any = journal
    set_up.sync_data = _nothing


def _forget_acks() -> None:
    """A restart does not carry out acks."""
    module: Any = replay
    real = module._replay_plain

    def without_acks(done: Any, bodies: Any, record: Any) -> Any:
        return () if record[0] in (ACKED, REMOVED) else real(done, bodies, record)

    module._replay_plain = without_acks


def _lose_at_compaction() -> None:
    """Compaction drops a segment with messages that it has not written again."""

    def keep(self: Any, home: int, record: Any) -> Any:
        return iter(())

    owner: Any = Compactor
    owner._keep = keep


def _swap_replies() -> None:
    """Requests that waited run after those that arrived in the same turn."""

    def go_on(self: Any) -> None:
        if self._in_line and not self.is_held:
            requests, _ = self.take_line()
            self.broker.turn.arrived(self, requests)

    owner: Any = Connection
    owner.go_on = go_on


def _end_leases_early() -> None:
    """A lease ends two seconds before its time."""

    def jitter_ms(self: Any) -> int:
        return -2_000

    owner: Any = chance.Chance
    owner.jitter_ms = jitter_ms


def _keep_tasks() -> None:
    """A session that ends keeps its tasks."""
    owner: Any = Sessions
    owner.leave = _nothing


def _serve_the_gone() -> None:
    """A client that has left goes on waiting for messages."""
    owner: Any = Waiters
    owner.remove = _nothing


BUGS: Final = {
    "sync": Bug(_sync_nothing, ("jobs", "items"), ("power",), "lost"),
    "acks": Bug(_forget_acks, ("events", "jobs"), ("kill",), "removed"),
    "compaction": Bug(_lose_at_compaction, ("jobs", "items"), ("compact", "kill"), ""),
    "order": Bug(_swap_replies, ("talk",), (), "was answered by"),
    "leases": Bug(_end_leases_early, ("jobs",), (), "two holders"),
    "sessions": Bug(_keep_tasks, ("tubes",), ("reset",), "nobody has"),
    "waiters": Bug(_serve_the_gone, ("jobs",), ("reset",), ""),
}
