"""Where a program waits: sockets, pauses and locks of one that has threads.

Called by   what is made from client/aio/, in this folder.
Calls       link.py.

client/aio/edge.py has the same names for programs on an event loop; all else that the two need is
written once, there.

Not here: what is asked, and what is done when a broker is gone (broker.py).
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from time import monotonic
from time import sleep as sleep
from typing import Any

from quinque.client.addresses import Address
from quinque.client.link import CLOSED, LATE, READ_BYTES, Replies, Word, packed

Lock = threading.Lock
Gate = nullcontext[int]  # there are no more connections than threads


class Link:
    """One connection. Use `ask`; after an OSError of it the link is of no more use, and closed."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connected. Raises OSError."""
        self.address = address
        self.session = ""  # that takes tasks here
        self.kept_at_s = 0.0  # since when nobody uses it
        self._replies = Replies()
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
        self._is_plain = tls is None
        self._limit(timeout_s)

    def ask(self, requests: Sequence[Sequence[Word]], timeout_s: float) -> list[Any]:
        """The reply to each request. Raises OSError when they are not there in time."""
        until_s = monotonic() + timeout_s
        replies: list[Any] = []
        try:
            if timeout_s != self._timeout_s:
                self._limit(timeout_s)
            self._sock.sendall(packed(requests))
            while True:
                self._replies.feed(self._receive(until_s))
                self._replies.take_into(replies, len(requests))
                if len(replies) == len(requests):
                    return replies
        except BlockingIOError:
            self.close()
            raise TimeoutError(LATE) from None
        except OSError:
            self.close()
            raise

    @property
    def is_fit(self) -> bool:
        """Whether nothing came that nobody asked for: not even the end of the connection."""
        try:
            return not select.select([self._sock], [], [], 0)[0]
        except (OSError, ValueError):  # closed
            return False

    def close(self) -> None:
        self._sock.close()

    def __del__(self) -> None:
        """Whoever kept no hold of it, and of its Broker, is done with it."""
        if hasattr(self, "_sock"):
            self._sock.close()

    def _limit(self, timeout_s: float) -> None:
        """Neither sending nor receiving takes longer. The system sees to it where it can: if Python
        does, each of the two costs one more system call."""
        self._timeout_s = timeout_s
        if not self._is_plain:
            self._sock.settimeout(timeout_s)
            return
        self._sock.settimeout(None)
        span = struct.pack("ll", int(timeout_s), max(int(timeout_s % 1 * 1e6), 1))
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)

    def _receive(self, until_s: float) -> bytes:
        data = self._sock.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError(CLOSED)
        if monotonic() > until_s:
            raise TimeoutError(LATE)
        return data


def connect(address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> Link:
    """Raises OSError."""
    return Link(address, tls, timeout_s)
