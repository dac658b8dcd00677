"""Items: the producer chooses the id of each item, and workers lease items until completed.

Called by   programs, through Queues.items.
Calls       a Runner.

    pages = queues.items("pages", codec="json")
    await pages.add("page-1", {"url": "…"})
    async with await pages.lease(30, timeout=10) as item:     # completed at the end
        work(item.body)

Not here: the same without a broker (quinque.workqueue), the words on the wire
(client/own_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, overload

from quinque.client.aio.runner import Runner
from quinque.client.checks import as_many, as_name, as_state, as_whole, id_of, only
from quinque.client.codecs import Codec, Name, body_of, codec_of
from quinque.client.kept_body import UNHEARD, KeptBody
from quinque.client.spans import Seconds, as_some_ms, as_wait_ms
from quinque.errors import printable
from quinque.model.families import ITEMS
from quinque.model.own_ops import AddItems, Complete, ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Browse,
    LookAt,
    QueueView,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)

T = TypeVar("T")

# An item, a view of an item, or the id of an item.
OneItem: TypeAlias = "Item[Any] | WorkView | str"


class Item(KeptBody[T]):
    """An item that this program has leased. As a context manager, it is completed at the end. If
    an exception is raised, its lease ends."""

    __slots__ = ("_queue", "id")

    def __init__(self, queue: Items[T], delivery: WorkDelivery, codec: Codec[T]) -> None:
        super().__init__(delivery.body, codec)
        self._queue = queue
        self.id = delivery.message_id.decode("utf-8", "surrogateescape")

    async def complete(self) -> bool:
        """Complete the item. Return True if it was not completed before."""
        return await self._queue.complete([self]) == 1

    async def extend(self, lease: Seconds) -> bool:
        """Set the lease to end `lease` seconds from now. Return False if the lease has already
        ended."""
        return await self._queue.extend([self], lease) == 1

    async def __aenter__(self) -> Item[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.complete()
        else:
            with suppress(UNHEARD):
                await self.extend(0.001)

    def __repr__(self) -> str:
        return f"Item({self.id!r})"


class Items(Generic[T]):
    """An items queue. Times are numbers of seconds or timedeltas."""

    def __init__(self, runner: Runner, name: str | bytes, codec: Name | Codec[T] = "bytes") -> None:
        self._run = runner.run
        self.name = as_name("queue", name)
        self._codec: Codec[T] = codec_of(codec)

    async def add(self, id: str, body: T | str) -> bool:
        """Add an item. Return False if an item with this id exists; it is not changed."""
        return await self.add_many({id: body}) == 1

    async def add_many(self, bodies: Mapping[str, T | str]) -> int:
        """Add items by id in one round trip. Return how many of them are new."""
        ids = [as_name("id", id) for id in bodies]
        encoded = [body_of(self._codec, body) for body in bodies.values()]
        return sum(await self._run(AddItems(ITEMS, self.name, ids, encoded))) if ids else 0

    @overload
    async def lease(self, lease: Seconds, timeout: None) -> Item[T]: ...
    @overload
    async def lease(self, lease: Seconds, timeout: Seconds | None = 0) -> Item[T] | None: ...
    async def lease(self, lease: Seconds, timeout: Seconds | None = 0) -> Item[T] | None:
        """Lease an item for `lease` seconds. Return None if no item arrives within `timeout`
        seconds. A `timeout` of None blocks forever."""
        found = await self.lease_many(1, lease, timeout)
        return found[0] if found else None

    async def lease_many(
        self, count: int, lease: Seconds, timeout: Seconds | None = 0
    ) -> list[Item[T]]:
        """Lease up to `count` items in one round trip. Return an empty list if no item arrives
        within `timeout` seconds."""
        count = as_whole("count", count, least=1)
        take = Take(ITEMS, [self.name], count, lease_ms=as_some_ms("lease", lease))
        found = await self._run(take, as_wait_ms(timeout))
        return [Item(self, delivery, self._codec) for delivery in found]

    async def complete(self, items: OneItem | Iterable[OneItem]) -> int:
        """Complete the items in one round trip. Return how many were not completed before."""
        ids = _ids(items)
        if not ids:
            return 0
        return sum(await self._run(Complete(ITEMS, self.name, ids, is_leased=False)) or ())

    async def extend(self, items: OneItem | Iterable[OneItem], lease: Seconds) -> int:
        """Set the leases to end `lease` seconds from now, in one round trip. Return how many leases
        had not ended yet."""
        ids = _ids(items)
        op = ExtendLeases(ITEMS, self.name, ids, as_some_ms("lease", lease))
        return sum(await self._run(op)) if ids else 0

    async def peek(self, count: int = 10, state: State = State.READY) -> list[WorkView]:
        """Return the first items that are ready or leased. Nothing changes."""
        as_state(state, (State.READY, State.LEASED))
        op = Browse(ITEMS, self.name, state, as_whole("count", count, least=1))
        found: list[WorkView] = await self._run(op)
        return found

    async def show(self, id: OneItem) -> WorkView | None:
        """Return the current state of an item. Nothing changes."""
        view: WorkView | None = await self._run(Show(ITEMS, only(_ids(id)), self.name))
        return view

    async def info(self) -> QueueView | None:
        """Return the number of ready and leased items. None if the queue has no items."""
        view: QueueView | None = await self._run(LookAt(ITEMS, self.name))
        return view if view is not None and (view.ready or view.leased) else None

    def __repr__(self) -> str:
        return f"Items({printable(self.name)!r})"


def _ids(items: OneItem | Iterable[OneItem]) -> list[bytes]:
    return [as_name("id", id_of(it)) for it in as_many(items)]
