"""Run the queues of a program on an event loop on a store in the same process.

Called by   quinque.aio.open.
Calls       a store (its protocol is in client/opened.py).

client/sync/local.py is the same for programs with threads. It imports no code that connects to
brokers.

Not here: the store (stores/opened.py).
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
    """Runs operations on a store in the process, each in its own thread, because it waits for the
    disk and for other threads. A caller that waits for a message waits on the event loop: there are
    few threads, and a waiting thread cannot be interrupted."""

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
                # Before the attempt, so that no message arrives unnoticed.
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
        """Run the store's `attempt`. A running thread cannot be stopped: an interrupted caller
        waits for its end, and returns the messages that it received to their queue."""
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
