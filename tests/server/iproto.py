"""A plain client of Tarantool's protocol: sends packets, reads one reply at a time.

Called by   tests of a broker's Tarantool port.
Calls       nothing of the package, so that a mistake in quinque.wire cannot hide itself.

Not here: real clients (tests/clients/tarantool_clients.py).
"""

from __future__ import annotations

import re
import socket
import struct
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha1
from types import TracebackType
from typing import Any

import msgpack

from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S

LISTEN = ("--tarantool-listen", "127.0.0.1:0")
SELECT, CALL_16, AUTH, EVAL, CALL, PING, ID, WATCH = 1, 6, 7, 8, 10, 0x40, 0x49, 0x4A

_CONNECT_TO = re.compile(r"listening on ([^\s,]+)[^\n]* for Tarantool clients")


@dataclass(frozen=True)
class Reply:
    """A reply: which request it is for, 0 or the number of an error, and its body."""

    sync: int
    error: int
    body: dict[int, Any]

    @property
    def text(self) -> str:
        return str(self.body[0x31])


def tarantool_address(broker: RunningBroker) -> str:
    """Where the broker speaks Tarantool's protocol since it was last started."""
    return [found[1] for line in broker.log if (found := _CONNECT_TO.search(line))][-1]


def tarantool_port(broker: RunningBroker) -> int:
    return int(tarantool_address(broker).rpartition(":")[2])


def packet(kind: int, sync: int, body: dict[int, Any] | None = None) -> bytes:
    header: bytes = msgpack.packb({0: kind, 1: sync})
    rest: bytes = b"" if body is None else msgpack.packb(body)
    return b"\xce" + (len(header) + len(rest)).to_bytes(4, "big") + header + rest


def call(sync: int, function: str | bytes, *args: Any) -> bytes:
    return packet(CALL, sync, {0x22: function, 0x21: args})


class IprotoClient:
    """One connection, whose greeting has been read. Use it in a `with`, or close it."""

    def __init__(self, broker: RunningBroker) -> None:
        self.sock = socket.create_connection(("127.0.0.1", tarantool_port(broker)))
        self.sock.settimeout(TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()
        self.greeting = self._take(128)

    def login(self, name: str, password: str) -> Reply:
        """The answer to AUTH with chap-sha1."""
        salt = b64decode(self.greeting[64:108])[:20]
        once = sha1(password.encode()).digest()
        mask = sha1(salt + sha1(once).digest()).digest()
        scramble = bytes(left ^ right for left, right in zip(once, mask, strict=True))
        return self.ask(packet(AUTH, 1, {0x23: name, 0x21: ["chap-sha1", scramble]}))

    def send(self, *packets: bytes) -> None:
        self.sock.sendall(b"".join(packets))

    def send_some(self, data: bytes) -> int:
        """Send as much as the kernel takes at once; how many bytes that was."""
        self.sock.setblocking(False)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        finally:
            self.sock.settimeout(TIMEOUT_S)

    def receive_waiting(self) -> int:
        """Take over what the kernel has for the client; how many bytes are there to be read."""
        self.sock.setblocking(False)
        try:
            while chunk := self.sock.recv(1 << 20):
                self._unread += chunk
        except BlockingIOError:
            pass
        finally:
            self.sock.settimeout(TIMEOUT_S)
        return len(self._unread)

    def ask(self, request: bytes) -> Reply:
        self.send(request)
        return self.read()

    def told(self, function: str | bytes, *args: Any) -> Any:
        """What a function gives; its error, as a Reply, if it gives one."""
        reply = self.ask(call(1, function, *args))
        return reply if reply.error else reply.body[0x30]

    def read(self) -> Reply:
        """Exactly one reply. Raises EOFError when the broker has closed."""
        first = self._take(5)
        assert first[:1] == b"\xce"
        unpacker = msgpack.Unpacker(strict_map_key=False)
        unpacker.feed(self._take(int.from_bytes(first[1:], "big")))
        header, body = unpacker.unpack(), unpacker.unpack()
        assert header[5] == 1
        assert (header[0] == 0) == (0x31 not in body)
        return Reply(header[1], header[0] & 0x7FFF, body)

    def read_to_end(self) -> list[Reply]:
        """All replies until the broker has closed."""
        replies = []
        try:
            while True:
                replies.append(self.read())
        except (EOFError, ConnectionResetError):
            return replies

    def reset(self) -> None:
        """Close so that the broker gets a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> IprotoClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, count: int) -> bytes:
        while len(self._unread) < count:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError
            self._unread += data
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken
