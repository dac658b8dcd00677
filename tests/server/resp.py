"""A plain client: sends bytes, reads exactly one reply at a time, hides nothing.

Called by   the tests of a running broker, mostly through broker.py.
Calls       nothing of the package, so that a mistake in quinque.wire cannot hide itself.

Not here: starting a broker (broker.py).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any

# A broker that has not answered by then never will; nothing waits for this to pass.
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Refusal:
    """An error reply, as a value."""

    text: str


def request(*words: bytes | str | float) -> bytes:
    """A request as RESP bytes."""
    args = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in args)


class Client:
    """One connection. Use it in a `with`, or close it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(TIMEOUT_S)
        self._unread = bytearray()

    def send(self, *words: bytes | str | float) -> None:
        """Send one request and read nothing."""
        self.sock.sendall(request(*words))

    def send_bytes(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_some(self, data: bytes) -> int:
        """Send as much as the kernel takes at once; how many bytes that was."""
        # With a timeout, Python waits for the kernel even if it is told not to (MSG_DONTWAIT).
        self.sock.setblocking(False)
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        finally:
            self.sock.settimeout(TIMEOUT_S)

    def ask(self, *words: bytes | str | float) -> bytes:
        """Send one request; the bytes of its reply."""
        self.send(*words)
        return self.read()

    def call(self, *words: bytes | str | float) -> Any:
        """Send one request; what its reply means. An error is returned, as a Refusal."""
        return meaning(self.ask(*words))

    def read(self) -> bytes:
        """The bytes of exactly one reply. Raises EOFError when the broker has closed."""
        line = self._take_line()
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=" and rest != b"-1":
            return line + self._take(int(rest) + 2)
        if kind in b"*>~" and rest != b"-1":
            return line + b"".join(self.read() for _ in range(int(rest)))
        if kind == b"%":
            return line + b"".join(self.read() for _ in range(2 * int(rest)))
        return line

    def read_many(self, count: int) -> list[bytes]:
        return [self.read() for _ in range(count)]

    def value(self) -> Any:
        """What the next reply means."""
        return meaning(self.read())

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

    def read_to_end(self) -> bytes:
        """All that comes until the broker closes the connection."""
        data, self._unread = bytes(self._unread), bytearray()
        try:
            while chunk := self.sock.recv(1 << 16):
                data += chunk
        except ConnectionResetError:
            pass
        return data

    def reset(self) -> None:
        """Close so that the broker gets a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take_line(self) -> bytes:
        while (end := self._unread.find(b"\r\n")) < 0:
            self._receive()
        return self._take(end + 2)

    def _take(self, count: int) -> bytes:
        while len(self._unread) < count:
            self._receive()
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken

    def _receive(self) -> None:
        chunk = self.sock.recv(1 << 16)
        if not chunk:
            raise EOFError("the broker closed the connection")
        self._unread += chunk


def meaning(reply: bytes) -> Any:
    """A reply as a Python value: bytes, int, float, bool, None, list, dict, Refusal."""
    value, end = _meaning(reply, 0)
    assert end == len(reply), "one reply at a time"
    return value


def _meaning(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins there, and where it ends."""
    end = data.index(b"\r\n", at)
    kind, text, at = data[at : at + 1], data[at + 1 : end], end + 2
    match kind:
        case b"+":
            return text, at
        case b"-":
            return Refusal(text.decode()), at
        case b":":
            return int(text), at
        case b",":
            return float(text), at
        case b"#":
            return text == b"t", at
        case b"_":
            return None, at
        case b"$" | b"=":
            if text == b"-1":
                return None, at
            start = 4 if kind == b"=" else 0  # a verbatim string begins with txt:
            return data[at + start : at + int(text)], at + int(text) + 2
        case b"*" | b">" | b"~":
            if text == b"-1":
                return None, at
            return _items(int(text), data, at)
        case b"%":
            flat, at = _items(2 * int(text), data, at)
            return dict(zip(flat[::2], flat[1::2], strict=True)), at
    raise AssertionError(f"not a reply: {kind + text!r}")


def _items(count: int, data: bytes, at: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _meaning(data, at)
        items.append(item)
    return items, at
