"""A client that speaks RESP. It knows when the broker sent each reply."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

import hiredis

from tests.sim.network import Network, Transport


class Lost(Exception):
    """The connection ended before the reply: the request may have been carried out."""


class Refused(Exception):
    """An error reply."""


class Moment(NamedTuple):
    """When a broker sent a reply: not before, and not after."""

    from_s: float
    to_s: float


class Connection:
    """One connection; an asyncio protocol."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self.is_lost = False
        self.strays: list[Any] = []
        self.moment = Moment(0.0, 0.0)  # of the last reply
        self._fed = 0
        self.has_ended = False  # the broker may have given back what this connection had
        self._transport: Transport = network.connect(address, self)

    def send(self, *words: bytes | str | int) -> asyncio.Future[Any]:
        """The reply, or the error of it, when it comes."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # An error that nobody reads is none.
        reply.add_done_callback(lambda it: it.cancelled() or it.exception())
        if self.is_lost:
            reply.set_exception(Lost())
            return reply
        self._waiting.append(reply)
        packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]
        self._transport.write(packed)
        return reply

    async def call(self, *words: bytes | str | int, within_s: float = 30.0) -> Any:
        """The reply. Raises Refused, or Lost when none comes in time; the connection then ends."""
        reply = self.send(*words)
        try:
            async with asyncio.timeout(within_s):
                return await reply
        except TimeoutError:
            self.abort()
            raise Lost from None

    def half_close(self) -> None:
        self.has_ended = True
        self._transport.write_eof()

    def close(self) -> None:
        self.has_ended = True
        if not self.is_lost:
            self._transport.close()

    def abort(self) -> None:
        self.has_ended = True
        if not self.is_lost:
            self._transport.abort()

    @property
    def holds_nothing(self) -> bool:
        """Whether its broker may have given its messages to others."""
        return self.has_ended or self._transport.is_closing()

    @property
    def transport(self) -> Transport:
        return self._transport

    # -- the event loop calls these ------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        pass

    def data_received(self, data: bytes) -> None:
        writes = self._transport.peer.writes  # type: ignore[union-attr]
        while writes[0][0] <= self._fed:
            writes.popleft()
        self._fed += len(data)
        self.moment = Moment(writes[0][1], next(at for end, at in writes if end >= self._fed))
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if not self._waiting:
                self.strays.append(reply)
                continue
            future = self._waiting.popleft()
            if future.cancelled():
                continue
            if isinstance(reply, hiredis.ReplyError):
                future.set_exception(Refused(str(reply)))
            else:
                future.set_result(reply)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(Lost())

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass
