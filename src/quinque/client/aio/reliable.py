"""Reliable queues: a popped element stays delivered until a worker acks or recovers it.

Called by   programs, through Queues.reliable.
Calls       a Runner.

    orders = queues.reliable("orders")
    await orders.push(b"one")
    async with await orders.pop(timeout=10) as element:     # acked at the end
        work(element.body)
    for element in await orders.recover(100, elapsed=60):   # of workers that died
        …

Not here: what the commands are called on the wire (client/own_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, overload

from quinque.client.aio.runner import Runner
from quinque.client.checks import (
    EXACT_MOST,
    as_bodies,
    as_element_id,
    as_many,
    as_name,
    as_whole,
    id_of,
)
from quinque.client.codecs import Codec, Name, body_of, codec_of
from quinque.client.kept_body import KeptBody
from quinque.client.spans import Seconds, as_ms, as_wait_ms
from quinque.errors import printable
from quinque.model.families import RELIABLE
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Inspected, Recover
from quinque.model.queue_ops import DeleteQueues
from quinque.model.work_ops import Add, LookAt, QueueView, Take, WorkDelivery

T = TypeVar("T")

# An element, a view of an element, or the id of an element.
OneElement: TypeAlias = "Element[Any] | Inspected | str"


class Element(KeptBody[T]):
    """An element that was delivered to this program. As a context manager, it is acked at the end.
    If an exception is raised, it stays delivered."""

    __slots__ = ("_queue", "id")

    def __init__(self, queue: Reliable[T], delivery: WorkDelivery, codec: Codec[T]) -> None:
        super().__init__(delivery.body, codec)
        self._queue = queue
        self.id = delivery.message_id.decode()

    async def ack(self) -> bool:
        """Ack the element. Return False if it is not delivered."""
        return await self._queue.ack([self]) == 1

    async def __aenter__(self) -> Element[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.ack()

    def __repr__(self) -> str:
        return f"Element({self.id!r})"


class Reliable(Generic[T]):
    """A reliable queue. Times are numbers of seconds or timedeltas."""

    def __init__(self, runner: Runner, name: str | bytes, codec: Name | Codec[T] = "bytes") -> None:
        self._run = runner.run
        self.name = as_name("queue", name, may_be_empty=True)
        self._codec: Codec[T] = codec_of(codec)

    async def push(self, body: T | str) -> str:
        """Add an element at the end of the queue and return its id."""
        [id] = await self.push_many([body])
        return id

    async def push_many(self, bodies: Iterable[T | str]) -> list[str]:
        """Add elements in one round trip and return their ids in order."""
        encoded = [body_of(self._codec, body) for body in as_bodies(bodies)]
        if not encoded:
            return []
        ids = await self._run(Add(RELIABLE, self.name, encoded, RELIABLE_TERMS))
        return [str(id, "ascii") for id in ids]

    @overload
    async def pop(self, timeout: None) -> Element[T]: ...
    @overload
    async def pop(self, timeout: Seconds | None = 0) -> Element[T] | None: ...
    async def pop(self, timeout: Seconds | None = 0) -> Element[T] | None:
        """Pop an element. Return None if no element arrives within `timeout` seconds. A `timeout`
        of None blocks forever."""
        found = await self.pop_many(1, timeout)
        return found[0] if found else None

    async def pop_many(self, count: int, timeout: Seconds | None = 0) -> list[Element[T]]:
        """Pop up to `count` elements in one round trip. Return an empty list if no element arrives
        within `timeout` seconds."""
        take = Take(RELIABLE, [self.name], as_whole("count", count, least=1))
        found = await self._run(take, as_wait_ms(timeout))
        return [Element(self, delivery, self._codec) for delivery in found]

    async def ack(self, elements: OneElement | Iterable[OneElement]) -> int:
        """Ack the elements in one round trip. Return how many of them were delivered."""
        ids = [as_element_id(id_of(it)) for it in as_many(elements)]
        if not ids:
            return 0
        return sum(await self._run(Complete(RELIABLE, self.name, ids, is_leased=True)) or ())

    async def recover(self, count: int, *, elapsed: Seconds) -> list[Element[T]]:
        """Deliver up to `count` elements again whose last delivery was at least `elapsed` seconds
        ago, starting with the oldest delivery."""
        count = as_whole("count", count, least=1)
        found = await self._run(Recover(RELIABLE, self.name, count, as_ms("elapsed", elapsed)))
        return [Element(self, delivery, self._codec) for delivery in found or ()]

    async def inspect(
        self, start: int = 0, count: int = 10, *, delivered: bool = False
    ) -> list[Inspected]:
        """Return elements from index `start`, counted from the end if negative: the undelivered
        elements, or the delivered ones in the order of their last delivery. Nothing changes."""
        start = as_whole("start", start, least=-EXACT_MOST)
        count = as_whole("count", count, least=1)
        found = await self._run(Inspect(RELIABLE, self.name, delivered, start, count))
        return found or []

    async def info(self) -> QueueView | None:
        """Return the number of undelivered (`ready`) and delivered (`leased`) elements. None if the
        queue does not exist."""
        view: QueueView | None = await self._run(LookAt(RELIABLE, self.name))
        return view

    async def delete(self) -> bool:
        """Delete the queue and its elements. Return False if it does not exist."""
        gone: int = await self._run(DeleteQueues(RELIABLE, [self.name]))
        return gone == 1

    def __repr__(self) -> str:
        return f"Reliable({printable(self.name)!r})"
