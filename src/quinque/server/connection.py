"""One client: bytes in, requests handed on in order, replies out together at the end of the turn.

Called by   the event loop.
Calls       wire/requests.py, turn.py.

Requests run at the end of the turn, until something holds the client: it waits for a message, the
server is paused, or it does not read its replies. Then its further requests wait in line, and soon
it is not read from any more, so that a client can fill neither our memory nor our time.

Not here: what a request does (dispatch.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from quinque.dialects.command import Command
from quinque.errors import QuinqueError, StoreUnavailable
from quinque.model.work_ops import LookAtNode
from quinque.server.users import User
from quinque.server.waiters import Waiting
from quinque.wire.requests import RequestLimits, RequestReader
from quinque.wire.resp import encode_error

if TYPE_CHECKING:
    from quinque.server.broker import Broker

log = logging.getLogger("quinque.server")

# Replies beyond this wait until the earlier ones have gone out: one turn's worth for one client.
_REPLIES_MOST_BYTES: Final = 1 << 20
# Requests of a held client beyond this stay in the kernel. Below it we keep reading, because that
# is how we learn that a waiting client has gone.
_HELD_MOST_BYTES: Final = 1 << 20


class Connection:
    """An asyncio.Protocol in all but name: without that base class it can be compiled."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = 0
        self.user: User | None = None
        self.protocol = 2
        self.name = b""
        self.lib_name = b""
        self.lib_version = b""
        self.address = ""
        self.local_address = ""
        self.registered: Sequence[bytes] = ()
        self.waiting: Waiting | None = None
        self.is_asking = False  # the store has not answered yet
        self.is_monitor = False
        self.skip_replies = 0  # of the next requests; -1 = of all (CLIENT REPLY)
        self.created_s = self.active_s = monotonic()
        self.last_command: Command | None = None
        self.out: list[bytes] = []
        self.out_bytes = 0
        self._first_write = -1  # the first reply of this turn that says something was changed
        self._reader = RequestReader(RequestLimits())
        self._transport: asyncio.Transport | None = None
        self._in_line: list[list[bytes]] = []
        self._in_line_bytes = 0
        self._is_stuffed = False  # the client does not read its replies
        self._is_over = False  # no more will come
        self._is_closing = False

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.read_limits()
        self.broker.welcome(self, self._transport)

    def read_limits(self) -> None:
        """The limits on requests are those of the settings."""
        config = self.broker.config
        self._reader.set_limits(
            RequestLimits(config.max_args, config.max_arg_size, config.query_buffer_limit)
        )

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        broker = self.broker
        broker.stats.input_bytes += len(data)
        self.active_s = monotonic()
        broker.turn.arrived(self, self._reader.feed(data))

    def eof_received(self) -> bool:
        """The client says no more. It gets the replies to what it said; if it waits, it is gone."""
        self._is_over = True
        if self.waiting is not None:
            return False
        self.broker.turn.arrived(self, [])
        # TLS knows no half-closed connections.
        return self._transport is None or self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._transport = None
        self._in_line.clear()
        self.broker.farewell(self)

    def pause_writing(self) -> None:
        self._is_stuffed = True

    def resume_writing(self) -> None:
        self._is_stuffed = False
        self.go_on()

    # -- what holds a client ------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        return (
            self.waiting is not None
            or self.is_asking
            or self._is_stuffed
            or self._is_closing
            or self.out_bytes > _REPLIES_MOST_BYTES
        )

    @property
    def is_gone(self) -> bool:
        """Whether the connection is lost, so that nothing reaches the client."""
        return self._transport is None

    @property
    def must_wait(self) -> bool:
        """Whether requests that come now have to wait in line."""
        return bool(self._in_line) or self.is_held

    def put_in_line(self, requests: list[list[bytes]], *, first: bool = False) -> None:
        """The requests wait until what holds the client has ended; `first`, before those that wait
        already."""
        if first:
            self._in_line[:0] = requests
        else:
            self._in_line += requests
        self._in_line_bytes += sum(sum(map(len, argv)) for argv in requests)
        if self._in_line_bytes > _HELD_MOST_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """What held the client may have ended: what waits in line is run in the next turn."""
        if self.is_held or not self._in_line:
            return
        requests = self._in_line
        self._in_line = []
        self._in_line_bytes = 0
        self.broker.turn.arrived(self, requests)
        if self._transport is not None:
            self._transport.resume_reading()

    @property
    def is_ending(self) -> bool:
        return self._is_over or self._reader.broken is not None

    def end(self) -> None:
        """Close, once all requests have been answered; say what was wrong with the bytes, if so."""
        if self.must_wait:
            return
        if self._reader.broken is not None:
            self.send_error(self._reader.broken)
        self.close()

    # -- replies ------------------------------------------------------------------------------

    def send(self, reply: bytes) -> None:
        """The reply goes out when the turn ends."""
        if self.skip_replies:
            if self._in_line:  # no reply will go out and let it go on
                self.broker.turn.add(self)
            return
        if not self.out:
            self.broker.turn.add(self)
        self.out.append(reply)
        self.out_bytes += len(reply)

    def send_all(self, replies: list[bytes]) -> None:
        """The replies go out when the turn ends; no CLIENT REPLY is in force."""
        if not self.out:
            self.broker.turn.add(self)
        self.out += replies
        self.out_bytes += sum(map(len, replies))

    def mark_write(self) -> None:
        """The next reply says that something was changed."""
        if self._first_write < 0:
            self._first_write = len(self.out)

    def flush(self) -> None:
        out, transport = self.out, self._transport
        self._first_write = -1
        if transport is not None and out:
            data = out[0] if len(out) == 1 else b"".join(out)
            self.broker.stats.output_bytes += len(data)
            transport.write(data)
            unsent_bytes = transport.get_write_buffer_size()
            if unsent_bytes > self.broker.config.output_buffer_limit:
                log.warning("client %d reads too slowly: %d bytes wait", self.id, unsent_bytes)
                transport.abort()
            elif self._is_closing:
                transport.close()
        out.clear()
        self.out_bytes = 0
        if self._is_over and self.waiting is not None:
            self.close()  # it said so while the store was asked whether there is something
        elif self._in_line:
            self.go_on()
        elif self.is_ending:  # with a client that waited, nobody else looks
            self.broker.turn.arrived(self, [])

    def fail_writes(self, failure: StoreUnavailable) -> None:
        """What this turn changed for this client is not known to be durable: say so, and close."""
        if self._first_write >= 0:
            del self.out[self._first_write :]
            self.out.append(encode_error(failure.code, str(failure)))
            self.close()

    def close(self) -> None:
        """Close once the replies are out."""
        self._is_closing = True
        if not self.out and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now; replies not sent are lost."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def file_number(self) -> int:
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return sock.fileno() if sock is not None else -1

    @property
    def buffered_bytes(self) -> int:
        return self._reader.buffered_bytes + self._in_line_bytes

    def send_error(self, error: QuinqueError) -> None:
        self.send(encode_error(error.code, str(error)))

    # -- what a dialect may know of a connection ----------------------------------------------

    def register(self, queues: Sequence[bytes]) -> None:
        self.registered = list(dict.fromkeys(queues))

    def consumers(self) -> Mapping[bytes, Mapping[bytes, int]]:
        return self.broker.consumers()

    def waiting_on(self, queue: bytes) -> int:
        return self.broker.waiters.waiting_on(queue)

    def sees(self, queue: bytes) -> bool:
        return self.user is None or self.user.is_unlimited or self.user.sees(queue)

    def sees_all(self) -> bool:
        return self.user is None or self.user.queues is None

    def now_ms(self) -> int:
        return self.broker.store.now_ms()

    def node_id(self) -> bytes:
        return self.broker.store.run(LookAtNode()).node_id
