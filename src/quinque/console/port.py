"""The HTTP server: uvicorn, as a task of the event loop that serves all clients.

Called by   cli/http_port.py.
Calls       uvicorn, and h11, by which it reads requests.

Signals are the broker's. Connections are few and short: one that would be one too many is closed,
and so is one on which nothing was asked for a while, so that nobody can take the broker's files.

Not here: what is answered (app.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_CONNECTIONS_MOST: Final = 64
_REQUEST_BYTES: Final = 16 << 10  # its lines; a longer one is refused
_SILENT_S: Final = 30.0
_STOP_S: Final = 1


class _Reader(h11.Connection):
    """A reader of requests whose errors can be freed. In those of h11, a frame of the traceback
    holds the error, and nobody collects such circles while the collector is off."""

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None
            text, status = str(error), error.error_status_hint
        raise h11.RemoteProtocolError(text, status)


class _Connection(H11Protocol):
    _silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self.connections) >= _CONNECTIONS_MOST:
            cast(asyncio.Transport, transport).abort()
            return
        self.conn = _Reader(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES)
        super().connection_made(cast(asyncio.Transport, transport))
        self._silence = self.loop.call_later(_SILENT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._silence is None:  # it was one too many
            return
        self._silence.cancel()
        self._silence = self.loop.call_later(_SILENT_S, self.transport.close)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
            super().connection_lost(exc)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Port:
    def __init__(self, app: Any, sockets: Sequence[socket.socket]) -> None:
        """The application is served on these sockets, which are bound."""
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._server.serve(list(sockets)))

    async def stop(self) -> None:
        """Nobody is served any more, and the sockets are closed."""
        self._server.should_exit = True
        await self._task
