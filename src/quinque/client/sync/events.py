"""Events: every consumer group receives every event until the event expires.

Called by   programs, through Queues.events.
Calls       a Runner.

    clicks = queues.events("clicks", codec="json")
    clicks.add({"page": "/"}, ttl=3600)
    for event in clicks.group("report"):
        with event:                # acked at the end, released if it raises
            count(event.body)

Not here: what the commands are called on the wire (client/work_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, overload

from quinque.client.checks import as_bodies, as_many, as_name, as_whole, id_of
from quinque.client.codecs import Codec, Name, body_of, codec_of
from quinque.client.kept_body import UNHEARD, KeptBody
from quinque.client.spans import Seconds, as_some_ms, as_wait_ms
from quinque.client.sync.one_by_one import one_by_one
from quinque.client.sync.runner import Runner
from quinque.errors import printable
from quinque.model.families import EVENTS
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    Flush,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.own_ops import ExtendLeases

_DAY_S = 86_400.0
_LEASE_S = 30.0  # as bananaq has it

T = TypeVar("T")

# An event, or the id of an event.
OneEvent: TypeAlias = "Event[Any] | str"


class Event(KeptBody[T]):
    """An event that this program has taken for its group. As a context manager, it is acked at the
    end and released if an exception is raised."""

    __slots__ = ("_group", "deliveries", "id")

    def __init__(self, group: Group[T], delivery: Delivery, codec: Codec[T]) -> None:
        super().__init__(delivery.body, codec)
        self._group = group
        self.id = delivery.message_id.decode("utf-8", "surrogateescape")
        self.deliveries = delivery.deliveries  # how often the group got it, this time included

    def ack(self) -> bool:
        """Ack the event for the group. Return False if the group no longer holds it."""
        return self._group.ack([self]) == 1

    def extend(self, lease: Seconds) -> bool:
        """Set the lease to end `lease` seconds from now. Return False if the lease has already
        ended."""
        return self._group.extend([self], lease) == 1

    def release(self) -> bool:
        """Release the event: the group can take it again at once. Return False if the group no
        longer holds it."""
        return self._group.release([self]) == 1

    def __enter__(self) -> Event[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.ack()
        else:
            with suppress(UNHEARD):
                self.release()

    def __repr__(self) -> str:
        return f"Event({self.id!r})"


class Events(Generic[T]):
    """An events queue. Times are numbers of seconds or timedeltas."""

    def __init__(
        self,
        runner: Runner,
        name: str | bytes,
        codec: Name | Codec[T] = "bytes",
        *,
        ttl: Seconds = _DAY_S,
    ) -> None:
        """`ttl` is the default time to live of added events."""
        self.runner = runner
        self.name = as_name("queue", name)
        self.codec: Codec[T] = codec_of(codec)
        self._ttl_ms = as_some_ms("ttl", ttl)

    def add(self, body: T | str, *, ttl: Seconds | None = None) -> str:
        """Add an event and return its id. Every group receives it until it expires."""
        [id] = self.add_many([body], ttl=ttl)
        return id

    def add_many(self, bodies: Iterable[T | str], *, ttl: Seconds | None = None) -> list[str]:
        """Add events in one round trip and return their ids in order."""
        encoded = [body_of(self.codec, body) for body in as_bodies(bodies)]
        if not encoded:
            return []
        ttl_ms = self._ttl_ms if ttl is None else as_some_ms("ttl", ttl)
        ids = self.runner.run(Put(EVENTS, self.name, encoded, ttl_ms))
        return [str(id, "ascii") for id in ids]

    def group(self, name: str | bytes, *, lease: Seconds = _LEASE_S) -> Group[T]:
        """Return the queue as the consumer group sees it. Events are leased for `lease` seconds."""
        return Group(self, as_name("group", name), lease)

    def info(self) -> QueueCount | None:
        """Return the number of events and the position of each group. None if the queue has
        neither events nor groups."""
        found: list[QueueCount] = self.runner.run(Count(EVENTS, [self.name]))
        return found[0] if found and (found[0].total or found[0].groups) else None

    def flush(self) -> None:
        """Remove all events."""
        self.runner.run(Flush(EVENTS, self.name))

    def __repr__(self) -> str:
        return f"Events({printable(self.name)!r})"


class Group(Generic[T]):
    """An events queue as one consumer group sees it."""

    def __init__(self, events: Events[T], name: bytes, lease: Seconds) -> None:
        self._events = events
        self._run = events.runner.run
        self.name = name
        self._lease_ms = as_some_ms("lease", lease)

    @overload
    def take(self, timeout: None) -> Event[T]: ...
    @overload
    def take(self, timeout: Seconds | None = 0) -> Event[T] | None: ...
    def take(self, timeout: Seconds | None = 0) -> Event[T] | None:
        """Take an event. Return None if no event arrives within `timeout` seconds. A `timeout` of
        None blocks forever."""
        found = self.take_many(1, timeout)
        return found[0] if found else None

    def take_many(self, count: int, timeout: Seconds | None = 0) -> list[Event[T]]:
        """Take up to `count` events in one round trip. Return an empty list if no event arrives
        within `timeout` seconds."""
        count = as_whole("count", count, least=1)
        op = Reserve(EVENTS, self._events.name, self.name, self._lease_ms, count)
        found = self._run(op, as_wait_ms(timeout))
        return [Event(self, delivery, self._events.codec) for delivery in found]

    def __iter__(self) -> Iterator[Event[T]]:
        """Take events one by one, forever. Ack each of them."""
        return one_by_one(self)

    def ack(self, events: OneEvent | Iterable[OneEvent]) -> int:
        """Ack the events in one round trip. Return how many of them the group held."""
        ids = _ids(events)
        return sum(self._run(Ack(EVENTS, self._events.name, self.name, ids))) if ids else 0

    def extend(self, events: OneEvent | Iterable[OneEvent], lease: Seconds) -> int:
        """Set the leases to end `lease` seconds from now, in one round trip. Return how many leases
        had not ended yet."""
        ids = _ids(events)
        lease_ms = as_some_ms("lease", lease)
        op = ExtendLeases(EVENTS, self._events.name, ids, lease_ms, self.name)
        return sum(self._run(op)) if ids else 0

    def release(self, events: OneEvent | Iterable[OneEvent]) -> int:
        """Release the events in one round trip. Return how many of them the group held."""
        ids = _ids(events)
        op = Release(EVENTS, self._events.name, self.name, ids)
        return sum(self._run(op)) if ids else 0

    def __repr__(self) -> str:
        return f"Group({printable(self._events.name)!r}, {printable(self.name)!r})"


def _ids(events: OneEvent | Iterable[OneEvent]) -> list[bytes]:
    return [as_name("id", id_of(it)) for it in as_many(events)]
