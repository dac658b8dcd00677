"""One connection to one Redis server: commands out, replies in the order of the commands.

Called by   courier.py (calls of scripts), routes.py (who holds what), wakeups.py (notices).
Calls       hiredis, which packs commands and reads replies.

No task and no await for a reply: the link calls the code that opened it, on the loop's own thread.

Not here: which server, and what is done when it is gone (courier.py, routes.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import hiredis

from quinque.stores.redis.rights import refusal
from quinque.stores.redis.urls import Address, Login

Word = bytes | str | int

_NAME: Final = ("CLIENT", "SETNAME", "quinque")


class CannotConnect(Exception):
    """The server does not answer, or refuses the connection; the text says which."""

    code = "UNREACHED"


class ConnectRefused(CannotConnect):
    """The server answers, and cannot be used until a person changes something there or here."""

    code = "REFUSED"


class Link:
    """An asyncio.Protocol in all but name. A reply that is an error is a hiredis.ReplyError."""

    def __init__(self) -> None:
        self.on_reply: Callable[[Any], None] = _ignore
        self.on_lost: Callable[[], None] = _nothing
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._transport: asyncio.Transport | None = None

    @property
    def own_address(self) -> str:
        """The address of this machine by which it reaches the server; none for a unix socket."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if isinstance(name, tuple) else ""

    def send(self, packed: Sequence[bytes]) -> None:
        """Commands from pack(), all together."""
        if self._transport is not None:
            self._transport.write(b"".join(packed))

    def close(self) -> None:
        """Close the connection without a further callback."""
        self.on_reply, self.on_lost = _ignore, _nothing
        if self._transport is not None:
            self._transport.abort()

    # -- the event loop calls these --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not _MORE:
                self.on_reply(reply)
        except hiredis.ProtocolError:
            if self._transport is not None:
                self._transport.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.on_lost()

    def pause_writing(self) -> None:
        """Do nothing: the callers bound what is under way."""

    def resume_writing(self) -> None:
        """As above."""


def pack(*words: Word) -> bytes:
    """A command as it is sent."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # of any length
    return packed


async def open_link(address: Address, login: Login, timeout_s: float) -> Link:
    """A connection that is let in. Raises CannotConnect."""
    loop = asyncio.get_running_loop()
    link = Link()
    try:
        async with asyncio.timeout(timeout_s):
            if address.port == 0:
                await loop.create_unix_connection(_as_protocol(link), address.host)
            else:
                await loop.create_connection(
                    _as_protocol(link), address.host, address.port, ssl=login.tls
                )
            await _be_let_in(link, login)
    except TimeoutError as error:
        link.close()
        raise CannotConnect(f"{address} does not answer") from error
    except (OSError, CannotConnect) as error:
        link.close()
        kind = type(error) if isinstance(error, CannotConnect) else CannotConnect
        raise kind(f"{address}: {error}") from error
    except BaseException:  # the store is closed meanwhile
        link.close()
        raise
    return link


async def ask(link: Link, *commands: bytes) -> list[Any]:
    """The reply to each command. Raises CannotConnect when the connection ends before."""
    future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
    replies: list[Any] = []

    def keep(reply: Any) -> None:
        replies.append(reply)
        if len(replies) == len(commands) and not future.done():
            future.set_result(replies)

    def lost() -> None:
        if not future.done():
            future.set_exception(CannotConnect("the connection was closed"))

    link.on_reply, link.on_lost = keep, lost
    link.send(commands)
    try:
        return await future
    finally:
        link.on_reply, link.on_lost = _ignore, _nothing


async def _be_let_in(link: Link, login: Login) -> None:
    commands = [pack(*_NAME)]
    if login.db:
        commands.insert(0, pack("SELECT", login.db))
    if login.password:
        who = [login.username] if login.username else []
        commands.insert(0, pack("AUTH", *who, login.password))
    for reply in await ask(link, *commands):
        if isinstance(reply, hiredis.ReplyError):
            raise refused(reply)


def refused(reply: hiredis.ReplyError) -> CannotConnect:
    """The error of a server that answered so to a command that every connection needs."""
    why = refusal(str(reply))
    return ConnectRefused(why) if why else CannotConnect(str(reply))


def _as_protocol(link: Link) -> Callable[[], asyncio.Protocol]:
    return lambda: cast(asyncio.Protocol, link)


def _ignore(reply: Any) -> None:
    """Drop a reply that has no receiver."""


def _nothing() -> None:
    """Drop the notice of a lost connection."""


_MORE: Final = object()  # what the reader gives while a reply is not whole
