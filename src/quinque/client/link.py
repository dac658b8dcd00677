"""One connection to one broker: requests out together, replies in the order of the requests.

Called by   broker.py, which keeps some.
Calls       hiredis, which packs requests and reads replies.

Not here: what is done when a broker is gone (broker.py).
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import hiredis

from quinque.client.addresses import Address

Word = bytes | str | int
Reply = hiredis.ReplyError  # an error reply; its text is the line after the minus sign

_READ_BYTES: Final = 1 << 18


class Link:
    """Use `ask`; after an OSError of it the link is of no more use, and closed."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connected. Raises OSError."""
        self.address = address
        if address.port:
            sock = socket.create_connection((address.host, address.port), timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(timeout_s)
                sock.connect(address.host)
            except OSError:
                sock.close()
                raise
        if tls is not None:
            try:
                sock = tls.wrap_socket(sock, server_hostname=address.host)
            except OSError:
                sock.close()
                raise
        self._sock = sock
        self._reader = hiredis.Reader(notEnoughData=_MORE)

    def ask(self, requests: Sequence[Sequence[Word]], timeout_s: float) -> list[Any]:
        """The reply to each request. Raises OSError when they are not there in time."""
        packed = b"".join(
            hiredis.pack_command(tuple(words))  # type: ignore[arg-type]  # of any length
            for words in requests
        )
        until_s = monotonic() + timeout_s
        try:
            self._sock.settimeout(timeout_s)
            self._sock.sendall(packed)
            return [self._read(until_s) for _ in requests]
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

    def _read(self, until_s: float) -> Any:
        reader = self._reader
        try:
            while (reply := reader.gets()) is _MORE:
                reader.feed(self._receive(until_s))
        except hiredis.ProtocolError as error:
            raise ConnectionAbortedError("this is not a broker") from error
        return reply

    def _receive(self, until_s: float) -> bytes:
        left_s = until_s - monotonic()
        if left_s <= 0:
            raise TimeoutError("the broker did not answer in time")
        self._sock.settimeout(left_s)
        data = self._sock.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        return data


_MORE: Final = object()  # what the reader gives while a reply is not whole
