"""Sockets, pauses and connections of a program that runs on an event loop.

Called by   everything in this folder.
Calls       link.py.

Tasks share connections. All requests of one turn of the loop are sent together, also while earlier
replies are under way, and replies come in the order of the requests. A request that waits in the
broker has a connection alone, because it would delay the others.

client/sync/edge.py has the same names for programs that have threads. All else in this folder is
written once, here, and client/sync/ is made from it (tools/make_sync).

Not here: the requests, and what happens when a broker does not answer (broker.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import sleep as sleep
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple, cast
from weakref import WeakSet

from quinque.client.addresses import Address
from quinque.client.link import CLOSED, LATE, UNREAD, NotSent, Replies, Reply, Word, packed
from quinque.errors import QuinqueError

# If a request waits for longer, one more connection is opened, if the limit allows it.
_SLOW_S: Final = 0.01
# After a broker refused one more connection, for example because it is full, no other is opened for
# this time while there is one.
_REFUSED_S: Final = 1.0


class _Asked(NamedTuple):
    """The requests of one task. `at_s` is when the task sent them, on the loop's clock."""

    requests: Sequence[Sequence[Word]]
    replies: list[Any]
    all_came: asyncio.Future[list[Any]]
    at_s: float


class Link(asyncio.Protocol):
    """One connection. Use `ask`; after an OSError of it the link is closed and cannot be used."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.session = ""  # the session that takes tasks on this connection
        self.is_over = False
        self.is_shared = False
        self.users = 0  # tasks that the pool gave it to and that have not given it back
        self.era = 0  # the era of the pool that opened it
        self.loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._replies = Replies(self._hear_last)
        self._refusal: Reply | None = None  # the last error that the broker sent
        self._unsent: list[tuple[_Asked, bytes]] = []  # with the requests, packed
        self._sent: deque[_Asked] = deque()
        self._timeout_s = 0.0
        self._heard_s = 0.0  # when the last bytes arrived, on the loop's clock
        self._late: asyncio.TimerHandle | None = None
        self._interrupted: dict[int, _Asked] = {}  # by the id of the requests
        self._is_retired = False
        _LINKS.add(self)

    async def ask(self, requests: Sequence[Sequence[Word]], timeout_s: float) -> list[Any]:
        """Return the reply to each request. Raises NotSent, another OSError if no bytes arrive
        within `timeout_s`, and BadArgument if a request cannot be packed. An interrupted caller
        must call `late_replies` or `abandon`."""
        if self.is_over or self._transport is None:
            raise NotSent(CLOSED)
        data = packed(requests)  # first: a request that cannot be sent must not wait for a reply
        asked = _Asked(requests, [], self.loop.create_future(), self.loop.time())
        self._timeout_s = timeout_s
        if self._late is None:  # one timer for all, since each costs as much as a request
            self._late = self.loop.call_later(timeout_s, self._look_for_late)
        if self._sent or self._unsent:
            if not self._unsent:
                self.loop.call_soon(self._send)
            self._unsent.append((asked, data))
        else:
            self._sent.append(asked)
            self._transport.write(data)
        try:
            return await asked.all_came
        except asyncio.CancelledError:
            self._interrupted[id(requests)] = asked
            raise

    async def late_replies(
        self, requests: Sequence[Sequence[Word]], timeout_s: float, *, is_alone: bool
    ) -> list[Any]:
        """The replies to the requests of a caller that was interrupted. If the caller had the
        connection for itself, nothing more is sent on it: if the requests still wait in the broker,
        it closes the connection and delivers nothing. Raises OSError."""
        asked = self._interrupted.pop(id(requests))
        if len(asked.replies) == len(requests):
            return asked.replies
        late: asyncio.Future[list[Any]] = self.loop.create_future()
        for at, it in enumerate(self._sent):
            if it is asked:
                self._sent[at] = asked._replace(all_came=late)
                break
        else:
            raise NotSent(CLOSED)
        try:
            if is_alone:
                self._say_no_more()
            async with asyncio.timeout(timeout_s):
                return await late
        finally:
            if is_alone:
                self.close()

    def abandon(self, requests: Sequence[Sequence[Word]], *, is_alone: bool) -> None:
        """Drop the replies to these requests: their caller was interrupted. If the caller had the
        connection for itself, close it."""
        self._interrupted.pop(id(requests), None)
        if is_alone:
            self.close()

    @property
    def is_idle(self) -> bool:
        """Whether no task uses it and no answer is outstanding, so that it can be used alone."""
        return not (self.users or self._sent or self._unsent or self.is_over)

    def waits_s(self) -> float:
        """Return how long the oldest request has waited for its reply."""
        return self.loop.time() - self._sent[0].at_s if self._sent else 0.0

    def retire(self) -> None:
        """Close the connection as soon as no task uses it and no answer is outstanding."""
        self._is_retired = True
        if self.is_idle:
            self.close()

    def close(self) -> None:
        self._end(ConnectionResetError(CLOSED))
        if self._transport is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._transport.abort()

    def hang_up(self) -> None:
        """End the connection of requests that wait for a message. The broker delivers nothing more
        on it."""
        self._say_no_more()

    def leave_to_parent(self, nothing: int) -> None:
        """Replace the socket by this file in a child process. The loop does not close it: what the
        system watches for the loop is shared with the parent."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            os.dup2(nothing, transport.get_extra_info("socket").fileno(), inheritable=False)

    def _send(self) -> None:
        """Send the requests of this iteration whose callers still wait."""
        wanted = [each for each in self._unsent if not each[0].all_came.done()]
        self._unsent = []
        if wanted and self._transport is not None:
            self._sent.extend(asked for asked, _ in wanted)
            self._transport.write(b"".join([data for _, data in wanted]))

    def _look_for_late(self) -> None:
        left_s = self._timeout_s - min(self.waits_s(), self.loop.time() - self._heard_s)
        if left_s <= 0:
            self._end(TimeoutError(LATE))
            self.close()
        elif self._sent or self._unsent:
            self._late = self.loop.call_later(left_s, self._look_for_late)
        else:
            self._late = None

    def _say_no_more(self) -> None:
        """Refuse further requests on this connection, and close the sending side."""
        self.is_over = True
        transport = self._transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()
        elif transport is None or transport.get_write_buffer_size():
            self.close()  # the broker cannot have read the request
        else:  # TLS cannot close one side, but TCP below it can
            try:
                at = os.dup(transport.get_extra_info("socket").fileno())
                with socket.socket(fileno=at) as below:
                    below.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()

    def _hear_last(self, refusal: Reply) -> None:
        self.is_over = True
        self._refusal = refusal
        self.loop.call_soon(self.close)  # after the caller has received the reply

    def _end(self, error: OSError) -> None:
        """Fail all outstanding requests. Requests that were not sent or read had no effect."""
        self.is_over = True
        if self._refusal is not None:
            error = NotSent(UNREAD)
            if self._sent and self._sent[0].replies:
                asked = self._sent.popleft()
                missing = len(asked.requests) - len(asked.replies)
                if not asked.all_came.done():
                    asked.all_came.set_result([*asked.replies, *[self._refusal] * missing])
        for kind, some in (
            (type(error), self._sent),
            (NotSent, [asked for asked, _ in self._unsent]),
        ):
            for asked in some:
                if not asked.all_came.done():
                    asked.all_came.set_exception(kind(*error.args))
        self._sent, self._unsent = deque(), []
        if self._late is not None:
            self._late.cancel()
            self._late = None

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports resemble asyncio.Transport and are not subclasses of it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._sent:  # no request waits for it
            self.close()
            return
        self._heard_s = self.loop.time()
        self._replies.feed(data)
        try:
            while self._sent:
                asked = self._sent[0]
                wanted = len(asked.requests)
                self._replies.take_into(asked.replies, wanted)
                if len(asked.replies) < wanted:
                    return
                self._sent.popleft()
                if not asked.all_came.done():
                    asked.all_came.set_result(asked.replies)
        except OSError as error:
            self._end(error)
            self.close()
        if self._is_retired:
            self.retire()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        told = f"{CLOSED}: {error}" if isinstance(error, ssl.SSLError) else CLOSED
        self._end(ConnectionResetError(told))


class _Opening:
    """A connection that a task is opening. Other tasks that need one wait for it."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Link]
        self.link: Link | None = None
        self.users = 0  # tasks that wait for it


class Pool:
    """Connections to brokers. There are three kinds, which are never mixed. Tasks share up to
    `most` connections to each broker. A request that waits in the broker has a connection alone.
    One connection keeps the client's session open and carries no requests, so that the session does
    not end with another connection."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._era = 0  # how often it was closed
        self.forget()

    async def link(
        self, address: Address, connect: Callable[[Address], Awaitable[Link]], *, is_alone: bool
    ) -> Link:
        """Return a connection to that broker. The caller returns it with `keep`. Raises the errors
        of `connect`."""
        if self._loop is not asyncio.get_running_loop():
            self._begin_on(asyncio.get_running_loop())
        if is_alone:
            era, idle = self._era, self._idle.get(address)
            while idle:
                link = idle.pop()
                if not link.is_over:
                    break
            else:
                link = await connect(address)
                link.era = era
            link.users += 1
            return link
        fit = self._shared[address] = [it for it in self._shared.get(address, ()) if not it.is_over]
        for link in fit:
            if link.waits_s() < _SLOW_S:
                break
        else:
            if not fit or self._may_open(address, fit):
                try:
                    return await self._opened(address, connect)
                except (OSError, QuinqueError):
                    fit = [it for it in self._shared.get(address, ()) if not it.is_over]
                    if not fit:
                        raise
                    self._refused_s[address] = fit[0].loop.time()
            link = min(fit, key=Link.waits_s)
        link.users += 1
        return link

    def keep(self, link: Link) -> None:
        """Take back the connection of a task that no longer needs it."""
        link.users -= 1
        if link.era != self._era:
            link.retire()
        elif not link.is_shared:
            idle = self._idle.setdefault(link.address, [])
            if link.is_idle and len(idle) < self._most:
                idle.append(link)
            else:
                link.retire()

    def is_of_now(self, link: Link) -> bool:
        """Return whether the pool was not closed since it opened the connection."""
        return link.era == self._era

    def holds(self, address: Address) -> bool:
        """Return whether a connection to that broker is kept open."""
        link = self._held.get(address)
        return link is not None and not link.is_over and link.loop is asyncio.get_running_loop()

    def hold(self, link: Link) -> None:
        """Keep a connection that a task used alone open, and unused, until the pool is closed."""
        if link.era != self._era or self.holds(link.address):
            self.keep(link)
        else:
            link.users -= 1
            self._held[link.address] = link

    def close(self) -> None:
        """Close every connection as soon as no task uses it."""
        self._era += 1
        links = (*self._shared.values(), *self._idle.values(), self._held.values())
        for link in chain.from_iterable(links):
            link.retire()
        self.forget()

    def forget(self) -> None:
        """Forget the connections in a child process. The parent process continues to use them."""
        self._shared: dict[Address, list[Link]] = {}
        self._idle: dict[Address, list[Link]] = {}  # for requests that wait in the broker
        self._held: dict[Address, Link] = {}
        self._opening: dict[Address, _Opening] = {}
        self._refused_s: dict[Address, float] = {}  # when, on the loop's clock

    def _may_open(self, address: Address, fit: list[Link]) -> bool:
        """Return whether to open one more connection."""
        passed_s = fit[0].loop.time() - self._refused_s.get(address, -_REFUSED_S)
        return len(fit) < self._most and address not in self._opening and passed_s >= _REFUSED_S

    def _begin_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections of the previous event loop."""
        if self._loop is not None:
            self.close()
        self._loop = loop

    async def _opened(
        self, address: Address, connect: Callable[[Address], Awaitable[Link]]
    ) -> Link:
        """Wait for the connection that is being opened for all tasks that need one."""
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = _Opening()
            opening.task = asyncio.create_task(self._open(opening, address, connect))
            opening.task.add_done_callback(_heard)
        opening.users += 1
        try:
            return await asyncio.shield(opening.task)
        except asyncio.CancelledError:
            opening.users -= 1
            if opening.link is not None:
                self.keep(opening.link)
            raise

    async def _open(
        self, opening: _Opening, address: Address, connect: Callable[[Address], Awaitable[Link]]
    ) -> Link:
        era = self._era
        try:
            link = await connect(address)
        finally:
            if self._opening.get(address) is opening:
                del self._opening[address]
        link.era, link.users, link.is_shared = era, opening.users, True
        opening.link = link
        if era == self._era:
            self._shared.setdefault(address, []).append(link)
        else:
            link.retire()  # the tasks that wait for it use it once
        return link


async def connect(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Link:
    """Open a connection. Raises OSError."""
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


def leave_to_parent() -> None:
    """Have no connection in a child process: those of the parent end with the parent, and not with
    the last of its children."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for link in list(_LINKS):
        link.leave_to_parent(nothing)
    os.close(nothing)


_LINKS: Final = WeakSet[Link]()


def _heard(opening: asyncio.Task[Link]) -> None:
    """Read the error of the task, or asyncio logs it if the caller was interrupted."""
    if not opening.cancelled():
        opening.exception()
