"""Where a program waits: sockets, pauses and locks of one that runs on an event loop.

Called by   everything in this folder.
Calls       link.py.

client/sync/edge.py has the same names for programs that have threads. All else in this folder is
written once, here, and client/sync/ is made from it (tools/make_sync).

Not here: what is asked, and what is done when a broker is gone (broker.py).
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sleep as sleep
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

from quinque.client.addresses import Address
from quinque.client.link import CLOSED, LATE, Replies, Word, packed

Lock = nullcontext[None]  # nobody else runs until the next wait
Gate = asyncio.Semaphore  # tasks cost nothing, and would open a connection each


class Link(asyncio.Protocol):
    """One connection. Use `ask`; after an OSError of it the link is of no more use, and closed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.session = ""  # that takes tasks here
        self.kept_at_s = 0.0  # since when nobody uses it
        self._transport: asyncio.Transport | None = None
        self._replies = Replies()
        self._came: list[Any] = []
        self._wanted = 0
        self._all_came: asyncio.Future[None] | None = None
        self._is_over = False

    async def ask(self, requests: Sequence[Sequence[Word]], timeout_s: float) -> list[Any]:
        """The reply to each request. Raises OSError when they are not there in time."""
        if self._transport is None or self._is_over:
            raise ConnectionResetError(CLOSED)
        self._came, self._wanted = [], len(requests)
        loop = asyncio.get_running_loop()
        self._all_came = loop.create_future()
        # A timer, since asyncio.timeout costs as much as all else here.
        late = loop.call_later(timeout_s, self._give_up)
        try:
            self._transport.write(packed(requests))
            await self._all_came
        except OSError:
            self.close()
            raise
        finally:
            late.cancel()
            self._all_came = None
        return self._came

    @property
    def is_fit(self) -> bool:
        """Whether nothing came that nobody asked for: not even the end of the connection."""
        return not self._is_over

    def close(self) -> None:
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self) -> None:
        if self._all_came is not None and not self._all_came.done():
            self._all_came.set_exception(TimeoutError(LATE))

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are like asyncio.Transport, and not among its subclasses.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._all_came is None or self._all_came.done():
            self.close()
            return
        self._replies.feed(data)
        try:
            self._replies.take_into(self._came, self._wanted)
        except OSError as error:
            self._all_came.set_exception(error)
        else:
            if len(self._came) == self._wanted:
                self._all_came.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_over = True
        if self._all_came is not None and not self._all_came.done():
            self._all_came.set_exception(ConnectionResetError(CLOSED))


async def connect(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Link:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        if address.port:
            host = address.host if tls is not None else None
            _, link = await loop.create_connection(
                lambda: Link(address), address.host, address.port, ssl=tls, server_hostname=host
            )
        else:
            _, link = await loop.create_unix_connection(lambda: Link(address), address.host)
    return link
