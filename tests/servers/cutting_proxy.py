"""A network that fails when it is told to: a TCP proxy that refuses, stalls, cuts and swallows.

Called by   tests of what a store and a broker do about a broken network.
Calls       nothing of the package.

    client ──── to_server ────▶ | ───▶ server    cut(to_server=0): the request never arrives
           ◀─── to_client ───── | ◀───           cut(to_client=0): it is done, its reply is lost

It runs in a thread of its own. What it is told holds when the call returns, for all connections,
old and new, until `go_on`. Bytes are counted over all connections together, so that a test can cut
at any byte of a conversation it has measured.

Not here: servers that stop (redis_server.py).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Final

_CHUNK_BYTES: Final = 1 << 16
_NEVER: Final = 1 << 62
_SERVER_S: Final = 1.0  # a server that has not closed its side by then is believed to stand still
_PATIENCE_S: Final = 60.0  # a proxy that has not done what it was told by then never will


class _Way:
    """What travels in one direction, over all connections."""

    def __init__(self) -> None:
        self.carried_bytes = 0
        self.cut_at_bytes = _NEVER  # of what is carried
        self.is_cut_once = False  # the connections after the first one that is cut pass
        self.is_silent = False  # bytes are dropped, and the connection stays open
        self.is_open = asyncio.Event()
        self.is_open.set()


class CuttingProxy:
    def __init__(
        self, host: str, server_port: int, port: int = 0, *, server_s: float = _SERVER_S
    ) -> None:
        """Listens on 127.0.0.1, at a free port unless one is given; passes everything on. A server
        whose connection is broken off has `server_s` to do what had reached it, before the client
        learns of it."""
        self._server = (host, server_port)
        self._server_s = server_s
        # Keeps the port while nobody listens on it: connections are then refused, as they should
        # be, and no other program can take it.
        self._place = _bound(port)
        self.port: int = self._place.getsockname()[1]
        self.cuts = 0  # connections that were broken off because of `cut`
        self._was_cut = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()  # one for each connection
        self._pumps: set[asyncio.Task[None]] = set()  # two for each: what passes it
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._to_server, self._to_client = self._do(self._ways())
        self._listener: asyncio.Server | None = self._do(self._listen())

    @property
    def url(self) -> str:
        """Of a Redis behind it."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def carried_bytes(self) -> tuple[int, int]:
        """So many to the server and to the client, since it was started."""
        counted: tuple[int, int] = self._do(self._count())
        return counted

    # -- faults -------------------------------------------------------------------------------

    def refuse(self) -> None:
        """Open connections are broken off; new ones are refused."""
        self._do(self._refuse())

    def drop(self) -> None:
        """Open connections are broken off, with what was held back; new ones work."""
        self._do(self._drop())

    def stall(self, to_server: bool = True, to_client: bool = True) -> None:
        """Nothing passes these ways; it is held back until `go_on`."""
        self._do(self._stall(to_server, to_client))

    def cut(
        self, to_server: int | None = None, to_client: int | None = None, *, is_once: bool = False
    ) -> None:
        """When so many bytes more have passed that way, the next one breaks its connection off;
        so do all that come after it, on every connection, unless it `is_once`."""
        self._do(self._cut(to_server, to_client, is_once))

    def swallow(self, to_server: bool = False, to_client: bool = False) -> None:
        """Bytes that go these ways are dropped until `go_on`. Both ends keep a connection that
        looks healthy, as after a firewall forgot it."""
        self._do(self._swallow(to_server, to_client))

    def go_on(self) -> None:
        """Everything passes; what was held back arrives, and what was swallowed does not."""
        self._do(self._go_on())

    def wait_for_cut(self, count: int = 1, timeout_s: float = _PATIENCE_S) -> None:
        """So many connections have been cut since the proxy was started."""
        with self._was_cut:
            done = self._was_cut.wait_for(lambda: self.cuts >= count, timeout_s)
        assert done, f"{self.cuts} connections were cut, not {count}, within {timeout_s} s"

    def close(self) -> None:
        """Nothing listens, nothing is open, the thread has ended."""
        self._do(self._refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
        self._place.close()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- in the thread ------------------------------------------------------------------------

    def _do(self, step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(_PATIENCE_S)

    async def _ways(self) -> tuple[_Way, _Way]:
        return _Way(), _Way()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, sock=_bound(self.port))

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._drop()
        await asyncio.sleep(0)  # what was closed is then let go of

    async def _drop(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stall(self, to_server: bool, to_client: bool) -> None:
        for way, is_stalled in ((self._to_server, to_server), (self._to_client, to_client)):
            if is_stalled:
                way.is_open.clear()

    async def _swallow(self, to_server: bool, to_client: bool) -> None:
        self._to_server.is_silent, self._to_client.is_silent = to_server, to_client

    async def _cut(self, to_server: int | None, to_client: int | None, is_once: bool) -> None:
        for way, count in ((self._to_server, to_server), (self._to_client, to_client)):
            way.cut_at_bytes = _NEVER if count is None else way.carried_bytes + count
            way.is_cut_once = is_once

    async def _count(self) -> tuple[int, int]:
        """In the thread: there, bytes that have arrived are counted."""
        return self._to_server.carried_bytes, self._to_client.carried_bytes

    async def _go_on(self) -> None:
        for way in (self._to_server, self._to_client):
            way.cut_at_bytes = _NEVER
            way.is_silent = False
            way.is_open.set()
        if self._listener is None:
            self._listener = await self._listen()

    async def _connected(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        """The connection is passed on until one end closes it, or it is broken off."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            from_server, to_server = await asyncio.open_connection(*self._server)
        except OSError:  # the server is gone
            await _close(to_client)
            self._tasks.discard(task)
            return
        pumps = {
            self._loop.create_task(self._pump(self._to_server, from_client, to_server)),
            self._loop.create_task(self._pump(self._to_client, from_server, to_client)),
        }
        self._pumps |= pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._pumps -= pumps
        await _let_finish(from_server, to_server, self._server_s)
        for writer in (to_client, to_server):
            await _close(writer)
        self._tasks.discard(task)

    async def _pump(
        self, way: _Way, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            await way.is_open.wait()
            if way.is_silent:
                continue
            room = way.cut_at_bytes - way.carried_bytes
            target.write(chunk[:room])
            way.carried_bytes += min(len(chunk), room)
            await target.drain()
            if len(chunk) > room:
                if way.is_cut_once:
                    way.cut_at_bytes = _NEVER
                with self._was_cut:
                    self.cuts += 1
                    self._was_cut.notify_all()
                return


async def _let_finish(
    from_server: asyncio.StreamReader, to_server: asyncio.StreamWriter, server_s: float
) -> None:
    """The server has done all that reached it, if it is well: a client that now finds its
    connection broken, and looks by another one, sees it."""
    try:
        to_server.write_eof()
        async with asyncio.timeout(server_s):
            while await from_server.read(_CHUNK_BYTES):
                pass
    except (OSError, TimeoutError):
        pass  # it stands still, or is gone


async def _close(writer: asyncio.StreamWriter) -> None:
    """What was passed on has arrived, unless nobody reads it."""
    writer.close()
    try:
        async with asyncio.timeout(_SERVER_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _bound(port: int) -> socket.socket:
    """A socket at that port, or at a free one; several may be, and one of them listens."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock
