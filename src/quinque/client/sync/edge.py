"""Sockets, pauses and connections of a program with threads.

Called by   what is made from client/aio/, in this folder.
Calls       link.py.

client/aio/edge.py has the same names for programs on an event loop; the rest of the client is
written once, there.

Not here: the requests, and what happens when a broker does not answer (broker.py).
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from time import monotonic
from time import sleep as sleep
from typing import Any, Final
from weakref import WeakSet

from quinque.client.addresses import Address
from quinque.client.link import CLOSED, LATE, READ_BYTES, Replies, Reply, Word, packed

_IDLE_MOST: Final = 8  # idle connections to a broker that are kept
_FRESH_S: Final = 0.001
_MUCH_BYTES: Final = 1 << 17  # less than a broker reads before it has sent its replies
_WAIT_MOST_S: Final = (2**31 - 1) // 1000  # the system takes it in ms, as a C int
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Link:
    """One connection. Use `ask`; after an OSError of it the link is closed and cannot be used."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connect. Raises OSError."""
        self.address = address
        self.session = ""  # the session that takes tasks on this connection
        self.is_over = False
        self.era = 0  # the era of the pool that opened it
        self._asked_s = 0.0  # when the last reply came
        self._replies = Replies(self._hear_last)
        self._refusal: Reply | None = None  # the last error that the broker sent
        self._came: list[Any] = []  # replies that came before the caller was interrupted
        self._timeout_s = timeout_s
        if address.port:
            sock = socket.create_connection((address.host, address.port), timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if not address.port:
                sock.settimeout(timeout_s)
                sock.connect(address.host)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=address.host)
        except OSError:
            sock.close()
            raise
        self._sock = sock
        # From the socket to the reader in one call, so that a signal handler that raises loses no
        # bytes (without TLS).
        self._arrivals = map(self._replies.feed, iter(partial(sock.recv, READ_BYTES), b""))
        _LINKS.add(self)
        self._is_plain = tls is None
        self._limit(timeout_s)

    def ask(self, requests: Sequence[Sequence[Word]], timeout_s: float) -> list[Any]:
        """Send the requests and return the reply to each. Raises OSError if no bytes arrive within
        `timeout_s`, and BadArgument if a request cannot be packed. An interrupted caller must call
        `late_replies` or `abandon`."""
        replies: list[Any] = []
        data = packed(requests)  # first: if that fails, nothing is wrong with the connection
        try:
            if timeout_s != self._timeout_s:
                self._limit(timeout_s)
            if len(data) > _MUCH_BYTES:
                self._send_much(data, replies, len(requests))
            else:
                self._sock.sendall(data)
            while len(replies) < len(requests):
                if self._refusal is not None:
                    return [*replies, *[self._refusal] * (len(requests) - len(replies))]
                self._receive()
                self._replies.take_into(replies, len(requests))
            self._asked_s = monotonic()
            return replies
        except TimeoutError:
            self.close()
            raise TimeoutError(LATE) from None
        except OSError:
            self.close()
            raise
        except BaseException:
            self.is_over = True
            self._came = replies
            raise

    def late_replies(
        self, requests: Sequence[Sequence[Word]], timeout_s: float, *, is_alone: bool
    ) -> list[Any]:
        """The replies to the requests of a caller that was interrupted. Nothing more is sent: if
        the requests still wait in the broker, it closes the connection and delivers nothing. Raises
        OSError."""
        replies = self._came
        try:
            self._replies.take_into(replies, len(requests))
            self._limit(timeout_s)
            if self._is_plain or is_alone:
                # Not SSLSocket.shutdown: TLS cannot close one side, but TCP below it can.
                socket.socket.shutdown(self._sock, socket.SHUT_WR)
            while len(replies) < len(requests):
                self._receive()
                self._replies.take_into(replies, len(requests))
            return replies
        finally:
            self.close()

    def abandon(self, requests: Sequence[Sequence[Word]], *, is_alone: bool) -> None:
        """Close the connection: the caller was interrupted, and a late reply would be taken for the
        reply to another request."""
        self.close()

    def hang_up(self) -> None:
        """End the connection of a thread that waits for a message. Another thread calls this. The
        broker delivers nothing more on it."""
        self.is_over = True
        with suppress(OSError):  # it is closed already
            # Not SSLSocket.shutdown, which would remove TLS from the thread that reads.
            how = socket.SHUT_WR if self._is_plain else socket.SHUT_RDWR
            socket.socket.shutdown(self._sock, how)

    @property
    def is_fit(self) -> bool:
        """Return whether the connection is idle and open: no bytes and no end of the stream came on
        it."""
        if self.is_over or monotonic() - self._asked_s < _FRESH_S:  # the check needs a system call
            return not self.is_over
        # One poll object for each check: threads and a signal handler may check at the same time.
        arrivals = select.poll()
        try:
            arrivals.register(self._sock, select.POLLIN)
        except ValueError:  # another thread has just closed it
            return False
        return not arrivals.poll(0)

    def close(self) -> None:
        self.is_over = True
        self._sock.close()

    def __del__(self) -> None:
        """Close the socket when the program has dropped the link and its Broker."""
        if hasattr(self, "_sock"):
            self._sock.close()

    def _limit(self, timeout_s: float) -> None:
        """Limit the time of each send and receive. Not by the system (SO_RCVTIMEO), for which the
        time would begin again after each signal of the program."""
        self._timeout_s = timeout_s
        self._sock.settimeout(min(timeout_s, _WAIT_MOST_S))

    def _hear_last(self, refusal: Reply) -> None:
        self.is_over = True
        self._refusal = refusal

    def _send_much(self, data: bytes, replies: list[Any], most: int) -> None:
        """Send all data, and read replies meanwhile: a broker whose replies are not read stops
        reading requests. Sending ends early when the broker refuses the request."""
        unsent = memoryview(data)
        ways = select.poll()
        ways.register(self._sock, select.POLLIN | select.POLLOUT)
        self._sock.settimeout(0)
        try:
            while unsent and self._refusal is None:
                if not ways.poll(min(self._timeout_s, _WAIT_MOST_S) * 1000):
                    raise TimeoutError(LATE)
                with suppress(*_NOT_NOW):
                    self._receive()
                    self._replies.take_into(replies, most)
                with suppress(*_NOT_NOW):
                    unsent = unsent[self._sock.send(unsent[:_MUCH_BYTES]) :]
        except ConnectionError:
            self._hear_why(replies, most)
            if self._refusal is None:
                raise
        finally:
            self._limit(self._timeout_s)

    def _hear_why(self, replies: list[Any], most: int) -> None:
        """Read the replies that came before the broker closed the connection."""
        with suppress(OSError):
            while True:
                self._receive()
                self._replies.take_into(replies, most)

    def _receive(self) -> None:
        if next(self._arrivals, CLOSED) is CLOSED:
            raise ConnectionResetError(CLOSED)


class Pool:
    """Connections, each used by one thread at a time. There are as many as threads that send
    requests. One connection keeps the client's session open and carries no requests, so that the
    session does not end with another connection."""

    def __init__(self, most: int) -> None:
        # A signal handler may use the pool while the thread that it interrupts has the lock.
        self._lock = threading.RLock()
        self._era = 0  # how often it was closed
        self._idle: dict[Address, list[Link]] = {}
        self._held: dict[Address, Link] = {}

    def link(self, address: Address, connect: Callable[[Address], Link], *, is_alone: bool) -> Link:
        """Return a connection to that broker. The caller returns it with `keep`. Raises the errors
        of `connect`."""
        with self._lock:
            idle = self._idle.get(address)
            while idle:
                link = idle.pop()
                if link.is_fit:
                    return link
                link.close()
            era = self._era
        link = connect(address)
        link.era = era
        return link

    def keep(self, link: Link) -> None:
        """Take back the connection of a thread that no longer needs it."""
        with self._lock:
            idle = self._idle.setdefault(link.address, [])
            if link.era == self._era and not link.is_over and len(idle) < _IDLE_MOST:
                idle.append(link)
                return
        link.close()

    def is_of_now(self, link: Link) -> bool:
        """Return whether the pool was not closed since it opened the connection."""
        return link.era == self._era

    def holds(self, address: Address) -> bool:
        """Return whether a connection to that broker is kept open."""
        link = self._held.get(address)
        return link is not None and link.is_fit

    def hold(self, link: Link) -> None:
        """Keep a connection that a thread used open, and unused, until the pool is closed."""
        with self._lock:
            if link.era == self._era and not self.holds(link.address):
                self._held[link.address] = link
                return
        self.keep(link)

    def close(self) -> None:
        """Close the connections that no thread uses, and the others when they are free."""
        with self._lock:
            self._era += 1
            links = (*self._idle.values(), self._held.values())
            self._idle, self._held = {}, {}
        for link in chain.from_iterable(links):
            link.close()

    def forget(self) -> None:
        """Forget the connections in a child process. The parent process continues to use them. A
        thread of the parent may have had the lock."""
        self._lock, self._idle, self._held = threading.RLock(), {}, {}


def connect(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Link:
    """Open a connection. Raises OSError."""
    return Link(address, tls, timeout_s)


def leave_to_parent() -> None:
    """Have no connection in a child process: those of the parent end with the parent, and not with
    the last of its children. Threads of the parent may use them."""
    for link in list(_LINKS):
        link.close()


_LINKS: Final = WeakSet[Link]()
