"""The HTTP server: uvicorn, as a task of the event loop that serves all clients.

Called by   cli/http_port.py.
Calls       uvicorn, and h11, by which it reads requests.

The broker handles the signals. Connections are few and short, so that they cannot use up the open
files. A connection that does not finish a request in time is closed, whether its client sends
slowly, reads slowly or sends nothing. A connection over the limit replaces the one that would time
out first. So a probe is answered, however many connections are open.

Not here: the responses (app.py).
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

CONNECTIONS_MOST: Final = 64
REQUEST_S: Final = 30  # from one response, or the start, to the end of the next
_REQUEST_BYTES: Final = 16 << 10  # limit for incomplete lines
_STOP_S: Final = 1


class _Reader(h11.Connection):
    """A reader of requests whose errors can be freed. In those of h11, a frame of the traceback
    holds the error, and such cycles stay in memory while the collector is off."""

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None
            text, status = str(error), error.error_status_hint
        raise h11.RemoteProtocolError(text, status)


class _Connection(H11Protocol):
    _end: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        here = cast("set[_Connection]", self.connections)
        if len(here) >= CONNECTIONS_MOST:
            min(here, key=lambda one: one._end.when())._cut_off()
        self.conn = _Reader(h11.SERVER, max_incomplete_event_size=_REQUEST_BYTES)
        self._end = self.loop.call_later(REQUEST_S, self._cut_off)
        super().connection_made(cast(asyncio.Transport, transport))

    def send_400_response(self, msg: str) -> None:
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The request is answered here: the application must not answer it again.
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._end.cancel()
            self._end = self.loop.call_later(REQUEST_S, self._cut_off)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)
        # The base class does this only for a clean close; otherwise the timer would keep this
        # object.
        self._unset_keepalive_if_required()

    def _cut_off(self) -> None:
        # Not close(), which would wait until all data is read.
        self.transport.abort()
        self.connections.discard(
            self
        )  # now, because the base class does it only in the next iteration


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Port:
    def __init__(self, app: Any, sockets: Sequence[socket.socket]) -> None:
        """Serve the application on these bound sockets."""
        self._server = _Server(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=REQUEST_S,
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._server.serve(list(sockets)))

    async def stop(self) -> None:
        """Stop serving, and close the sockets."""
        self._server.should_exit = True
        await self._task
