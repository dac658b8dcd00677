"""The number of consumers of events queues: at this broker, and at others that share its store.

Called by   server/broker.py (tells its own, adds those of the others), stores that are shared.
Calls       nothing.

Not here: which clients are consumers (server/broker.py), how brokers share the counts
(redis/consumers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Counts = Mapping[bytes, Mapping[bytes, int]]  # by queue and group


def _no_consumers() -> Counts:
    return {}


class Consumers:
    def __init__(self) -> None:
        self.own: Callable[[], Counts] = _no_consumers
        self.elsewhere: Counts = {}  # as they were when a Count last ran
