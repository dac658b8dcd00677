"""A store in the process, as what queues of programs on an event loop run on.

Called by   quinque.aio.open.
Calls       a store (client/opened.py says what it can be asked).

client/sync/local.py is the same for programs with threads. Nothing that talks to brokers is needed.

Not here: such a store (stores/opened.py), which a client does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from quinque.client.aio.interrupted import INTERRUPTED, sheltered
from quinque.client.opened import Opened
from quinque.errors import QuinqueError
from quinque.model.giving_back import HANDING_OUT, giving_back
from quinque.model.ops import Op


class Local:
    """A store in the process, as something that runs operations: each in a thread of its own, as
    the disk and other threads are waited for. A caller that waits for a message waits here, on the
    loop: there are few threads, and one that waits cannot be interrupted."""

    def __init__(self, store: Opened) -> None:
        self._store = store
        self._waiting: set[asyncio.Future[None]] = set()
        store.on_ready(self._wake)

    async def run(self, op: Op, wait_ms: int = 0) -> Any:
        if not wait_ms:
            if isinstance(op, HANDING_OUT):
                return (await self._attempt(op))[0]
            return await asyncio.to_thread(self._store.run, op)
        until_s = monotonic() + wait_ms / 1000
        with self._store.watching(op):
            while True:
                # Before it is asked, so that nothing comes unnoticed.
                woken = asyncio.get_running_loop().create_future()
                self._waiting.add(woken)
                try:
                    found, due_s = await self._attempt(op)
                    left_s = until_s - monotonic()
                    if (found is not None and found != []) or left_s <= 0:
                        return found
                    wait_s = left_s if due_s is None else min(left_s, due_s)
                    await asyncio.wait([woken], timeout=wait_s)
                finally:
                    self._waiting.discard(woken)

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        return await asyncio.to_thread(self._store.run_all, ops)

    async def close(self) -> None:
        await asyncio.to_thread(self._store.close)

    async def _attempt(self, op: Op) -> tuple[Any, float | None]:
        """As the store's. A running thread cannot be stopped: a caller that is interrupted waits
        for its end, and gives back the messages that it was handed."""
        if not isinstance(op, HANDING_OUT):
            return await asyncio.to_thread(self._store.attempt, op)
        loop = asyncio.get_running_loop()
        attempt = loop.run_in_executor(None, self._store.attempt, op)
        try:
            return await asyncio.shield(attempt)
        except INTERRUPTED:
            await sheltered(self._give_back, attempt, op)
            raise

    async def _give_back(self, attempt: asyncio.Future[tuple[Any, float | None]], op: Op) -> None:
        with suppress(QuinqueError):
            found, _ = await attempt
            for back in giving_back(op, found):
                await asyncio.to_thread(self._store.run, back)

    def _wake(self) -> None:
        for woken in list(self._waiting):
            with suppress(RuntimeError):  # its loop is closed
                woken.get_loop().call_soon_threadsafe(_settle, woken)


def _settle(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
