"""Connections between clients and brokers.

Each direction is a pipe: what is pushed in arrives later, in order, in pieces that the seed
chooses. A pipe holds a limited number of bytes, as sockets do. The rest waits in the transport of
the sender, and the broker is told to pause.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from math import ceil
from random import Random
from types import SimpleNamespace
from typing import Any, Final

_ROOM_BYTES: Final = (500, 16_000, 200_000)  # of a pipe
_DELAYS_S: Final = (0.0, 0.0001, 0.001, 0.05)  # at most, for one piece
_CUT: Final = 0.2  # of all arrivals come in two pieces
_GRID_S: Final = 0.001  # times are multiples of it in half of the runs, so that much coincides


class Pipe:
    """One direction of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random, context: Context) -> None:
        self._loop = loop
        self._random = random
        self._context = context  # of the receiver
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._room_bytes = random.choice(_ROOM_BYTES)
        self._delay_s = random.choice(_DELAYS_S)
        self.is_on_grid = False
        self._arrives_s = 0.0
        self._timer: asyncio.Handle | None = None
        self._is_paused = False
        self.is_silent = False  # bytes still fit, and never arrive
        self.on_data: Callable[[bytes], object] = lambda data: None
        self.on_end: Callable[[], object] = lambda: None
        self.on_room: Callable[[], object] = lambda: None
        self._ends = False

    def push(self, data: bytes) -> int:
        """Take some of the bytes, maybe none. Return how many."""
        taken = min(len(data), self._room_bytes - self._bytes)
        if taken > 0:
            self._bytes += taken
            self._pieces.append(bytes(data[:taken]))
            self._arrive()
        return max(0, taken)

    def end(self) -> None:
        """No more bytes come after these."""
        self._ends = True
        self._arrive()

    def drop(self) -> None:
        """Nothing arrives any more."""
        self._pieces.clear()
        self._ends = False
        self.on_data, self.on_end = (lambda data: None), (lambda: None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._arrive()

    def _arrive(self) -> None:
        if self._timer is not None or self._is_paused or self.is_silent:
            return
        if not self._pieces and not self._ends:
            return
        # Later than what arrived before.
        at_s = self._loop.time() + self._random.random() * self._delay_s
        if self.is_on_grid:
            at_s = ceil(at_s / _GRID_S) * _GRID_S
        self._arrives_s = max(at_s, self._arrives_s)
        self._timer = self._loop.call_at(self._arrives_s, self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._timer = None
        if self._is_paused or self.is_silent:
            return
        if not self._pieces:
            if self._ends:
                self._ends = False
                self.on_end()
            return
        data = self._pieces.popleft()
        if len(data) > 1 and self._random.random() < _CUT:
            at = self._random.randrange(1, len(data))
            self._pieces.appendleft(data[at:])
            data = data[:at]
        elif self._pieces and self._random.random() < 0.5:
            # Several writes may arrive as one piece.
            data += self._pieces.popleft()
        self._bytes -= len(data)
        self.on_data(data)
        self.on_room()
        self._arrive()


class Transport:
    """One end of a connection, as asyncio's transports are. `calls` runs the protocol's methods: in
    the context of its process, unless that is dead."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: Any,
        context: Context,
        into: Pipe,
        out: Pipe,
        names: dict[str, Any],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._context = context
        self._into = into
        self._out = out
        self._names = names
        self._buffer = bytearray()
        self._high = 64 << 10
        self._low = 16 << 10
        self._is_stuffed = False
        self._is_closing = False
        self._is_over = False  # the protocol knows that the connection is lost
        self._has_ended = False  # its own side
        self.peer: Transport | None = None
        self._written = 0
        self.writes: deque[tuple[int, float]] = deque()  # where each ends in the stream, and when
        into.on_data = self._received
        into.on_end = self._ended
        out.on_room = self._room_came

    # -- what a protocol may call --------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_over or self._has_ended or not len(data):
            return
        self._buffer += data
        self._written += len(data)
        self.writes.append((self._written, self._loop.time()))
        self._push()
        if len(self._buffer) > self._high and not self._is_stuffed:
            self._is_stuffed = True
            self._protocol.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def pause_reading(self) -> None:
        self._into.pause()

    def resume_reading(self) -> None:
        self._into.resume()

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._push()

    def close(self) -> None:
        """What was written still goes out."""
        if not self._is_closing:
            self._is_closing = True
            self._into.drop()
            if not self._buffer:
                self._finish()

    def abort(self) -> None:
        self.lose(None)

    # -- what happens to it --------------------------------------------------------------------

    def begin(self) -> None:
        self._protocol.connection_made(self)

    def lose(self, error: Exception | None) -> None:
        """The connection is gone, for both ends, and what was under way with it."""
        if self._is_over:
            return
        self._buffer.clear()
        self._out.drop()
        self._into.drop()
        self._over(error)
        if self.peer is not None:
            self.peer.reset()

    def reset(self) -> None:
        """The other end is gone."""
        if not self._is_over:
            self._buffer.clear()
            self._into.drop()
            self._out.drop()
            self._over(ConnectionResetError(104, "Connection reset by peer"))

    def _over(self, error: Exception | None) -> None:
        self._is_over = self._is_closing = True
        self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    def _finish(self) -> None:
        """All bytes are out."""
        if not self._is_over:
            self._out.end()
            self._over(None)

    def _push(self) -> None:
        while self._buffer:
            taken = self._out.push(bytes(self._buffer))
            if not taken:
                return
            del self._buffer[:taken]
        if self._is_closing:
            self._finish()
        elif self._has_ended:
            self._out.end()

    def _room_came(self) -> None:
        if self._buffer and not self._is_over:
            self._loop.call_soon(self._write_on, context=self._context)

    def _write_on(self) -> None:
        if self._is_over:
            return
        self._push()
        if self._is_stuffed and len(self._buffer) <= self._low:
            self._is_stuffed = False
            self._protocol.resume_writing()

    def _received(self, data: bytes) -> None:
        if not self._is_over and not self._is_closing:
            self._protocol.data_received(data)

    def _ended(self) -> None:
        if self._is_over or self._is_closing:
            return
        if not self._protocol.eof_received():
            self.close()


class Server:
    """What `loop.create_server` returns."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        name = SimpleNamespace(family=2, getsockname=lambda: address)
        self.sockets = [name]

    def close(self) -> None:
        self._network.forget(self._address)


class Network:
    """All listeners and connections of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._listeners: dict[tuple[str, int], tuple[Callable[[], Any], Context]] = {}
        self.links: list[tuple[tuple[str, int], Transport, Transport]] = []
        self._last_port = 40_000
        self._is_on_grid = random.random() < 0.5

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Server:
        address = (host, port)
        if address in self._listeners:
            raise OSError(98, "Address already in use")
        self._listeners[address] = (factory, copy_context())
        return Server(self, address)

    def forget(self, address: tuple[str, int]) -> None:
        self._listeners.pop(address, None)

    def connect(self, address: tuple[str, int], protocol: Any) -> Transport:
        """A client's end. Raises ConnectionRefusedError."""
        found = self._listeners.get(address)
        if found is None:
            raise ConnectionRefusedError(111, "Connection refused")
        factory, there = found
        loop = asyncio.get_running_loop()
        here = copy_context()
        self._last_port += 1
        own = ("10.0.0.1", self._last_port)
        to_broker = Pipe(loop, self._random, there)
        to_client = Pipe(loop, self._random, here)
        to_broker.is_on_grid = to_client.is_on_grid = self._is_on_grid
        served = there.run(factory)
        far = Transport(
            loop, served, there, to_broker, to_client, {"peername": own, "sockname": address}
        )
        near = Transport(
            loop, protocol, here, to_client, to_broker, {"peername": address, "sockname": own}
        )
        far.peer, near.peer = near, far
        self.links = [it for it in self.links if not it[1]._is_over or not it[2]._is_over]
        self.links.append((address, near, far))
        loop.call_soon(far.begin, context=there)
        near.begin()
        return near

    def kill(self, address: tuple[str, int]) -> None:
        """The process that listens there is gone: its clients' connections are reset."""
        self.forget(address)
        for listened, near, _ in self.links:
            if listened == address:
                near.reset()
        self.links = [it for it in self.links if it[0] != address]

    def pick(self) -> Transport | None:
        """The client's end of some connection."""
        open_links = [near for _, near, far in self.links if not near._is_over]
        return self._random.choice(open_links) if open_links else None

    def silence(self, near: Transport) -> None:
        """Nothing arrives any more in either direction, and no end learns of it."""
        near._into.is_silent = near._out.is_silent = True
