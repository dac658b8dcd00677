"""The engine alone: operations per second without network, journal and clock.

An operation is the work of the store except journaling: decide the events, apply the events. It is
measured with one message in each operation, and with 50, as when many requests of one turn are
alike.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

from bench.harness import BODY, Result, Table, per_second
from quinque.engine.feed import decide
from quinque.engine.feed.apply import APPLY, apply_given_back, apply_leased, apply_stored
from quinque.engine.feed.due import settle
from quinque.engine.feed.feed import Feed
from quinque.model.events import Leased
from quinque.model.families import EVENTS
from quinque.model.ops import Ack, Put, Reserve

ROUNDS = 5
MESSAGES = 100_000
NOW_MS = 1_700_000_000_000
LEASE_MS = 1000


def run(quick: bool) -> Result:
    table = Table("The engine alone: messages per second", ["", "one at a time", "50 at a time"])
    count = 1000 if quick else MESSAGES
    columns = [_rates(count, batch, 1 if quick else ROUNDS) for batch in (1, 50)]
    for name in columns[0]:
        table.rows.append([name, *(per_second(column[name]) for column in columns)])
    return Result([table])


def _rates(count: int, batch: int, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        life = _Life(count, batch)
        for name, work in life.steps.items():
            began_s = perf_counter()
            work()
            found.setdefault(name, []).append(count / (perf_counter() - began_s))
    return {name: median(rates) for name, rates in found.items()}


class _Life:
    """The steps of `count` messages, from put to expiry."""

    def __init__(self, count: int, batch: int) -> None:
        self._count = count
        self._batch = batch
        self._queue = Feed(b"q", EVENTS)
        self._leases: list[list[bytes]] = []
        self.steps: dict[str, Callable[[], None]] = {
            "put": self._put,
            "reserve": self._reserve,
            "ack": self._ack,
            "reserve, for another group": self._reserve_again,
            "lapse": self._lapse,
            "expire": self._expire,
        }

    def _put(self) -> None:
        queue = self._queue
        op = Put(EVENTS, b"q", [BODY] * self._batch, ttl_ms=2 * LEASE_MS)
        for stamp_us in range(NOW_MS * 1000, NOW_MS * 1000 + self._count, self._batch):
            apply_stored(queue, decide.put(queue, op, NOW_MS, stamp_us), 0)

    def _reserve(self, group: bytes = b"g") -> None:
        queue, batch = self._queue, self._batch
        op = Reserve(EVENTS, b"q", group, LEASE_MS, batch)
        self._leases = []
        for _ in range(0, self._count, batch):
            event = decide.reserve(queue, op, NOW_MS, batch)
            assert isinstance(event, Leased)
            apply_leased(queue, event)
            self._leases.append(list(event.ids))

    def _reserve_again(self) -> None:
        self._reserve(b"h")

    def _ack(self) -> None:
        queue = self._queue
        for ids in self._leases:
            events, _ = decide.ack(queue, Ack(EVENTS, b"q", b"g", ids), NOW_MS)
            for event in events:
                APPLY[event.kind](queue, event)

    def _lapse(self) -> None:
        for event in settle(self._queue, NOW_MS + LEASE_MS, self._count):
            apply_given_back(self._queue, event)  # type: ignore[arg-type]

    def _expire(self) -> None:
        for event in settle(self._queue, NOW_MS + 2 * LEASE_MS, self._count):
            APPLY[event.kind](self._queue, event)
